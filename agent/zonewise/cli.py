"""The command line: finds the subcommand, runs it, and turns errors into one line and an exit status.

Status 0: done; 2: the arguments, the source or the destination cannot be used; 130: interrupted. Modules are imported
on demand, since scripts run this program repeatedly.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

from zonewise_common import __version__
from zonewise_common.cli.command import Command, CommandError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.metadata import EntryPoint

PROGRAM = "zonewise"
ENTRY_POINTS = "zonewise.commands"

_BUILT_IN = {name: f"zonewise.commands.{name}" for name in ("show", "capture", "health", "agent")}
_USAGE_ERROR = 2
_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program with the given arguments, by default those of the process, and return its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _reopen_closed_streams()
    try:
        status = _run(arguments)
        sys.stdout.flush()
    except CommandError as error:
        sys.stderr.write(f"{PROGRAM}: error: {' '.join(str(error).split())}\n")
        return _USAGE_ERROR
    except BrokenPipeError:
        _discard_output()
        return 0
    except KeyboardInterrupt:
        return _INTERRUPTED
    return status


def _reopen_closed_streams() -> None:
    """Replace streams that the caller closed: `zonewise show >&-`."""
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise CommandError(f"{message}; see `{self.prog} --help`")


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        sys.stdout.write(_overview())
        return 0
    if arguments[0] == "--version":
        sys.stdout.write(f"{PROGRAM} {__version__}\n")
        return 0
    name = arguments[0]
    command = _command(name)
    parser = _Parser(prog=f"{PROGRAM} {name}", description=f"{command.help[:1].upper()}{command.help[1:]}.")
    command.add_arguments(parser)
    try:
        parsed = parser.parse_args(arguments[1:])
    except SystemExit as done:  # argparse exits after --help
        return int(done.code or 0)
    return command.run(parsed)


def _command(name: str) -> Command:
    if name in _BUILT_IN:
        return import_module(_BUILT_IN[name]).COMMAND
    registered = _entry_points()
    if name in registered:
        return _load(registered[name])
    if name.startswith("-"):
        raise CommandError(f"unknown option {name}; see `{PROGRAM} --help`")
    raise CommandError(f"unknown command {name}: there is {', '.join(sorted([*_BUILT_IN, *registered]))}")


def _entry_points() -> dict[str, EntryPoint]:
    # 20 ms of import, so only for a command that is not built in
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def _load(point: EntryPoint) -> Command:
    try:
        return point.load()
    except ImportError as error:
        raise CommandError(
            f"command {point.name} cannot be loaded: {error}; is its part of {PROGRAM} installed?"
        ) from None


def _overview() -> str:
    commands = {name: import_module(module).COMMAND.help for name, module in _BUILT_IN.items()}
    for name, point in sorted(_entry_points().items()):
        try:
            commands[name] = _load(point).help
        except CommandError as error:
            commands[name] = f"({error})"
    width = max(map(len, commands)) + 2
    lines = [f"  {name:{width}}{text}" for name, text in commands.items()]
    return "\n".join(
        [
            f"usage: {PROGRAM} COMMAND [ARGUMENTS]",
            "",
            "Fits jobs to hardware: sees what a machine is made of, and what is free, zone by zone.",
            "",
            "commands:",
            *lines,
            "",
            f"`{PROGRAM} COMMAND --help` describes a command; `{PROGRAM} --version` prints the version.",
            "",
        ]
    )


def _discard_output() -> None:
    """Drop buffered output without an error after its reader has exited (`| head`)."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)
