"""Examples of preemption without fair sharing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import pytest

from support.quota_strategies import CPU, cpu_queue, pending_workload, running_workload
from zonewise_scheduler.quota.api.configuration import QuotaSettings
from zonewise_scheduler.quota.api.queue_types import ClusterQueuePreemption, Cohort
from zonewise_scheduler.quota.api.resource_quota import (
    FlavorQuotas,
    FlavorResource,
    ResourceGroup,
    ResourceQuota,
    resource_group,
)
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


GPU = FlavorResource("any", "gpu")


def cpu_group(cpus: int, gpus: int | None = None) -> tuple[ResourceGroup, ...]:
    """Return a group of one flavor with CPUs and, if given, GPUs."""
    amounts = {"cpu": cpus} if gpus is None else {"cpu": cpus, "gpu": gpus}
    return (resource_group(FlavorQuotas("any", tuple((name, ResourceQuota(each)) for name, each in amounts.items()))),)


def target_names(snapshot: Snapshot, queue: str, preemptor: Workload, amount: int) -> set[str]:
    node = snapshot.cluster_queues[queue]
    context = PreemptionContext(snapshot, preemptor, node, {CPU: amount}, frozenset([CPU]), QuotaSettings())
    return {target.workload.name for target in classical_preemptions(context)}


def test_fill_back_spares_the_small_workload() -> None:
    """The small workload is tried first, but it is not needed once the large one is preempted."""
    snapshot = Snapshot([cpu_queue("q", 10, ClusterQueuePreemption(within_cluster_queue="LowerPriority"), "")])
    snapshot.add_workload(running_workload("small", "q", CPU, 2, priority=0))
    snapshot.add_workload(running_workload("large", "q", CPU, 8, priority=1))
    assert target_names(snapshot, "q", pending_workload("new", 8, priority=2), 8) == {"large"}


def test_lent_quota_is_reclaimed() -> None:
    """Every borrower loses quota, whatever its priority."""
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
def test_borrowing_is_tried_first_if_it_is_permitted(
    borrow_within_cohort: Literal["Never", "LowerPriority"], victim: str
) -> None:
    """The preemptor borrows the spare quota once a borrower ends, or it uses only its queue's nominal quota."""
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


LETTERS = {
    PreemptionVariant.WITHIN_CQ: "Q",
    PreemptionVariant.HIERARCHICAL_RECLAIM: "H",
    PreemptionVariant.RECLAIM_WITHOUT_BORROWING: "O",
    PreemptionVariant.RECLAIM_WHILE_BORROWING: "B",
}


def test_each_variant_has_its_reason() -> None:
    assert {variant: variant.preemption_reason for variant in PreemptionVariant} == VARIANTS


@pytest.mark.parametrize(
    ("borrow", "threshold", "amount", "variants"),
    [
        ("Never", None, 5, "OOOO"),
        ("LowerPriority", None, 5, "BBOO"),
        ("LowerPriority", 0, 5, "BOOO"),
        ("LowerPriority", 1, 5, "BBOO"),
        ("LowerPriority", 9, 5, "BBOO"),
        ("LowerPriority", None, 2, "HHHH"),
        ("Never", None, 2, "HHHH"),
    ],
)
def test_the_variants_of_candidates_of_another_queue(
    borrow: Literal["Never", "LowerPriority"], threshold: int | None, amount: int, variants: str
) -> None:
    """B: candidates of lower priority up to the threshold, while borrowing; H: within nominal quota; O: others.

    They are tried from the lowest priority on.
    """
    preemption = ClusterQueuePreemption("LowerPriority", "Any", borrow, threshold)
    snapshot = Snapshot([cpu_queue("q", 2, preemption), cpu_queue("other", 0), cpu_queue("lender", 9)])
    for priority in (2, 0, 3, 1):
        snapshot.add_workload(running_workload(f"w{priority}", "other", CPU, 3, priority))
    node = snapshot.cluster_queues["q"]
    new = pending_workload("new", amount, priority=2)
    context = PreemptionContext(snapshot, new, node, {CPU: amount}, frozenset([CPU]), QuotaSettings())
    found = collect_candidates(context)
    assert [LETTERS[candidate.variant] for candidate in found.candidates] == list(variants)
    assert [candidate.workload.priority for candidate in found.candidates] == [0, 1, 2, 3]
    assert (found.from_other_queues, found.for_hierarchical_reclaim) == (True, "H" in variants)


