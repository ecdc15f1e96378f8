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
    """An error that ends the program with status 2. The message states the problem and the remedy in one line."""


class Command(NamedTuple):
    """A subcommand."""

    help: str
    """Description of the command, in one line without a full stop."""
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]
    """Function that runs the command and returns the exit status. Raises CommandError."""


@contextmanager
def require_extra(extra: str) -> Generator[None]:
    """Import the libraries of an extra within this block; raise CommandError if one is not installed.

    If one of our own modules is missing, that is a defect of zonewise, and the error passes through.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in _OWN_PACKAGES:
            raise
        hint = f"install zonewise with the extra [{extra}], or run `make demo` in a checkout"
        raise CommandError(f"{error}; {hint}") from None
