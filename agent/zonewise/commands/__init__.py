"""The subcommands of `zonewise`. A module here exports a COMMAND; other packages add theirs by entry points.

The entry-point group is "zonewise.commands": the name is the subcommand, the object has the attributes of Command.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Generator

_OURS = ("zonewise", "zonewise_scheduler")


class CommandError(Exception):
    """What the user must know, and do, in one line; it ends the program with status 2."""


class Command(NamedTuple):
    """A subcommand."""

    help: str
    """What it does, in one line without a full stop."""
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]
    """Do it, and return the status of the program. Raises CommandError."""


@contextmanager
def require_extra(extra: str) -> Generator[None]:
    """Import inside of it what needs the libraries of an extra: raises CommandError where one is not installed.

    A module of ours that is missing is a fault of ours, and stays what it is.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in _OURS:
            raise
        raise CommandError(f"{error}; pip install 'zonewise[{extra}]'") from None
