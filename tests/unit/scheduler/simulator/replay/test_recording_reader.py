"""Recordings are read line by line; errors name the damaged line."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.recordings import recorded
from zonewise_scheduler.backfill.recording import planner_feed
from zonewise_scheduler.simulator.replay.recording_reader import DamagedRecordingError, read_batches
from zonewise_scheduler.simulator.replay.replayer import Replayer

HEADER = b'{"recording":1,"policy":"fifo","reserveAfter":60.0,"fairSharing":false}\n'
LINES = recorded([("submit", 3), ("submit", 6)])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{\n", "line 2: no JSON: "),
        (b"\xff\n", "line 2: no JSON: "),
        (b"[]\n", "line 2: not an object: []"),
        (b"{}\n", "line 2: entry: not an entry of a planner: None"),
        (b'{"entry":"begin"}\n', "line 2: entry: not an entry of a planner: 'begin'"),
        (b'{"entry":"finish"}\n', "line 2: finish: key: invalid: None"),
        (b'{"entry":"pass","at":"noon","maxAdmissions":1}\n', "line 2: pass: at: invalid: 'noon'"),
        (b'{"entry":"pass","at":-1,"maxAdmissions":1}\n', "line 2: pass: at: not between 1970 and 9999: -1"),
        (b'{"entry":"pass","at":1e18,"maxAdmissions":1}\n', "line 2: pass: at: not between 1970 and 9999: 1e+18"),
        (b'{"entry":"restore","at":1e18,"checkpoint":{}}\n', "line 2: restore: at: not between 1970 and 9999: 1e+18"),
        (b'{"entry":"pass","at":1.0,"maxAdmissions":true}\n', "line 2: pass: maxAdmissions: invalid: True"),
        (b'{"plan":{}}\n', "line 2: a plan without a scheduling pass before it"),
        (b'{"recording":2,"policy":"fifo"}\n', "line 2: recording: not 1, the version that is known: 2"),
        (b'{"recording":1,"policy":"best"}\n', "line 2: "),
        (b'{"recording":1,"policy":"fifo","fairSharing":1}\n', "line 2: fairSharing: neither true nor false: 1"),
    ],
)
def test_a_damaged_line_is_named(line: bytes, message: str) -> None:
    with pytest.raises(DamagedRecordingError) as error:
        list(read_batches([HEADER, line]))
    assert str(error.value).startswith(message)


def test_each_entry_of_a_planner_is_known() -> None:
    """Every entry in the planner's table is known: without fields it is invalid, but not unknown."""
    entries = re.findall(r"^    ([a-z]+) {2,}", planner_feed.__doc__ or "", re.MULTILINE)
    assert {"submit", "confirm", "pass"} <= set(entries)
    for entry in set(entries) - {"entry"}:
        with pytest.raises(DamagedRecordingError, match=f"line 2: {entry}: .* invalid: None"):
            list(read_batches([HEADER, b'{"entry":"%s"}\n' % entry.encode()]))


def test_a_plan_that_is_not_an_object_is_damaged() -> None:
    with pytest.raises(DamagedRecordingError, match="line 3: plan: not an object: 3"):
        list(read_batches([HEADER, b'{"entry":"pass","at":1.0,"maxAdmissions":1}\n', b'{"plan":3}\n']))


@pytest.mark.parametrize("lines", [[], [b'{"entry":"finish","key":"a"}\n'], [b'{"recording":1']])
def test_a_recording_begins_with_its_header(lines: list[bytes]) -> None:
    with pytest.raises(DamagedRecordingError, match="line 1: "):
        list(read_batches(lines))


def test_each_header_begins_a_batch() -> None:
    batches = list(read_batches([*LINES, *LINES]))
    assert [i for i, batch in enumerate(batches) if batch.header is not None] == [0, len(list(read_batches(LINES)))]
    assert sum(len(batch.entries) for batch in batches) == 2 * sum(b'"submit"' in line for line in LINES) + sum(
        b'"entry":"' in line and b'"pass"' not in line and b'"submit"' not in line for line in [*LINES, *LINES]
    )


def test_an_incomplete_last_line_is_ignored() -> None:
    whole = list(read_batches(LINES))
    assert list(read_batches([*LINES, b'{"entry":"fin'])) == whole
    assert list(read_batches([*LINES, b'{"entry":"finish","key":"a"}'])) == whole


@given(st.integers(0, len(LINES) - 1), st.binary(max_size=20))
def test_any_other_line_is_read_or_named_in_an_error(i: int, line: bytes) -> None:
    lines = [*LINES[:i], line.replace(b"\n", b"") + b"\n", *LINES[i + 1 :]]
    with pytest.raises(DamagedRecordingError, match=f"line {i + 1}: "):
        list(Replayer().replay(lines))
