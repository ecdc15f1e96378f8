"""Examples of preemption without fair sharing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import pytest

from support.quota_strategies import CPU, cpu_queue, pending_workload, running_workload
from zonewise_scheduler.quota.api.configuration import QuotaSettings
from zonewise_scheduler.quota.api.queue_types import ClusterQueuePreemption, Cohort
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, ResourceQuota, resource_group
from zonewise_scheduler.quota.api.workload_types import Eviction
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.quota.preemption.classical_preemption import (
    PreemptionVariant,
    classical_preemptions,
    collect_candidates,
)
from zonewise_scheduler.quota.preemption.preemption_context import PreemptionContext

if TYPE_CHECKING:
    from zonewise_scheduler.quota.api.workload_types import Workload


def target_names(snapshot: Snapshot, queue: str, preemptor: Workload, amount: int) -> set[str]:
    node = snapshot.cluster_queues[queue]
    context = PreemptionContext(snapshot, preemptor, node, {CPU: amount}, frozenset([CPU]), QuotaSettings())
    return {target.workload.name for target in classical_preemptions(context)}


def test_fill_back_spares_the_small_workload() -> None:
    """The small workload is tried first. Without the large one it is not needed."""
    snapshot = Snapshot([cpu_queue("q", 10, ClusterQueuePreemption(within_cluster_queue="LowerPriority"), "")])
    snapshot.add_workload(running_workload("small", "q", CPU, 2, priority=0))
    snapshot.add_workload(running_workload("large", "q", CPU, 8, priority=1))
    assert target_names(snapshot, "q", pending_workload("new", 8, priority=2), 8) == {"large"}


def test_lent_quota_is_reclaimed() -> None:
    """From every borrower, whatever its priority."""
    preemption = ClusterQueuePreemption(reclaim_within_cohort="Any")
    snapshot = Snapshot([cpu_queue("lender", 4, preemption), cpu_queue("borrower", 4, preemption)])
    for name in ("own", "borrowed"):
        snapshot.add_workload(running_workload(name, "borrower", CPU, 4, priority=9, at=len(name)))
    assert target_names(snapshot, "lender", pending_workload("new", 4), 4) == {"borrowed"}


def test_equal_borrowers_do_not_preempt_each_other() -> None:
    preemption = ClusterQueuePreemption(reclaim_within_cohort="Any")
    snapshot = Snapshot([cpu_queue(name, nominal, preemption) for name, nominal in (("a", 0), ("b", 0), ("lender", 4))])
    for i in range(4):
        snapshot.add_workload(running_workload(f"w{i}", "b", CPU, 1, at=i))
    assert not target_names(snapshot, "a", pending_workload("new", 2), 2)


@pytest.mark.parametrize(("borrow_within_cohort", "victim"), [("Never", "own"), ("LowerPriority", "borrowed")])
def test_borrowing_is_tried_first_where_it_is_allowed(
    borrow_within_cohort: Literal["Never", "LowerPriority"], victim: str
) -> None:
    """The preemptor borrows the spare quota and a borrower ends, or it stays within the nominal quota of its queue."""
    preemption = ClusterQueuePreemption("LowerPriority", "Any", borrow_within_cohort)
    snapshot = Snapshot([cpu_queue("lender", 3, preemption), cpu_queue("borrower", 0), cpu_queue("spare", 1)])
    snapshot.add_workload(running_workload("own", "lender", CPU, 2))
    snapshot.add_workload(running_workload("borrowed", "borrower", CPU, 2))
    assert target_names(snapshot, "lender", pending_workload("new", 2, priority=5), 2) == {victim}


VARIANTS = {
    PreemptionVariant.WITHIN_CQ: "InClusterQueue",
    PreemptionVariant.HIERARCHICAL_RECLAIM: "InCohortReclamation",
    PreemptionVariant.RECLAIM_WITHOUT_BORROWING: "InCohortReclamation",
    PreemptionVariant.RECLAIM_WHILE_BORROWING: "InCohortReclaimWhileBorrowing",
}


def test_each_variant_has_its_reason() -> None:
    assert {variant: variant.preemption_reason for variant in PreemptionVariant} == VARIANTS


@pytest.mark.parametrize(
    ("borrow", "threshold", "amount", "variants"),
    [
        ("Never", None, 5, "OOO"),
        ("LowerPriority", None, 5, "BBO"),
        ("LowerPriority", 0, 5, "BOO"),
        ("LowerPriority", 1, 5, "BBO"),
        ("LowerPriority", 9, 5, "BBO"),
        ("LowerPriority", None, 2, "HHH"),
        ("Never", None, 2, "HHH"),
    ],
)
def test_the_variants_of_candidates_of_another_queue(
    borrow: Literal["Never", "LowerPriority"], threshold: int | None, amount: int, variants: str
) -> None:
    """B: while borrowing, those of lower priority up to the threshold; O: otherwise; H: within nominal quota."""
    preemption = ClusterQueuePreemption("LowerPriority", "Any", borrow, threshold)
    snapshot = Snapshot([cpu_queue("q", 2, preemption), cpu_queue("other", 0), cpu_queue("lender", 9)])
    for priority in range(3):
        snapshot.add_workload(running_workload(f"w{priority}", "other", CPU, 3, priority))
    node = snapshot.cluster_queues["q"]
    new = pending_workload("new", amount, priority=2)
    context = PreemptionContext(snapshot, new, node, {CPU: amount}, frozenset([CPU]), QuotaSettings())
    found = collect_candidates(context)
    letters = {"B": "RECLAIM_WHILE_BORROWING", "O": "RECLAIM_WITHOUT_BORROWING", "H": "HIERARCHICAL_RECLAIM"}
    assert [candidate.variant.name for candidate in found.candidates] == [letters[letter] for letter in variants]
    assert (found.from_other_queues, found.for_hierarchical_reclaim) == (True, "H" in variants)


def test_the_order_of_all_candidates() -> None:
    """Evicted ones first; in each part those of other queues come before those of the preemptor's own."""
    preemption = ClusterQueuePreemption("LowerPriority", "Any")
    snapshot = Snapshot([cpu_queue("q", 1, preemption), cpu_queue("other", 0), cpu_queue("lender", 9)])
    for queue in ("q", "other"):
        for name, evicted in (("runs", False), ("ends", True)):
            workload = running_workload(f"{queue}-{name}", queue, CPU, 2)
            snapshot.add_workload(replace(workload, eviction=Eviction("Preempted", 1.0) if evicted else None))
    node, new = snapshot.cluster_queues["q"], pending_workload("new", 4, priority=2)
    context = PreemptionContext(snapshot, new, node, {CPU: 4}, frozenset([CPU]), QuotaSettings())
    names = [candidate.workload.name for candidate in collect_candidates(context).candidates]
    assert names == ["other-ends", "q-ends", "other-runs", "q-runs"]


