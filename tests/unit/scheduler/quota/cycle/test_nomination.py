"""The search for fewer pods."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quota_strategies import CPU, cpu_queue, pending_workload, running_workload
from zonewise_scheduler.quota.api.configuration import QuotaSettings
from zonewise_scheduler.quota.api.queue_types import ClusterQueuePreemption
from zonewise_scheduler.quota.api.workload_types import PodSet, Workload
from zonewise_scheduler.quota.cycle.entry import Head
from zonewise_scheduler.quota.cycle.nomination import (
    assign_without_preemption,
    flavor_assigner,
    nominate,
    search_pod_counts,
)
from zonewise_scheduler.quota.flavorassigner.granular_mode import FlavorAssignmentMode
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=4), st.integers(0, 40))
def test_as_many_pods_as_fit(bounds: list[tuple[int, int]], capacity: int) -> None:
    """Within the bounds of each pod set; one more step towards all pods would not fit."""
    pod_sets = [PodSet(f"{i}", minimum + more, min_pods=minimum) for i, (minimum, more) in enumerate(bounds)]
    counts = search_pod_counts(pod_sets, lambda counts: counts if sum(counts) <= capacity else None)
    min_total, max_total = sum(minimum for minimum, _ in bounds), sum(pod_set.pods for pod_set in pod_sets)
    if max_total == min_total:
        assert counts is None
    elif counts is None:
        assert min_total > capacity
    else:
        assert all(
            pod_set.min_pods <= count <= pod_set.pods
            for pod_set, count in zip(pod_sets, counts, strict=True)
            if pod_set.min_pods is not None
        )
        assert sum(counts) <= capacity
        assert sum(counts) == max_total or sum(counts) + len(bounds) > capacity


def test_pod_counts_are_whole_numbers_at_the_same_fraction_of_the_way() -> None:
    """Of two pod sets, with 4 and 2 pods that may be left out; counts are rounded up."""
    pod_sets = [PodSet("a", 5, min_pods=1), PodSet("b", 3, min_pods=1), PodSet("fixed", 7)]
    tried: list[tuple[int, ...]] = []

    def record(counts: tuple[int, ...]) -> bool | None:
        tried.append(counts)
        return None

    assert search_pod_counts(pod_sets, record) is None
    assert tried == [(3, 2, 7), (2, 2, 7), (1, 1, 7)]
    assert search_pod_counts(pod_sets, lambda counts: counts) == (5, 3, 7)


CAN_SHRINK = Workload("ns", "new", (PodSet("main", 4, min_pods=2, requests={"cpu": 1}),))


@pytest.mark.parametrize(
    ("in_use", "partial", "pods"),
    [(0, True, 4), (0, False, 4), (1, True, 3), (1, False, None), (2, True, 2), (3, True, None)],
)
def test_fewer_pods_start_without_preemption_where_all_do_not_fit(
    in_use: int, pods: int | None, *, partial: bool
) -> None:
    """Whatever the queue may preempt; a workload with quota keeps its pods."""
    snapshot = Snapshot([cpu_queue("q", 4, ClusterQueuePreemption("LowerPriority"))])
    if in_use:
        snapshot.add_workload(running_workload("runs", "q", CPU, in_use, -1))
    assignment = assign_without_preemption(snapshot, Head(CAN_SHRINK, "q"), QuotaSettings(partial_admission=partial))
    assert (None if assignment is None else assignment.pod_sets[0].pods) == pods
    admitted = replace(CAN_SHRINK, admission=running_workload("w", "q", CPU, 1).admission)
    kept = assign_without_preemption(snapshot, Head(admitted, "q"), QuotaSettings(partial_admission=partial))
    assert kept is not None
    assert kept.pod_sets[0].pods == 1


@pytest.mark.parametrize(
    ("priority", "partial", "mode", "pods", "targets"),
    [
        (1, True, FlavorAssignmentMode.PREEMPT, 4, {"runs"}),
        (0, True, FlavorAssignmentMode.FIT, 3, set[str]()),
        (0, False, FlavorAssignmentMode.PREEMPT, 4, set[str]()),
    ],
)
def test_all_pods_by_preemption_come_before_fewer_pods(
    priority: int, mode: FlavorAssignmentMode, pods: int, targets: set[str], *, partial: bool
) -> None:
    snapshot = Snapshot([cpu_queue("q", 4, ClusterQueuePreemption("LowerPriority"))])
    snapshot.add_workload(running_workload("runs", "q", CPU, 1))
    head = Head(replace(CAN_SHRINK, priority=priority), "q")
    assignment, victims = nominate(flavor_assigner(snapshot, head, QuotaSettings(partial_admission=partial)))
    assert (assignment.representative_mode, assignment.pod_sets[0].pods) == (mode, pods)
    assert {victim.workload.name for victim in victims} == targets


def test_a_workload_that_is_too_large_keeps_the_reason_for_all_its_pods() -> None:
    snapshot = Snapshot([cpu_queue("q", 4)])
    assignment, victims = nominate(flavor_assigner(snapshot, Head(pending_workload("new", 5), "q"), QuotaSettings()))
    assert (assignment.no_fit_reason, victims) == ("ExceedsMaxQuota", ())
