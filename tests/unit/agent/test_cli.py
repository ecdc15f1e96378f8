"""The command line: every format, every mistake in one line, and the program as a whole."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import tarfile
from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
import yaml

from support.crd import NODE_RESOURCE_TOPOLOGY, refusals
from support.disk import lay_out
from support.trees import server_tree
from zonewise import cli
from zonewise.commands import show
from zonewise.objects.machine_json import SCHEMA
from zonewise_common import __version__
from zonewise_common.cli import output
from zonewise_common.cli.command import Command, CommandError, require_extra

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

FORMATS = ("text", "svg", "json", "yaml", "nrt", "labels", "nccl")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The root of a server with GPUs and HCAs."""
    return str(lay_out(server_tree(), tmp_path_factory.mktemp("server")))


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the environment that a test runs in decides what it sees."""
    for name in ("NODE_NAME", "NO_COLOR", "COLUMNS", "TERM"):
        monkeypatch.delenv(name, raising=False)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run the program, which must succeed, and return what it wrote."""
    status = cli.main(arguments)
    out, err = capsys.readouterr()
    assert (status, err) == (0, "")
    return out


def run_rejected(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run the program, which must refuse, and return the one line in which it said why."""
    status = cli.main(arguments)
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert err.startswith("zonewise: error: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    return err.removeprefix("zonewise: error: ").rstrip("\n")


# --- formats


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_written(name: str, server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each format gives text that ends in a newline, on standard output."""
    text = run(capsys, "show", "--root", server, "-o", name, "--node-name", "node")
    assert text.endswith("\n")
    assert len(text) > 100


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_goes_to_a_file(
    name: str, server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`-o FORMAT FILE` writes the same to the file, and nothing to standard output."""
    arguments = ("show", "--root", server, "--node-name", "node", "--width", "90", "-o", name)
    on_output = run(capsys, *arguments)
    assert run(capsys, *arguments, str(tmp_path / "file")) == ""
    assert (tmp_path / "file").read_text(encoding="utf-8") == on_output


def test_json(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON is the machine, without sources."""
    document = json.loads(run(capsys, "show", "--root", server, "-o", "json"))
    assert document["schema"] == SCHEMA
    assert "sources" not in document


def test_yaml_is_json_in_another_form(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Both hold the same values."""
    document = json.loads(run(capsys, "show", "--root", server, "-o", "json"))
    assert yaml.safe_load(run(capsys, "show", "--root", server, "-o", "yaml")) == document


def test_nrt(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The object is valid, and has the name that was given."""
    obj = yaml.safe_load(run(capsys, "show", "--root", server, "-o", "nrt", "--node-name", "node-7"))
    assert list(refusals(obj, NODE_RESOURCE_TOPOLOGY)) == []
    assert obj["metadata"]["name"] == "node-7"


def test_svg_is_xml(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A browser can read it."""
    assert ElementTree.fromstring(run(capsys, "show", "--root", server, "-o", "svg")).tag.endswith("svg")  # noqa: S314


def test_text_is_the_default(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Without -o it is the picture."""
    arguments = ("show", "--root", server)
    assert run(capsys, *arguments) == run(capsys, *arguments, "-o", "text")


def test_the_same_bytes_each_time(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Two runs on the same machine give the same bytes."""
    arguments = ("show", "--root", server, "-o", "json")
    assert run(capsys, *arguments) == run(capsys, *arguments)


def test_ascii(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """--ascii draws with nothing else."""
    assert run(capsys, "show", "--root", server, "--ascii").isascii()
    assert not run(capsys, "show", "--root", server).isascii()


def test_ascii_where_the_output_takes_nothing_else(
    server: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With LANG=C the picture is drawn in ASCII, without being told."""
    monkeypatch.setattr(output, "supports_unicode", lambda: False)
    assert run(capsys, "show", "--root", server).isascii()


def test_colour_only_when_it_helps(
    server: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Colour is for terminals: never in a pipe, with NO_COLOR or on a dumb terminal, unless it is demanded."""
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
    """The picture is as wide as was asked, or as $COLUMNS says."""
    narrow = run(capsys, "show", "--root", server, "--width", "60")
    monkeypatch.setenv("COLUMNS", "60")
    assert run(capsys, "show", "--root", server) == narrow
    monkeypatch.setenv("COLUMNS", "120")
    assert run(capsys, "show", "--root", server) != narrow


def test_timings_go_to_standard_error(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each collector has a line with its time, and the output stays what it was."""
    assert cli.main(["show", "--root", server, "-o", "json", "--timings"]) == 0
    out, err = capsys.readouterr()
    json.loads(out)
    lines = err.splitlines()
    assert len(lines) > 5
    assert all(" ms  " in line for line in lines)


# --- explain


def test_explain(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A fact with its file, the value read and the rule."""
    text = run(capsys, "show", "--root", server, "--explain", "zones.1.memory")
    assert text.startswith("zones.1.memory: ")
    assert "\n  file   /sys/devices/system/node/node1/meminfo\n" in text
    assert "\n  rule   " in text


def test_explain_in_json(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With -o json the machine has its sources: of one path, or of everything."""
    arguments = ("show", "--root", server, "-o", "json", "--explain")
    sources = json.loads(run(capsys, *arguments, "zones.1.memory"))["sources"]
    everything = json.loads(run(capsys, *arguments, "all"))["sources"]
    assert list(sources) == ["zones.1.memory"]
    assert sources.items() <= everything.items()
    assert set(everything["zones.1.memory"]) == {"file", "value", "rule"}


def test_explaining_does_not_change_the_machine(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The facts are the same whether or not someone asks where they are from."""
    explained = json.loads(run(capsys, "show", "--root", server, "-o", "json", "--explain", "all"))
    explained.pop("sources")
    assert explained == json.loads(run(capsys, "show", "--root", server, "-o", "json"))


# --- mistakes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("frobnicate",), "unknown command frobnicate: there is agent, capture, fit, foretell, scheduler, show"),
        (("--frobnicate",), "unknown option --frobnicate; see `zonewise --help`"),
        (("show", "-o", "pdf"), "unknown format pdf: there is text, svg, json"),
        (("show", "-o"), "expected at least one argument"),
        (("show", "-o", "json", "a", "b"), "not also b"),
        (("show", "--frobnicate"), "unrecognized arguments: --frobnicate; see `zonewise show --help`"),
        (("show", "--width", "wide"), "wide is no number of columns"),
        (("show", "--width", "1"), "1 is no number of columns"),
        (("show", "--color", "blue"), "invalid choice: 'blue'"),
        (("show", "--root", "/no/such/place"), "/no/such/place: no such file or directory"),
        (("show", "-o", "svg", "--explain", "all"), "--explain goes with -o text, json, yaml, not with svg"),
        (("capture",), "the following arguments are required: FILE"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each mistake is said in one line, with what is possible, and ends with status 2."""
    assert message in run_rejected(capsys, *arguments)


def test_a_path_to_no_fact(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The answer says what is possible at that place, in text and in JSON."""
    for more in ((), ("-o", "json")):
        message = run_rejected(capsys, "show", "--root", server, *more, "--explain", "zones.7.memory")
        assert 'there is no fact "zones.7.memory": below "zones" there is 0, 1, 2, 3' in message


def test_a_damaged_archive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An archive that is cut is run_rejected, and not shown in part."""
    (tmp_path / "machine.tar.gz").write_bytes(b"\x1f\x8b\x08\0\0\0")
    assert "not a whole archive" in run_rejected(capsys, "show", "--root", str(tmp_path / "machine.tar.gz"))


def test_a_directory_that_is_no_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder without sys and proc is run_rejected."""
    assert "holds neither sys/ nor proc/" in run_rejected(capsys, "show", "--root", str(tmp_path))


def test_a_file_that_cannot_be_written(server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The system's reason is given."""
    message = run_rejected(capsys, "show", "--root", server, "-o", "json", str(tmp_path))
    assert message == f"cannot write to {tmp_path}: {os.strerror(errno.EISDIR)}"


@pytest.mark.parametrize("name", ["Node_1", "-node", "node-", "a..b", "x" * 254, "node/1"])
def test_no_name_of_a_node(name: str, server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A name that the API server would refuse is run_rejected here, with the option that sets it."""
    assert "--node-name" in run_rejected(capsys, "show", "--root", server, "-o", "nrt", f"--node-name={name}")


def test_a_node_without_a_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the capture has no hostname, the name must be given: ours is another machine's."""
    tree = {path: content for path, content in server_tree().items() if not path.endswith("kernel/hostname")}
    root = str(lay_out(tree, tmp_path))
    assert "name the node by --node-name" in run_rejected(capsys, "show", "--root", root, "-o", "nrt")


def test_the_name_of_the_pods_node(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """$NODE_NAME names the running machine, as in the pods of a DaemonSet, and no captured one."""
    monkeypatch.setenv("NODE_NAME", "worker-3")
    assert yaml.safe_load(run(capsys, "show", "-o", "nrt"))["metadata"]["name"] == "worker-3"


def test_another_machine_is_not_called_like_the_pods_node(
    server: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A capture is published under its own name or none, wherever it is read."""
    monkeypatch.setenv("NODE_NAME", "worker-3")
    cli.main(["show", "--root", server, "-o", "nrt"])
    assert "worker-3" not in capsys.readouterr().out


# --- commands of other packages


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """`zonewise`, `zonewise --help` and `zonewise help` give the same overview."""
    text = run(capsys, "--help")
    assert "  show " in text
    assert "  capture " in text
    assert run(capsys) == text == run(capsys, "help")


@pytest.mark.parametrize("command", ["show", "capture"])
def test_help_of_a_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each command explains its arguments, and that is success."""
    assert run(capsys, command, "--help").startswith(f"usage: zonewise {command}")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """The version is that of the package."""
    assert run(capsys, "--version") == f"zonewise {__version__}\n"


def _add_number(parser: ArgumentParser) -> None:
    parser.add_argument("number", type=int)


def _number_groups(arguments: Namespace) -> int:
    if arguments.number < 0:
        raise CommandError("no negative\nnumbers")
    return arguments.number


FROM_OUTSIDE = Command("end with a number", _add_number, _number_groups)
"""A command as another package would offer it."""


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """Entry points of the group, instead of those that are installed."""
    points: list[EntryPoint] = []

    def installed(group: str) -> list[EntryPoint]:
        return points if group == cli.ENTRY_POINTS else []

    monkeypatch.setattr("importlib.metadata.entry_points", installed)
    monkeypatch.setitem(sys.modules, "outside_package", sys.modules[__name__])
    yield points
    points.clear()


def test_a_command_by_entry_point(outside: list[EntryPoint], capsys: pytest.CaptureFixture[str]) -> None:
    """A command of another package runs as ours do, and is in the overview."""
    outside.append(EntryPoint("number", "outside_package:FROM_OUTSIDE", cli.ENTRY_POINTS))
    assert cli.main(["number", "7"]) == 7
    assert "no negative numbers" in run_rejected(capsys, "number", "--", "-7")
    assert "invalid int value: 'x'; see `zonewise number --help`" in run_rejected(capsys, "number", "x")
    assert "  number   end with a number\n" in run(capsys)


def test_a_command_that_is_not_installed_whole(outside: list[EntryPoint], capsys: pytest.CaptureFixture[str]) -> None:
    """A command whose package lacks a dependency says so, and does not break the overview."""
    outside.append(EntryPoint("simulate", "no_such_package:COMMAND", cli.ENTRY_POINTS))
    assert "command simulate cannot be loaded: No module named 'no_such_package'" in run_rejected(capsys, "simulate")
    assert "simulate" in run(capsys, "--help")


def test_what_an_extra_has() -> None:
    """A library that is not installed is named with the extra that has it; a module of ours is a fault of ours."""
    with (
        pytest.raises(CommandError, match=r"No module named 'no_such_library'; pip install 'zonewise\[agent\]'"),
        require_extra("agent"),
    ):
        import_module("no_such_library.part")
    for ours in ("zonewise.no_such_module", "zonewise_scheduler.no_such_module"):
        with pytest.raises(ModuleNotFoundError), require_extra("agent"):
            import_module(ours)


def test_ours_are_not_looked_up(
    monkeypatch: pytest.MonkeyPatch, server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Entry points cost 20 ms, and are asked only for commands that are not ours."""

    def forbidden(group: str) -> list[EntryPoint]:
        raise AssertionError(group)

    monkeypatch.setattr("importlib.metadata.entry_points", forbidden)
    run(capsys, "show", "--root", server, "-o", "json")


# --- interruptions


def test_interrupted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C ends without a word, with the status that shells expect."""

    def interrupt(arguments: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_run", interrupt)
    assert cli.main(["show"]) == 128 + signal.SIGINT
    assert capsys.readouterr() == ("", "")


# --- the whole program


def program(*arguments: str, **more: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "zonewise", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, **more)  # pyright: ignore


def test_as_a_program(server: str) -> None:
    """The process gives the same as the function, and its status."""
    done = program("show", "--root", server, "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["schema"] == SCHEMA
    assert program("show", "-o", "pdf").returncode == 2


def test_a_reader_that_exits(server: str) -> None:
    """`zonewise show | head -1` is quiet and no failure."""
    line = f"{sys.executable} -m zonewise show --root {server} -o json | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == ["{", "0"]
    assert done.stderr == ""


def test_closed_streams_are_written_nowhere(server: str) -> None:
    """`zonewise show >&- 2>&-`: whoever closes them does not want to read them."""
    line = f"{sys.executable} -m zonewise show --root {server} -o json >&- 2>&-"
    assert subprocess.run(["bash", "-c", line], capture_output=True, check=False, timeout=60).returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk(server: str) -> None:
    """What could not be written is no success."""
    line = f"{sys.executable} -m zonewise show --root {server} -o json > /dev/full"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stderr == "zonewise: error: cannot write to standard output: No space left on device\n"


def test_a_locale_without_unicode(server: str) -> None:
    """With ASCII output the picture is ASCII, instead of a traceback."""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = program("show", "--root", server, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()


def test_only_what_json_needs_is_imported(server: str) -> None:
    """`show -o json` is run by scripts, and must not pay for YAML, pictures, archives or entry points."""
    heavy = (
        "yaml",
        "tarfile",
        "backports",
        "subprocess",
        "importlib.metadata",
        "zonewise.render",
        "pynvml",
        "inspect",
    )
    code = f"import sys; from zonewise.cli import main; main(); print([m for m in {heavy!r} if m in sys.modules])"
    arguments = ["show", "--root", server, "-o", "json", os.devnull]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"


# --- capture


def test_capture_and_replay(server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A capture, read again, is the same machine to the byte, where nothing was taken out."""
    archive = str(tmp_path / "machine.tar.gz")
    output = run(capsys, "capture", archive, "--root", server, "--with-identifiers")
    assert output.startswith(f"{archive}: ")
    assert "share it with care" in output
    arguments = ("show", "-o", "json", "--root")
    assert run(capsys, *arguments, archive) == run(capsys, *arguments, server)


def test_capture_does_not_replace_unasked(server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that exists stays, unless --force."""
    archive = tmp_path / "machine.tar.gz"
    archive.write_text("precious")
    assert "exists already" in run_rejected(capsys, "capture", str(archive), "--root", server)
    assert archive.read_text() == "precious"
    assert "identifiers replaced" in run(capsys, "capture", str(archive), "--root", server, "--force")
    assert tarfile.is_tarfile(archive)


def test_capture_reports_its_failure(server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An ending that we cannot write, a place that is not there, and a root that is none."""
    assert "must end in one of .tar.zst, .tar.gz, .tgz" in run_rejected(capsys, "capture", "x.zip", "--root", server)
    nowhere = str(tmp_path / "no" / "x.tar.gz")
    assert "No such file or directory" in run_rejected(capsys, "capture", nowhere, "--root", server)
    assert "no such file" in run_rejected(capsys, "capture", str(tmp_path / "x.tar.gz"), "--root", "/no/such/place")


def test_formats_are_those_that_are_documented() -> None:
    """The list in the help is the list of this test."""
    assert tuple(show.FORMATS) == FORMATS
