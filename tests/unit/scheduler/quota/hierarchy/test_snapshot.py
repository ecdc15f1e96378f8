"""Snapshots: cohorts without a spec, cohort cycles, and inactive queues."""

from __future__ import annotations

from typing import Any

import pytest

from support.quota_strategies import CPU, cpu_queue, nonzero_usage, pending_workload, running_workload
from zonewise_scheduler.quota.api.queue_types import AdmissionCheckStrategyRule, Cohort, ResourceFlavor
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.tas.tas_snapshot import TASSnapshot


def test_a_cycle_of_cohorts_makes_queues_inactive() -> None:
    """The queues of cohorts below the cycle are inactive as well; other queues are active."""
    cohorts = [Cohort("a", "b"), Cohort("b", "a"), Cohort("below", "a"), Cohort("sound")]
    queues = [cpu_queue(f"in-{name}", 1, cohort=name) for name in ("a", "below", "sound")]
    snapshot = Snapshot(queues, cohorts)
    assert set(snapshot.inactive) == {"in-a", "in-below"}
    assert snapshot.cluster_queues["in-sound"].available(CPU) == 1
    assert all(cohort.parent is None for cohort in snapshot.cohorts.values())


@pytest.mark.parametrize("stop", ["Hold", "HoldAndDrain"])
def test_a_queue_on_hold_lends_its_quota(stop: str) -> None:
    snapshot = Snapshot([cpu_queue("held", 3)._replace(stop_policy=stop), cpu_queue("q", 1)])
    assert snapshot.inactive == {"held": f"stopPolicy is {stop}"}
    assert snapshot.cluster_queues["q"].available(CPU) == 4
    assert [queue.name for queue in snapshot.cohorts["c"].subtree_cluster_queues()] == ["q"]


def test_a_queue_with_a_missing_flavor_is_inactive() -> None:
    queues = [cpu_queue("q", 3, cohort="")]
    assert "any" in Snapshot(queues, resource_flavors=[]).inactive["q"]
    assert not Snapshot(queues, resource_flavors=[ResourceFlavor("any")]).inactive


def test_a_queue_without_the_topology_of_a_flavor_is_inactive() -> None:
    queues, flavors = [cpu_queue("q", 3, cohort="")], [ResourceFlavor("any", topology_name="racks")]
    message = "there is no Topology racks for ResourceFlavor any"
    assert Snapshot(queues, resource_flavors=flavors, tas_snapshot=TASSnapshot(())).inactive == {"q": message}
    assert not Snapshot(queues, resource_flavors=flavors).inactive, "quotas alone decide"


def test_an_inactive_queue_has_all_its_reasons_in_order() -> None:
    queues = [cpu_queue("q", 3, cohort="")._replace(stop_policy="Hold")]
    reason = Snapshot(queues, resource_flavors=[]).inactive["q"]
    assert reason == "stopPolicy is Hold, references missing ResourceFlavors: any"


def test_a_cohort_without_a_spec_exists() -> None:
    snapshot = Snapshot([cpu_queue("q", 3)], [Cohort("d", "e")])
    assert set(snapshot.cohorts) == {"c", "d", "e"}
    assert snapshot.cluster_queues["q"].root is snapshot.cohorts["c"]


def test_adding_and_removing_several_workloads_equals_doing_so_one_by_one() -> None:
    """The state covers their usage, the counts by priority, and the running workloads of each queue."""
    queues = [cpu_queue("a", 1), cpu_queue("b", 9)]
    workloads = [running_workload(f"w{i}", "ab"[i % 2], CPU, i + 1, i % 3) for i in range(6)]
    together, each, none = Snapshot(queues), Snapshot(queues), Snapshot(queues)
    together.add_workloads(workloads)
    for workload in workloads:
        each.add_workload(workload)
    assert state_of(together) == state_of(each) != state_of(none)
    together.remove_workloads(workloads)
    assert state_of(together) == state_of(none)


def state_of(snapshot: Snapshot) -> object:
    counts = [
        [(priority, entry.workloads) for priority, entry in sorted(queue.priority_usage.items())]
        for queue in snapshot.cluster_queues.values()
    ]
    return nonzero_usage(snapshot), snapshot.workloads_by_queue, counts


def test_only_missing_flavors_are_named() -> None:
    """A flavor that no queue uses is not a problem."""
    flavors = [ResourceFlavor("any"), ResourceFlavor("unused")]
    assert not Snapshot([cpu_queue("q", 3)], resource_flavors=flavors).inactive
    missing = Snapshot([cpu_queue("q", 3)], resource_flavors=[ResourceFlavor("unused")]).inactive["q"]
    assert missing == "references missing ResourceFlavors: any"


def test_only_workloads_of_known_queues_run() -> None:
    workloads = [running_workload("w", "q", CPU, 2), running_workload("gone", "gone", CPU, 1), pending_workload("p", 1)]
    snapshot = Snapshot([cpu_queue("q", 3)], workloads=workloads)
    assert snapshot.workloads_by_queue == {"q": {"ns/w": workloads[0]}}
    assert snapshot.cluster_queues["q"].available(CPU) == 1


@pytest.mark.parametrize(
    ("statuses", "reason"),
    [
        ((), ""),
        (("Active", "Active"), ""),
        (("Active", "Inactive", "Inactive"), "references inactive AdmissionChecks: check-1, check-2"),
        (("NotFound", "Active", "NotFound"), "references missing AdmissionChecks: check-0, check-2"),
        (("Inactive", "".join(["Not", "Found"])), "references missing AdmissionChecks: check-1"),
    ],
)
def test_a_queue_with_an_inactive_check_is_inactive(statuses: tuple[Any, ...], reason: str) -> None:
    """Missing checks are named before inactive ones."""
    checks = tuple(AdmissionCheckStrategyRule(f"check-{i}", status=status) for i, status in enumerate(statuses))
    snapshot = Snapshot([cpu_queue("q", 3)._replace(admission_checks=checks)])
    assert snapshot.inactive == ({"q": reason} if reason else {})
