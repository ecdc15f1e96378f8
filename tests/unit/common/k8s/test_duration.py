"""Durations as Go reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.k8s.duration import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0), ("0s", 0), ("45s", 45), ("5m", 300), ("1h30m", 5400), ("168h", 604_800), ("1.5h", 5400),
        (".5s", 0.5), ("2.s", 2), ("250ms", 0.25), ("1m0.5s", 60.5), ("3us", 3e-6), ("3µs", 3e-6), ("5ns", 5e-9),
        ("2562047h", 9_223_369_200),
    ],
)  # fmt: skip
def test_a_duration_is_a_sum_of_numbers_with_units(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize(
    "text", ["", "5", "5 m", "-5m", "1d", "m", ".s", "1h30", "1e3s", "٣s", "9" * 40 + "s", "5M", "2562048h"]
)
def test_anything_else_is_an_error_that_quotes_it(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration, such as 1h30m or 45s: ") as error:
        parse_duration(text)
    assert str(error.value).endswith(repr(text))


@given(st.integers(0, 10**18).map(lambda nanoseconds: nanoseconds / 1e9))
def test_a_written_duration_is_read_back(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, rel=1e-12, abs=1e-9)
