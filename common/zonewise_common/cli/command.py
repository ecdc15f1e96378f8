"""A subcommand of `zonewise`. Packages register theirs as entry points of the group "zonewise.commands".

The name of the entry point is the subcommand. Its object is a Command.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Generator

_OWN_PACKAGES = ("zonewise", "zonewise_common", "zonewise_sandbox", "zonewise_scheduler")


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
        if (error.name or "").partition(".")[0] in _OWN_PACKAGES:
            raise
        hint = f"install zonewise with the extra [{extra}], or run `make demo` in a checkout"
        raise CommandError(f"{error}; {hint}") from None
