"""Values of arguments: accepted forms, and the errors for anything else."""

from __future__ import annotations

from argparse import ArgumentTypeError
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.commands.arguments import (
    count,
    duration,
    finite_duration,
    moment,
    names,
    positive,
    rate,
    span,
)

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90), ("90s", 90), ("15m", 900), ("24h", 86_400), ("7d", 604_800), ("500ms", 0.5), ("1.5h", 5400),
        ("0", 0), ("never", inf),
    ],
)  # fmt: skip
def test_durations(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2s", (2, 2)),
        ("1-2s", (1, 2)),
        ("500ms-2s", (0.5, 2)),
        ("100-500ms", (0.1, 0.5)),
        ("1-2", (1, 2)),
        ("0", (0, 0)),
    ],
)
def test_spans(text: str, seconds: tuple[float, float]) -> None:
    assert span(text) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-11-22T12:00:00Z", 1_795_348_800),
        ("2026-11-22T13:00:00.5+01:00", 1_795_348_800.5),
        ("1795348800.1234567", 1_795_348_800.1234567),
        ("9999-12-31T23:59:59Z", 253_402_300_799),
    ],
)
def test_moments(text: str, seconds: float) -> None:
    assert moment(text) == seconds


@pytest.mark.parametrize(
    ("text", "result"), [("50/100", (50, 100)), ("50", (50, 50)), ("0.5", (0.5, 1)), ("2.5/3", (2.5, 3))]
)
def test_rates(text: str, result: tuple[float, int]) -> None:
    assert rate(text) == result


def test_names() -> None:
    """Blanks are ignored, and repeated names are used once."""
    assert names("easy, greedy,easy") == ["easy", "greedy"]


@pytest.mark.parametrize(
    ("parse", "texts", "what"),
    [
        (duration, ["", "h", "-1", "1w", "1 h", "1h30m", "inf", "nan", "1e9", "٣s", "1" * 400], "is not a duration"),
        (finite_duration, ["never", "h"], "is not a "),
        (
            moment,
            ["noon", "2026-11-22T12:00:00", "1790000000000", "9999-12-31T23:59:59-10:00", "0001-01-01T00:00:00+10:00"],
            "is not a time, such as 2026-11-22T12:00:00Z",
        ),
        (span, ["", "-", "1-", "2-1s", "1-never", "a-b"], "is not a "),
        (rate, ["", "0", "/5", "5/", "5/0", "5/1.5", "-5", "1/2/3"], "is not a rate, such as 50/100"),
        (positive, ["", "0", "-1", "inf", "1e3", "x"], "is not a number above zero"),
        (count, ["", "0", "-1", "1.5", "x", "1" * 20], "is not a positive whole number"),
        (names, ["", "a,,b", ","], "is not a list of names"),
    ],
)
def test_errors_quote_invalid_values(parse: Callable[[str], object], texts: list[str], what: str) -> None:
    for text in texts:
        with pytest.raises(ArgumentTypeError, match=what):
            parse(text)


@given(st.text())
def test_any_text_is_a_value_or_an_argument_error(text: str) -> None:
    """No text raises anything but ArgumentTypeError, which argparse reports."""
    for parse in (duration, finite_duration, moment, span, rate, positive, count, names):
        with suppress(ArgumentTypeError):
            parse(text)
