"""The decision that an entry records."""

from __future__ import annotations

from typing import get_args

import pytest

from support.quota_strategies import CPU, cpu_queue, pending_workload, running_workload
from zonewise_scheduler.quota.cycle.entry import Entry, EntryStatus, Head
from zonewise_scheduler.quota.flavorassigner.assignment import (
    NO_LAST_ASSIGNMENT,
    Assignment,
    AssignmentClusterQueueState,
)
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.quota.preemption.preemption_context import Target

RESTARTS: dict[EntryStatus, bool] = {
    "admitted": False,
    "preempting": True,
    "deferred": True,
    "skipped": False,
    "gated": True,
    "waiting": False,
    "inadmissible": False,
    "evicted": False,
}
"""Whether the next scan restarts at the first flavor."""


@pytest.mark.parametrize("status", get_args(EntryStatus))
def test_only_preempting_workloads_have_victims_and_scans_of_preemptions_restart(status: EntryStatus) -> None:
    """The scans of other workloads continue after the flavor that was tried last."""
    queue = Snapshot([cpu_queue("q", 1)]).cluster_queues["q"]
    targets = (Target(running_workload("victim", "q", CPU, 1), "InClusterQueue"),)
    state = AssignmentClusterQueueState({"main": {"cpu": 0}}, 3)
    entry = Entry(Head(pending_workload("new", 1), "q"), queue, Assignment((), {}), targets, state)
    entry.decide(status)
    assert entry.decision is not None
    assert entry.decision.status == status
    assert entry.decision.preemption_targets == (targets if status == "preempting" else ())
    assert entry.decision.last_assignment == (NO_LAST_ASSIGNMENT if RESTARTS[status] else state)
