"""The subcommands of `zonewise`. A module here exports a COMMAND; other packages add theirs by entry points.

The entry-point group is "zonewise.commands": the name is the subcommand, the object has the attributes of Command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable


class CommandError(Exception):
    """What the user must know, and do, in one line; it ends the program with status 2."""


class Command(NamedTuple):
    """A subcommand."""

    help: str
    """What it does, in one line without a full stop."""
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]
    """Do it, and return the status of the program. Raises CommandError."""
