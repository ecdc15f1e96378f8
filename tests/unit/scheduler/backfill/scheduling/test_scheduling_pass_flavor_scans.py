"""A pass ends, even if the flavor scans of several pod sets repeat."""

from __future__ import annotations

from math import inf

from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.backfill.scheduling.scheduling_pass import schedule
from zonewise_scheduler.backfill.state import events
from zonewise_scheduler.backfill.state.planner_state import new_state
from zonewise_scheduler.quota.api.queue_types import ClusterQueue, ClusterQueuePreemption, FlavorFungibility
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, ResourceQuota, resource_group
from zonewise_scheduler.quota.api.workload_types import Admission, PodSet, PodSetAdmission, Workload
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot


def work(name: str, *sizes: int, flavor: str = "") -> Workload:
    """Return a workload with one pod of each size; it runs if a flavor is passed."""
    sets = tuple(PodSet(f"set{index}", 1, {"cpu": size}) for index, size in enumerate(sizes))
    admissions = tuple(PodSetAdmission(one.name, {"cpu": flavor}, one.requests, 1) for one in sets)
    return Workload("", name, sets, name, admission=Admission("q", admissions) if flavor else None)


def test_a_repeated_flavor_scan_ends() -> None:
    """Whenever one of its two pod sets has no flavor left to try, the other still has. Kueue retries every cycle."""
    flavors = resource_group(
        FlavorQuotas("fast", (("cpu", ResourceQuota(6)),)),
        FlavorQuotas("slow", (("cpu", ResourceQuota(3, borrowing_limit=2, lending_limit=2)),)),
    )
    spec = ClusterQueue(
        "q",
        (flavors,),
        "team",
        preemption=ClusterQueuePreemption(reclaim_within_cohort="Any"),
        flavor_fungibility=FlavorFungibility("TryNextFlavor", "TryNextFlavor", "PreemptionOverBorrowing"),
    )
    running = [work("one", 4, flavor="fast"), work("other", 3, flavor="slow")]
    planner = new_state(Snapshot([spec], workloads=running), BackfillPolicy(reserve_after=inf))
    events.submit(planner, work("two sets", 1, 2), "q")
    assert schedule(planner, 0).decisions["/two sets"].status == "waiting"
    events.finish(planner, "/one")
    assert [one.key for one in schedule(planner, 1).admitted] == ["/two sets"]
