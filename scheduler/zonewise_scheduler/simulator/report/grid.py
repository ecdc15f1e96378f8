"""Columns of text beside their labels, as wide as a terminal and no wider."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_GAP = "  "
_LEAST = 8
"""Characters of a label that are left, however narrow the terminal."""
_CUT = ".."


class Row(NamedTuple):
    """A line; without cells it is the heading of those that are indented below it."""

    label: str
    cells: Sequence[str] = ()


def render_grid(head: Sequence[str], rows: Sequence[Row], width: int) -> str:
    """Return the columns, right-aligned, under their heads; those that have no room follow below, labelled again."""
    sizes = [max(map(len, (name, *_column(rows, place)))) for place, name in enumerate(head)]
    label = max(len(row.label) for row in rows)
    blocks: list[str] = []
    for places in _blocks(sizes, width - label):
        left = width - sum(len(_GAP) + sizes[place] for place in places)
        room = min(label, max(left, _LEAST))
        blocks.append("".join(_line(row, room, sizes, places) for row in (Row("", head), *rows)))
    return "\n".join(blocks)


def _column(rows: Sequence[Row], place: int) -> Iterator[str]:
    return (row.cells[place] for row in rows if row.cells)


def _blocks(sizes: Sequence[int], room: int) -> Iterator[list[int]]:
    """Yield the columns that are beside each other; at least one is."""
    block: list[int] = []
    taken = 0
    for place, size in enumerate(sizes):
        if block and taken + len(_GAP) + size > room:
            yield block
            block, taken = [], 0
        block.append(place)
        taken += len(_GAP) + size
    if block:
        yield block


def _line(row: Row, room: int, sizes: Sequence[int], places: Sequence[int]) -> str:
    label = row.label if len(row.label) <= room else row.label[: room - len(_CUT)] + _CUT
    cells = [_GAP + row.cells[place].rjust(sizes[place]) for place in places if row.cells]
    return (label.ljust(room) + "".join(cells)).rstrip() + "\n"
