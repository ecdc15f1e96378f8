"""Figures beside their promises."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Row(NamedTuple):
    """A figure beside its promise."""

    what: str
    found: str
    promise: str = ""
    kept: bool = True


def show(rows: Sequence[Row]) -> int:
    """Print the table; return 1 where a promise is not kept."""
    width = max((len(row.what) for row in rows), default=0)
    for row in rows:
        print(f"{row.what:{width}}  {row.found:>22}  {row.promise:>14}  {'kept' if row.kept else 'MISSED'}")
    return 0 if all(row.kept for row in rows) else 1