def test_the_order_of_all_candidates() -> None:
    """Evicted candidates are first; in each part, other queues precede the preemptor's own queue."""
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
    """It reclaims only within its nominal quota. Once that is in use, its own workload ends, and it borrows."""
    preemption = ClusterQueuePreemption("LowerPriority", "Any")
    snapshot = Snapshot([cpu_queue("q", 2, preemption), cpu_queue("borrower", 0), cpu_queue("spare", 3)])
    snapshot.add_workload(running_workload("own", "q", CPU, used))
    snapshot.add_workload(running_workload("borrowed", "borrower", CPU, 5 - used))
    assert target_names(snapshot, "q", pending_workload("new", 2, priority=5), 2) == victims


@pytest.mark.parametrize(("in_left", "victims"), [(1, {"above"}), (3, {"low", "above"})])
def test_a_workload_within_the_nominal_quota_of_its_cohort_is_no_candidate(in_left: int, victims: set[str]) -> None:
    """Its queue borrows only from its cohort, which has the quota; a candidate must borrow from the common cohort."""
    preemption = ClusterQueuePreemption(reclaim_within_cohort="Any")
    cohorts = [Cohort("root"), Cohort("left", "root", cpu_group(2))]
    queues = [
        cpu_queue("q", 4, preemption, "root"),
        cpu_queue("low", 0, cohort="left"),
        cpu_queue("above", 0, cohort="root"),
    ]
    snapshot = Snapshot(queues, cohorts)
    snapshot.add_workload(running_workload("low", "low", CPU, in_left))
    snapshot.add_workload(running_workload("above", "above", CPU, 6 - in_left))
    assert target_names(snapshot, "q", pending_workload("new", 4), 4) == victims


@pytest.mark.parametrize(
    ("of_cohort", "of_queue", "victims"), [(2, 0, {"low", "above"}), (0, 2, {"low", "above"}), (0, 0, {"low", "high"})]
)
def test_a_candidate_counts_while_its_queue_and_its_cohort_borrow(
    of_cohort: int, of_queue: int, victims: set[str]
) -> None:
    """Once the preceding workloads are gone, the quota of the queue or the cohort may suffice for it."""
    preemption = ClusterQueuePreemption(reclaim_within_cohort="Any")
    cohorts = [
        Cohort("root", "", cpu_group(2 - of_cohort - of_queue)),
        Cohort("left", "root", cpu_group(of_cohort)),
    ]
    queues = [
        cpu_queue("q", 4, preemption, "root"),
        cpu_queue("low", of_queue, cohort="left"),
        cpu_queue("above", 0, cohort="root"),
    ]
    snapshot = Snapshot(queues, cohorts)
    for priority, (name, queue) in enumerate((("low", "low"), ("high", "low"), ("above", "above"))):
        snapshot.add_workload(running_workload(name, queue, CPU, 2, priority))
    assert target_names(snapshot, "q", pending_workload("new", 4), 4) == victims


@pytest.mark.parametrize(
    ("nominal", "own", "borrowed", "spare", "amount", "victims"),
    [
        (3, 2, 1, 2, 3, "ab"),  # below nominal: within nominal quota first
        (3, 2, 1, 0, 3, "abx"),  # also by the borrower's quota
        (2, 1, 1, 2, 3, "a"),  # the nominal quota is too small: it borrows
        (2, 2, 1, 2, 2, "a"),  # at nominal, it borrows at once
        (1, 2, 1, 2, 1, "a"),  # beyond nominal as well
        (3, 2, 0, 1, 3, "a"),  # without borrowers as well
    ],
)
def test_a_queue_that_may_not_preempt_while_it_borrows_borrows_spare_quota(
    nominal: int, own: int, borrowed: int, spare: int, amount: int, victims: str
) -> None:
    """It runs `own` workloads of one CPU, a, b and c; x uses the CPUs that another queue borrows."""
    preemption = ClusterQueuePreemption("LowerPriority", "Any")
    snapshot = Snapshot([cpu_queue("q", nominal, preemption), cpu_queue("borrower", 0), cpu_queue("spare", spare)])
    for priority, name in enumerate("abc"[:own]):
        snapshot.add_workload(running_workload(name, "q", CPU, 1, priority))
    if borrowed:
        snapshot.add_workload(running_workload("x", "borrower", CPU, borrowed))
    assert target_names(snapshot, "q", pending_workload("new", amount, priority=5), amount) == set(victims)


