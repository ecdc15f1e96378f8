"""The order in which workloads wait, when they are set aside, and what LocalQueues count for."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quota_strategies import waiting
from zonewise_scheduler.quota.api.configuration import AdmissionFairSharingConfig
from zonewise_scheduler.quota.api.queue_types import ClusterQueue
from zonewise_scheduler.quota.api.workload_types import Eviction
from zonewise_scheduler.quota.cycle.entry import Decision, Head
from zonewise_scheduler.quota.flavorassigner.assignment import NO_LAST_ASSIGNMENT, AssignmentClusterQueueState
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.quota.queue.heads import matches_namespace, pop_heads
from zonewise_scheduler.quota.queue.pending_workloads import PendingWorkloads
from zonewise_scheduler.quota.queue.usage_ledger import (
    UsageLedgerEntry,
    calculate_decayed_consumed,
    calculate_usage,
    push_penalty,
)

if TYPE_CHECKING:
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.cycle.entry import RequeueReason

STRICT = ClusterQueue("q", queueing_strategy="StrictFIFO")
GREEDY = ClusterQueue("q")


def drained(queue: PendingWorkloads) -> list[str]:
    """The names in the order of their turns."""
    found: list[str] = []
    while (head := queue.pop({})) is not None:
        found.append(head.workload.name)
    return found


def pending(spec: ClusterQueue, *workloads: Workload) -> PendingWorkloads:
    queue = PendingWorkloads(spec)
    for one in workloads:
        queue.push_or_update(one)
    return queue


def put_back(
    queue: PendingWorkloads,
    head: Head,
    again: RequeueReason,
    progress: AssignmentClusterQueueState = NO_LAST_ASSIGNMENT,
) -> None:
    queue.requeue(Decision(head, "waiting", head.workload, requeue_reason=again, last_assignment=progress))


WORKLOADS = [
    waiting(f"w{place}", 1, priority, float(created))
    for place, (priority, created) in enumerate([(0, 3), (2, 5), (0, 1), (2, 4), (0, 3)])
]


@given(st.permutations(WORKLOADS))
def test_by_priority_then_by_age_then_by_uid(workloads: list[Workload]) -> None:
    assert drained(pending(GREEDY, *workloads)) == ["w3", "w1", "w2", "w0", "w4"]


def test_a_new_state_takes_the_place_of_the_old() -> None:
    queue = pending(GREEDY, *WORKLOADS)
    queue.push_or_update(replace(WORKLOADS[4], priority=9))
    queue.delete("ns/w3")
    assert len(queue) == 4
    assert drained(queue) == ["w4", "w1", "w2", "w0"]


def test_evicted_for_pods_that_were_not_ready_waits_from_then_on() -> None:
    late = replace(WORKLOADS[2], eviction=Eviction("PodsReadyTimeout", 9.0))
    assert drained(pending(GREEDY, late, WORKLOADS[0])) == ["w0", "w2"]
    queue = PendingWorkloads(GREEDY, requeue_from_eviction=False)
    for one in (late, WORKLOADS[0]):
        queue.push_or_update(one)
    assert drained(queue) == ["w2", "w0"]


def test_strict_fifo_keeps_its_head() -> None:
    """Unless its namespace is wrong, which no wait can help."""
    queue = pending(STRICT, *WORKLOADS)
    head = queue.pop({})
    assert head is not None
    put_back(queue, head, "NoFit")
    assert queue.pop({}) == head
    put_back(queue, head, "NamespaceMismatch")
    assert list(queue.inadmissible) == ["ns/w3"]


def test_best_effort_sets_aside_and_wakes() -> None:
    """With all of the same shape, those that come later too; others have their turn."""
    other = waiting("other", 2, priority=-1)
    queue = pending(GREEDY, *WORKLOADS, other)
    head = queue.pop({})
    assert head is not None
    put_back(queue, head, "NoFit")
    assert set(queue.inadmissible) == {"ns/w3", "ns/w1"}
    queue.push_or_update(waiting("later", 1, priority=2))
    assert set(queue.inadmissible) == {"ns/w3", "ns/w1", "ns/later"}
    assert drained(queue) == ["w2", "w0", "w4", "other"]
    queue.queue_inadmissible_workloads()
    assert drained(queue) == ["later", "w3", "w1"]


@pytest.mark.parametrize("again", ["FailedAfterNomination", "PendingPreemption"])
def test_best_effort_tries_again_what_was_only_skipped(again: RequeueReason) -> None:
    queue = pending(GREEDY, *WORKLOADS)
    head = queue.pop({})
    assert head is not None
    put_back(queue, head, again)
    assert queue.pop({}) == head


def test_who_waits_for_victims_is_first() -> None:
    """Also before one with a higher priority that comes later, until it is gone; in StrictFIFO it is not."""
    for spec, first in ((GREEDY, "w3"), (STRICT, "urgent")):
        queue = pending(spec, *WORKLOADS)
        head = queue.pop({})
        assert head is not None
        put_back(queue, head, "PendingPreemption")
        queue.push_or_update(waiting("urgent", 1, priority=99))
        assert drained(queue)[0] == first
    queue.push_or_update(waiting("urgent", 1, priority=99))
    queue.delete("ns/w3")
    assert drained(queue) == ["urgent"]


def test_flavors_left_to_try_are_tried_at_once() -> None:
    """And the scan goes on where it was."""
    queue = pending(GREEDY, WORKLOADS[0])
    head = queue.pop({})
    assert head is not None
    progress = AssignmentClusterQueueState({"main": {"cpu": 0}})
    put_back(queue, head, "NoCandidates", progress)
    assert queue.pop({}) == head._replace(last_assignment=progress)


def test_who_waits_for_victims_in_vain_is_set_aside() -> None:
    """Once nobody may be made to give way to it any more, it does not keep the others from their turn."""
    queue = pending(GREEDY, WORKLOADS[0], WORKLOADS[1])
    head = queue.pop({})
    assert head is not None
    put_back(queue, head, "PendingPreemption")
    assert queue.pop({}) == head
    put_back(queue, head, "NoCandidates")
    assert drained(queue) == ["w0"]
    queue.queue_inadmissible_workloads()
    assert drained(queue) == ["w1"]


STEPS = st.lists(st.tuples(st.sampled_from(["push", "pop", "remove", "wake"]), st.integers(0, 4), st.integers(0, 3)))


@given(STEPS, st.sampled_from(["NoFit", "FailedAfterNomination", "", "PendingPreemption"]))
def test_nobody_is_lost_or_doubled(steps: list[tuple[str, int, int]], again: RequeueReason) -> None:
    """Whatever comes, each workload is here once: waiting or set aside; and once woken, its turn comes."""
    queue, here = PendingWorkloads(GREEDY), set[str]()
    for step, place, priority in steps:
        one = replace(WORKLOADS[place], priority=priority)
        if step == "push":
            queue.push_or_update(one)
            here.add(one.key)
        elif step == "remove":
            queue.delete(one.key)
            here.discard(one.key)
        elif step == "wake":
            queue.queue_inadmissible_workloads()
        elif (head := queue.pop({})) is not None:
            put_back(queue, head, again)
        assert sorted([*queue.active, *queue.inadmissible]) == sorted(here)
        assert len(queue) == len(here)
    queue.queue_inadmissible_workloads()
    assert sorted(drained(queue)) == sorted(key.partition("/")[2] for key in here)


@pytest.mark.parametrize(("cycle", "news", "kept"), [(2, True, True), (3, False, True), (3, True, False)])
def test_old_progress_is_forgotten_once_something_changes(cycle: int, news: bool, kept: bool) -> None:
    queue = pending(GREEDY, WORKLOADS[0])
    head = queue.pop({}, 1)
    assert head is not None
    progress = AssignmentClusterQueueState({"main": {"cpu": 0}}, 1)
    put_back(queue, head, "NoCandidates", progress)
    if news:
        queue.queue_inadmissible_workloads()
    assert queue.pop({}, cycle) == head._replace(last_assignment=progress if kept else NO_LAST_ASSIGNMENT)


def test_least_usage_first() -> None:
    """By the LocalQueue's usage before priority; one that is not known has used nothing."""
    spec = GREEDY._replace(usage_based_admission=True)
    workloads = [replace(one, queue_name=name) for one, name in zip(WORKLOADS, "abcab", strict=True)]
    queue = pending(spec, *workloads)
    usages = {"ns/a": 2.0, "ns/b": 1.0}
    names = [head.workload.name for _ in workloads if (head := queue.pop(usages)) is not None]
    assert names == ["w2", "w1", "w4", "w3", "w0"]


