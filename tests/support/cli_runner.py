"""Runs a subcommand in this process, in a directory of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


class CommandResult(NamedTuple):
    """The status and output of a command."""

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
        """Run the subcommand."""
        status = main([self._command, *map(str, arguments)])
        said = self._capsys.readouterr()
        return CommandResult(status, said.out, said.err)
