"""Pending workloads: their order, which of them are active, and where the scan of flavors continues."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any, get_args
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quota_strategies import CPU, cpu_queue, pending_workload
from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS
from zonewise_scheduler.quota.api.queue_types import ClusterQueue
from zonewise_scheduler.quota.api.workload_types import Eviction, PodSet, Workload
from zonewise_scheduler.quota.cycle.entry import Decision, Head, RequeueReason
from zonewise_scheduler.quota.flavorassigner.assignment import NO_LAST_ASSIGNMENT, AssignmentClusterQueueState
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.quota.queue import rank_order
from zonewise_scheduler.quota.queue.headroom_bound import HeadroomBound
from zonewise_scheduler.quota.queue.pending_workloads import PendingWorkloads

STRICT_FIFO = ClusterQueue("q", queueing_strategy="StrictFIFO")
BEST_EFFORT_FIFO = ClusterQueue("q")
SCAN_AT_FIRST_FLAVOR = {"main": {"cpu": 0}}

WORKLOADS = [
    pending_workload(f"w{i}", 1, priority, float(created))
    for i, (priority, created) in enumerate([(0, 3), (2, 5), (0, 1), (2, 4), (0, 3)])
]


def pop_all(pending: PendingWorkloads) -> list[str]:
    """Return the names in the order in which the workloads become heads."""
    names: list[str] = []
    while (head := pending.pop({})) is not None:
        names.append(head.workload.name)
    return names


def make_pending(spec: ClusterQueue, *workloads: Workload) -> PendingWorkloads:
    pending = PendingWorkloads(spec)
    for workload in workloads:
        pending.push_or_update(workload)
    return pending


def pop_head(pending: PendingWorkloads) -> Head:
    head = pending.pop({})
    assert head is not None
    return head


def requeue(
    pending: PendingWorkloads,
    head: Head,
    reason: RequeueReason,
    state: AssignmentClusterQueueState = NO_LAST_ASSIGNMENT,
) -> None:
    pending.requeue(Decision(head, "waiting", head.workload, requeue_reason=reason, last_assignment=state))


@given(st.permutations(WORKLOADS))
def test_order_by_priority_then_age_then_uid(workloads: list[Workload]) -> None:
    assert pop_all(make_pending(BEST_EFFORT_FIFO, *workloads)) == ["w3", "w1", "w2", "w0", "w4"]


def test_an_update_replaces_the_workload() -> None:
    pending = make_pending(BEST_EFFORT_FIFO, *WORKLOADS)
    pending.push_or_update(replace(WORKLOADS[4], priority=9))
    pending.delete("ns/w3")
    assert len(pending) == 4
    assert pop_all(pending) == ["w4", "w1", "w2", "w0"]


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 2), st.integers(0, 3), st.integers(0, 2))))
def test_heads_are_ordered_by_the_newest_states(updates: list[tuple[str, int, int, int]]) -> None:
    """A workload may change its shape, priority and walltime any number of times."""
    pending, newest = PendingWorkloads(BEST_EFFORT_FIFO), dict[str, Workload]()
    for name, amount, priority, walltime in updates:
        newest[name] = replace(pending_workload(name, amount, priority), walltime=float(walltime))
        pending.push_or_update(newest[name])
    assert pop_all(pending) == sorted(newest, key=lambda name: (-newest[name].priority, name))


def test_a_workload_whose_pods_were_not_ready_is_pending_since_its_eviction() -> None:
    late = replace(WORKLOADS[2], eviction=Eviction("PodsReadyTimeout", 9.0))
    assert pop_all(make_pending(BEST_EFFORT_FIFO, late, WORKLOADS[0])) == ["w0", "w2"]
    pending = PendingWorkloads(BEST_EFFORT_FIFO, requeue_from_eviction=False)
    for workload in (late, WORKLOADS[0]):
        pending.push_or_update(workload)
    assert pop_all(pending) == ["w2", "w0"]


def test_strict_fifo_keeps_its_head() -> None:
    """The exception is a namespace that does not match, which no event can change."""
    pending = make_pending(STRICT_FIFO, *WORKLOADS)
    head = pop_head(pending)
    requeue(pending, head, "NoFit")
    assert pending.pop({}) == head
    requeue(pending, head, "NamespaceMismatch")
    assert list(pending.inadmissible) == ["ns/w3"]


def test_best_effort_fifo_skips_inadmissible_shapes() -> None:
    """All workloads of the shape are inadmissible, even later ones; other shapes are active."""
    different = pending_workload("different", 2, priority=-1)
    pending = make_pending(BEST_EFFORT_FIFO, *WORKLOADS, different)
    requeue(pending, pop_head(pending), "NoFit")
    assert set(pending.inadmissible) == {"ns/w3", "ns/w1"}
    pending.push_or_update(pending_workload("later", 1, priority=2))
    assert set(pending.inadmissible) == {"ns/w3", "ns/w1", "ns/later"}
    assert pop_all(pending) == ["w2", "w0", "w4", "different"]
    pending.queue_inadmissible_workloads()
    assert pop_all(pending) == ["later", "w3", "w1"]


@pytest.mark.parametrize("reason", ["FailedAfterNomination", "PendingPreemption"])
def test_best_effort_fifo_retries_a_skipped_head(reason: RequeueReason) -> None:
    pending = make_pending(BEST_EFFORT_FIFO, *WORKLOADS)
    head = pop_head(pending)
    requeue(pending, head, reason)
    assert pending.pop({}) == head


def test_a_preemptor_is_sticky() -> None:
    """It precedes a later workload of higher priority until it is deleted, but not in StrictFIFO."""
    for spec, first in ((BEST_EFFORT_FIFO, "w3"), (STRICT_FIFO, "urgent")):
        pending = make_pending(spec, *WORKLOADS)
        requeue(pending, pop_head(pending), "PendingPreemption")
        pending.push_or_update(pending_workload("urgent", 1, priority=99))
        assert pop_all(pending)[0] == first
    pending.push_or_update(pending_workload("urgent", 1, priority=99))
    pending.delete("ns/w3")
    assert pop_all(pending) == ["urgent"]


@pytest.mark.parametrize("other", ["ns/w1", "ns/w4"])
def test_a_preemptor_remains_sticky_when_another_is_deleted(other: str) -> None:
    pending = make_pending(BEST_EFFORT_FIFO, *WORKLOADS)
    requeue(pending, pop_head(pending), "PendingPreemption")
    pending.delete(other)
    pending.push_or_update(pending_workload("urgent", 1, priority=99))
    assert pop_all(pending)[0] == "w3"


def test_remaining_flavors_are_tried_at_once() -> None:
    """The scan continues where it ended."""
    pending = make_pending(BEST_EFFORT_FIFO, WORKLOADS[0])
    head = pop_head(pending)
    state = AssignmentClusterQueueState(SCAN_AT_FIRST_FLAVOR)
    requeue(pending, head, "NoCandidates", state)
    assert pending.pop({}) == head._replace(last_assignment=state)


def test_a_workload_whose_scan_continues_is_not_skipped() -> None:
    """The bound leaves no headroom, but the scan may still find a flavor by preemption."""
    spec = cpu_queue("q", 1)
    headroom = HeadroomBound(Snapshot([spec]), DEFAULT_SETTINGS)
    pending = make_pending(spec, pending_workload("new", 2))
    requeue(pending, pop_head(pending), "NoFit")
    pending.queue_inadmissible_workloads()
    assert pending.inadmissible_reason("ns/new", headroom) == "NoQuota"
    requeue(pending, pop_head(pending), "NoCandidates", AssignmentClusterQueueState(SCAN_AT_FIRST_FLAVOR))
    assert pending.inadmissible_reason("ns/new", headroom) == ""


def test_a_preemptor_that_is_a_head_has_no_position() -> None:
    pending = make_pending(BEST_EFFORT_FIFO, *(pending_workload(name, 1, 0, 1.0) for name in ("z", "a", "b")))
    requeue(pending, Head(pending_workload("z", 1, 0, 1.0), "q"), "PendingPreemption")
    assert [pending.position(f"ns/{name}", {}) for name in "zab"] == [1, 2, 3]
    assert pop_head(pending).workload.name == "z"
    assert [pending.position(f"ns/{name}", {}) for name in "ab"] == [1, 2]


@pytest.mark.parametrize(("now", "selects", "active"), [(4.9, True, False), (5.0, True, True), (6.0, True, True),
                                                        (6.0, False, False), (4.9, False, False)])  # fmt: skip
def test_a_workload_is_active_from_its_begin_time_on_if_its_namespace_is_selected(
    now: float, *, selects: bool, active: bool
) -> None:
    pending = PendingWorkloads(BEST_EFFORT_FIFO)
    pending.push_or_update(replace(pending_workload("w", 1), begin_at=5.0), 4.0)
    assert pending.inadmissible == ["ns/w"]
    pending.queue_inadmissible_workloads(None, lambda _namespace: selects, now)
    assert pending.active == (["ns/w"] if active else [])


def test_a_preemptor_without_candidates_becomes_inadmissible() -> None:
    """It then no longer blocks the rest of the queue."""
    pending = make_pending(BEST_EFFORT_FIFO, WORKLOADS[0], WORKLOADS[1])
    head = pop_head(pending)
    requeue(pending, head, "PendingPreemption")
    assert pending.pop({}) == head
    requeue(pending, head, "NoCandidates")
    assert pop_all(pending) == ["w0"]
    pending.queue_inadmissible_workloads()
    assert pop_all(pending) == ["w1"]


EVENTS = st.lists(
    st.tuples(st.sampled_from(["push", "pop", "delete", "activate"]), st.integers(0, 4), st.integers(0, 3))
)


@given(EVENTS, st.sampled_from(["NoFit", "FailedAfterNomination", "", "PendingPreemption"]))
def test_every_workload_is_pending_once(events: list[tuple[str, int, int]], reason: RequeueReason) -> None:
    """Each is either active or inadmissible, after any events. In the end all are active."""
    pending, keys = PendingWorkloads(BEST_EFFORT_FIFO), set[str]()
    for event, index, priority in events:
        workload = replace(WORKLOADS[index], priority=priority)
        if event == "push":
            pending.push_or_update(workload)
            keys.add(workload.key)
        elif event == "delete":
            pending.delete(workload.key)
            keys.discard(workload.key)
        elif event == "activate":
            pending.queue_inadmissible_workloads()
        elif (head := pending.pop({})) is not None:
            requeue(pending, head, reason)
        assert sorted([*pending.active, *pending.inadmissible]) == sorted(keys)
        assert len(pending) == len(keys)
    pending.queue_inadmissible_workloads()
    assert sorted(pop_all(pending)) == sorted(key.partition("/")[2] for key in keys)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["push", "push", "pop", "pop", "delete", "activate", "copy"]),
        st.integers(0, 9),
        st.sampled_from([1.0, 2.0, 3.0]),
        st.sampled_from(["NoFit", "Reserved", "FailedAfterNomination", "", "PendingPreemption"]),
    ),
    max_size=40,
)


def step_queue(pending: PendingWorkloads, event: str, index: int, walltime: float, reason: RequeueReason) -> None:
    workload = pending_workload(f"w{index}", index % 3, index % 2, float(index))
    workload = replace(workload, walltime=walltime, queue_name="abc"[index % 3])
    if event == "push":
        pending.push_or_update(workload)
    elif event == "delete":
        pending.delete(workload.key)
    elif event == "activate":
        pending.queue_inadmissible_workloads()
    elif (head := pending.pop({})) is not None:
        requeue(pending, head, reason)


@given(STEPS, st.data())
def test_a_queue_and_its_copies_change_independently(
    steps: list[tuple[str, int, float, RequeueReason]], data: st.DataObject
) -> None:
    """Each always equals a twin that has never shared anything with another queue."""
    queues = [(PendingWorkloads(BEST_EFFORT_FIFO), PendingWorkloads(BEST_EFFORT_FIFO))]
    for event, index, walltime, reason in steps:
        pending, twin = data.draw(st.sampled_from(queues))
        if event == "copy":
            queues.append((pending.copy(), deepcopy(twin)))
        else:
            step_queue(pending, event, index, walltime, reason)
            step_queue(twin, event, index, walltime, reason)
        for each, expected in queues:
            assert (each.active, each.inadmissible) == (expected.active, expected.inadmissible)
            assert (each.head_key({}), list(each.sorted_keys({}))) == (
                expected.head_key({}),
                list(expected.sorted_keys({})),
            )
    for each, expected in queues:
        each.queue_inadmissible_workloads()
        expected.queue_inadmissible_workloads()
        assert pop_all(each) == pop_all(expected)


@pytest.mark.parametrize("limit", [1, 1000])
@pytest.mark.parametrize("by_usage", [False, True])
@given(steps=STEPS)
def test_positions_are_those_of_a_queue_that_is_sorted_anew(
    steps: list[tuple[str, int, float, RequeueReason]], limit: int, *, by_usage: bool
) -> None:
    """A copy is sorted anew. `limit`: the number of changes after which the queue is, too."""
    usage = {"ns/a": 2.0}
    pending = PendingWorkloads(BEST_EFFORT_FIFO._replace(usage_based_admission=by_usage))
    with patch.object(rank_order, "MAX_CHANGES", limit):
        for event, index, walltime, reason in steps:
            step_queue(pending, event, index, walltime, reason)
            keys = list(pending.copy().sorted_keys(usage))
            assert list(pending.sorted_keys(usage)) == keys
            assert [pending.position(key, usage) for key in keys] == [*range(1, len(keys) + 1)]
            assert sorted(keys) == sorted(workload.key for workload in pending.workloads())


@pytest.mark.parametrize(
    ("cycle", "changed", "goes_on"), [(1, True, True), (2, True, True), (3, False, True), (3, True, False)]
)
def test_an_older_scan_starts_again_once_the_cluster_has_changed(cycle: int, changed: bool, goes_on: bool) -> None:
    pending = make_pending(BEST_EFFORT_FIFO, WORKLOADS[0])
    head = pending.pop({}, 1)
    assert head is not None
    state = AssignmentClusterQueueState(SCAN_AT_FIRST_FLAVOR, 1)
    requeue(pending, head, "NoCandidates", state)
    if changed:
        pending.queue_inadmissible_workloads()
    assert pending.pop({}, cycle) == head._replace(last_assignment=state if goes_on else NO_LAST_ASSIGNMENT)


@pytest.mark.parametrize(("cycle", "goes_on"), [(1, True), (2, False)])
def test_a_scan_of_no_cycle_is_older_than_that_of_the_first(cycle: int, *, goes_on: bool) -> None:
    pending = make_pending(BEST_EFFORT_FIFO, WORKLOADS[0])
    head, state = pop_head(pending), AssignmentClusterQueueState(SCAN_AT_FIRST_FLAVOR)
    requeue(pending, head, "NoCandidates", state)
    pending.queue_inadmissible_workloads()
    assert pending.pop({}, cycle) == head._replace(last_assignment=state if goes_on else NO_LAST_ASSIGNMENT)


def test_the_local_queue_with_the_least_usage_is_first() -> None:
    """Usage precedes priority; an unknown LocalQueue has no usage."""
    spec = BEST_EFFORT_FIFO._replace(usage_based_admission=True)
    workloads = [replace(workload, queue_name=name) for workload, name in zip(WORKLOADS, "abcab", strict=True)]
    pending = make_pending(spec, *workloads)
    usage = {"ns/a": 2.0, "ns/b": 1.0}
    names = [head.workload.name for _ in workloads if (head := pending.pop(usage)) is not None]
    assert names == ["w2", "w1", "w4", "w3", "w0"]


def test_sorted_keys_have_the_preemptor_first_and_then_local_queues_by_usage() -> None:
    """The keys include inadmissible workloads; a LocalQueue of unknown usage has none."""
    for by_usage, order in ((True, ["w1", "w4", "w2", "w3", "w0"]), (False, ["w3", "w1", "w2", "w0", "w4"])):
        spec = BEST_EFFORT_FIFO._replace(usage_based_admission=by_usage)
        workloads = [replace(workload, queue_name=name) for workload, name in zip(WORKLOADS, "abcab", strict=True)]
        pending = make_pending(spec, *workloads)
        usage = {"ns/a": 2.0, "ns/b": 0.5, "ns/c": 0.75}
        assert list(pending.sorted_keys(usage)) == [f"ns/{name}" for name in order]
        requeue(pending, pop_head(pending), "")
        assert list(pending.sorted_keys(usage)) == [f"ns/{name}" for name in order]
        head = pending.pop(usage, key="ns/w4")
        assert head is not None
        requeue(pending, head, "PendingPreemption")
        expected = ["w4", *(name for name in order if name != "w4")]
        assert list(pending.sorted_keys(usage)) == [f"ns/{name}" for name in expected]
        pending.delete("ns/w0")
        assert next(pending.sorted_keys(usage)) == "ns/w4"
        pending.delete("".join("ns/w4"))
        expected = [name for name in order if name not in {"w0", "w4"}]
        assert list(pending.sorted_keys(usage)) == [f"ns/{name}" for name in expected]


def test_a_local_queue_of_unknown_usage_precedes_one_with_usage() -> None:
    spec = BEST_EFFORT_FIFO._replace(usage_based_admission=True)
    used, new = (replace(WORKLOADS[i], queue_name=name) for i, name in enumerate(("used", "new")))
    assert next(make_pending(spec, used, new).sorted_keys({"ns/used": 0.5})) == new.key


WALLTIMES = [replace(pending_workload(f"w{i}", 2), walltime=float(walltime)) for i, walltime in enumerate((3, 5, 4, 5))]


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize(
    ("reason", "inadmissible"), [("NoQuota", "w0 w1 w2 w3"), ("NoFit", "w0 w1 w2 w3"), ("Reserved", "w1 w3")]
)
def test_reservations_hold_back_only_longer_workloads(reason: Any, inadmissible: str, *, marked: bool) -> None:
    """Within a shape, workloads with at least this walltime are held back, even those pushed later."""
    pending = make_pending(BEST_EFFORT_FIFO, *WALLTIMES[:3])
    if marked:
        pending.mark_inadmissible("ns/w1", reason)
    else:
        head = pending.pop({}, key="ns/w1")
        assert head is not None
        requeue(pending, head, "NoFit" if reason == "NoQuota" else reason)
    pending.push_or_update(WALLTIMES[3])
    assert sorted(pending.inadmissible) == [f"ns/{name}" for name in inadmissible.split()]


def test_a_new_shape_starts_its_scan_of_flavors_again() -> None:
    """An equal shape does not, even if it is another object."""
    state = AssignmentClusterQueueState(SCAN_AT_FIRST_FLAVOR)
    for amount, expected in ((1, state), (2, NO_LAST_ASSIGNMENT)):
        pending = make_pending(BEST_EFFORT_FIFO, pending_workload("w", 1))
        requeue(pending, pop_head(pending), "NoCandidates", state)
        pending.push_or_update(pending_workload("w", amount))
        assert pop_head(pending).last_assignment == expected


@pytest.mark.parametrize("reason", get_args(RequeueReason))
def test_the_reason_decides_the_state_of_a_head(reason: RequeueReason) -> None:
    """The strategy matters: only a BestEffortFIFO preemptor precedes a later workload of higher priority."""
    retried = {"FailedAfterNomination", "PendingPreemption"}
    for spec, active in ((STRICT_FIFO, reason != "NamespaceMismatch"), (BEST_EFFORT_FIFO, reason in retried)):
        pending = make_pending(spec, pending_workload("w", 1))
        requeue(pending, pop_head(pending), reason)
        assert (pending.active, pending.inadmissible) == ((["ns/w"], []) if active else ([], ["ns/w"]))
        pending.queue_inadmissible_workloads()
        pending.push_or_update(pending_workload("urgent", 2, priority=9))
        is_sticky = spec is BEST_EFFORT_FIFO and reason == "PendingPreemption"
        assert pop_all(pending) == (["w", "urgent"] if is_sticky else ["urgent", "w"])


def test_a_preemptor_that_is_submitted_again_is_not_sticky() -> None:
    pending = make_pending(BEST_EFFORT_FIFO, pending_workload("w", 1))
    requeue(pending, pop_head(pending), "PendingPreemption")
    pending.delete("/".join(("ns", "w")))
    for workload in (pending_workload("w", 1), pending_workload("urgent", 2, priority=9)):
        pending.push_or_update(workload)
    assert pop_all(pending) == ["urgent", "w"]


def test_a_local_queue_of_unknown_usage_equals_one_without_usage() -> None:
    """Priority decides between them."""
    spec = BEST_EFFORT_FIFO._replace(usage_based_admission=True)
    for known, unknown, first in ((1, 0, "known"), (0, 1, "unknown")):
        workloads = [
            replace(pending_workload(name, 1, priority), queue_name=name)
            for name, priority in (("known", known), ("unknown", unknown))
        ]
        pending = make_pending(spec, *workloads)
        usage = {"ns/known": 0.0}
        assert (next(pending.sorted_keys(usage)), pending.head_key(usage)) == (f"ns/{first}", f"ns/{first}")


def test_a_workload_that_is_submitted_again_keeps_its_position() -> None:
    """Workloads of the same shape are in the order of their time, and none is lost."""
    workloads = [pending_workload(f"w{i}", 1, created=float(i)) for i in range(3)]
    pending = make_pending(BEST_EFFORT_FIFO, *workloads)
    pending.delete("ns/w1")
    pending.push_or_update(replace(workloads[1]))
    assert pop_all(pending) == ["w0", "w1", "w2"]


def test_workloads_that_become_active_again_are_in_order() -> None:
    """The workloads have several shapes, and some share a walltime."""
    workloads = [pending_workload(f"w{i}", 1 + i // 2, i // 2, float(i)) for i in range(8)]
    for reason in ("NoFit", "Reserved"):
        pending = make_pending(BEST_EFFORT_FIFO, *workloads)
        while (head := pending.pop({})) is not None:
            requeue(pending, head, reason)
        assert not pending.active
        pending.queue_inadmissible_workloads()
        assert pop_all(pending) == ["w6", "w7", "w4", "w5", "w2", "w3", "w0", "w1"]


@pytest.mark.parametrize("change", [{"pod_sets": (PodSet(requests={CPU.resource: 9}),)}, {"walltime": 9.0}])
def test_a_workload_that_left_its_group_does_not_hide_later_ones_of_the_group(change: dict[str, Any]) -> None:
    """It keeps its rank but has another shape or walltime. In its old group, that rank no longer counts."""
    first, second, later = (pending_workload(name, 1, created=at) for at, name in enumerate(("w1", "w2", "w3")))
    pending = make_pending(BEST_EFFORT_FIFO, first, second, replace(second, **change))
    assert pop_all(pending) == ["w1", "w2"]
    pending.push_or_update(later)
    assert pending.head_key({}) == "ns/w3"
