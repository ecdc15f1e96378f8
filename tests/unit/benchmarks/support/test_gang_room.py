"""The time from room in the zones of nodes until a gang runs."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.support.gang_room import seconds_from_room
from benchmarks.support.gang_spans import PodSpan, gang_spans
from benchmarks.support.live_jobs import GangJob
from support.ledger_kubelets import SINGLE, node_kind, pod_shape
from zonewise_scheduler.admission.node import Policies

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.admission.pod import PodShape

FIRST = GangJob("first", 0.0, 2, 4, 10.0, 60)
SECOND = GangJob("second", 1.0, 2, 4, 5.0, 60)
NARROW = GangJob("narrow", 2.0, 1, 2, 5.0, 60)
PODS = [
    PodSpan("first", "a", 0.5, 0.75, 10.0),
    PodSpan("first", "b", 0.5, 1.0, 11.0),
    PodSpan("second", "a", 11.25, 11.5, 16.0),
    PodSpan("second", "b", 11.5, 12.0, 16.0),
]
WHOLE = dict.fromkeys("ab", node_kind(Policies(cpu="static"), zones=1, cpus=4, gpus=0))
"""Two nodes of one zone with 4 CPUs."""
ZONES = {"a": node_kind(SINGLE, zones=2, cpus=7, gpus=1)}
"""A node of two zones, each with 7 CPUs and a GPU."""


def shape(job: GangJob) -> PodShape:
    return pod_shape((job.cpus, 0))


def zone_seconds(jobs: Sequence[GangJob], pods: Sequence[PodSpan]) -> tuple[dict[str, float], float]:
    """Return the seconds of each gang on the node with two zones."""
    seconds, room = seconds_from_room(jobs, pods, ZONES, shape)
    return {span.job.name: each for span, each in zip(gang_spans(jobs, pods), seconds, strict=True)}, room


def test_a_gang_has_room_once_all_of_its_pods_fit() -> None:
    """The first gang has room from its submission on, the second one from the end of the first one's last pod on."""
    seconds, room = seconds_from_room([FIRST, SECOND], PODS, WHOLE, shape)
    assert seconds == [1.0, 1.0]
    assert room == pytest.approx(0.5 + 0.25)


def test_room_that_another_gang_takes_does_not_count() -> None:
    pods = [*PODS, PodSpan("narrow", "a", 16.5, 16.75, 20.0)]
    jobs = [FIRST, NARROW, SECOND]
    seconds, _ = seconds_from_room(jobs, pods, WHOLE, shape)
    by_job = {span.job.name: each for span, each in zip(gang_spans(jobs, pods), seconds, strict=True)}
    assert by_job["narrow"] == pytest.approx(0.75), "from 16.0 on, not from 10.0 to 11.25"


def test_free_cpus_of_different_zones_are_no_room() -> None:
    """After two pods of 4 CPUs, 3 CPUs of each zone are free: room for 3 + 3 CPUs, but not for 4 + 2."""
    holder = GangJob("holder", 0.0, 2, 4, 10.0, 60)
    held = [PodSpan("holder", "a", 0.0, 0.0, 20.0), PodSpan("holder", "a", 0.0, 0.0, 30.0)]
    three, four = GangJob("three", 5.0, 2, 3, 1.0, 60), GangJob("four", 5.0, 1, 4, 1.0, 60)
    seconds, _ = zone_seconds([holder, three], [*held, *[PodSpan("three", "a", 9.0, 9.5, 12.0)] * 2])
    assert seconds["three"] == pytest.approx(4.5)
    seconds, _ = zone_seconds([holder, four], [*held, PodSpan("four", "a", 21.0, 21.5, 30.0)])
    assert seconds["four"] == pytest.approx(1.5)


def test_a_zone_needs_the_devices_of_a_pod_too() -> None:
    holder, next_gang = GangJob("holder", 0.0, 2, 1, 10.0, 60), GangJob("next", 1.0, 1, 1, 5.0, 60)
    pods = [PodSpan("holder", "a", 0.0, 0.0, 20.0)] * 2 + [PodSpan("next", "a", 21.0, 21.0, 30.0)]
    seconds, _ = seconds_from_room([holder, next_gang], pods, ZONES, lambda job: pod_shape((job.cpus, 1)))
    assert seconds == pytest.approx([0.0, 1.0])


def test_a_gang_in_part_on_nodes_has_room_once_its_missing_pods_fit() -> None:
    """A rejected pod has no span; its replacement starts late, although its zone has been free since 10.0."""
    holder, gang = GangJob("holder", 0.0, 1, 7, 10.0, 60), GangJob("gang", 1.0, 2, 7, 5.0, 60)
    pods = [
        PodSpan("holder", "a", 0.0, 0.0, 10.0),
        PodSpan("gang", "a", 2.0, 2.5, 30.0),
        PodSpan("gang", "a", 22.0, 22.5, 30.0),
    ]
    seconds, room = zone_seconds([holder, gang], pods)
    assert seconds["gang"] == pytest.approx(12.5)
    assert room == 0.0, "no gang without pods on nodes has had room"


def test_pods_of_gangs_that_never_succeed_hold_zones() -> None:
    stuck, gang = GangJob("stuck", 0.0, 2, 7, 10.0, 60), GangJob("gang", 1.0, 2, 5, 5.0, 60)
    pods = [
        PodSpan("stuck", "a", 0.5, inf, 8.0, succeeded=False),
        *[PodSpan("gang", "a", 9.0, 9.0, 30.0)] * 2,
        PodSpan("stuck", "a", 30.5, inf, inf, succeeded=False),
    ]
    assert zone_seconds([stuck, gang], pods) == ({"gang": 1.0}, 1.0)


def test_a_pod_seen_before_the_end_of_its_predecessor_gets_its_zone() -> None:
    """The watch may show a pod on its node before the end of the pod whose zone it got."""
    holder, gang = GangJob("holder", 0.0, 2, 7, 10.0, 60), GangJob("gang", 1.0, 1, 7, 5.0, 60)
    last = GangJob("last", 12.0, 1, 7, 5.0, 60)
    pods = [
        *[PodSpan("holder", "a", 0.0, 0.0, 10.0)] * 2,
        PodSpan("gang", "a", 9.5, 11.0, 20.0),
        PodSpan("last", "a", 12.5, 13.0, 20.0),
    ]
    seconds, _ = zone_seconds([holder, gang, last], pods)
    assert seconds == {"holder": 0.0, "gang": pytest.approx(1.5), "last": pytest.approx(1.0)}


@given(st.lists(st.tuples(st.integers(1, 7), st.integers(0, 20), st.integers(0, 5)), min_size=1, max_size=8))
def test_time_from_room_is_never_longer_than_the_wait(gangs: list[tuple[int, int, int]]) -> None:
    """Pods run one after another, so each has room at the latest when the one before it ends."""
    jobs, pods, ended = list[GangJob](), list[PodSpan](), 0.0
    for i, (cpus, submitted, delay) in enumerate(gangs):
        jobs.append(GangJob(f"gang-{i}", float(submitted), 1, cpus, 1.0, 60))
        bound = max(float(submitted), ended) + delay
        ended = bound + 2.0
        pods.append(PodSpan(f"gang-{i}", "a", bound, bound + 1.0, ended))
    seconds, _ = seconds_from_room(jobs, pods, ZONES, shape)
    for job, pod, (_, _, delay), each in zip(jobs, pods, gangs, seconds, strict=True):
        assert 1.0 <= each <= pod.running - job.submitted
        assert each >= delay + 1.0
