"""The initial state of a scenario."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from support.fit_nodes import container, node, pod
from support.scenarios import arrival, queue, scenario, with_nodes
from zonewise_scheduler.backfill.policies import policy_named
from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS
from zonewise_scheduler.quota.api.queue_types import ClusterQueue, Cohort
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, ResourceQuota, resource_group
from zonewise_scheduler.quota.api.workload_types import Admission, PodSet, PodSetAdmission, Workload
from zonewise_scheduler.simulator.cluster_simulation import simulate_cluster
from zonewise_scheduler.simulator.initial_state import (
    FeasibilityCheck,
    initial_snapshot,
    nominal_capacity,
    resource_amounts,
)

if TYPE_CHECKING:
    from zonewise_scheduler.simulator.scenario import Arrival

UNLIMITED = (1 << 63) - 1


def test_capacity_is_that_of_all_queues_and_cohorts() -> None:
    shared = (resource_group(FlavorQuotas("default", (("cpu", ResourceQuota(3)),))),)
    two = (
        FlavorQuotas("old", (("cpu", ResourceQuota(2)), ("gpu", ResourceQuota(1)))),
        FlavorQuotas("new", (("cpu", ResourceQuota(5)),)),
    )
    case = scenario(queues=(queue(cpus=4, cohort="all"), ClusterQueue("r", (resource_group(*two),))))
    assert nominal_capacity(case._replace(cohorts=(Cohort("all", resource_groups=shared),))) == {"cpu": 14, "gpu": 1}


def test_a_resource_that_is_unlimited_anywhere_has_no_capacity() -> None:
    assert nominal_capacity(scenario(queues=(queue("q", 4), queue("r", UNLIMITED)))) == {}


def test_amounts_are_those_requested_until_there_is_an_admission() -> None:
    sets = PodSet("a", 2, {"cpu": 3}), PodSet("b", 1, {"cpu": 1, "gpu": 4})
    workload = Workload("ns", "job", sets)
    assert resource_amounts(workload) == {"cpu": 7, "gpu": 4}
    given = PodSetAdmission("a", {"cpu": "old"}, {"cpu": 3}, 1), PodSetAdmission("b", {"cpu": "new"}, {"cpu": 1}, 1)
    assert resource_amounts(Workload("ns", "job", sets, admission=Admission("q", given))) == {"cpu": 4}


def test_topologies_exist_if_there_are_nodes() -> None:
    assert not initial_snapshot(scenario()).tas_snapshot.has_topology("default")
    case = with_nodes(scenario(), ("n", 4))
    assert initial_snapshot(case).tas_snapshot.has_topology("default")
    with pytest.raises(ValueError, match="topology: no levels"):
        initial_snapshot(case._replace(topologies={"hosts": ()}))


def test_a_flavor_without_a_described_topology_has_quotas_only() -> None:
    snapshot = initial_snapshot(with_nodes(scenario(), ("n", 4))._replace(topologies={}))
    assert not snapshot.tas_snapshot.has_topology("default")
    assert not snapshot.inactive


def test_a_job_is_feasible_if_it_fits_the_idle_cluster() -> None:
    """Borrowing counts, and for a held queue, the state after its release does."""
    queues = queue("q", 4, "all"), queue("r", 4, "all"), queue("held", 2, stop_policy="Hold")
    possible = FeasibilityCheck(initial_snapshot(scenario(queues=queues)), DEFAULT_SETTINGS)
    result = [possible(arrival("a", cpus, 1, to=to)) for cpus, to in ((8, "q"), (9, "q"), (2, "held"), (3, "held"))]
    assert result == [True, False, True, False]
    assert not possible(arrival("a", 1, 1, to="nowhere"))


def test_only_pods_that_kubelets_admit_start() -> None:
    """Of 16 CPUs, 4 are left, 2 in each zone: a pod of 4 waits if the kubelet aligns pods to a single zone."""
    strict = node(2, 4, topology="single-numa-node", cpu="static", memory="Static")
    jobs = [of_one_zone(name, cpus, at) for at, (name, cpus) in enumerate({"a": 6, "b": 6, "c": 4}.items())]
    case = with_nodes(scenario(*jobs, queues=(queue(cpus=99_000),)), ("n", 16_000))
    for states, expected in (({}, [0.0, 1.0, 2.0]), ({"n": strict}, [0.0, 1.0, 10.0])):
        history = simulate_cluster(case._replace(states=states), policy_named("greedy"))
        assert [job.started for job in history.jobs] == expected


def of_one_zone(name: str, cpus: int, at: float) -> Arrival:
    """Return a job with a pod that runs for ten seconds."""
    entry = arrival(name, 1000 * cpus, 10, at)
    (pods,) = entry.workload.pod_sets
    return entry._replace(
        workload=replace(entry.workload, pod_sets=(pods._replace(shape=pod(container(cpus=cpus, gib=1))),))
    )
