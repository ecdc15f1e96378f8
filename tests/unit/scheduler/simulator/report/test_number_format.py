"""Numbers in human-readable form."""

from __future__ import annotations

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.simulator.report.number_format import (
    format_amount,
    format_duration,
    format_durations,
    format_numbers,
    format_percents,
)


@pytest.mark.parametrize(
    ("seconds", "texts"),
    [
        ([0.0], ["0 s"]),
        ([12.34], ["12.3 s"]),
        ([0.25, 1.5], ["0.25 s", "1.50 s"]),
        ([119.0], ["119 s"]),
        ([5400.0], ["90.0 min"]),
        ([7200.0, 0.0], ["2.00 h", "0.00 h"]),
        ([4800.0, 9000.0], ["1.33 h", "2.50 h"]),
        ([261_792.0, 1_723_252.0], ["3.0 d", "19.9 d"]),
        ([30.0, 300_000.0], ["0.50 min", "5,000.00 min"]),
        ([2.0, 300_000.0], ["2.0 s", "300,000.0 s"]),
        ([None, inf, 3.0], ["-", "-", "3.00 s"]),
        ([], []),
    ],
)
def test_durations_in_a_row_have_the_same_unit(seconds: list[float | None], texts: list[str]) -> None:
    """The unit is the largest of which the longest has at least two and the shortest at least a tenth."""
    assert format_durations(seconds) == texts


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([28_481, 0], ["28,481", "0"]),
        ([53.3, 116.24], ["53", "116"]),
        ([1.0, 4.836], ["1.00", "4.84"]),
        ([0.00012], ["0.000"]),
        ([None, 3], ["-", "3"]),
        ([nan], ["-"]),
    ],
)
def test_numbers_have_the_same_number_of_decimals(values: list[float | None], texts: list[str]) -> None:
    assert format_numbers(values) == texts


def test_percents() -> None:
    assert format_percents([0.6856, 0.0, None]) == ["68.6 %", "0.0 %", "-"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (0.4, "0 s"), (119, "119 s"), (120, "2 min"), (86_400, "24 h"), (1e7, "116 d")]
)
def test_a_rough_duration(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("resource", "size", "text"),
    [
        ("processors", 93_312, "93,312 processors"),
        ("cpu", 10_000_000, "10,000 cpu"),
        ("cpu", 1500, "1.5 cpu"),
        ("memory", 100 << 30, "100 GiB memory"),
        ("memory", 0, "0 B memory"),
        ("hugepages-1Gi", 3 << 30, "3 GiB hugepages-1Gi"),
        ("nvidia.com/gpu", 800, "800 nvidia.com/gpu"),
    ],
)
def test_amounts(resource: str, size: int, text: str) -> None:
    assert format_amount(resource, size) == text


@given(st.lists(st.none() | st.floats(0, allow_nan=False), min_size=1))
def test_every_duration_has_a_text(values: list[float | None]) -> None:
    texts = format_durations(values)
    assert len(texts) == len(values)
    assert len({text.split()[-1] for text in texts if text != "-"}) <= 1
