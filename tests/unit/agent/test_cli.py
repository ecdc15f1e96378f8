"""The command line: subcommands, one-line errors, interruptions, and the whole program."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.command_line import run, run_rejected
from zonewise import cli
from zonewise.command_registry import ENTRY_POINTS, installed_commands
from zonewise.objects.machine_json import SCHEMA
from zonewise_common import __version__
from zonewise_common.cli.command import Command, CommandError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator


pytestmark = pytest.mark.usefixtures("plain_environment")


# --- mistakes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("frobnicate",),
            "unknown command frobnicate: the commands are adopt, agent, cancel, capture, check, completion,",
        ),
        (("--frobnicate",), "unknown option --frobnicate; see `zonewise --help`"),
        (("show", "-o", "pdf"), "unknown format pdf: the formats are text, svg, json"),
        (("show", "-o"), "expected at least one argument"),
        (("show", "-o", "json", "a", "b"), "at most one file; remove b"),
        (("show", "--frobnicate"), "unrecognized arguments: --frobnicate; see `zonewise show --help`"),
        (("show", "--width", "wide"), "wide is not a number of columns"),
        (("show", "--width", "1"), "1 is not a number of columns"),
        (("show", "--color", "blue"), "invalid choice: 'blue'"),
        (("show", "--root", "/no/such/place"), "/no/such/place: no such file or directory"),
        (("show", "-o", "svg", "--explain", "all"), "--explain works with -o text, json, yaml, not with svg"),
        (("capture",), "the following arguments are required: FILE"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each mistake is a one-line error with the possible values, and exit status 2."""
    assert message in run_rejected(capsys, *arguments)


# --- commands of other packages


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """`zonewise`, `zonewise --help` and `zonewise help` print the same overview."""
    text = run(capsys, "--help")
    assert "\nthis machine:\n  show " in text
    assert "\nsimulation:\n  up " in text
    assert run(capsys) == text == run(capsys, "help")


@pytest.mark.parametrize("command", ["show", "capture"])
def test_help_of_a_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each command explains its arguments and exits successfully."""
    assert run(capsys, command, "--help").startswith(f"usage: zonewise {command}")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """The version is that of the package."""
    assert run(capsys, "--version") == f"zonewise {__version__}\n"


def _add_number(parser: ArgumentParser) -> None:
    parser.add_argument("number", type=int)


def _number_groups(arguments: Namespace) -> int:
    if arguments.number < 0:
        raise CommandError("no negative\nnumbers\x1b[2J")
    return arguments.number


FROM_OUTSIDE = Command("end with a number", _add_number, _number_groups)
"""A command in the form in which another package offers it."""


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """Return a list of entry points that replaces the installed ones of the group."""
    points: list[EntryPoint] = []

    def installed(group: str) -> list[EntryPoint]:
        return points if group == ENTRY_POINTS else []

    monkeypatch.setattr("importlib.metadata.entry_points", installed)
    monkeypatch.setitem(sys.modules, "outside_package", sys.modules[__name__])
    yield points
    points.clear()


def test_a_command_by_entry_point(outside: list[EntryPoint], capsys: pytest.CaptureFixture[str]) -> None:
    """A command of another package runs like a built-in one and is listed in the overview."""
    outside.append(EntryPoint("number", "outside_package:FROM_OUTSIDE", ENTRY_POINTS))
    assert cli.main(["number", "7"]) == 7
    assert "no negative numbers^[[2J" in run_rejected(capsys, "number", "--", "-7")
    assert "invalid int value: 'x'; see `zonewise number --help`" in run_rejected(capsys, "number", "x")
    assert "  number      end with a number\n" in run(capsys)


def test_a_command_with_a_missing_dependency(outside: list[EntryPoint], capsys: pytest.CaptureFixture[str]) -> None:
    """A command whose package lacks a dependency is marked in the overview, which is printed nevertheless."""
    outside.append(EntryPoint("simulate", "no_such_package:COMMAND", ENTRY_POINTS))
    assert "command simulate cannot be loaded: No module named 'no_such_package'" in run_rejected(capsys, "simulate")
    assert "simulate" in run(capsys, "--help")


def test_built_in_commands_do_not_load_entry_points(
    monkeypatch: pytest.MonkeyPatch, server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Entry points take 20 ms to load, so they are loaded only for commands that are not built in."""

    def forbidden(group: str) -> list[EntryPoint]:
        raise AssertionError(group)

    monkeypatch.setattr("importlib.metadata.entry_points", forbidden)
    run(capsys, "show", "--root", server, "-o", "json")


