"""Placements with known kubelets: each placement is admitted pod by pod, and failures have no placement."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.any_nodes import clusters, pods
from support.fit_nodes import GPU, STRICT, admitted_in_sequence, container, node, pod
from support.tas_clusters import (
    ANY,
    FLAVORS,
    HOST,
    RACK,
    Host,
    find_hosts,
    flavor_topologies,
    job,
    placement_exists,
    pods_of_shape,
    start,
    zoned_cluster,
)
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.assignment_text import format_assignments
from zonewise_scheduler.quota.api.workload_types import Admission, PodSetAdmission
from zonewise_scheduler.quota.hierarchy.topology_snapshot import PlacementRequest, TopologyPlacementFailure
from zonewise_scheduler.quota.topology.types import HOSTNAME, PodSetTopologyRequest
from zonewise_scheduler.tas.tas_snapshot import TASSnapshot
from zonewise_scheduler.tas.zones.kubelet_states import KubeletStates, build_kubelet_states
from zonewise_scheduler.tas.zones.reported_node import ReportedNode

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape

REQUESTS = st.sampled_from(
    [RACK, HOST, ANY, PodSetTopologyRequest(preferred="rack"), PodSetTopologyRequest(preferred=HOSTNAME)]
)
RACKS = st.text("xy", min_size=8, max_size=8)
WIDE = pod(container(cpus=6, gib=4))
"""A pod; a zone of 8 CPUs holds one."""


@settings(max_examples=60)
@given(clusters(most=5), RACKS, st.lists(st.tuples(pods(), st.integers(1, 5), REQUESTS), min_size=1, max_size=3))
def test_placements_are_admitted(
    states: list[NodeState], racks: str, pod_sets: list[tuple[PodShape, int, PodSetTopologyRequest]]
) -> None:
    """Under any policies, the kubelets admit the pods one by one, in the order of the pod sets."""
    cluster = zoned_cluster(states, racks[: len(states)])
    workload = job(
        "one",
        *(
            pods_of_shape(shape, pod_count, request, f"set{i}")
            for i, (shape, pod_count, request) in enumerate(pod_sets)
        ),
    )
    hosts = find_hosts(cluster, workload)
    if not isinstance(hosts, TopologyPlacementFailure):
        assert cluster.admits(
            (pod_set.shape, hosts[pod_set.name]) for pod_set in workload.pod_sets if pod_set.shape is not None
        )


@settings(max_examples=60)
@given(clusters(("single-numa-node",), most=3), RACKS, pods(), st.integers(1, 5), st.sampled_from([RACK, HOST, ANY]))
def test_failure_only_without_placement(
    states: list[NodeState], racks: str, shape: PodShape, pod_count: int, request: PodSetTopologyRequest
) -> None:
    """One pod set is compared with an exhaustive search. Several are placed in turn, so a failure proves nothing."""
    result = find_hosts(
        zoned_cluster(states, racks[: len(states)]), job("one", pods_of_shape(shape, pod_count, request))
    )
    assert isinstance(result, TopologyPlacementFailure) is not placement_exists(
        states, racks, shape, pod_count, request
    )


@settings(max_examples=60)
@given(clusters(most=3), pods(), pods(), st.integers(1, 4), st.sampled_from([RACK, HOST, ANY]))
def test_leader_and_workers_are_admitted(
    states: list[NodeState], leader: PodShape, workers: PodShape, pod_count: int, request: PodSetTopologyRequest
) -> None:
    """The leader is admitted before the workers."""
    cluster = zoned_cluster(states)
    pod_sets = [
        pods_of_shape(workers, pod_count, request, "workers", "g"),
        pods_of_shape(leader, 1, request, "leader", "g"),
    ]
    hosts = find_hosts(cluster, job("one", *pod_sets))
    if not isinstance(hosts, TopologyPlacementFailure):
        assert cluster.admits([(leader, hosts["leader"]), (workers, hosts["workers"])])


@settings(max_examples=60)
@given(clusters(("single-numa-node",), most=3), pods(), pods(), st.integers(1, 3))
def test_leader_on_the_host_that_fits_its_workers(
    states: list[NodeState], leader: PodShape, workers: PodShape, pod_count: int
) -> None:
    """If all must be on one host, placement fails only if no host admits the leader and then its workers."""
    pod_sets = [pods_of_shape(workers, pod_count, HOST, "workers", "g"), pods_of_shape(leader, 1, HOST, "leader", "g")]
    states_with_leader = [admit(state, leader).after for state in states]
    fits = any(
        state is not None and admitted_in_sequence(state, workers, pod_count) == pod_count
        for state in states_with_leader
    )
    assert isinstance(find_hosts(zoned_cluster(states), job("one", *pod_sets)), TopologyPlacementFailure) is not fits


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.sampled_from("xy")), min_size=1, max_size=6),
    st.integers(1, 3),
    st.integers(1, 6),
    REQUESTS,
    st.booleans(),
)
def test_hosts_without_reports_are_chosen_as_without_kubelets(
    hosts: list[tuple[int, str]], cpus: int, pod_count: int, request: PodSetTopologyRequest, has_leader: bool
) -> None:
    """Their free capacity decides which of them fits best, even if each of them fits all pods."""
    topologies = flavor_topologies([Host(f"h{i}", rack, free * 1000) for i, (free, rack) in enumerate(hosts)])
    shape = pod(container(cpus=cpus, gib=1))
    pod_sets = [pods_of_shape(shape, pod_count, request, "workers", "g" if has_leader else "")]
    if has_leader:
        pod_sets.append(pods_of_shape(shape, 1, request, "leader", "g"))
    pod_sets = [pod_set._replace(requests={"cpu": cpus * 1000}) for pod_set in pod_sets]
    requests = {"all": [PlacementRequest(pod_set, pod_set.pods, "all") for pod_set in pod_sets]}
    unknown, unreported = (
        TASSnapshot(topologies, kubelet_states=states) for states in (None, KubeletStates([None] * len(hosts)))
    )
    workload = job("one", *pod_sets)
    assert unreported.find_topology_assignments(workload, requests, empty=False) == unknown.find_topology_assignments(
        workload, requests, empty=False
    )


def test_the_host_with_the_least_capacity_that_suffices_is_chosen() -> None:
    """Each of the kubelets admits all pods, so that the capacity decides."""
    topologies = flavor_topologies([Host("h0", "x", 16_000), Host("h1", "x", 8000), Host("h2", "x", 12_000)])
    states = {f"h{row}": node(2, cores, **STRICT) for row, cores in enumerate((4, 2, 3))}
    snapshot = TASSnapshot(topologies, kubelet_states=build_kubelet_states(topologies[0].nodes, states))
    pod_set = pods_of_shape(pod(container(cpus=4, gib=1)), 2, HOST)._replace(requests={"cpu": 4000})
    requests = {"all": [PlacementRequest(pod_set, 2, "all")]}
    assignments = snapshot.find_topology_assignments(job("one", pod_set), requests, empty=False)
    assert not isinstance(assignments, TopologyPlacementFailure)
    assert [domain.values[-1] for domain in assignments["main"].domains] == ["h1"]


@settings(max_examples=60)
@given(clusters(most=3), pods(), pods(), st.integers(1, 4))
def test_predicted_admissions_match_the_kubelets(
    states: list[NodeState], shape: PodShape, later: PodShape, pod_count: int
) -> None:
    """They follow from verdicts on the pods one by one. Computing them does not affect later decisions."""
    cluster, twin = (zoned_cluster(states) for _ in range(2))
    workload, next_one = job("one", pods_of_shape(shape, pod_count)), job("two", pods_of_shape(later, pod_count))
    if isinstance(find_hosts(twin, workload), TopologyPlacementFailure):
        return
    start(twin, workload)
    running = start(cluster, workload)
    admissions = cluster.tas_snapshot.predicted_admissions(running)
    for (pod_set, host), texts in admissions.items():
        state, expected = states[int(host.removeprefix("h"))], list[str]()
        for _ in texts:
            verdict = admit(state, shape)
            assert verdict.after is not None
            expected.append(format_assignments(verdict.assignments))
            state = verdict.after
        assert (pod_set, list(texts)) == ("main", expected)
    assert sum(map(len, admissions.values())) == pod_count
    for some in (cluster, twin):
        some.tas_snapshot.remove(running)
        if not isinstance(find_hosts(some, next_one), TopologyPlacementFailure):
            start(some, next_one)
    rows = range(len(states))
    assert [cluster.tas_snapshot.node_state(row) for row in rows] == [twin.tas_snapshot.node_state(row) for row in rows]


@pytest.mark.parametrize("allow_unknown", [True, False])
def test_leader_and_workers_on_a_host_without_a_report(allow_unknown: bool) -> None:
    """The host with a report fits the leader or the workers, but not both. The other one does, if unknown hosts may."""
    pod_sets = [
        pods_of_shape(pod(container(cpus=5, gib=1)), 2, HOST, "workers", "g"),
        pods_of_shape(WIDE, 1, HOST, "leader", "g"),
    ]
    hosts = find_hosts(zoned_cluster([node(2, 4, **STRICT), None], allow_unknown=allow_unknown), job("one", *pod_sets))
    if allow_unknown:
        assert hosts == {"workers": {"h1": 2}, "leader": {"h1": 1}}
    else:
        assert isinstance(hosts, TopologyPlacementFailure)


def test_pod_sets_of_two_flavors_fit_where_they_were_placed() -> None:
    """The kubelet admits the large pods and then the small ones, but not in the order of the pod sets."""
    cluster = zoned_cluster([node(2, 4, **STRICT)], flavors=FLAVORS)
    flavors = {"small": "fast", "large": "all"}
    pod_sets = [
        pods_of_shape(pod(container(cpus=cpus, gib=1)), 2, HOST, name)
        for name, cpus in zip(flavors, (3, 5), strict=True)
    ]
    workload = job("one", *pod_sets)
    requests = {flavors[pod_set.name]: [PlacementRequest(pod_set, 2, flavors[pod_set.name])] for pod_set in pod_sets}
    assignments = cluster.tas_snapshot.find_topology_assignments(workload, requests, empty=False)
    assert not isinstance(assignments, TopologyPlacementFailure)
    admitted_pod_sets = (
        PodSetAdmission(name, {"pods": flavor}, {}, 2, assignments[name]) for name, flavor in flavors.items()
    )
    assert cluster.tas_snapshot.fits(replace(workload, admission=Admission("a", tuple(admitted_pod_sets))))


def test_group_after_partial_admission_fits_where_it_was_placed() -> None:
    """Of two pod sets of one pod each, the second is placed first. Only this order leaves 8 CPUs for the worker."""
    cluster = zoned_cluster([node(2, 4, **STRICT, reserved=0xF << 8)])
    pod_sets = [
        pods_of_shape(pod(container(cpus=4, gib=1)), 1, HOST, "leader", "g"),
        pods_of_shape(pod(container(cpus=8, gib=1)), 4, HOST, "workers", "g"),
    ]
    workload = job("one", *pod_sets)
    requests = [PlacementRequest(pod_set, 1, "all") for pod_set in pod_sets]
    assignments = cluster.tas_snapshot.find_topology_assignments(workload, {"all": requests}, empty=False)
    assert not isinstance(assignments, TopologyPlacementFailure)
    admitted_pod_sets = (PodSetAdmission(name, {"pods": "all"}, {}, 1, assignments[name]) for name in assignments)
    assert cluster.tas_snapshot.fits(replace(workload, admission=Admission("a", tuple(admitted_pod_sets))))


def test_leader_is_replaced_before_its_workers() -> None:
    """The leader takes half of the first zone. The second worker needs 8 CPUs, but only the zone of 4 is left."""
    half_reserved = node(3, 4, **STRICT, reserved=0xF << 16)
    cluster = zoned_cluster([None, half_reserved])
    pod_sets = [
        pods_of_shape(pod(container(cpus=8, gib=1)), 2, HOST, "workers", "g"),
        pods_of_shape(pod(container(cpus=4, gib=1)), 1, HOST, "leader", "g"),
    ]
    running = start(cluster, job("one", *pod_sets))
    full = half_reserved._replace(free_cpus=0)
    cluster.kubelet_states.report(0, ReportedNode(full, full, {}))
    moving = replace(running, unhealthy_nodes=("h0",))
    assert isinstance(find_hosts(cluster, moving), TopologyPlacementFailure)


def test_empty_cluster() -> None:
    """The search on the empty cluster ignores running workloads."""
    cluster = zoned_cluster([node(2, 4, **STRICT)])
    start(cluster, job("first", pods_of_shape(WIDE, 2)))
    next_one = job("next", pods_of_shape(WIDE, 2))
    assert isinstance(find_hosts(cluster, next_one), TopologyPlacementFailure)
    assert find_hosts(cluster, next_one, empty=True) == {"main": {"h0": 2}}
    assert isinstance(find_hosts(cluster, job("large", pods_of_shape(WIDE, 3)), empty=True), TopologyPlacementFailure)


def test_failure_explains_what_the_kubelet_lacks() -> None:
    cluster = zoned_cluster([node(2, 4, **STRICT, devices={GPU: {1: count}}) for count in (1, 2)], "xy")
    failure = find_hosts(cluster, job("one", pods_of_shape(pod(container(cpus=1, gib=1, devices={GPU: 1})), 3, RACK)))
    assert isinstance(failure, TopologyPlacementFailure)
    assert (failure.level, failure.domain) == ("rack", ("y",))
    assert "allows to fit only 2 out of 3 pod(s)" in failure.reason
    assert (failure.node, failure.kubelet_reason) == ("h1", f"needs 1 {GPU}; near all zones together, 0 are free")


def test_kubelets_need_one_node_table() -> None:
    topologies = [*flavor_topologies([Host("one", "x", 4)])[:1], *flavor_topologies([Host("one", "x", 4)])[1:]]
    with pytest.raises(ValueError, match="in several tables"):
        TASSnapshot(topologies, kubelet_states=KubeletStates([None]))
