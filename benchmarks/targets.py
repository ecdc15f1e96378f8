"""Figures beside their promises."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Row(NamedTuple):
    """A figure beside its promise."""

    label: str
    measured: str
    target: str = ""
    met: bool = True


def show(rows: Sequence[Row]) -> int:
    """Print the table; return 1 where a promise is not kept."""
    width = max((len(row.label) for row in rows), default=0)
    for row in rows:
        print(f"{row.label:{width}}  {row.measured:>22}  {row.target:>14}  {'kept' if row.met else 'MISSED'}")
    return 0 if all(row.met for row in rows) else 1
