"""Runs a subcommand in this process, in a directory of its own, or many commands in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

from support.command_line import run_rejected
from zonewise.cli import main

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pytest


_RUN_ALL = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from zonewise.cli import main

results = []
for command in json.load(sys.stdin):
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        try:
            status = main(command)
        except SystemExit as end:
            status = end.code
    results.append((status, out.getvalue(), err.getvalue()))
json.dump(results, sys.stdout)
"""


class CommandResult(NamedTuple):
    """The exit status and output of a command."""

    status: int
    out: str
    err: str


class CliRunner:
    """Runs a subcommand on the files of a directory."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
        self.directory = directory
        self._capsys = capsys
        self._command = command

    def write(self, name: str, content: str) -> str:
        """Write a file; return its path."""
        (self.directory / name).write_text(content)
        return str(self.directory / name)

    def run(self, *arguments: object) -> CommandResult:
        status = main([self._command, *map(str, arguments)])
        said = self._capsys.readouterr()
        return CommandResult(status, said.out, said.err)

    def usage_error(self, *arguments: object) -> str:
        """Run the subcommand, which must fail, and return the one line of its error message."""
        return run_rejected(self._capsys, self._command, *map(str, arguments))


def run_all(commands: Sequence[Sequence[str]]) -> list[CommandResult]:
    """Run commands one after another in one separate interpreter, because starting it takes most of a command's time.

    The environment has no cluster and no settings.
    """
    environment = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG", "PYTHONPATH")}
    process = subprocess.run(
        [sys.executable, "-c", _RUN_ALL], input=json.dumps(commands), capture_output=True, text=True, timeout=300,
        check=False, env=environment,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    return [CommandResult(*entry) for entry in json.loads(process.stdout)]
