"""Results from the pods of gangs: waits, working CPUs, and turnovers."""

from __future__ import annotations

import pytest

from benchmarks.support.gang_spans import PodSpan, end_delays, gang_spans, turnovers, working_cpus
from benchmarks.support.live_jobs import GangJob

FIRST = GangJob("first", 0.0, 2, 4, 10.0, 60)
SECOND = GangJob("second", 1.0, 2, 4, 5.0, 60)
PODS = [
    PodSpan("first", "a", 0.5, 0.75, 10.0),
    PodSpan("first", "b", 0.5, 1.0, 11.0),
    PodSpan("second", "a", 11.25, 11.5, 16.0),
    PodSpan("second", "b", 11.5, 12.0, 16.0),
]


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


def test_the_end_of_pods_after_the_work_of_their_gang_is_no_work() -> None:
    spans = gang_spans([FIRST], [PodSpan("first", "a", 0.5, 0.75, 12.0), PodSpan("first", "b", 0.5, 1.0, 13.0)])
    assert end_delays(spans) == [2.0]
    assert working_cpus(spans, 10, 14) == pytest.approx(8 / 4)


def test_a_turnover_is_from_the_last_end_to_the_last_start() -> None:
    assert turnovers(gang_spans([FIRST, SECOND], PODS)) == [1.0]
    assert turnovers(gang_spans([FIRST], PODS)) == []


def test_a_pod_that_was_killed_does_not_complete_a_gang() -> None:
    killed = PodSpan("first", "b", 0.5, 1.0, 11.0, succeeded=False)
    assert gang_spans([FIRST], [PODS[0], killed]) == []
