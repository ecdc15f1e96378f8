"""The matrix of PCI relations as a part of the vector picture, with the meanings of its cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.render.cards import GAP, SMALL
from zonewise.render.shapes import Node, Positioned, Text, in_rows, stacked, text_node, text_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise.render.matrix import MatrixTable

_LINE = 16.0
_BASE = 11.0  # baseline of a line's text
_CELL_GAP = 12.0


def matrix_node(table: MatrixTable, width: float) -> Node:
    """Return the matrix, in as many blocks of columns as the width requires; nothing for a single device."""
    if not table.rows or len(table.columns) < 2:
        return Node(0, 0)
    names = max(text_width(row.label, SMALL, "bold") for row in table.rows) + _CELL_GAP
    blocks: list[list[int]] = [[]]
    used = names
    for index, wide in enumerate(_column_widths(table)):
        if blocks[-1] and used + wide > width:
            blocks.append([])
            used = names
        blocks[-1].append(index)
        used += wide
    return stacked([*(_block(table, block, names) for block in blocks), _meanings(table, width)], GAP)


def _column_widths(table: MatrixTable) -> list[float]:
    return [
        max(text_width(column.label, SMALL, "bold"), *(text_width(line[i], SMALL) for line in table.cells)) + _CELL_GAP
        for i, column in enumerate(table.columns)
    ]


def _block(table: MatrixTable, columns: Sequence[int], names: float) -> Node:
    widths = _column_widths(table)
    parts: list[Text | Positioned] = [
        Text(0, _BASE + i * _LINE, row.label, SMALL, "bold") for i, row in enumerate(table.rows, 1)
    ]
    left = names
    for column in columns:
        parts.append(Text(left, _BASE, table.columns[column].label, SMALL, "bold"))
        for i, line in enumerate(table.cells, 1):
            parts.append(Text(left, _BASE + i * _LINE, line[column], SMALL))
        left += widths[column]
    return Node(left, (len(table.rows) + 1) * _LINE, tuple(parts))


def _meanings(table: MatrixTable, width: float) -> Node:
    texts = [text_node(f"{relation}: {meaning}", SMALL, "dim") for relation, meaning in table.meanings()]
    return in_rows(texts, width, 18)
