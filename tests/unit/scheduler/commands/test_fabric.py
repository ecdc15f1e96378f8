"""`zonewise fabric` without a cluster: its output, standard input, and mistakes."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

import pytest

from support.command_line import run, run_rejected
from support.fabrics import cabling, dump, fat_tree, hca
from support.snapshots import ABSENT, SNAPSHOTS
from zonewise import cli

if TYPE_CHECKING:
    from pathlib import Path

CONF = "SwitchName=s1 Nodes=n[1-2]\nSwitchName=s2 Nodes=n[3-4]\nSwitchName=root Switches=s[1-2]\n"
REAL = SNAPSHOTS / "ibnetdiscover"


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove settings of the terminal and of a cluster."""
    for name in ("NO_COLOR", "COLUMNS", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def conf(tmp_path: Path) -> str:
    path = tmp_path / "topology.conf"
    path.write_text(CONF)
    return str(path)


def test_the_tree(conf: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The levels with their labels, and the domains with their nodes."""
    assert run(capsys, "fabric", conf).splitlines() == [
        "LEVEL   LABEL                        DOMAINS",
        "1       zonewise.dev/fabric-tier-1         1",
        "0       zonewise.dev/fabric-tier-0         2",
        "",
        "DOMAIN   LEAVES   NODES   NAMES",
        "root          2       4",
        "  s1          1       2   n[1-2]",
        "  s2          1       2   n[3-4]",
    ]


def test_labels_are_lines_for_kubectl(conf: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each line is what `kubectl label node` expects."""
    assert run(capsys, "fabric", conf, "-o", "labels", "--labels", "a/leaf,a/spine").splitlines() == [
        "n1 a/leaf=s1 a/spine=root",
        "n2 a/leaf=s1 a/spine=root",
        "n3 a/leaf=s2 a/spine=root",
        "n4 a/leaf=s2 a/spine=root",
    ]


def test_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """As in `ibnetdiscover | zonewise fabric -`."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(dump(fat_tree(units=1)).encode())))
    assert "leaf-0-0-0" in run(capsys, "fabric", "-")


def test_notes_are_separate_from_the_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A program that reads the labels does not read them."""
    path = tmp_path / "dump"
    path.write_text(dump(cabling([(hca("n1", 0), "Sleaf"), (hca("", 1), "Sleaf")])))
    assert cli.main(["fabric", str(path), "-o", "labels"]) == 0
    said = capsys.readouterr()
    assert said.out == "n1 zonewise.dev/fabric-tier-0=leaf\n"
    assert said.err == "note: 1 HCA has no host in the node description: leaf (1)\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "the following arguments are required: FILE"),
        (("FILE", "--labels", "a b"), "'a b' is not a valid name of a label"),
        (("FILE", "--labels", "a,a"), "'a,a' must name different labels"),
        (("FILE", "--labels", "kubernetes.io/hostname"), "without kubernetes.io/hostname"),
        (("FILE", "--name", "No"), "'No' is not a valid name of an object"),
        (("FILE", "--slurm-topology", "x"), "is not a topology.yaml, so there is no topology to select"),
        (("FILE", "FILE"), "a file of Slurm describes the whole fabric; pass it alone"),
        (("/no/such/file",), "/no/such/file: no such file or directory"),
        (("/",), "/: is a directory"),
        (("/dev/zero",), "/dev/zero, line 1: longer than 1048576 bytes: this is not a text file"),
        (("/dev/null",), "/dev/null: contains no switch"),
        (("FILE", "--apply", "--kubeconfig", "/no/such/file"), "/no/such/file"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], message: str, conf: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each is one line, and exit status 2."""
    words = [conf if word == "FILE" else word for word in arguments]
    assert message in run_rejected(capsys, "fabric", *words)


@pytest.mark.skipif(not REAL.exists(), reason=ABSENT)
def test_real_dumps(capsys: pytest.CaptureFixture[str]) -> None:
    """One of a whole cluster, and one of an HCA without a link."""
    assert cli.main(["fabric", str(REAL / "example.out")]) == 0
    said = capsys.readouterr()
    assert "  A09-P1-IBLEAF-01-03        4      18   a07-p1-dgx-03-c[01-18]\n" in said.out
    assert said.err.startswith("note: 72 HCAs have no host in the node description: A09-P1-IBLEAF-01-01 (8), ")
    assert "example-bad.out: contains no switch" in run_rejected(capsys, "fabric", str(REAL / "example-bad.out"))
