"""`zonewise show`: every format, explanations, and a one-line error for every mistake."""

from __future__ import annotations

import errno
import gzip
import json
import os
import sys
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
import yaml

from support.command_line import run, run_rejected
from support.crd import NODE_RESOURCE_TOPOLOGY, refusals
from support.disk import lay_out
from support.trees import server_tree
from zonewise import cli
from zonewise.commands import show
from zonewise.nfd.feature_files import FEATURES_DIRECTORY
from zonewise.objects.machine_json import SCHEMA
from zonewise_common.cli import output

if TYPE_CHECKING:
    from pathlib import Path

FORMATS = ("text", "svg", "json", "yaml", "nrt", "labels", "nodefeature", "nccl")


# --- formats

pytestmark = pytest.mark.usefixtures("plain_environment")


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_written(name: str, server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each format is text on standard output that ends in a newline."""
    text = run(capsys, "show", "--root", server, "-o", name, "--node-name", "node")
    assert text.endswith("\n")
    assert len(text) > 100


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_goes_to_a_file(
    name: str, server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`-o FORMAT FILE` writes the same text to the file and nothing to standard output."""
    arguments = ("show", "--root", server, "--node-name", "node", "--width", "90", "-o", name)
    on_output = run(capsys, *arguments)
    assert run(capsys, *arguments, str(tmp_path / "file")) == ""
    assert (tmp_path / "file").read_text(encoding="utf-8") == on_output


def test_json(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON document is the machine without its sources."""
    document = json.loads(run(capsys, "show", "--root", server, "-o", "json"))
    assert document["schema"] == SCHEMA
    assert "sources" not in document


def test_yaml_is_json_in_another_form(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """YAML and JSON contain the same values."""
    document = json.loads(run(capsys, "show", "--root", server, "-o", "json"))
    assert yaml.safe_load(run(capsys, "show", "--root", server, "-o", "yaml")) == document


def test_nrt(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The object is valid and has the requested name."""
    obj = yaml.safe_load(run(capsys, "show", "--root", server, "-o", "nrt", "--node-name", "node-7"))
    assert list(refusals(obj, NODE_RESOURCE_TOPOLOGY)) == []
    assert obj["metadata"]["name"] == "node-7"


def test_labels_with_the_device_plugins_configuration(
    server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file affects the labels; an unusable file is a one-line error."""
    config = tmp_path / "config.yaml"
    config.write_text("flags: {migStrategy: single}")
    assert run(capsys, "show", "--root", server, "-o", "labels", "--gfd-config", str(config))
    config.write_text("flags: {migStrategy: triple}")
    message = run_rejected(capsys, "show", "--root", server, "-o", "labels", "--gfd-config", str(config))
    assert message == f"{config}: flags.migStrategy: 'triple' is not one of none, single, mixed"


def test_labels_with_the_workers_configuration(server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Keys that have no effect are listed on standard error; a damaged file is a one-line error."""
    config = tmp_path / "nfd-worker.conf"
    config.write_text("core: {labelSources: [system], klog: {v: 1}}")
    assert cli.main(["show", "--root", server, "-o", "labels", "--nfd-config", str(config)]) == 0
    out, err = capsys.readouterr()
    assert "feature.node.kubernetes.io/" not in out.replace("feature.node.kubernetes.io/system-", "")
    assert err == f"{config}: core.klog is ignored: the settings logLevel and logFormat decide\n"
    config.write_text("core: 5")
    message = run_rejected(capsys, "show", "--root", server, "-o", "labels", "--nfd-config", str(config))
    assert message == f"{config}: core: must be a mapping, not '5'"
    config.unlink()
    message = run_rejected(capsys, "show", "--root", server, "-o", "labels", "--nfd-config", str(config))
    assert message == f"{config}: the file does not exist"


@pytest.mark.parametrize(("groups", "options"), [([], False), (["--features", "kernel.config"], True)])
def test_node_feature(groups: list[str], options: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The output is the object that the agent would write: labels, and the features of the requested groups."""
    tree = server_tree() | {"proc/config.gz": gzip.compress(b"CONFIG_NUMA=y\nCONFIG_XFS_FS=m\n")}
    root = str(lay_out(tree, tmp_path))
    obj = yaml.safe_load(run(capsys, "show", "--root", root, "-o", "nodefeature", "--node-name", "node-7", *groups))
    assert (obj["kind"], obj["metadata"]["name"]) == ("NodeFeature", "zonewise-node-7")
    assert obj["spec"]["labels"]["zonewise.dev/packages"] == "2"
    config = obj["spec"]["features"]["attributes"]["kernel.config"]["elements"]
    assert config == ({"NUMA": "y", "XFS_FS": "m"} if options else {"NUMA": "y"})


def test_unknown_groups(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A group that does not exist is a usage error."""
    error = run_rejected(capsys, "show", "--root", server, "-o", "nodefeature", "--features", "kernel")
    assert "'kernel' is not a feature group" in error


def test_svg_is_xml(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The picture is well-formed XML."""
    assert ElementTree.fromstring(run(capsys, "show", "--root", server, "-o", "svg")).tag.endswith("svg")  # noqa: S314


def test_text_is_the_default(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Without -o, the command draws the picture."""
    arguments = ("show", "--root", server)
    assert run(capsys, *arguments) == run(capsys, *arguments, "-o", "text")


def test_the_output_is_deterministic(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Two runs on the same machine print the same bytes."""
    arguments = ("show", "--root", server, "-o", "json")
    assert run(capsys, *arguments) == run(capsys, *arguments)


def test_ascii(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With --ascii, the picture contains only ASCII characters."""
    assert run(capsys, "show", "--root", server, "--ascii").isascii()
    assert not run(capsys, "show", "--root", server).isascii()


def test_ascii_if_the_output_supports_nothing_else(
    server: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With LANG=C, the picture is drawn in ASCII without an option."""
    monkeypatch.setattr(output, "supports_unicode", lambda: False)
    assert run(capsys, "show", "--root", server).isascii()


def test_colour_only_when_it_helps(
    server: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Colour is for terminals. A pipe, NO_COLOR or a dumb terminal disables it unless an option forces it."""
    arguments = ("show", "--root", server)
    assert "\x1b[" not in run(capsys, *arguments)
    assert "\x1b[" in run(capsys, *arguments, "--color", "always")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert "\x1b[" in run(capsys, *arguments)
    assert "\x1b[" not in run(capsys, *arguments, "--color", "never")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in run(capsys, *arguments)
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b[" not in run(capsys, *arguments)


def test_width(server: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The picture is as wide as requested, or as wide as $COLUMNS."""
    narrow = run(capsys, "show", "--root", server, "--width", "60")
    monkeypatch.setenv("COLUMNS", "60")
    assert run(capsys, "show", "--root", server) == narrow
    monkeypatch.setenv("COLUMNS", "120")
    assert run(capsys, "show", "--root", server) != narrow


def test_timings_go_to_standard_error(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each collector has a line with its time; standard output does not change."""
    assert cli.main(["show", "--root", server, "-o", "json", "--timings"]) == 0
    out, err = capsys.readouterr()
    json.loads(out)
    lines = err.splitlines()
    assert len(lines) > 5
    assert all(" ms  " in line for line in lines)


# --- explain


def test_explain(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The explanation names the fact, its file, the text of the file and the rule."""
    text = run(capsys, "show", "--root", server, "--explain", "zones.1.memory")
    assert text.startswith("zones.1.memory: ")
    assert "\n  file   /sys/devices/system/node/node1/meminfo\n" in text
    assert "\n  rule   " in text


def test_explain_in_json(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With -o json, the output includes the sources of one path or of the whole machine."""
    arguments = ("show", "--root", server, "-o", "json", "--explain")
    sources = json.loads(run(capsys, *arguments, "zones.1.memory"))["sources"]
    everything = json.loads(run(capsys, *arguments, "all"))["sources"]
    assert list(sources) == ["zones.1.memory"]
    assert sources.items() <= everything.items()
    assert set(everything["zones.1.memory"]) == {"file", "value", "rule"}


def test_explaining_does_not_change_the_machine(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The facts are the same with and without an explanation."""
    explained = json.loads(run(capsys, "show", "--root", server, "-o", "json", "--explain", "all"))
    explained.pop("sources")
    assert explained == json.loads(run(capsys, "show", "--root", server, "-o", "json"))


def test_a_path_without_a_fact(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The error lists the valid names at that position, in text and in JSON."""
    for more in ((), ("-o", "json")):
        message = run_rejected(capsys, "show", "--root", server, *more, "--explain", "zones.7.memory")
        assert 'there is no fact "zones.7.memory": below "zones" there is 0, 1, 2, 3' in message


def test_a_damaged_archive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A truncated archive is rejected; no part of it is shown."""
    (tmp_path / "machine.tar.gz").write_bytes(b"\x1f\x8b\x08\0\0\0")
    assert "not a complete archive" in run_rejected(capsys, "show", "--root", str(tmp_path / "machine.tar.gz"))


def test_a_directory_that_is_not_a_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A directory without sys and proc is rejected."""
    assert "contains neither sys/ nor proc/" in run_rejected(capsys, "show", "--root", str(tmp_path))


def test_a_file_that_cannot_be_written(server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error includes the operating system's reason."""
    message = run_rejected(capsys, "show", "--root", server, "-o", "json", str(tmp_path))
    assert message == f"cannot write to {tmp_path}: {os.strerror(errno.EISDIR)}"


@pytest.mark.parametrize("name", ["Node_1", "-node", "node-", "a..b", "x" * 254, "node/1"])
def test_invalid_node_names(name: str, server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A name that the API server would reject is an error that names the option."""
    assert "--node-name" in run_rejected(capsys, "show", "--root", server, "-o", "nrt", f"--node-name={name}")


def test_a_node_without_a_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If the capture has no hostname, --node-name is required: the local hostname belongs to another machine."""
    tree = {path: content for path, content in server_tree().items() if not path.endswith("kernel/hostname")}
    root = str(lay_out(tree, tmp_path))
    assert "set the node name with --node-name" in run_rejected(capsys, "show", "--root", root, "-o", "nrt")


def test_the_name_of_the_pods_node(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """$NODE_NAME is the name of the running machine, as in the pods of a DaemonSet, but not of a captured machine."""
    monkeypatch.setenv("NODE_NAME", "worker-3")
    assert yaml.safe_load(run(capsys, "show", "-o", "nrt"))["metadata"]["name"] == "worker-3"


def test_another_machine_does_not_get_the_name_of_the_pods_node(
    server: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A capture never gets the name of the node on which it is read."""
    monkeypatch.setenv("NODE_NAME", "worker-3")
    cli.main(["show", "--root", server, "-o", "nrt"])
    assert "worker-3" not in capsys.readouterr().out


def test_every_format_is_tested() -> None:
    """The formats of the command are the formats that this module tests."""
    assert tuple(show.FORMATS) == FORMATS


def test_feature_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Feature files below the root contribute labels and raw features."""
    lay_out({**server_tree(), f"{FEATURES_DIRECTORY}/rack": b"rack=r7\n# +no-label\nnote=a b\n"}, tmp_path)
    root = str(tmp_path)
    assert "feature.node.kubernetes.io/rack=r7\n" in run(capsys, "show", "--root", root, "-o", "labels")
    [document] = yaml.safe_load_all(run(capsys, "show", "--root", root, "-o", "nodefeature", "--node-name", "node"))
    attributes = document["spec"]["features"]["attributes"]
    assert attributes["local.feature"]["elements"] == {"note": "a b", "rack": "r7"}
    assert attributes["local.label"]["elements"] == {"rack": "r7"}
    assert document["spec"]["labels"]["feature.node.kubernetes.io/rack"] == "r7"
