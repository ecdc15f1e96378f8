"""Numbers and lists of names in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def of_number(number: int, singular: str, plural: str) -> str:
    """Return a form of a word: singular after 1, plural after any other number."""
    return singular if number == 1 else plural


def first_names(names: Sequence[str], most: int = 3) -> str:
    """Return at most this number of names, and the number of the others: "a, b, c and 2 more"."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
