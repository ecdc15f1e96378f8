"""Tables as kubectl prints them: headers in capitals, columns three spaces apart, no lines between them.

If the terminal is too narrow, the gaps shrink to two spaces first. Then texts are shortened. Before names
are shortened in the middle, the columns that yield are omitted, the last one first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from zonewise_common.cli.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zonewise_common.cli.terminal import Terminal

_GAP, _NARROW_GAP = 3, 2
_MIN_SHORTENED = 8
"""Minimum width of a shortened text in columns."""


class Cell(NamedTuple):
    """A text with a style."""

    text: str
    style: str = ""
    """A style of Terminal.styled()."""


class Column(NamedTuple):
    """How the cells of a column are shown."""

    header: str
    right: bool = False
    """Whether the texts are aligned to the right, as numbers are."""
    wide: bool = False
    """Whether the column is shown only with -o wide."""
    yields: bool = False
    """Whether the column is omitted before a name is shortened."""
    shorten: Literal["", "end", "middle"] = ""
    """Where texts may be shortened if the terminal is too narrow; "" for nowhere. Names of jobs and nodes differ in
    their ends, so they are shortened in the middle."""


class Table(NamedTuple):
    """Rows of cells, one for each column."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]


def make_table(columns: Sequence[Column], rows: Iterable[Sequence[str | Cell]]) -> Table:
    """Return a table; a plain text becomes a cell without a style. Control characters in texts are escaped.

    Raises ValueError if a row has the wrong number of cells.
    """
    cells = tuple(
        tuple(
            Cell(printable(cell)) if isinstance(cell, str) else Cell(printable(cell.text), cell.style) for cell in row
        )
        for row in rows
    )
    if any(len(row) != len(columns) for row in cells):
        raise ValueError("a row has another number of cells than the table has columns")
    return Table(tuple(columns), cells)


def render_table(table: Table, terminal: Terminal, *, wide: bool = False) -> str:
    """Return the lines of a table.

    Columns without any text are omitted. With `wide`, the table is not fitted to the terminal, and has every column.
    """
    shown = [i for i, column in enumerate(table.columns) if (wide or not column.wide) and _has_text(table, i)]
    limit = 0 if wide else terminal.width
    if limit:
        shown = _without_yielding(table, shown, limit)
    columns = [table.columns[i] for i in shown]
    rows = [[row[i] for i in shown] for row in table.rows]
    widths = [_width(table, i) for i in shown]
    gap = _GAP if not limit or sum(widths) + _GAP * (len(widths) - 1) <= limit else _NARROW_GAP
    if limit:
        widths = _fitted(widths, columns, limit - gap * (len(widths) - 1))
    lines = [[Cell(column.header, "bold") for column in columns], *rows]
    return "".join(_line(line, columns, widths, gap, terminal) for line in lines)


def _has_text(table: Table, index: int) -> bool:
    return any(row[index].text for row in table.rows)


def _width(table: Table, index: int) -> int:
    return max(len(table.columns[index].header), *(len(row[index].text) for row in table.rows))


def _without_yielding(table: Table, shown: Sequence[int], limit: int) -> list[int]:
    """Return the columns that remain so that no name is shortened in `limit` columns, if that is possible."""
    remaining = list(shown)
    yielding = [i for i in shown if table.columns[i].yields]
    while yielding:
        columns, widths = [table.columns[i] for i in remaining], [_width(table, i) for i in remaining]
        fitted = _fitted(widths, columns, limit - _NARROW_GAP * (len(widths) - 1))
        cut = (column for column, old, new in zip(columns, widths, fitted, strict=True) if new < old)
        if all(column.shorten == "end" for column in cut) and sum(fitted) <= limit - _NARROW_GAP * (len(widths) - 1):
            break
        remaining.remove(yielding.pop())
    return remaining


def _fitted(widths: list[int], columns: Sequence[Column], available: int) -> list[int]:
    """Return widths that sum to at most `available`, as far as columns may be shortened; the widest shrinks first."""
    fitted = list(widths)
    while sum(fitted) > available:
        shortened = [i for i, column in enumerate(columns) if column.shorten and fitted[i] > _MIN_SHORTENED]
        if not shortened:
            break
        fitted[max(shortened, key=lambda i: fitted[i])] -= 1
    return fitted


def _line(cells: Sequence[Cell], columns: Sequence[Column], widths: Sequence[int], gap: int, terminal: Terminal) -> str:
    parts: list[str] = []
    for cell, column, width in zip(cells, columns, widths, strict=True):
        text = _shortened(cell.text, width, column, terminal)
        padding = " " * (width - len(text))
        styled = terminal.styled(text, cell.style)
        parts.append(padding + styled if column.right else styled + padding)
    return (" " * gap).join(parts).rstrip() + "\n"


def _shortened(text: str, width: int, column: Column, terminal: Terminal) -> str:
    if len(text) <= width:
        return text
    tail = (width - 1) // 2 if column.shorten == "middle" else 0
    return text[: width - 1 - tail] + terminal.ellipsis + text[len(text) - tail :]
