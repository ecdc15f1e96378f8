"""Shapes of pending workloads: their stale ranks cost no memory and change no order."""

from __future__ import annotations

import pickle
from math import inf
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from hypothesis import given

from support.quota_strategies import pending_workload
from unit.scheduler.quota.queue.test_pending_workloads import (
    BEST_EFFORT_FIFO,
    STEPS,
    make_pending,
    pop_all,
    step_queue,
)
from zonewise_scheduler.quota.queue import shape_table
from zonewise_scheduler.quota.queue.pending_workloads import PendingWorkloads
from zonewise_scheduler.quota.queue.shape_groups import WalltimeGroup
from zonewise_scheduler.quota.queue.shape_table import ShapeTable

if TYPE_CHECKING:
    from zonewise_scheduler.quota.cycle.entry import RequeueReason


def test_workloads_that_are_withdrawn_behind_the_first_cost_no_memory() -> None:
    """A user may submit and cancel jobs for days, while an equal one waits before them."""
    pending = make_pending(BEST_EFFORT_FIFO, pending_workload("first", 1, 0, 1.0))
    sizes: list[int] = []
    for number in range(6 * shape_table.MIN_RANKS):
        later = pending_workload(f"{number:05}", 1, 0, 2.0)
        pending.push_or_update(later)
        pending.delete(later.key)
        sizes.append(len(pickle.dumps(pending)))
    assert max(sizes[len(sizes) // 2 :]) <= max(sizes[: len(sizes) // 2])
    assert pop_all(pending) == ["first"]


def test_only_a_table_with_workloads_has_shapes() -> None:
    table = ShapeTable()
    assert not table.has_shapes
    table.insert(pending_workload("first", 1), (0, 0.0, 0.0, "", "ns/first"), "")
    assert table.has_shapes


@pytest.mark.parametrize(("ranks", "kept"), [(11, 12), (12, 13), (13, 2), (14, 2)])
def test_stale_ranks_are_dropped_if_most_of_many_are_stale(ranks: int, kept: int) -> None:
    """The limit is MIN_RANKS and twice the number of workloads, of which there are three."""
    group, table = WalltimeGroup(inf), ShapeTable()
    entry = table.insert(pending_workload("first", 1), (0, 0.0, 0.0, "", "ns/first"), "")
    table.insert(pending_workload("of another shape", 2), (0, 0.0, 0.0, "", "ns/other"), "")
    table.own(entry.shape).by_walltime[inf] = group
    group.ranks = [entry.rank, *((0, 1.0, 0.0, "", f"ns/{number}") for number in range(ranks - 1))]
    with patch.object(shape_table, "MIN_RANKS", 6):
        table.insert(pending_workload("third", 1), (0, 2.0, 0.0, "", "ns/third"), "")
    assert len(group.ranks) == kept


@given(STEPS)
def test_dropping_stale_ranks_changes_no_order(steps: list[tuple[str, int, float, RequeueReason]]) -> None:
    pending, twin = PendingWorkloads(BEST_EFFORT_FIFO), PendingWorkloads(BEST_EFFORT_FIFO)
    for step in steps:
        with patch.object(shape_table, "MIN_RANKS", -100):  # stale ranks are dropped before each insertion
            step_queue(pending, *step)
        step_queue(twin, *step)
        assert (pending.active, pending.inadmissible) == (twin.active, twin.inadmissible)
        assert pending.head_key({}) == twin.head_key({})
    for each in (pending, twin):
        each.queue_inadmissible_workloads()
    assert pop_all(pending) == pop_all(twin)
