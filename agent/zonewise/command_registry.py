"""The subcommands by name: those of this package, and those that other packages register as entry points."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from zonewise_common.cli.command import Command, CommandError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from importlib.metadata import EntryPoint

PROGRAM = "zonewise"
KUBECTL_PROGRAM = "kubectl zonewise"
ENTRY_POINTS = "zonewise.commands"
BUILT_IN = {name: f"zonewise.commands.{name}" for name in ("show", "capture", "health", "rules", "agent", "completion")}
DEPRECATED = frozenset({"foretell"})
GROUPS = {
    "this machine": ("show", "capture", "health", "rules"),
    "jobs": ("submit", "queue", "explain", "forecast", "hold", "release", "cancel", "report"),
    "cluster": ("check", "top", "fit", "page", "fabric", "adopt"),
    "simulation": ("up", "simulate"),
    "services, which the manifests run in a cluster": ("agent", "scheduler", "controller"),
    "shell": ("completion",),
}
"""The commands that the overview and the reference list together, by what the user works on."""
OTHERS = "other packages"
"""Title of the commands that no group names."""


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


def by_group(names: Iterable[str]) -> dict[str, list[str]]:
    """Return names of commands by title of their group, in the order of the groups."""
    present = dict.fromkeys(names)
    groups = {title: [name for name in group if name in present] for title, group in GROUPS.items()}
    known = {name for group in groups.values() for name in group}
    groups[OTHERS] = [name for name in present if name not in known]
    return {title: group for title, group in groups.items() if group}


def installed_commands() -> dict[str, Command]:
    """Return all commands that can be loaded, by name in the order of the groups, without deprecated ones."""
    commands: dict[str, Command] = {name: import_module(module).COMMAND for name, module in BUILT_IN.items()}
    for name, point in sorted(entry_points().items()):
        try:
            commands[name] = load(point)
        except CommandError:  # its part is not installed
            continue
    groups = by_group(name for name in commands if name not in DEPRECATED)
    return {name: commands[name] for names in groups.values() for name in names}
