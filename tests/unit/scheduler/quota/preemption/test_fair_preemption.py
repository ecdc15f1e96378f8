"""Examples of preemption with fair sharing."""

from __future__ import annotations

import pytest

from support.quota_strategies import CPU, cpu_queue, pending_workload, running_workload
from zonewise_scheduler.quota.api.configuration import PreemptionStrategy, QuotaSettings
from zonewise_scheduler.quota.api.queue_types import ClusterQueue, ClusterQueuePreemption, Cohort
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, FlavorResource, ResourceQuota, resource_group
from zonewise_scheduler.quota.api.workload_types import PodSet, Workload
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.quota.preemption.fair_preemption import fair_preemptions
from zonewise_scheduler.quota.preemption.preemption_context import PreemptionContext

SETTINGS = QuotaSettings(fair_sharing=True)
PREEMPTION = ClusterQueuePreemption(reclaim_within_cohort="Any")


def target_names(
    snapshot: Snapshot, queue: str, preemptor: Workload, amount: int, settings: QuotaSettings = SETTINGS
) -> set[str]:
    node = snapshot.cluster_queues[queue]
    context = PreemptionContext(snapshot, preemptor, node, {CPU: amount}, frozenset([CPU]), settings)
    return {target.workload.name for target in fair_preemptions(context)}


def test_lent_quota_is_reclaimed() -> None:
    """Every borrower loses quota, whatever its priority, within nominal quota."""
    snapshot = Snapshot([cpu_queue("lender", 4, PREEMPTION), cpu_queue("borrower", 4, PREEMPTION)])
    for name in ("own", "borrowed"):
        snapshot.add_workload(running_workload(name, "borrower", CPU, 4, priority=9, at=len(name)))
    assert target_names(snapshot, "lender", pending_workload("new", 4), 4) == {"borrowed"}


def test_borrowers_end_with_equal_shares() -> None:
    """Two queues borrow from a third. The queue with the larger share loses workloads until the shares are equal."""
    queues = [cpu_queue(name, nominal, PREEMPTION) for name, nominal in (("a", 0), ("b", 0), ("lender", 4))]
    snapshot = Snapshot(queues)
    for i in range(4):
        snapshot.add_workload(running_workload(f"w{i}", "b", CPU, 1, at=i))
    assert target_names(snapshot, "a", pending_workload("new", 2), 2) == {"w3", "w2"}
    assert not target_names(snapshot, "a", pending_workload("new", 3), 3)


FINAL: PreemptionStrategy = "LessThanOrEqualToFinalShare"
INITIAL: PreemptionStrategy = "LessThanInitialShare"


@pytest.mark.parametrize(
    ("own", "sizes", "amount", "victims"),
    [
        (0, [4], 3, {INITIAL: "0", FINAL: "", "both": "0"}),  # between the shares before and after
        (0, [4], 4, {INITIAL: "", FINAL: "", "both": ""}),  # equal to the share before
        (1, [3], 3, {INITIAL: "", FINAL: "", "both": ""}),  # above both
        (0, [1, 1, 2], 2, {INITIAL: "2", FINAL: "2", "both": "2"}),  # equal to the share after
        (0, [2, 2], 2, {INITIAL: "1", FINAL: "1", "both": "1"}),
        (0, [1, 3], 3, {INITIAL: "1", FINAL: "", "both": ""}),  # without workload 0, the shares are equal
        (0, [3, 1], 3, {INITIAL: "", FINAL: "", "both": ""}),
    ],
)
def test_the_strategy_decides_whether_the_share_before_or_after_counts(
    own: int, sizes: list[int], amount: int, victims: dict[str, str]
) -> None:
    """Two queues borrow four CPUs: that of the preemptor, which runs `own`, and one that runs workloads of `sizes`.

    With both strategies, the second one is tried for the candidates that the first one left.
    """
    snapshot = Snapshot([cpu_queue(name, nominal, PREEMPTION) for name, nominal in (("a", 0), ("b", 0), ("lender", 4))])
    if own:
        snapshot.add_workload(running_workload("own", "a", CPU, own))
    for i, size in enumerate(sizes):
        snapshot.add_workload(running_workload(f"{i}", "b", CPU, size, at=i))
    strategies: dict[str, tuple[PreemptionStrategy, ...]] = {
        INITIAL: (INITIAL,),
        FINAL: (FINAL,),
        "both": (FINAL, INITIAL),
    }
    found: dict[str, str] = {}
    for name, names in strategies.items():
        settings = QuotaSettings(fair_sharing=True, preemption_strategies=names)
        found[name] = "".join(sorted(target_names(snapshot, "a", pending_workload("new", amount), amount, settings)))
    assert found == victims


def test_a_victim_of_another_resource_leaves_a_share_equal() -> None:
    """Both queues borrow half of the CPUs, so the strategy allows a victim that holds only memory.

    The share of the victim's queue is that of its CPUs, with the victim and without it.
    """
    memory = FlavorResource("any", "memory")
    lent = (resource_group(FlavorQuotas("any", (("cpu", ResourceQuota(4)), ("memory", ResourceQuota(8))))),)
    none = (resource_group(FlavorQuotas("any", (("cpu", ResourceQuota(0)), ("memory", ResourceQuota(0))))),)
    queues = [ClusterQueue(name, none, "c", preemption=PREEMPTION) for name in ("a", "b")]
    snapshot = Snapshot([*queues, ClusterQueue("lender", lent, "c", preemption=PREEMPTION)])
    snapshot.add_workload(running_workload("own", "lender", memory, 2))
    snapshot.add_workload(running_workload("compute", "b", CPU, 2, at=1))
    snapshot.add_workload(running_workload("store", "b", memory, 3, at=2))
    preemptor = Workload("ns", "new", (PodSet(requests={"cpu": 2, "memory": 4}),), "new")
    settings = QuotaSettings(fair_sharing=True, preemption_strategies=(FINAL,))
    usage = {CPU: 2, memory: 4}
    context = PreemptionContext(snapshot, preemptor, snapshot.cluster_queues["a"], usage, frozenset([memory]), settings)
    assert [target.workload.name for target in fair_preemptions(context)] == ["store"]


def test_unnecessary_targets_are_spared_if_the_preemptor_borrows() -> None:
    """The small workload is tried first, but it is not needed once the large one is preempted."""
    queue = cpu_queue("q", 0, ClusterQueuePreemption(within_cluster_queue="LowerPriority"))
    snapshot = Snapshot([queue, cpu_queue("lender", 10)])
    snapshot.add_workload(running_workload("small", "q", CPU, 2, priority=0))
    snapshot.add_workload(running_workload("large", "q", CPU, 8, priority=1))
    assert target_names(snapshot, "q", pending_workload("new", 8, priority=2), 8) == {"large"}


def test_a_sibling_of_the_preemptors_cohort_loses_what_it_borrows() -> None:
    """The root lends 4 CPUs, all of them to the left cohort. The right one, which uses none, gets half of them."""
    lent = (resource_group(FlavorQuotas("any", (("cpu", ResourceQuota(4)),))),)
    cohorts = [Cohort("root", "", lent), Cohort("left", "root"), Cohort("right", "root")]
    queues = [cpu_queue("borrower", 0, PREEMPTION, "left"), cpu_queue("preemptor", 0, PREEMPTION, "right")]
    snapshot = Snapshot(queues, cohorts)
    for i in range(4):
        snapshot.add_workload(running_workload(f"w{i}", "borrower", CPU, 1, at=i))
    assert target_names(snapshot, "preemptor", pending_workload("new", 2), 2) == {"w3", "w2"}
