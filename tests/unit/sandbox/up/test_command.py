"""Arguments of `zonewise up`: each error is one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.command_line import run, run_rejected
from support.loggers import restored_loggers
from zonewise_sandbox.up.command import COMMAND, MIX_NAMES, program_text
from zonewise_sandbox.up.node_kinds import NODE_KINDS
from zonewise_scheduler.simulator.inputs.mixes import MIXES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def log_levels() -> Iterator[None]:
    with restored_loggers():
        yield


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--nodes", "foo"), "--nodes foo: 'foo' is neither a kind nor a file: use hgx-h100"),
        (("--nodes", "0"), "--nodes 0: 0 nodes are outside 1 to 5000"),
        (("--port", "65536"), "argument --port: '65536' is not a port from 0 to 65535"),
        (("--status-port", "x"), "argument --status-port: 'x' is not a port from 0 to 65535"),
        (("--port", "7000", "--status-port", "7000"), "--port and --status-port are both 7000: choose two"),
        (("--speed", "0"), "argument --speed: not a number above 0: 0"),
        (("--speed", "4000"), "argument --speed: must be at most 3600: 4000"),
        (("--speed", "fast"), "argument --speed: not a number above 0: fast"),
        (("--load", "foo"), "--load foo: unknown mix; the mixes are hpc, ai, batch"),
        (("--load", "ai", "--nodes", "2xxeon-8358"), "--load ai: nodes: no node has nvidia.com/gpu"),
        (("--load", "ai", "--load-share", "-1"), "argument --load-share: not a number above 0: -1"),
        (("--load-share", "0.5"), "--load-share works only with --load"),
        (("--seed", "1"), "--seed works only with --load"),
        (("--kubeconfig", "--nodes", "4"), "--nodes is for a simulated cluster"),
        (("--context", "a", "--load-share", "1"), "--load-share is for a simulated cluster"),
        (("--kubeconfig", "/nowhere/config"), "there is no file /nowhere/config"),
    ],
)
def test_wrong_arguments(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str) -> None:
    assert run_rejected(capsys, "up", *arguments).startswith(message)


def test_a_kubeconfig_that_exists_is_not_overwritten(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("mine")
    arguments = ("--nodes", "1xxeon-8358", "--port", "0", "--status-port", "0", "--write-kubeconfig", str(file))
    assert run_rejected(capsys, "up", *arguments) == f"--write-kubeconfig {file}: the file exists; remove it first"
    assert file.read_text() == "mine"


def test_the_help_names_every_kind_and_mix(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal has 80 columns; the command's summary has no full stop."""
    monkeypatch.setenv("COLUMNS", "80")
    shown = run(capsys, "up", "--help")
    assert all(name in shown for name in (*NODE_KINDS, *MIXES))
    assert "examples:" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert not COMMAND.help.endswith(".")


def test_the_names_of_mixes_are_the_simulators() -> None:
    assert tuple(MIXES) == MIX_NAMES


def test_the_program_as_another_terminal_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make demo` runs the program by its path, which is not in a user's PATH."""
    (tmp_path / "a b").mkdir()
    file = tmp_path / "a b" / "zonewise"
    file.touch(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["a b/zonewise"])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program_text() == f"'{file}'"
    monkeypatch.setenv("PATH", str(file.parent))
    assert program_text() == "zonewise"
