"""Examples of preemption without fair sharing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest

from support.quota_strategies import CPU, cpu_queue, pending_workload, running_workload
from zonewise_scheduler.quota.api.configuration import QuotaSettings
from zonewise_scheduler.quota.api.queue_types import ClusterQueuePreemption
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.quota.preemption.classical_preemption import classical_preemptions
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
