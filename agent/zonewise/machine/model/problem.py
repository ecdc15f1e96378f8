"""What is wrong with the source of the facts, and where each fact is from."""

from typing import NamedTuple


class Problem(NamedTuple):
    """Something damaged, missing or contradictory in what discovery read."""

    path: str
    """The file, as an absolute path below the root."""
    problem: str
    """What is wrong with it."""
    used: str | None = None
    """What was used instead; None where nothing was."""


class Source(NamedTuple):
    """Where one fact is from."""

    file: str
    """The file read, as an absolute path below the root."""
    value: str | None
    """The text read, before any interpretation."""
    rule: str
    """How the fact follows from it."""
