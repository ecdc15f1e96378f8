"""Blocks of styled text: widths, clipping, wrapping and frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise.render.canvas import (
    COLOURS,
    SQUARE,
    beside,
    clip,
    column_width,
    frame_block,
    joined,
    line_width,
    pad,
    pad_height,
    paint,
    wrap,
)
from zonewise.render.formatting import clean

if TYPE_CHECKING:
    from zonewise.render.canvas import Line, Span

TEXTS = st.text(max_size=40).map(clean) | st.sampled_from(["联想 服务器", "e\u0301a", "plain", "a,b,c,d,e,f,g"])
SPANS: st.SearchStrategy[Span] = st.tuples(st.sampled_from(sorted(COLOURS)), TEXTS)
LINES: st.SearchStrategy[Line] = st.lists(SPANS, max_size=4).map(tuple)


def plain(line: Line) -> str:
    """Return the text of a line."""
    return "".join(text for _, text in line)


@pytest.mark.parametrize(
    ("text", "columns"), [("abc", 3), ("联想", 4), ("e\u0301", 1), ("─│…×·", 5), ("é", 1), ("", 0)]
)
def test_widths_are_those_of_a_terminal(text: str, columns: int) -> None:
    """East Asian characters take two columns, combining characters none."""
    assert column_width(text) == columns


@given(LINES, st.integers(1, 60))
def test_a_clipped_line_fits_and_a_fitting_line_is_unchanged(line: Line, width: int) -> None:
    """A clipped line is never too long and ends with a mark; a line that fits is unchanged."""
    short = clip(line, width)
    assert line_width(short) <= width
    if line_width(line) <= width:
        assert short == line
    else:
        assert plain(short).endswith("…")


@given(LINES, st.integers(1, 60))
def test_a_padded_line_has_the_width(line: Line, width: int) -> None:
    """Any line gets the requested width."""
    assert line_width(pad(line, width)) == width


@given(st.lists(SPANS, max_size=8), st.integers(6, 60))
def test_wrapped_phrases_fit_and_lose_nothing(phrases: list[Span], width: int) -> None:
    """No wrapped line is too long, and all characters except blanks are retained in order."""
    lines = wrap(phrases, width)
    assert all(line_width(line) <= width for line in lines)
    shown = "".join(plain(line) for line in lines).replace(" ", "")
    assert shown == "".join(text for _, text in phrases).replace(" ", "")


def test_lists_are_broken_at_natural_positions() -> None:
    """A list is broken after a bar if possible, else after a comma, else after a blank."""
    assert [plain(line) for line in wrap([("", "CPUs 0-3,8 | 4-7,9")], 14, indent=0)] == ["CPUs 0-3,8 |", "4-7,9"]
    assert [plain(line) for line in wrap([("", "L1d 48 KiB, L2 2 MiB")], 16, indent=0)] == [
        "L1d 48 KiB,",
        "L2 2 MiB",
    ]
    assert [plain(line) for line in wrap([("", "two words")], 7, indent=0)] == ["two", "words"]


@given(LINES, st.lists(LINES, max_size=4), st.integers(8, 60))
def test_a_frame_is_rectangular(title: Line, body: list[Line], width: int) -> None:
    """Every line of a frame has its width."""
    assert {line_width(line) for line in frame_block(title, body, width, SQUARE)} == {width}


@given(LINES, st.integers(8, 60), st.integers(1, 9))
def test_a_frame_of_greater_height_is_rectangular(title: Line, width: int, height: int) -> None:
    """The frame grows above its lower edge, never shrinks, and remains rectangular."""
    block = frame_block(title, [()], width, SQUARE)
    grown = pad_height(block, height)
    assert len(grown) == max(height, len(block))
    assert {line_width(line) for line in grown} == {width}
    assert (grown[0], grown[-1]) == (block[0], block[-1])


def test_blocks_are_placed_side_by_side() -> None:
    """Each block has a field of its own width, with a gap between fields."""
    blocks: list[list[Line]] = [[(("", "a"),), (("", "b"),)], [(("", "c"),), (("", "d"),)]]
    assert [plain(line) for line in beside(blocks, [3, 2], 1)] == ["a   c ", "b   d "]


def test_phrases_are_joined_by_a_separator() -> None:
    """The separator is only between phrases."""
    assert plain(joined([(("", "a"),), (("", "b"),)], " · ")) == "a · b"


@given(st.lists(LINES, max_size=4), st.booleans())
def test_no_line_ends_in_a_blank(lines: list[Line], colour: bool) -> None:
    """Trailing blanks are invisible and make diffs of pictures noisy."""
    assert not any(line.endswith(" ") for line in paint(lines, colour=colour, unicode=True).split("\n"))


@given(LINES)
def test_ascii_has_the_width_of_unicode(line: Line) -> None:
    """The columns remain aligned."""
    ascii_text = paint([(*line, ("", "|"))], colour=False, unicode=False)
    assert ascii_text.isascii()
    assert len(ascii_text) == line_width(line) + 1