@pytest.mark.parametrize(
    ("gpu_quota", "gpus", "victims"),
    [
        (1, 1, {"a", "b", "gpu"}),
        (2, 1, {"a", "b", "gpu"}),
        (0, 0, {"a"}),
        (None, 0, {"a"}),
    ],
)
def test_a_queue_is_below_nominal_in_each_resource_that_a_preemption_must_free(
    gpu_quota: int | None, gpus: int, victims: set[str]
) -> None:
    """It has three CPUs, uses two of them, and uses no GPU. Another queue borrows all of its GPUs."""
    preemption = ClusterQueuePreemption("LowerPriority", "Any")
    snapshot = Snapshot(
        [
            cpu_queue("q", 3, preemption)._replace(resource_groups=cpu_group(3, gpu_quota)),
            cpu_queue("borrower", 0)._replace(resource_groups=cpu_group(0, 0)),
            cpu_queue("spare", 2),
        ]
    )
    for name, queue, key, amount in (("a", "q", CPU, 1), ("b", "q", CPU, 1), ("x", "borrower", CPU, 1)):
        snapshot.add_workload(running_workload(name, queue, key, amount))
    if gpu_quota:
        snapshot.add_workload(running_workload("gpu", "borrower", GPU, gpu_quota))
    usage = {CPU: 3, GPU: gpus} if gpus else {CPU: 3}
    node, new = snapshot.cluster_queues["q"], pending_workload("new", 3, priority=5)
    context = PreemptionContext(snapshot, new, node, usage, frozenset([CPU, GPU]), QuotaSettings())
    assert {target.workload.name for target in classical_preemptions(context)} == victims


@pytest.mark.parametrize(
    ("nominal", "of_cohort", "near", "gpu", "amounts", "found"),
    [
        (2, 0, 1, 0, (2, 0), {"near": "H", "far": "H"}),  # enough in the queue itself
        (0, 2, 0, 0, (2, 0), {"far": "H"}),  # enough in its cohort
        (0, 2, 1, 0, (1, 0), {"near": "O", "far": "H"}),
        (0, 2, 1, 0, (2, 0), {"near": "O", "far": "O"}),
        (0, 2, 3, 0, (3, 0), {"near": "O", "far": "O"}),
        (0, 2, 0, 1, (2, 2), {"gpu": "O", "far": "H"}),  # no GPU of the cohort is needed, which has one
        (0, 2, 0, 2, (2, 1), {"gpu": "O", "far": "O"}),  # and it borrows another
    ],
)
def test_the_hierarchical_advantage(
    nominal: int, of_cohort: int, near: int, gpu: int, amounts: tuple[int, int], found: dict[str, str]
) -> None:
    """The preemptor has it over workloads above the lowest subtree with enough quota.

    Its queue does not lend its two GPUs. The workload "deep" borrows only from its cohort and is no candidate.
    """
    preemption = ClusterQueuePreemption(reclaim_within_cohort="Any")
    cohorts = [
        Cohort("root", "", cpu_group(9, 9)),
        Cohort("left", "root", cpu_group(of_cohort, 1)),
        Cohort("right", "root", cpu_group(1)),
    ]
    gpus_kept = FlavorQuotas("any", (("cpu", ResourceQuota(nominal)), ("gpu", ResourceQuota(2, lending_limit=0))))
    queues = [
        cpu_queue("q", 0, preemption, "left")._replace(resource_groups=(resource_group(gpus_kept),)),
        cpu_queue("near", 0, cohort="left")._replace(resource_groups=cpu_group(0, 0)),
        cpu_queue("deep", 0, cohort="right"),
        cpu_queue("far", 0, cohort="root"),
    ]
    snapshot = Snapshot(queues, cohorts)
    for name, queue, key, amount in (
        *(("near", "near", CPU, near), ("gpu", "near", GPU, gpu)),
        *(("deep", "deep", CPU, 1), ("far", "far", CPU, 1)),
    ):
        if amount:
            snapshot.add_workload(running_workload(name, queue, key, amount))
    usage = {key: amount for key, amount in zip((CPU, GPU), amounts, strict=True) if amount}
    node, new = snapshot.cluster_queues["q"], pending_workload("new", amounts[0])
    context = PreemptionContext(snapshot, new, node, usage, frozenset([CPU, GPU]), QuotaSettings())
    candidates = collect_candidates(context).candidates
    assert sorted((each.workload.name, LETTERS[each.variant]) for each in candidates) == sorted(found.items())


def test_the_nominal_quota_is_tried_if_borrowing_does_not_help() -> None:
    """While the preemptor borrows, workloads of higher priority are no candidates; within its own quota they are."""
    preemption = ClusterQueuePreemption("LowerPriority", "Any", "LowerPriority")
    snapshot = Snapshot([cpu_queue("lender", 4, preemption), cpu_queue("borrower", 0)])
    snapshot.add_workload(running_workload("own", "lender", CPU, 2, priority=0))
    snapshot.add_workload(running_workload("borrowed", "borrower", CPU, 2, priority=9))
    assert target_names(snapshot, "lender", pending_workload("new", 4, priority=5), 4) == {"own", "borrowed"}