def test_the_modules_of_a_command_are_not_searched_for_garbage(capsys: pytest.CaptureFixture[str]) -> None:
    """The overview imports the modules of all commands."""
    for arguments in (["show", "--help"], ["--help"]):
        gc.unfreeze()
        run(capsys, *arguments)
        assert gc.get_freeze_count() > 0, arguments
    assert gc.isenabled()


# --- interruptions


def test_interrupted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C ends the program without a message, with the exit status that shells expect."""

    def interrupt(arguments: list[str], program: str) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_run", interrupt)
    assert cli.main(["show"]) == 128 + signal.SIGINT
    assert capsys.readouterr() == ("", "")


# --- the whole program


def program(*arguments: str, **more: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "zonewise", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, **more)  # pyright: ignore


def test_as_a_program(server: str) -> None:
    """The process has the same output and exit status as the function."""
    done = program("show", "--root", server, "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["schema"] == SCHEMA
    assert program("show", "-o", "pdf").returncode == 2


def test_a_reader_that_exits(server: str) -> None:
    """`zonewise show | head -1` prints no message and succeeds."""
    line = f"{sys.executable} -m zonewise show --root {server} -o json | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.splitlines() == ["{", "0"]
    assert done.stderr == ""


def test_closed_output_streams_are_ignored(server: str) -> None:
    """`zonewise show >&- 2>&-` succeeds: the caller does not want the output."""
    line = f"{sys.executable} -m zonewise show --root {server} -o json >&- 2>&-"
    assert subprocess.run(["bash", "-c", line], capture_output=True, check=False, timeout=300).returncode == 0


def test_a_closed_input_is_empty() -> None:
    """The command is `zonewise rules lint - <&-`."""
    line = f"{sys.executable} -m zonewise rules lint - <&-"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (2, "zonewise: error: -: no rules found\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("arguments", ["show --root {server} -o json", "--help", "show --help", "--version"])
def test_a_full_disk(arguments: str, server: str) -> None:
    """An output that could not be written is a failure."""
    line = f"{sys.executable} -m zonewise {arguments.format(server=server)} > /dev/full"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 2
    assert done.stderr == "zonewise: error: cannot write to standard output: No space left on device\n"


def test_a_locale_without_unicode(server: str) -> None:
    """On an ASCII output, the picture is ASCII, rather than a traceback."""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = program("show", "--root", server, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()


def test_only_what_json_needs_is_imported(server: str) -> None:
    """Scripts run `show -o json`, which must not import YAML, pictures, archives or entry points."""
    heavy = (
        "yaml",
        "tarfile",
        "backports",
        "subprocess",
        "importlib.metadata",
        "zonewise.render",
        "pynvml",
        *(["inspect"] if sys.version_info < (3, 14) else []),  # since 3.14, argparse imports it for coloured help
    )
    code = f"import sys; from zonewise.cli import main; main(); print([m for m in {heavy!r} if m in sys.modules])"
    arguments = ["show", "--root", server, "-o", "json", os.devnull]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout == "[]\n"


def test_the_overview_and_the_help_of_each_command_fit_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The help is ASCII, since a stream without Unicode raises an error for other characters."""
    monkeypatch.setenv("COLUMNS", "80")
    texts = {"": run(capsys, "--help")}
    texts |= {name: run(capsys, name, "--help") for name in installed_commands()}
    assert [(name, line) for name, text in texts.items() for line in text.splitlines() if len(line) > 80] == []
    assert [name for name, text in texts.items() if not text.isascii()] == []
