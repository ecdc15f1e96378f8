"""The values of sbatch's options: every form in sbatch(1), and forms that sbatch itself prints."""

from __future__ import annotations

import contextlib
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.client.submit.sbatch_values import (
    MAX_ARRAY,
    JobArray,
    parse_array,
    parse_begin_time,
    parse_gpus,
    parse_gres,
    parse_memory,
    parse_nodes,
    parse_time_limit,
)

DAY, HOUR, MINUTE = 86_400, 3600, 60


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90 * MINUTE),
        ("90:30", 90 * MINUTE + 30),
        ("1:30:00", HOUR + 30 * MINUTE),
        ("1-12", DAY + 12 * HOUR),
        ("1-12:30", DAY + 12 * HOUR + 30 * MINUTE),
        ("2-00:00:01", 2 * DAY + 1),
        ("2h", 2 * HOUR),
        ("1d12h", DAY + 12 * HOUR),
        ("45m", 45 * MINUTE),
        ("30s", 30),
        ("0", None),
        ("unlimited", None),
        ("INFINITE", None),
    ],
)
def test_time_limits(text: str, seconds: float | None) -> None:
    assert parse_time_limit(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "1:2:3:4", "-5", "1.5h", "1-", "0:00", "0-0", "2h30", "²"])
def test_invalid_time_limits(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time limit"):
        parse_time_limit(text)


@given(st.integers(0, 999), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_a_time_limit_as_squeue_prints_it(days: int, hours: int, minutes: int, seconds: int) -> None:
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    if total:
        assert parse_time_limit(f"{days}-{hours:02}:{minutes:02}:{seconds:02}") == total


@given(st.text(max_size=20))
def test_any_text_has_a_value_or_is_rejected(text: str) -> None:
    for parse in (parse_time_limit, parse_memory, parse_array, parse_gres, parse_nodes):
        with contextlib.suppress(ValueError):
            parse(text)


NOW = datetime(2026, 11, 30, 11, 30)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("11:30", "2026-12-01T11:30:00"),
        ("16:00", "2026-11-30T16:00:00"),
        ("noon", "2026-11-30T12:00:00"),
        ("midnight", "2026-12-01T00:00:00"),
        ("tomorrow", "2026-12-01T00:00:00"),
        ("2026-12-24", "2026-12-24T00:00:00"),
        ("2026-12-24T08:00", "2026-12-24T08:00:00"),
        ("2026-12-24T08:00:00+02:00", "2026-12-24T08:00:00+02:00"),
    ],
)
def test_begin_times(text: str, moment: str) -> None:
    """A time of day that has passed is that of the next day."""
    assert parse_begin_time(text, NOW).isoformat() == moment


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("now", 0),
        ("now+90", 90),
        ("now+2hours", 7200),
        ("now+1minute", 60),
        ("now+3days", 259200),
        ("now+1week", 604800),
    ],
)
def test_begin_times_relative_to_now(text: str, seconds: int) -> None:
    """The default unit is seconds, as in sbatch."""
    assert (parse_begin_time(text, NOW) - NOW.astimezone()).total_seconds() == seconds


@pytest.mark.parametrize(
    "text", ["", "soon", "16", "1:2:3:4", "25:00", "16:00+01:00", "2026-13-01", "now+1year", "now-1"]
)
def test_invalid_begin_times(text: str) -> None:
    """The message names forms that are valid."""
    with pytest.raises(ValueError, match=r"is not a time, such as now\+2hours"):
        parse_begin_time(text, NOW)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096", 4096 << 20),
        ("16G", 16 << 30),
        ("16Gi", 16 << 30),
        ("16GB", 16 << 30),
        ("512m", 512 << 20),
        ("1.5T", 3 << 39),
        ("2048K", 2 << 20),
    ],
)
def test_memory(text: str, size: int) -> None:
    assert parse_memory(text) == size


@pytest.mark.parametrize("text", ["", "16X", "-1G", "G", "1 G", "4096i"])
def test_invalid_memory(text: str) -> None:
    with pytest.raises(ValueError, match="is not an amount of memory"):
        parse_memory(text)


def test_all_memory_of_a_node_has_no_meaning() -> None:
    with pytest.raises(ValueError, match="all memory of a node"):
        parse_memory("0")


@pytest.mark.parametrize(
    ("text", "array"),
    [
        ("0-3", JobArray((0, 1, 2, 3), 4)),
        ("1,3,5-7", JobArray((1, 3, 5, 6, 7), 5)),
        ("0-15:4", JobArray((0, 4, 8, 12), 4)),
        ("0-9%3", JobArray(tuple(range(10)), 3)),
        ("5", JobArray((5,), 1)),
        ("2,1,2%9", JobArray((1, 2), 2)),
    ],
)
def test_arrays(text: str, array: JobArray) -> None:
    assert parse_array(text) == array


def test_a_plain_array_has_the_indexes_of_an_indexed_job() -> None:
    assert parse_array("0-3").is_plain
    assert not parse_array("1-4").is_plain
    assert not parse_array("0-6:2").is_plain


@pytest.mark.parametrize("text", ["", "a", "3-1", "0-9:0", "0-9%0", "0-9%", "1,,2", f"0-{MAX_ARRAY}", "1-99999"])
def test_invalid_arrays(text: str) -> None:
    with pytest.raises(ValueError, match=r"array|range|elements"):
        parse_array(text)


@given(st.sets(st.integers(0, 200), min_size=1), st.integers(1, 300))
def test_an_array_of_a_list(indexes: set[int], limit: int) -> None:
    array = parse_array(f"{','.join(map(str, indexes))}%{limit}")
    assert array == JobArray(tuple(sorted(indexes)), min(limit, len(indexes)))


def test_devices() -> None:
    assert parse_gres("gpu") == {"gpu": 1}
    assert parse_gres("gpu:8,rdma/hca:2") == {"gpu": 8, "rdma/hca": 2}
    assert parse_gpus("8") == 8
    with pytest.raises(ValueError, match=r"--gpus 4 --node-selector nvidia.com/gpu.product=h100"):
        parse_gpus("h100:4")
    with pytest.raises(ValueError, match="is not a list of resources"):
        parse_gres("gpu:1,,")


def test_nodes() -> None:
    assert (parse_nodes("4"), parse_nodes("4-4")) == (4, 4)
    with pytest.raises(ValueError, match="a range of nodes is not supported"):
        parse_nodes("2-4")
