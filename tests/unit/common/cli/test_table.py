"""Tables: alignment, colours without a width, and terminals that are too narrow."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.cli.table import Cell, Column, make_table, render_table
from zonewise_common.cli.terminal import Terminal

COLUMNS = (
    Column("NAME", shorten="middle"),
    Column("PODS", right=True),
    Column("NODE", wide=True),
    Column("REASON", shorten="end"),
)
TABLE = make_table(
    COLUMNS,
    [["train", "4", "node-1", "waits for quota of flavor h100"], [Cell("b", "bad"), "128", "", "runs"]],
)


def test_a_table() -> None:
    assert render_table(TABLE, Terminal()) == (
        "NAME    PODS   REASON\n"
        "train      4   waits for quota of flavor h100\n"
        "b        128   runs\n"
    )  # fmt: skip


def test_texts_of_others_reach_no_terminal_as_commands() -> None:
    text = render_table(make_table((Column("A"), Column("B")), [["x\x1b[2J", Cell("y\nz", "bad")]]), Terminal())
    assert text == "A        B\nx^[[2J   y z\n"


def test_wide_has_more_columns() -> None:
    assert render_table(TABLE, Terminal(width=40), wide=True).splitlines()[:2] == [
        "NAME    PODS   NODE     REASON",
        "train      4   node-1   waits for quota of flavor h100",
    ]


def test_colors_take_no_columns() -> None:
    colored = render_table(TABLE, Terminal(colors=True))
    assert "\x1b[31mb\x1b[0m" in colored
    assert re.sub(r"\x1b\[\d*m", "", colored) == render_table(TABLE, Terminal())


def test_a_narrow_terminal_shortens_the_widest_text() -> None:
    assert render_table(TABLE, Terminal(width=32)).splitlines()[1] == "train     4  waits for quota of…"
    ascii_lines = render_table(TABLE, Terminal(width=32, unicode=False)).splitlines()
    assert ascii_lines[1] == "train     4  waits for quota of~"


def test_the_end_of_a_name_remains() -> None:
    """Names that begin alike can be told apart."""
    table = make_table((Column("NAME", shorten="middle"),), [["training-vision-1"], ["training-vision-12"]])
    assert render_table(table, Terminal(width=10)) == "NAME\ntrain…on-1\ntrain…n-12\n"


def test_a_column_without_text_is_left_out() -> None:
    assert render_table(make_table(COLUMNS[:2], [["a", ""]]), Terminal()) == "NAME\na\n"


def test_a_row_of_another_length_is_an_error() -> None:
    with pytest.raises(ValueError, match="another number of cells"):
        make_table(COLUMNS, [["a"]])


@given(st.lists(st.tuples(st.text(st.characters(codec="ascii", categories=["L"]), max_size=60), st.integers(0, 10**6))))
def test_no_line_is_wider_than_the_terminal(rows: list[tuple[str, int]]) -> None:
    """The limit applies as far as columns may be shortened, as these may."""
    columns = (Column("NAME", shorten="middle"), Column("SIZE", right=True))
    text = render_table(make_table(columns, [[name, str(size)] for name, size in rows]), Terminal(width=40))
    assert all(len(line) <= 40 for line in text.splitlines())


YIELDING = make_table(
    (Column("NAME", shorten="middle"), Column("A", yields=True), Column("B"), Column("C", yields=True),
     Column("STATUS", shorten="end")),
    [["training-vision-1", "11", "22", "33", "a long status of the job"]],
)  # fmt: skip


@pytest.mark.parametrize(
    ("width", "headers", "line"),
    [
        (0, "NAME A B C STATUS", "training-vision-1   11   22   33   a long status of the job"),
        (53, "NAME A B C STATUS", "training-vision-1  11  22  33  a long status of the …"),
        (45, "NAME A B STATUS", "training-vision-1  11  22  a long status of …"),
        (39, "NAME B STATUS", "training…ision-1  22  a long status of…"),
    ],
)
def test_columns_yield_to_names(width: int, headers: str, line: str) -> None:
    header, text = render_table(YIELDING, Terminal(width=width)).splitlines()
    assert (header.split(), text) == (headers.split(), line)
    if width:
        assert render_table(YIELDING, Terminal(width=width), wide=True) == render_table(YIELDING, Terminal())
