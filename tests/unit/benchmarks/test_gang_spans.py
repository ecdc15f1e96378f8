"""Results from the pods of gangs: waits, working CPUs, and the time from free resources to running."""

from __future__ import annotations

import pytest

from benchmarks.gang_spans import PodSpan, gang_spans, seconds_from_room, turnovers, working_cpus
from benchmarks.live_jobs import GangJob

FIRST = GangJob("first", 0.0, 2, 4, 10.0, 60)
SECOND = GangJob("second", 1.0, 2, 4, 5.0, 60)
NARROW = GangJob("narrow", 2.0, 1, 2, 5.0, 60)
PODS = [
    PodSpan("first", "a", 0.5, 0.75, 10.0),
    PodSpan("first", "b", 0.5, 1.0, 11.0),
    PodSpan("second", "a", 11.25, 11.5, 16.0),
    PodSpan("second", "b", 11.5, 12.0, 16.0),
]
FREE = {"a": 4, "b": 4}


def test_a_gang_runs_once_all_of_its_pods_do() -> None:
    first, second = gang_spans([FIRST, SECOND], PODS)
    assert (first.bound, first.running, first.ended, first.wait) == (0.5, 1.0, 11.0, 1.0)
    assert second.wait == 11.0
    assert gang_spans([FIRST, SECOND], PODS[:-1]) == [first], "one that did not run whole has no span"


def test_cpus_work_while_the_whole_gang_runs() -> None:
    spans = gang_spans([FIRST, SECOND], PODS)
    assert working_cpus(spans, 0, 16) == pytest.approx((10 * 8 + 4 * 8) / 16)
    assert working_cpus(spans, 1, 2) == 8
    assert working_cpus(spans, 11, 12) == 0


def test_a_turnover_is_from_the_last_end_to_the_last_start() -> None:
    assert turnovers(gang_spans([FIRST, SECOND], PODS)) == [1.0]
    assert turnovers(gang_spans([FIRST], PODS)) == []


def test_a_gang_fits_once_all_of_its_pods_fit() -> None:
    """The first gang fits from its submission on, the second one from the end of the first one's last pod on."""
    seconds, room = seconds_from_room(gang_spans([FIRST, SECOND], PODS), PODS, FREE)
    assert seconds == [1.0, 1.0]
    assert room == pytest.approx(0.5 + 0.25)


def test_resources_that_another_gang_takes_do_not_count() -> None:
    pods = [*PODS, PodSpan("narrow", "a", 16.5, 16.75, 20.0)]
    spans = gang_spans([FIRST, NARROW, SECOND], pods)
    seconds, _ = seconds_from_room(spans, pods, FREE)
    by_job = {span.job.name: each for span, each in zip(spans, seconds, strict=True)}
    assert by_job["narrow"] == pytest.approx(0.75), "from 16.0 on, not from 10.0 to 11.25"
