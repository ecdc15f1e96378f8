"""The profile of a test run: how many examples of a property, and how many positions of a fault, it tries."""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

Position = TypeVar("Position")

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "default")
"""default, quick, long, random or mutants; tests/conftest.py registers them with Hypothesis."""


def share(positions: Iterable[Position], number: int, first: int = 0) -> list[Position]:
    """Return every `number`-th position of a fault, from index `first`; in the profiles random and mutants, all.

    Tests of similar faults choose different shares, so that together they try each position.
    """
    whole = PROFILE in {"random", "mutants"}
    return list(positions) if whole else list(islice(positions, first, None, number))
