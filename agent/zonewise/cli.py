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

from zonewise import command_registry
from zonewise.command_registry import BUILT_IN, DEPRECATED, KUBECTL_PROGRAM, PROGRAM, by_group, find_command, load
from zonewise_common import __version__
from zonewise_common.cli.command import CommandError
from zonewise_common.cli.imports import without_collections
from zonewise_common.cli.output import STANDARD_OUTPUT, write

if TYPE_CHECKING:
    from collections.abc import Sequence

_USAGE_ERROR = 2
_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None, program: str = PROGRAM) -> int:
    """Run the program with the given arguments, by default those of the process, and return its exit status.

    `program` is the command as the user typed it.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    _reopen_closed_streams()
    try:
        status = _run(arguments, program)
        sys.stdout.flush()
    except CommandError as error:
        from zonewise_common.cli.terminal import printable

        sys.stderr.write(f"{PROGRAM}: error: {printable(' '.join(str(error).split()))}\n")
        return _USAGE_ERROR
    except BrokenPipeError:
        _discard_output()
        return 0
    except KeyboardInterrupt:
        return _INTERRUPTED
    return status


def main_of_kubectl() -> int:
    """Run as `kubectl zonewise`: kubectl starts the program kubectl-zonewise with the arguments after the name."""
    return main(program=KUBECTL_PROGRAM)


def _reopen_closed_streams() -> None:
    """Replace streams that the caller has closed: `zonewise show >&-`."""
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY))
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


class _Parser(ArgumentParser):
    def print_help(self, file: object = None) -> None:  # noqa: ARG002 -- argparse passes none
        """Print the help text to standard output; argparse itself would ignore that it cannot be written."""
        write(self.format_help(), STANDARD_OUTPUT)

    def error(self, message: str) -> NoReturn:
        raise CommandError(f"{message}; see `{self.prog} --help`")


def _run(arguments: list[str], program: str) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        with without_collections():
            overview = _overview(program)
        write(overview, STANDARD_OUTPUT)
        return 0
    if arguments[0] == "--version":
        write(f"{PROGRAM} {__version__}\n", STANDARD_OUTPUT)
        return 0
    name = arguments[0]
    with without_collections():
        command = find_command(name)
    parser = _Parser(prog=f"{program} {name}", description=f"{command.help[:1].upper()}{command.help[1:]}.")
    command.add_arguments(parser)
    try:
        parsed = parser.parse_args(arguments[1:])
    except SystemExit as done:  # argparse exits after --help
        return int(done.code or 0)
    return command.run(parsed)


def _overview(program: str) -> str:
    commands = {name: import_module(module).COMMAND.help for name, module in BUILT_IN.items()}
    for name, point in sorted(command_registry.entry_points().items()):
        if name in DEPRECATED:
            continue
        try:
            commands[name] = load(point).help
        except CommandError as error:
            commands[name] = f"({error})"
    width = max(map(len, commands)) + 2
    lines: list[str] = []
    for title, names in by_group(commands).items():
        lines += [f"{title}:", *(f"  {name:{width}}{commands[name]}" for name in names), ""]
    return "\n".join(
        [
            f"usage: {program} COMMAND [ARGUMENTS]",
            "",
            "Fits jobs to hardware: shows what a machine has, what is free in each zone, and",
            "where and when a job can run.",
            "",
            *lines,
            f"`{program} COMMAND --help` describes a command.",
            f"`{program} --version` prints the version.",
            "",
        ]
    )


def _discard_output() -> None:
    """Drop buffered output without an error after its reader has exited (`| head`)."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)
