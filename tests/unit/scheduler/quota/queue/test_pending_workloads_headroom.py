"""Pending workloads that would be rejected for lack of quota, or because of reservations, remain inadmissible."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

from support.quota_strategies import CPU, cpu_queue, pending_workload, running_workload
from unit.scheduler.quota.queue.test_pending_workloads import WALLTIMES, make_pending, pop_all, pop_head, requeue
from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS
from zonewise_scheduler.quota.api.workload_types import PodSet, Workload
from zonewise_scheduler.quota.cycle.entry import Head
from zonewise_scheduler.quota.flavorassigner.assignment import AssignmentClusterQueueState
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.quota.queue.headroom_bound import HeadroomBound
from zonewise_scheduler.quota.queue.pending_workloads import PendingWorkloads

if TYPE_CHECKING:
    from zonewise_scheduler.quota.cycle.entry import RequeueReason
    from zonewise_scheduler.quota.queue.headroom_bound import BoundReason, ShapeBound


def bound(in_use: int) -> HeadroomBound:
    """Return the bound of a queue with 2 CPUs."""
    snapshot = Snapshot([cpu_queue("q", 2)])
    snapshot.add_workload(running_workload("runs", "q", CPU, in_use))
    return HeadroomBound(snapshot, DEFAULT_SETTINGS)


@pytest.mark.parametrize("reason", ["NoFit", "Reserved"])
@pytest.mark.parametrize(("in_use", "active"), [(1, False), (0, True)])
def test_shapes_that_lack_headroom_remain_inadmissible(reason: RequeueReason, in_use: int, *, active: bool) -> None:
    """Their first ranks are returned. Shapes with unknown requests, and other shapes, become active."""
    shape = [replace(pending_workload(f"w{i}", 2, 1, float(i)), walltime=5.0 + i) for i in range(4)]
    shape.append(replace(shape[1], name="w4", uid="w4", created_at=9.0))
    pending = make_pending(cpu_queue("q", 2), *shape, pending_workload("other", 1, -1))
    requeue(pending, pop_head(pending), reason)
    assert pending.queue_inadmissible_workloads(bound(1)) == []
    assert not pending.inadmissible
    assert pending.inadmissible_reason("ns/w0", bound(1)) == "NoQuota"
    pending.mark_inadmissible("ns/w1", "NoQuota" if reason == "NoFit" else "Reserved")
    rejected = pending.queue_inadmissible_workloads(bound(in_use))
    first = "ns/w0" if reason == "NoFit" else "ns/w1"
    assert [rank[-1] for rank in rejected] == ([] if active else [first])
    assert len(pending.inadmissible) == (0 if active else 5 if reason == "NoFit" else 4)
    assert pending.head_key({}) == ("ns/w0" if active or reason == "Reserved" else "ns/other")
    if not active:
        assert pending.count_before(first, rejected) == 0
        assert pending.count_before("ns/w3", rejected) == pending.count_before("ns/other", rejected) == 1


def test_alternatives_are_known_once_a_reason_has_been_computed() -> None:
    workload = pending_workload("w0", 2)
    pending = make_pending(cpu_queue("q", 2), workload)
    assert pending.alternatives("ns/w0") == pending.alternatives("ns/absent") == ()
    requeue(pending, pop_head(pending), "NoFit")
    pending.queue_inadmissible_workloads(bound(1))
    pending.inadmissible_reason("ns/w0", bound(1))
    assert pending.alternatives("ns/w0") == bound(1).alternatives(Head(workload, "q"))
    assert pending.alternatives("ns/w0")


def test_headroom_is_checked_for_the_shortest_walltime_of_inadmissible_workloads() -> None:
    """For a shape that lacks quota, any walltime counts. A shape that is active again has known requests."""
    headroom = bound(1)
    asked: list[tuple[ShapeBound, float]] = []

    def record(shape: ShapeBound, walltime: float) -> BoundReason:
        asked.append((shape, walltime))
        return "NoQuota"

    pending = PendingWorkloads(cpu_queue("q", 2))
    for i, walltime in enumerate((2.0, 6.0, 4.0)):
        pending.push_or_update(replace(pending_workload(f"w{i}", 2, 7, float(i)), walltime=walltime))
    requeue(pending, pop_head(pending), "NoFit")
    pending.queue_inadmissible_workloads()
    with patch.object(headroom, "inadmissible_reason", record):
        pending.inadmissible_reason("ns/w1", headroom, 5.0)
        pending.inadmissible_reason("ns/w2", headroom, 5.0)
        pending.mark_inadmissible("ns/w2", "Reserved")
        pending.queue_inadmissible_workloads(headroom)
        pending.mark_inadmissible("ns/w2", "NoQuota")
        pending.queue_inadmissible_workloads(headroom)
    shape = headroom.shape_bound("q", 7, pending.alternatives("ns/w0"))
    assert asked == [(shape, 5.0), (shape, 4.0), (shape, 4.0), (shape, 0.0)]


def test_a_workload_without_alternatives_is_not_skipped() -> None:
    """With two groups of pods no bound applies, and none is requested again."""
    pods = tuple(PodSet(name, requests={"cpu": 5}) for name in ("a", "b"))
    pending = make_pending(cpu_queue("q", 1), Workload("ns", "two", pods))
    requeue(pending, pop_head(pending), "NoFit")
    pending.queue_inadmissible_workloads()
    headroom = bound(1)
    with patch.object(headroom, "alternatives", return_value=None) as alternatives:
        for _ in range(2):
            assert pending.inadmissible_reason("ns/two", headroom) == ""
    assert alternatives.call_count == 1


def test_the_first_rank_of_a_rejected_shape_follows_its_workloads() -> None:
    """An earlier workload arrives and is gone again; a copy has ranks of its own."""
    headroom = bound(1)
    pending = make_pending(cpu_queue("q", 2), pending_workload("w5", 2, created=5.0))
    requeue(pending, pop_head(pending), "NoFit")
    pending.queue_inadmissible_workloads()
    pending.inadmissible_reason("ns/w5", headroom)
    pending.mark_inadmissible("ns/w5", "NoQuota")

    def first(queue: PendingWorkloads) -> list[str]:
        return [rank[-1] for rank in queue.queue_inadmissible_workloads(headroom)]

    assert first(pending) == ["ns/w5"]
    copied = pending.copy()
    copied.push_or_update(pending_workload("w3", 2, created=3.0))
    assert (first(pending), first(copied)) == (["ns/w5"], ["ns/w3"])
    copied.delete("ns/w3")
    assert first(copied) == ["ns/w5"]


def test_a_rejected_workload_makes_its_shape_inadmissible_as_after_a_nomination() -> None:
    shape = [pending_workload(f"w{i}", 2, created=float(i)) for i in range(3)]
    pending = make_pending(cpu_queue("q", 2), *shape[:2], replace(shape[2], walltime=1.0))
    pending.reject("ns/w1")
    assert sorted(pending.inadmissible) == ["ns/w0", "ns/w1", "ns/w2"]
    pending.queue_inadmissible_workloads()
    assert pending.inadmissible_reason("ns/w0", bound(1)) == "NoQuota"


@pytest.mark.parametrize(
    ("due", "reserved", "in_use", "expected"),
    [
        ((), (), 1, ("ns/small", 3)),
        ((), (), 0, ("ns/w0", 0)),
        (("ns/w0",), (), 1, ("ns/w0", 0)),
        ((), ("ns/w1",), 1, ("ns/w1", 1)),
    ],
)
def test_heads_that_are_certainly_rejected_are_skipped(
    due: tuple[str, ...], reserved: tuple[str, ...], in_use: int, expected: tuple[str, int]
) -> None:
    """They are counted, up to the first head that may have to be nominated. Each has a shape of its own."""
    wide = [pending_workload(f"w{i}", 2, -i) for i in range(3)]
    pending = make_pending(cpu_queue("q", 2), *wide, pending_workload("small", 1, -9))
    for _ in wide:
        requeue(pending, pop_head(pending), "NoFit")
    pending.queue_inadmissible_workloads()
    assert pending.skip_rejected_heads(bound(in_use), {}, due, reserved) == expected
    assert sorted(pending.inadmissible) == [f"ns/w{i}" for i in range(expected[1])]
    if expected[1] == len(wide):
        requeue(pending, pop_head(pending), "NoFit")
        assert pending.skip_rejected_heads(bound(in_use), {}, due, reserved) == ("", 0)


def test_reservations_make_skipped_heads_inadmissible_with_those_that_run_no_shorter() -> None:
    headroom = bound(0)
    walltimes = [replace(each, walltime=walltime) for each, walltime in zip(WALLTIMES, (5.0, 9.0, 2.0), strict=False)]
    pending = make_pending(cpu_queue("q", 2), *walltimes)
    requeue(pending, pop_head(pending), "NoFit")
    pending.queue_inadmissible_workloads()

    def reason(_shape: ShapeBound, walltime: float) -> BoundReason:
        return "" if walltime == 2.0 else "Reserved"

    with patch.object(headroom, "inadmissible_reason", reason):
        head, count = pending.skip_rejected_heads(headroom, {}, (), ())
    assert (head, count) == (walltimes[2].key, 1)
    assert sorted(pending.inadmissible) == sorted(each.key for each in walltimes[:2])


def test_a_workload_lacks_only_quota_unless_a_check_failed_or_its_scan_goes_on() -> None:
    first, second = pending_workload("first", 2), replace(pending_workload("second", 2), failed_checks=("check",))
    pending = make_pending(cpu_queue("q", 2), first, second)
    assert [pending.lacks_only_quota(f"ns/{name}") for name in ("first", "second", "absent")] == [True, False, False]
    scan = AssignmentClusterQueueState({"main": {"cpu": 0}})
    requeue(pending, pop_head(pending), "NoFit", scan)
    assert not pending.lacks_only_quota(first.key)


def test_a_shape_whose_inadmissible_workloads_are_gone_is_not_rejected() -> None:
    headroom = bound(1)
    pending = make_pending(cpu_queue("q", 2), *WALLTIMES[:2])
    requeue(pending, pop_head(pending), "NoFit")
    pending.queue_inadmissible_workloads()
    assert pending.inadmissible_reason("ns/w0", headroom) == "NoQuota"
    pending.mark_inadmissible("ns/w1", "Reserved")
    pending.delete("ns/w1")
    assert pending.queue_inadmissible_workloads(headroom) == []
    assert pop_all(pending) == ["w0"]


def test_a_shape_whose_inadmissible_workloads_have_another_shape_is_not_rejected() -> None:
    """One workload is gone; the other one now has a higher priority and a position before its former one."""
    headroom, workloads = bound(1), [pending_workload(f"w{i}", 2) for i in range(2)]
    pending = make_pending(cpu_queue("q", 2), *workloads)
    requeue(pending, pop_head(pending), "NoFit")
    pending.queue_inadmissible_workloads()
    assert pending.inadmissible_reason("ns/w0", headroom) == "NoQuota"
    pending.mark_inadmissible("ns/w0", "NoQuota")
    pending.push_or_update(replace(workloads[1], priority=9))
    pending.delete("ns/w0")
    assert pending.queue_inadmissible_workloads(headroom) == []
    assert pop_all(pending) == ["w1"]
