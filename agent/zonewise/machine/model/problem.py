"""Problems with the source of the facts, and where each fact comes from."""

from typing import NamedTuple


class Problem(NamedTuple):
    """Something damaged, missing or contradictory in the files that discovery read."""

    path: str
    """The file, as an absolute path below the root."""
    problem: str
    """Description of the problem."""
    used: str | None = None
    """The value used instead; None if there is none."""


class Source(NamedTuple):
    """The source of one fact."""

    file: str
    """The file that was read, as an absolute path below the root."""
    value: str | None
    """The text that was read, before any interpretation."""
    rule: str
    """How the fact follows from the text."""