@pytest.mark.parametrize(("used", "victims"), [(1, {"borrowed", "own"}), (2, {"own"}), (3, {"own"})])
def test_a_queue_that_may_not_preempt_while_it_borrows(used: int, victims: set[str]) -> None:
    """It reclaims under its nominal quota alone. With that in use, its own workload ends, and it borrows."""
    preemption = ClusterQueuePreemption("LowerPriority", "Any")
    snapshot = Snapshot([cpu_queue("q", 2, preemption), cpu_queue("borrower", 0), cpu_queue("spare", 3)])
    snapshot.add_workload(running_workload("own", "q", CPU, used))
    snapshot.add_workload(running_workload("borrowed", "borrower", CPU, 5 - used))
    assert target_names(snapshot, "q", pending_workload("new", 2, priority=5), 2) == victims


@pytest.mark.parametrize(("in_left", "victims"), [(1, {"above"}), (3, {"low", "above"})])
def test_a_candidate_within_the_nominal_quota_of_its_cohort_is_none(in_left: int, victims: set[str]) -> None:
    """Its queue borrows, but from its cohort, which has the quota; it must borrow from the common cohort."""
    preemption = ClusterQueuePreemption(reclaim_within_cohort="Any")
    lent = (resource_group(FlavorQuotas("any", (("cpu", ResourceQuota(2)),))),)
    cohorts = [Cohort("root"), Cohort("left", "root", lent)]
    queues = [
        cpu_queue("q", 4, preemption, "root"),
        cpu_queue("low", 0, cohort="left"),
        cpu_queue("above", 0, cohort="root"),
    ]
    snapshot = Snapshot(queues, cohorts)
    snapshot.add_workload(running_workload("low", "low", CPU, in_left))
    snapshot.add_workload(running_workload("above", "above", CPU, 6 - in_left))
    assert target_names(snapshot, "q", pending_workload("new", 4), 4) == victims


def test_where_borrowing_does_not_help_the_nominal_quota_is_tried() -> None:
    """While the preemptor borrows, others of higher priority are no candidates; within its own quota they are."""
    preemption = ClusterQueuePreemption("LowerPriority", "Any", "LowerPriority")
    snapshot = Snapshot([cpu_queue("lender", 4, preemption), cpu_queue("borrower", 0)])
    snapshot.add_workload(running_workload("own", "lender", CPU, 2, priority=0))
    snapshot.add_workload(running_workload("borrowed", "borrower", CPU, 2, priority=9))
    assert target_names(snapshot, "lender", pending_workload("new", 4, priority=5), 4) == {"own", "borrowed"}
