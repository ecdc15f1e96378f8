"""The subcommands by name: those of this package, and those that other packages register as entry points."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from zonewise_common.cli.command import Command, CommandError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PROGRAM = "zonewise"
KUBECTL_PROGRAM = "kubectl zonewise"
ENTRY_POINTS = "zonewise.commands"
BUILT_IN = {name: f"zonewise.commands.{name}" for name in ("show", "capture", "health", "rules", "agent", "completion")}
DEPRECATED = frozenset({"foretell"})


def find_command(name: str) -> Command:
    """Return a command. Raises CommandError if there is none or its part is not installed."""
    if name in BUILT_IN:
        return import_module(BUILT_IN[name]).COMMAND
    registered = entry_points()
    if name in registered:
        return load(registered[name])
    if name.startswith("-"):
        raise CommandError(f"unknown option {name}; see `{PROGRAM} --help`")
    from difflib import get_close_matches

    names = sorted({*BUILT_IN, *registered} - DEPRECATED)
    similar = get_close_matches(name, names, 1)
    advice = f"did you mean {similar[0]}?" if similar else f"the commands are {', '.join(names)}"
    raise CommandError(f"unknown command {name}: {advice}")


def entry_points() -> dict[str, EntryPoint]:
    """Return the commands of other packages by name."""
    # the import takes 20 ms, so it happens only for a command that is not built in
    from importlib.metadata import entry_points as all_entry_points

    return {point.name: point for point in all_entry_points(group=ENTRY_POINTS)}


def load(point: EntryPoint) -> Command:
    """Return the command of an entry point. Raises CommandError if its part is not installed."""
    try:
        return point.load()
    except ImportError as error:
        raise CommandError(
            f"command {point.name} cannot be loaded: {error}; check that its part of {PROGRAM} is installed"
        ) from None


def installed_commands() -> dict[str, Command]:
    """Return all commands that can be loaded, by name, without deprecated ones."""
    commands: dict[str, Command] = {name: import_module(module).COMMAND for name, module in BUILT_IN.items()}
    for name, point in sorted(entry_points().items()):
        try:
            commands[name] = load(point)
        except CommandError:  # its part is not installed
            continue
    return {name: command for name, command in commands.items() if name not in DEPRECATED}
