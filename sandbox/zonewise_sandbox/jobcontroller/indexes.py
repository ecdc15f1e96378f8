"""Completion indexes, and their text in the status: "1,3-5,7" (indexed_job_utils.go orderedIntervals)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def parse_indexes(text: str, completions: int) -> set[int]:
    """Return the indexes below `completions` in a text; parts that are not intervals are ignored."""
    indexes: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit():
            indexes.update(range(int(first), min(int(last or first), completions - 1) + 1))
    return indexes


def format_indexes(indexes: Iterable[int]) -> str:
    """Return the text of indexes; two neighbours are separated by a comma, three or more form an interval."""
    return ",".join(_interval_text(first, last) for first, last in _intervals(sorted(indexes)))


def _intervals(ordered: list[int]) -> Iterator[tuple[int, int]]:
    begin = 0
    for position, index in enumerate(ordered):
        if position + 1 == len(ordered) or ordered[position + 1] != index + 1:
            yield ordered[begin], index
            begin = position + 1


def _interval_text(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first}{',' if last == first + 1 else '-'}{last}"
