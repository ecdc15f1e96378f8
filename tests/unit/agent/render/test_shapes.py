"""Shapes of a vector picture."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise.render.shapes import (
    Lines,
    Node,
    Positioned,
    Text,
    best_shaped,
    format_coordinate,
    in_grid,
    in_row,
    in_rows,
    padded,
    paragraph,
    shortened,
    stacked,
    svg_elements,
    text_node,
    text_width,
)

SIZES = st.tuples(st.floats(1, 300), st.floats(1, 300))
NODES = st.lists(SIZES.map(lambda size: Node(*size, kind="box")), min_size=1, max_size=9)


def rectangles(node: Node, x: float = 0, y: float = 0) -> list[tuple[float, float, float, float]]:
    """Return the rectangles that are drawn in a node as (left, top, right, bottom)."""
    result = [(x, y, x + node.width, y + node.height)] if node.kind else []
    for part in node.parts:
        if isinstance(part, Positioned):
            result += rectangles(part.node, x + part.x, y + part.y)
    return result


def is_apart(node: Node) -> bool:
    """Return whether no two rectangles overlap, and all are inside the node."""
    all_rectangles = rectangles(node)
    inside = all(x2 <= node.width + 0.01 and y2 <= node.height + 0.01 for _, _, x2, y2 in all_rectangles)
    pairs = ((first, second) for i, first in enumerate(all_rectangles) for second in all_rectangles[i + 1 :])
    return inside and all(
        a[2] <= b[0] + 0.01 or b[2] <= a[0] + 0.01 or a[3] <= b[1] + 0.01 or b[3] <= a[1] + 0.01 for a, b in pairs
    )


@given(NODES, st.floats(0, 20))
def test_stacks_rows_and_grids_separate_nodes(nodes: list[Node], gap: float) -> None:
    """However nodes are arranged, none overlaps another or is outside."""
    assert is_apart(stacked(nodes, gap))
    assert is_apart(in_row(nodes, gap))
    assert is_apart(in_rows(nodes, 400, gap))
    for columns in range(1, len(nodes) + 1):
        assert is_apart(in_grid(nodes, columns, gap))


@given(NODES, st.integers(1, 9))
def test_a_grid_is_even(nodes: list[Node], columns: int) -> None:
    """All cells have the same width, and those of a row the same height."""
    columns = min(columns, len(nodes))
    grid = in_grid(nodes, columns, 8)
    cells = rectangles(grid)
    assert len({round(x2 - x1, 3) for x1, _, x2, _ in cells}) == 1
    for start in range(0, len(cells), columns):
        assert len({round(y2 - y1, 3) for _, y1, _, y2 in cells[start : start + columns]}) == 1


@given(NODES, st.floats(300, 600))
def test_rows_keep_within_the_width(nodes: list[Node], width: float) -> None:
    """Every single node fits, so every row does."""
    assert in_rows(nodes, width, 10).width <= width + 0.01


@given(st.text(max_size=60), st.floats(20, 300), st.sampled_from(["", "bold"]))
def test_a_shortened_text_fits(text: str, width: float, style: str) -> None:
    """A shortened text ends with an ellipsis; a text that fits is unchanged."""
    short = shortened(text, width, 12, style)
    assert text_width(short, 12, style) <= width
    assert short == text or short.endswith("…")


@given(st.lists(st.text("abc def", min_size=1, max_size=30), max_size=6), st.floats(60, 400))
def test_a_paragraph_keeps_within_its_width(phrases: list[str], width: float) -> None:
    """Phrases are distributed over lines, whole if they fit."""
    assert paragraph(phrases, width, 12).width <= width + 0.01


def test_empty_nodes_need_no_space() -> None:
    """An empty stack, row or paragraph has no size and leaves no gap in another."""
    assert (stacked([], 8).width, stacked([], 8).height) == (0, 0)
    box = Node(10, 20, kind="box")
    assert stacked([paragraph([], 100, 12), box, stacked([], 8)], 8).height == 20
    assert in_row([Node(0, 0), box], 8).width == 10


def test_texts_are_measured_by_their_characters() -> None:
    """Narrow and wide letters differ, bold is wider, and unknown characters count as the widest."""
    assert text_width("iii", 10) < text_width("nnn", 10) < text_width("WWW", 10)
    assert text_width("n", 10) < text_width("n", 10, "bold")
    assert text_width("联", 10) == pytest.approx(text_width("W", 10))
    assert text_width("", 10) == 0
    assert text_node("abc", 12).width == text_width("abc", 12)


def test_the_best_shape_has_the_nearest_ratio() -> None:
    """Half the desired width is as bad as twice the desired width."""
    wide = Node(300, 100)
    for narrow, better in ((Node(80, 100), "narrow"), (Node(50, 100), "wide")):
        assert best_shaped([narrow, wide], 1.5) is (narrow if better == "narrow" else wide)


def test_elements_are_absolute_and_nested() -> None:
    """Coordinates are relative to the page, groups contain inner groups, and nodes without a kind are not drawn."""
    inner = Node(10, 10, (Text(1, 8, "x<y", 10, "bold"), Lines(((0, 0, 5, 5),), "stem")), "core", "CPU 0")
    text = "".join(svg_elements(padded(stacked([inner], 4), 5, "zone"), 100, 200))
    assert text == (
        '<g class="zone"><rect class="zone" x="100" y="200" rx="5" width="20" height="20"/>'
        '<g class="core"><title>CPU 0</title><rect class="core" x="105" y="205" rx="2.5" width="10" height="10"/>'
        '<text x="106" y="213" font-size="10" class="bold">x&lt;y</text>'
        '<path class="stem" d="M105 205L110 210"/></g></g>'
    )


@given(st.floats(-1e4, 1e4))
def test_coordinates_are_short(value: float) -> None:
    """Coordinates have at most one decimal, and none if it is zero."""
    assert re.fullmatch(r"-?\d+(\.[1-9])?", format_coordinate(value))
    assert abs(float(format_coordinate(value)) - value) <= 0.05 + 1e-9
