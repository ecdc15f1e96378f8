"""Whole cycles on random snapshots: quotas hold, decisions match the snapshot, and every head gets a decision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from support.quota_strategies import KEYS, nonzero_usage, pending_workload, snapshots
from zonewise_scheduler.quota.api.configuration import QuotaSettings
from zonewise_scheduler.quota.cycle.entry import Head
from zonewise_scheduler.quota.cycle.scheduling_cycle import run_cycle
from zonewise_scheduler.quota.flavorassigner.granular_mode import FlavorAssignmentMode

if TYPE_CHECKING:
    from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot

SETTINGS = st.sampled_from([QuotaSettings(), QuotaSettings(fair_sharing=True)])
NEW = st.lists(st.tuples(st.integers(1, 6), st.integers(0, 4), st.integers(0, 3)), min_size=4, max_size=4)
"""(amount, priority, time of creation) of the new workloads."""


def make_heads(snapshot: Snapshot, new: list[tuple[int, int, int]]) -> list[Head]:
    """Return one head for each queue."""
    return [
        Head(pending_workload(f"new-{name}", amount, priority, float(created)), name)
        for name, (amount, priority, created) in zip(snapshot.cluster_queues, new, strict=False)
    ]


@given(snapshots(), NEW, SETTINGS)
def test_admissions_do_not_exceed_quota(
    snapshot: Snapshot, new: list[tuple[int, int, int]], settings: QuotaSettings
) -> None:
    """No admission makes a root exceed its quota or a node exceed its borrowing limit."""
    nodes = [*snapshot.cluster_queues.values(), *snapshot.cohorts.values()]
    before = {(id(node), key): node.usage.get(key, 0) for node in nodes for key in KEYS}
    run_cycle(snapshot, make_heads(snapshot, new), settings, 9.0)
    for node in nodes:
        for key in KEYS:
            usage, quota = node.usage.get(key, 0), node.quotas.get(key)
            more = usage - before[id(node), key]
            beyond = usage - node.subtree_quota.get(key, 0)
            assert more >= 0
            assert not (more and node.parent is None and beyond > 0)
            assert not (
                more and quota is not None and quota.borrowing_limit is not None and beyond > quota.borrowing_limit
            )


@given(snapshots(), NEW, SETTINGS)
def test_every_head_is_decided_and_only_admitted_workloads_are_added(
    snapshot: Snapshot, new: list[tuple[int, int, int]], settings: QuotaSettings
) -> None:
    """Amounts held for pending workloads are released. Adding the admitted workloads again changes nothing."""
    heads = make_heads(snapshot, new)
    running = {key for workloads in snapshot.workloads_by_queue.values() for key in workloads}
    decisions = run_cycle(snapshot, heads, settings, 9.0)
    decided = sorted(decision.head.workload.key for decision in decisions)
    assert decided == sorted(head.workload.key for head in heads)
    admitted = {decision.workload.key for decision in decisions if decision.status == "admitted"}
    assert {key for workloads in snapshot.workloads_by_queue.values() for key in workloads} == running | admitted
    after = nonzero_usage(snapshot)
    for decision in decisions:
        if decision.status == "admitted":
            snapshot.remove_workload(decision.workload)
            snapshot.add_workload(decision.workload)
    assert nonzero_usage(snapshot) == after


@given(snapshots(), NEW, SETTINGS)
def test_no_workload_is_the_victim_of_two_preemptors(
    snapshot: Snapshot, new: list[tuple[int, int, int]], settings: QuotaSettings
) -> None:
    decisions = run_cycle(snapshot, make_heads(snapshot, new), settings, 9.0)
    victims = [target.workload.key for decision in decisions for target in decision.preemption_targets]
    assert len(set(victims)) == len(victims)
    for decision in decisions:
        if decision.status == "preempting":
            assert decision.preemption_targets
            assert decision.assignment is not None
            assert decision.assignment.representative_mode == FlavorAssignmentMode.PREEMPT


@given(snapshots(), NEW, SETTINGS)
def test_all_but_admitted_workloads_have_a_reason(
    snapshot: Snapshot, new: list[tuple[int, int, int]], settings: QuotaSettings
) -> None:
    for decision in run_cycle(snapshot, make_heads(snapshot, new), settings, 9.0):
        assert (decision.reason == "") == (decision.status == "admitted")
