"""Events about a job: their times, and those that repeat others."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.client.jobs.job_events import event_time, merge_repeated

Json = dict[str, Any]

PODS = re.compile("j-[0-9]")


def event(second: int, message: str, reason: str = "FailedCreate", **fields: Any) -> Json:
    return {"reason": reason, "message": message, "lastTimestamp": f"2026-01-01T00:00:{second:02}Z", **fields}


def test_times() -> None:
    assert event_time({"eventTime": "2026-01-01T00:00:00.5Z"}) == 1_767_225_600.5
    assert event_time({}) == 0.0


def test_events_that_differ_only_in_the_pod_are_merged() -> None:
    events = [
        event(3, 'pods "j-2" is forbidden: exceeded quota: j-22', count=4),
        event(1, 'pods "j-1" is forbidden: exceeded quota: j-22', series={"count": 2}),
        event(2, 'pods "j-1" is forbidden: exceeded quota: j-23'),
        event(4, "Created pod: j-1.", "SuccessfulCreate"),
        event(5, "Created pod: j-2.", "SuccessfulCreate"),
    ]
    merged = merge_repeated(events, PODS)
    assert [(entry.observations, entry.event["message"]) for entry in merged] == [
        (1, 'pods "j-1" is forbidden: exceeded quota: j-23'),
        (6, 'pods "j-2" is forbidden: exceeded quota: j-22'),
        (2, "Created pod: j-2."),
    ]


@given(st.lists(st.tuples(st.integers(0, 59), st.sampled_from(["j-1 a", "j-2 a", "j-1 b", "k-1 a"]))))
def test_no_observation_is_lost(observed: list[tuple[int, str]]) -> None:
    """The counts add up, the order is that of the times, and the newest Event of each group is shown."""
    merged = merge_repeated([event(second, message) for second, message in observed], PODS)
    assert sum(entry.observations for entry in merged) == len(observed)
    assert [entry.time for entry in merged] == sorted(entry.time for entry in merged)
    assert {entry.event["message"][2:] for entry in merged} <= {message[2:] for _, message in observed}
    assert len(merged) == len({message.removeprefix("j-1 ").removeprefix("j-2 ") for _, message in observed})
