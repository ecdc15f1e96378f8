"""Targets of preemptions: they free enough, none is superfluous, and the policies permit them."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quota_strategies import (
    CPU,
    KEYS,
    cpu_queue,
    nonzero_usage,
    pending_workload,
    running_workload,
    snapshots,
)
from zonewise_scheduler.quota.api.configuration import PreemptionStrategy, QuotaSettings
from zonewise_scheduler.quota.api.queue_types import ClusterQueuePreemption
from zonewise_scheduler.quota.hierarchy.resource_node import find_height_of_lowest_subtree_that_fits
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.quota.preemption.candidate_ordering import satisfies_preemption_policy
from zonewise_scheduler.quota.preemption.preemption_context import PreemptionContext
from zonewise_scheduler.quota.preemption.preemption_oracle import get_targets, new_oracle, no_candidates_oracle

STRATEGIES: list[tuple[PreemptionStrategy, ...]] = [
    ("LessThanOrEqualToFinalShare", "LessThanInitialShare"),
    ("LessThanOrEqualToFinalShare",),
    ("LessThanInitialShare",),
]
SETTINGS = st.sampled_from(
    [QuotaSettings(), *(QuotaSettings(fair_sharing=True, preemption_strategies=names) for names in STRATEGIES)]
)


def _contexts(
    snapshot: Snapshot, settings: QuotaSettings, priority: int, created: int, more: int
) -> list[PreemptionContext]:
    contexts: list[PreemptionContext] = []
    for queue, key in product(snapshot.cluster_queues.values(), KEYS):
        available = max(0, queue.available(key))
        if available < queue.potential_available(key):
            amount = available + 1 + more % (queue.potential_available(key) - available)
            new = pending_workload("new", amount, priority, float(created))
            contexts.append(PreemptionContext(snapshot, new, queue, {key: amount}, frozenset([key]), settings))
    return contexts


CONTEXTS = st.builds(_contexts, snapshots(), SETTINGS, st.integers(0, 4), st.integers(0, 3), st.integers(0, 5))
"""For each queue and flavor, a workload that fits the potential quota but does not fit now."""


def _running(snapshot: Snapshot) -> dict[str, set[str]]:
    return {name: set(workloads) for name, workloads in snapshot.workloads_by_queue.items()}


@given(CONTEXTS)
def test_the_snapshot_does_not_change(contexts: list[PreemptionContext]) -> None:
    """It changes neither with targets nor without."""
    for context in contexts:
        before, running = nonzero_usage(context.snapshot), _running(context.snapshot)
        get_targets(context)
        oracle = new_oracle(context.snapshot, context.settings)
        oracle(context.preemptor_cq, context.preemptor, *next(iter(context.workload_usage.items())))
        assert nonzero_usage(context.snapshot) == before
        assert _running(context.snapshot) == running


@given(CONTEXTS)
def test_the_preemptor_fits_without_the_targets(contexts: list[PreemptionContext]) -> None:
    """No target is named twice."""
    for context in contexts:
        targets = get_targets(context)
        assert len({target.workload.key for target in targets}) == len(targets)
        with context.snapshot.simulate_workload_removal(target.workload for target in targets):
            assert not targets or context.workload_fits(allow_borrowing=True)


@given(CONTEXTS)
def test_no_target_is_superfluous(contexts: list[PreemptionContext]) -> None:
    """With any one target left, the preemptor does not fit, or at least not within nominal quota."""
    for context in contexts:
        targets = get_targets(context)
        for spared in targets:
            removed = (target.workload for target in targets if target is not spared)
            with context.snapshot.simulate_workload_removal(removed):
                assert not context.workload_fits(allow_borrowing=False)
                assert not context.settings.fair_sharing or not context.workload_fits(allow_borrowing=True)


@given(CONTEXTS)
def test_the_policies_permit_the_targets(contexts: list[PreemptionContext]) -> None:
    """The policy of the preemptor's queue decides. Targets use a contested flavor; other queues must borrow."""
    for context, target in [(each, target) for each in contexts for target in get_targets(each)]:
        preemption = context.preemptor_cq.spec.preemption
        queue = context.snapshot.cluster_queue_of(target.workload)
        within_queue = queue is context.preemptor_cq
        assert within_queue == (target.reason == "InClusterQueue")
        policy = preemption.within_cluster_queue if within_queue else preemption.reclaim_within_cohort
        assert satisfies_preemption_policy(policy, context.preemptor, target.workload)
        contested = context.frs_need_preemption
        assert not target.workload.flavor_resources.isdisjoint(contested)
        assert within_queue or (queue.root is context.preemptor_cq.root and not queue.is_within_nominal(contested))
        if target.reason == "InCohortReclaimWhileBorrowing":
            threshold = preemption.max_priority_threshold
            assert preemption.borrow_within_cohort == "LowerPriority"
            assert target.workload.priority < context.preemptor.priority
            assert threshold is None or target.workload.priority <= threshold


@given(CONTEXTS)
def test_the_oracle_reports_what_its_targets_make_possible(contexts: list[PreemptionContext]) -> None:
    """Preempt means that some targets are in the queue itself. The height is that of borrowing without the targets."""
    for context in contexts:
        snapshot, queue = context.snapshot, context.preemptor_cq
        [(key, amount)] = context.workload_usage.items()
        targets = get_targets(context)
        own = [target for target in targets if snapshot.cluster_queue_of(target.workload) is queue]
        with snapshot.simulate_workload_removal(target.workload for target in targets):
            height, _ = find_height_of_lowest_subtree_that_fits(queue, key, amount)
        expected = ("Preempt" if own else "Reclaim") if targets else "NoCandidates"
        assert new_oracle(snapshot, context.settings)(queue, context.preemptor, key, amount) == (expected, height)
        unpreempted = find_height_of_lowest_subtree_that_fits(queue, key, amount)[0]
        assert no_candidates_oracle(queue, context.preemptor, key, amount) == ("NoCandidates", unpreempted)


@pytest.mark.parametrize(("fair_sharing", "victims"), [(False, set[str]()), (True, {"w2", "w3"})])
def test_only_with_fair_sharing_borrowers_preempt_each_other(fair_sharing: bool, victims: set[str]) -> None:
    """Two queues borrow from a third; one of them uses all that is lent."""
    preemption = ClusterQueuePreemption(reclaim_within_cohort="Any")
    snapshot = Snapshot([cpu_queue(name, nominal, preemption) for name, nominal in (("a", 0), ("b", 0), ("lender", 4))])
    for i in range(4):
        snapshot.add_workload(running_workload(f"w{i}", "b", CPU, 1, at=i))
    queue, settings = snapshot.cluster_queues["a"], QuotaSettings(fair_sharing=fair_sharing)
    context = PreemptionContext(snapshot, pending_workload("new", 2), queue, {CPU: 2}, frozenset([CPU]), settings)
    assert {target.workload.name for target in get_targets(context)} == victims
