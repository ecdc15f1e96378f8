"""Waits by width, and durations in words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.simulator.plot.time_units import TICKS, axis_unit, format_length, format_short, round_limits
from zonewise_scheduler.simulator.plot.wait_quantiles import MAX_GROUPS, QUANTILES, wait_groups, width_bins

SHARES = st.lists(st.sampled_from([0.0, *(2.0**-power for power in range(30))]) | st.floats(1e-6, 1), max_size=60)


def test_each_of_a_few_widths_has_its_own_group() -> None:
    shares, waits = np.array([0.5, 0.1, 0.5, 0.1, 0, 0.5]), np.array([10.0, 7, 20, np.nan, 99, 30])
    result = wait_groups(shares, waits, width_bins([shares]))
    assert [(group.width, group.jobs) for group in result] == [(0.1, 1), (0.5, 3)]
    assert result[0].waits.tolist() == [7] * len(QUANTILES)
    assert result[1].waits.tolist() == [11, 15, 20, 25, 29, 30]


def test_compared_policies_have_groups_at_the_same_widths() -> None:
    entry, other = np.geomspace(0.001, 0.1, 50), np.geomspace(0.01, 1, 50)
    within = width_bins([entry, other])
    assert {group.width for group in wait_groups(entry, entry, within)} <= set(within.at.tolist())
    assert wait_groups(other, other, within)[-1].width == pytest.approx(1 / 1000 ** (0.5 / MAX_GROUPS))


@given(SHARES)
def test_every_job_with_a_width_is_in_exactly_one_group(shares: list[float]) -> None:
    widths = np.array(shares, np.float64)
    result = wait_groups(widths, widths, width_bins([widths]))
    assert sum(group.jobs for group in result) == sum(share > 0 for share in shares)
    assert len(result) <= MAX_GROUPS
    assert [group.width for group in result] == sorted(group.width for group in result)
    assert all((np.diff(group.waits) >= 0).all() for group in result)


# --- durations


@pytest.mark.parametrize(
    ("length", "axis", "text"),
    [
        (0, "seconds", "0 seconds"), (1, "seconds", "1 second"), (100, "seconds", "1.7 minutes"),
        (600, "minutes", "10 minutes"), (3600, "minutes", "60 minutes"), (5400, "minutes", "1.5 hours"),
        (86400, "hours", "24 hours"), (4 * 86400, "days", "4 days"), (337.24 * 86400, "days", "337.2 days"),
    ],
)  # fmt: skip
def test_a_duration_has_a_natural_unit(length: float, axis: str, text: str) -> None:
    assert (axis_unit(length).name, format_length(length)) == (axis, text)


@given(st.floats(0, 1e9), st.integers(1, 4))
def test_limits_ascend_and_are_below_the_longest_duration(longest: float, most: int) -> None:
    result = round_limits(longest, most)
    assert len(result) <= most
    assert result == sorted(result)
    assert all(limit < longest for limit in result)
    assert result or longest <= 1


def test_round_durations_are_short() -> None:
    assert [format_short(limit) for limit in round_limits(1e9, 99)] == [
        "1 s", "3 s", "10 s", "30 s", "1 min", "3 min", "10 min", "30 min", "1 h", "3 h", "10 h",
        "1 d", "3 d", "10 d", "30 d", "100 d",
    ]  # fmt: skip
    assert list(TICKS) == sorted(TICKS)
