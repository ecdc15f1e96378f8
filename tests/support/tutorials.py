"""Runs the commands of tutorials in order, against one in-process cluster of `zonewise up`.

| command | how it runs |
|---|---|
| `zonewise up ...` | the cluster of the tests, which must have these arguments |
| `export NAME=VALUE` | the variable is set for all later commands; the shell expands the value |
| `zonewise ...` without shell syntax | in this process, because starting an interpreter costs more |
| `zonewise agent ...` | by bash, because it configures its process's log |
| a command that the test plays | by a function of the test, for events of a real cluster such as a GPU failure |
| any other command | by bash, in the directory of the page |

`<!-- test: a GPU fails -->` in a page marks an event that no command causes; the test plays it. A read-only command is
repeated until its output matches the page, because a cluster needs a moment.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from support.console_guide import ConsoleStep, console_steps, form, with_outputs
from support.waiting import PATIENCE
from zonewise.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pytest

RENEW = "ZONEWISE_RENEW_GUIDES"
"""An environment variable; if it is set, the pages are rewritten from this run."""
PAUSE = 0.5
"""Seconds between two attempts: each costs the CPU time of a command."""
SETTLED = 6.0
"""Seconds after which the output of a read-only command no longer changes, used when a page is rewritten."""
_READS = ("kubectl get", "zonewise queue", "zonewise explain", "zonewise top", "zonewise forecast")
_SHELL = frozenset("|&;<>$`*(){}")
_FILE = re.compile(r'^```(?:bash|yaml) title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"^<!-- test: (.*) -->$", re.MULTILINE)


class Commands(NamedTuple):
    """The environment for the commands of a page."""

    directory: Path
    """The directory with the page's files."""
    played: Mapping[str, Callable[[], str]]
    """By command or mark: a substitute function that returns the output."""
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]


def is_same(output: str, shown: str) -> bool:
    """Return whether an output has the form that a page shows.

    A shortened line is compared up to its cut. Successive lines that begin with generated names or ages, such as pods
    and events, may have any order. A pod may lack its prediction: a replacement pod may be bound before the node's
    report shows the freed resources.
    """
    lines, others = _ordered(form(output)), _ordered(form(shown))
    return len(lines) == len(others) and all(map(_same_line, lines, others))


def _ordered(lines: list[list[str]]) -> list[list[str]]:
    result: list[list[str]] = []
    for is_unordered, group in itertools.groupby(lines, lambda line: line[0].endswith(("-SUFFIX", "DURATION"))):
        run = list(group)
        result += sorted(run) if is_unordered else run
    return result


def _same_line(line: list[str], other: list[str]) -> bool:
    if line[0].endswith("-SUFFIX") and len({_is_predicted(line), _is_predicted(other)}) == 2:
        line, other = _without_prediction(line), _without_prediction(other)
    if line[-1].endswith("…") and other[-1].endswith("…"):
        length = min(len(line), len(other)) - 1
        return line[:length] == other[:length]
    return line == other


def _is_predicted(line: list[str]) -> bool:
    return any(word.startswith("zones=") for word in line)


def _without_prediction(line: list[str]) -> list[str]:
    """Return a pod's line without "main zones=0 cpus=1-8"."""
    return [word for word in line if word != "main" and not word.startswith(("zones=", "cpus="))]


def run_tutorial(file: Path, commands: Commands) -> None:
    """Run the commands of a page in order; fail at the first unexpected output."""
    page = file.read_text()
    for name, content in _FILE.findall(page):
        (commands.directory / name).write_text(content)
    commands.monkeypatch.chdir(commands.directory)
    for name, value in {"COLUMNS": "100", "NO_COLOR": "1", "PATH": _path()}.items():
        commands.monkeypatch.setenv(name, value)
    outputs: list[str] = []
    for number, part in enumerate(_MARK.split(page)):
        if number % 2:
            commands.played[part]()
            continue
        for step in console_steps(part):
            if os.environ.get(RENEW):
                outputs.append(_settled(step.command, commands))
            else:
                _check(file.name, step, commands)
    if outputs:
        file.write_text(with_outputs(page, outputs))


def _check(page: str, step: ConsoleStep, commands: Commands) -> None:
    started = time.monotonic()
    while True:
        output = run_command(step.command, commands)
        if is_same(output, step.output):
            return
        waited = time.monotonic() - started
        if not _reads(step.command) or waited > PATIENCE / 4:
            raise AssertionError(f"{page}: $ {step.command}\n{output}\nbut the page shows\n{step.output}")
        time.sleep(PAUSE)


def _settled(command: str, commands: Commands) -> str:
    if _reads(command):
        time.sleep(SETTLED)
    output = run_command(command, commands)
    return output if not output or output.endswith("\n") else f"{output}\n"


def _reads(command: str) -> bool:
    return command.startswith(_READS)


def run_command(command: str, commands: Commands) -> str:
    """Run a command and return its messages and its output."""
    played = commands.played.get(command)
    if played is not None:
        return played()
    name, _, value = command.partition("=")
    if re.fullmatch(r"export \w+", name):
        commands.monkeypatch.setenv(name.removeprefix("export "), _bash(f"printf %s {value}"))
        return ""
    if command.startswith("zonewise ") and not command.startswith("zonewise agent") and not _SHELL & set(command):
        return _zonewise(shlex.split(command)[1:], commands)
    return _bash(command)


def _zonewise(arguments: list[str], commands: Commands) -> str:
    commands.capsys.readouterr()
    with contextlib.suppress(SystemExit):  # argparse has already printed the message
        main(arguments)
    said = commands.capsys.readouterr()
    return said.err + said.out


def _bash(command: str) -> str:
    process = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, timeout=300)
    return process.stderr + process.stdout


def _path() -> str:
    """Return the PATH, including the directory of `zonewise`."""
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
