"""The options of a command as values, read from its argparse parser for shell completion and man pages."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Mapping

    from zonewise_common.cli.command import Command


class OptionSpec(NamedTuple):
    """An option, or a positional argument."""

    flags: tuple[str, ...]
    """Names of the option; empty for a positional argument."""
    metavar: str
    """The name of the option's value; "" if it takes none."""
    choices: tuple[str, ...]
    help: str
    group: str = ""

    @property
    def takes_file(self) -> bool:
        """Return whether the option's value is the path of a file."""
        return any(word in self.metavar.upper() for word in ("FILE", "PATH", "SCRIPT", "POD")) and not self.choices


class CommandSpec(NamedTuple):
    """A command with its options, for completion scripts, man pages and the reference."""

    name: str
    help: str
    usage: str
    options: tuple[OptionSpec, ...]
    epilog: str = ""


def command_specs(commands: Mapping[str, Command], program: str) -> list[CommandSpec]:
    """Return the commands of a program."""
    specs: list[CommandSpec] = []
    for name, command in commands.items():
        parser = argparse.ArgumentParser(prog=f"{program} {name}", formatter_class=_OneLine)
        command.add_arguments(parser)
        specs.append(
            CommandSpec(
                name, command.help, _usage(parser), tuple(option_specs(parser)), " ".join((parser.epilog or "").split())
            )
        )
    return specs


def option_specs(parser: ArgumentParser) -> list[OptionSpec]:
    """Return the options that the help shows, without duplicates; those of subcommands come last."""
    formatter = parser._get_formatter()
    specs: list[OptionSpec] = []
    below: list[OptionSpec] = []
    for group in parser._action_groups:
        for action in group._group_actions:
            if action.help == argparse.SUPPRESS:
                continue
            text = formatter._expand_help(action) if action.help else ""
            choices = tuple(map(str, action.choices or ()))
            title = group.title or ""
            for name, subparser in _subparsers(action).items():
                text = f"{text} {name}: {subparser.description}".strip()
                below += option_specs(subparser)
            specs.append(OptionSpec(tuple(action.option_strings), _metavar(action), choices, text, title))
    return list(dict.fromkeys([*specs, *below]))


def _subparsers(action: argparse.Action) -> dict[str, ArgumentParser]:
    """Return the parsers of subcommands by name; empty for an option."""
    choices: object = action.choices
    return cast("dict[str, ArgumentParser]", choices) if isinstance(choices, dict) else {}


def _metavar(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    if isinstance(action.metavar, tuple):
        return " ".join(action.metavar)
    if action.choices:
        return "|".join(map(str, action.choices))
    return action.metavar or action.dest.upper()


def _usage(parser: ArgumentParser) -> str:
    return " ".join(parser.format_usage().removeprefix("usage: ").split())


class _OneLine(argparse.HelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=10_000)