def test_heads_are_of_queues_that_admit() -> None:
    """One of each; of the wrong namespace it is told."""
    specs = [
        GREEDY,
        GREEDY._replace(name="held", stop_policy="Hold"),
        GREEDY._replace(name="nobody", namespace_selector=None),
    ]
    queues = [pending(one, *WORKLOADS) for one in [*specs, GREEDY._replace(name="unknown")]]
    heads = pop_heads(queues, Snapshot(specs), {})
    assert [(head.cluster_queue, head.workload.name, head.inadmissible_reason) for head in heads] == [
        ("q", "w3", ""),
        ("nobody", "w3", "namespace"),
    ]
    assert matches_namespace(GREEDY, None)


# --- what LocalQueues count for

DECAY = AdmissionFairSharingConfig(
    usage_half_life_time=10.0, usage_sampling_interval=5.0, resource_weights={"gpu": 10.0}
)


def test_half_is_forgotten_each_half_life() -> None:
    used = UsageLedgerEntry({"cpu": 8.0}, 0.0, {})
    assert calculate_decayed_consumed(used, {}, 10.0, DECAY).consumed == {"cpu": 4.0}
    assert calculate_decayed_consumed(used, {"cpu": 2.0}, 10.0, DECAY).consumed == {"cpu": 5.0}
    assert calculate_decayed_consumed(used, {"cpu": 2.0}, 10.0, AdmissionFairSharingConfig()).consumed == {"cpu": 8.0}


