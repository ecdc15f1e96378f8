"""The state file and the baseline file: written atomically, versioned and bounded, with errors that name the field."""

from __future__ import annotations

import json

import pytest

from support.health_stories import FIRST_GPU, POD, Story, xid
from zonewise.health.state import HealthState, StateError, decode_baseline, decode_state, encode_baseline, encode_state


def test_a_state_survives_encoding() -> None:
    story = Story()
    story.observe(events=xid(79, story.now))
    assert decode_state(encode_state(story.state)) == story.state


def test_a_state_without_holding_times_is_read() -> None:
    story = Story()
    story.held = {FIRST_GPU: [POD]}
    story.observe()
    story.observe(events=xid(79, story.now))
    stored = json.loads(encode_state(story.state))
    assert [fault.pop() for fault in stored["faults"]] == [[story.now - 1]]
    story.state = decode_state(json.dumps(stored).encode())
    assert [fault.held_since for fault in story.state.active] == [()]
    story.observe()
    assert [fault.pods for fault in story.state.active] == [(POD,)]
    assert [len(fault.held_since) for fault in story.state.active] == [1]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"version":1}', b"\xff" * 9, b'{"a":' + b"[" * 10**5])
def test_a_damaged_state_is_an_error(content: bytes) -> None:
    with pytest.raises(StateError):
        decode_state(content)


@pytest.mark.parametrize("time", ["1e308", "-1e308", "1e18", "1180591620717411303424"])
def test_a_fault_at_a_time_that_is_not_a_date_is_an_error(time: str) -> None:
    """Reports and Events show the times of faults as dates."""
    story = Story()
    story.observe(events=xid(79, story.now))
    for i in (1, 2):
        stored = json.loads(encode_state(story.state))
        stored["faults"][0][i] = json.loads(time)
        with pytest.raises(StateError, match="faults: a time is not a date"):
            decode_state(json.dumps(stored).encode())


def test_a_state_of_another_version_is_an_error() -> None:
    content = encode_state(HealthState()).replace(b'"version":1', b'"version":9')
    with pytest.raises(StateError, match="version 9, but only 1 is supported"):
        decode_state(content)


def test_a_baseline_survives_encoding_and_wrong_fields_are_named() -> None:
    baseline = Story().state.baseline
    assert baseline is not None
    assert decode_baseline(encode_baseline(baseline)) == baseline
    for content, words in (
        (b'{"gpu":[]}', "gpu"),
        (b'{"links":{"a":{"width":"x8"}}}', "width"),
        (b'{"cpus":"4"}', "cpus"),
    ):
        with pytest.raises(StateError, match=words):
            decode_baseline(content)
