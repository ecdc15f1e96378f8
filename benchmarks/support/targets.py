"""Measured figures and their targets."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


NOT_MEASURED = 2
"""Exit status of a benchmark that needs an absent program."""


class Row(NamedTuple):
    """A measured figure and its target."""

    label: str
    measured: str
    target: str = ""
    met: bool = True


def load_row(prefix: str = "") -> Row:
    """Return the load average of the machine, which indicates how much other programs disturbed a benchmark."""
    return Row(f"{prefix}load average of these {os.cpu_count()} CPUs at the end", f"{os.getloadavg()[0]:.1f}")


def show(rows: Sequence[Row]) -> int:
    """Print the table; return 1 if a target is missed."""
    width = max((len(row.label) for row in rows), default=0)
    for row in rows:
        print(f"{row.label:{width}}  {row.measured:>22}  {row.target:>14}  {'met' if row.met else 'MISSED'}")
    return 0 if all(row.met for row in rows) else 1


def skip(reason: str) -> int:
    """Print why nothing is measured; return the exit status for it."""
    print(f"skipped: {reason}")
    return NOT_MEASURED