@given(st.floats(0.1, 50.0), st.floats(0.1, 50.0), st.floats(0.0, 9.0))
def test_two_samples_are_as_one(first: float, second: float, running: float) -> None:
    """While what runs stays the same, it does not matter how often it is sampled."""
    used = UsageLedgerEntry({"cpu": 3.0}, 0.0, {})
    once = calculate_decayed_consumed(used, {"cpu": running}, first + second, DECAY)
    twice = calculate_decayed_consumed(
        calculate_decayed_consumed(used, {"cpu": running}, first, DECAY), {"cpu": running}, first + second, DECAY
    )
    assert once.consumed["cpu"] == pytest.approx(twice.consumed["cpu"])


def test_admitted_counts_at_once_for_what_the_next_sample_adds() -> None:
    entered = push_penalty(UsageLedgerEntry({}, 0.0, {}), {"cpu": 8.0}, DECAY)
    sampled = calculate_decayed_consumed(
        UsageLedgerEntry({}, 0.0, {}), {"cpu": 8.0}, DECAY.usage_sampling_interval, DECAY
    )
    assert calculate_usage(entered, 1.0, DECAY) == pytest.approx(calculate_usage(sampled, 1.0, DECAY))
    assert calculate_usage(
        calculate_decayed_consumed(entered, {"cpu": 8.0}, DECAY.usage_sampling_interval, DECAY), 1.0, DECAY
    ) == calculate_usage(sampled, 1.0, DECAY)


def test_weights() -> None:
    """Of resources and of queues; a queue of weight 0 comes last."""
    used = UsageLedgerEntry({"cpu": 4.0, "gpu": 1.0}, 0.0, {})
    assert calculate_usage(used, 2.0, DECAY) == 7.0
    assert calculate_usage(used, 0.0, DECAY) == math.inf
