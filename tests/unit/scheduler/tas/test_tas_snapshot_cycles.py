"""Whole cycles with topologies: usage remains within capacity, and every placement is valid."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from support.fit_nodes import container, node, pod
from support.tas_clusters import (
    FLAVORS,
    Host,
    flavor_topologies,
    host_usage,
    hosts_of,
    job,
    pods_of,
    pods_of_shape,
    preempting_queue,
    snapshot_of,
    zone_counts,
    zoned_cluster,
)
from zonewise_scheduler.quota.api.configuration import QuotaSettings
from zonewise_scheduler.quota.api.workload_types import PodSet
from zonewise_scheduler.quota.cycle.entry import Head
from zonewise_scheduler.quota.cycle.scheduling_cycle import run_cycle
from zonewise_scheduler.quota.flavorassigner.tas_flavorassigner import needs_second_pass
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.quota.hierarchy.topology_snapshot import PlacementRequest
from zonewise_scheduler.quota.topology.types import HOSTNAME, PodSetTopologyRequest, SliceConstraint
from zonewise_scheduler.tas.tas_snapshot import TASSnapshot
from zonewise_scheduler.tas.zones.zone_level import ZONE_LEVEL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.cycle.entry import Decision

REQUESTS = (
    PodSetTopologyRequest(unconstrained=True),
    PodSetTopologyRequest("rack"),
    PodSetTopologyRequest(HOSTNAME),
    PodSetTopologyRequest(preferred="rack"),
    PodSetTopologyRequest(preferred=HOSTNAME),
    PodSetTopologyRequest("rack", slice_constraints=(SliceConstraint(HOSTNAME, 2),)),
    PodSetTopologyRequest(preferred="rack", slice_constraints=(SliceConstraint("rack", 2),)),
)
QUEUES = (
    preempting_queue("a", 6),
    preempting_queue("b", 4, ("fast", "all")),
    preempting_queue("c", 5, ("all", "fast")),
    preempting_queue("alone", 9, ("fast",), cohort=""),
)

Step = tuple[list[tuple[list[PodSet], int]], set[int], int]
"""A cycle: new pod sets and priorities for each queue, finished workloads, and the workload whose node fails."""

_HOSTS = st.lists(st.tuples(st.sampled_from("xy"), st.integers(0, 6), st.booleans()), min_size=1, max_size=5).map(
    lambda hosts: [Host(f"h{i}", *host) for i, host in enumerate(hosts)]
)
_PODS = st.builds(pods_of, st.integers(1, 3), st.sampled_from([1, 2, 4]), st.sampled_from(REQUESTS))
_POD_SETS = st.lists(_PODS, min_size=1, max_size=2).map(
    lambda pod_sets: [pod_set._replace(name=f"set{i}") for i, pod_set in enumerate(pod_sets)]
)
_NEW = st.tuples(_POD_SETS, st.integers(0, 3))
_STEP = st.tuples(st.lists(_NEW, min_size=4, max_size=4), st.sets(st.integers(0, 9)), st.integers(0, 9))
_SETTINGS = st.builds(QuotaSettings, fair_sharing=st.booleans(), recompute_topology_assignment=st.booleans())


def running_workloads(snapshot: Snapshot) -> list[Workload]:
    return [workload for workloads in snapshot.workloads_by_queue.values() for workload in workloads.values()]


def fail_first_node(snapshot: Snapshot, index: int) -> None:
    """Mark the first node of a workload as unhealthy."""
    for workload in running_workloads(snapshot)[index : index + 1]:
        hosts = [host for pods_by_host in hosts_of(workload).values() for host in pods_by_host]
        snapshot.remove_workload(workload)
        snapshot.add_workload(replace(workload, unhealthy_nodes=tuple(hosts[:1])))


def run_history(snapshot: Snapshot, cycles: list[Step], settings: QuotaSettings) -> Iterator[Decision]:
    """Run cycles; after each of them, remove victims, evicted workloads and some finished workloads."""
    for i, (pod_sets_by_queue, finished_indices, failing_index) in enumerate(cycles):
        fail_first_node(snapshot, failing_index)
        heads = [
            Head(workload, workload.admission.cluster_queue)
            for workload in running_workloads(snapshot)
            if workload.admission is not None and needs_second_pass(workload, snapshot.tas_snapshot)
        ]
        for cluster_queue, (pod_sets, priority) in zip(QUEUES, pod_sets_by_queue, strict=True):
            heads.append(
                Head(job(f"{cluster_queue.name}-{i}", *pod_sets, priority=priority, created=i), cluster_queue.name)
            )
        decisions = run_cycle(snapshot, heads, settings, float(i))
        yield from decisions
        stopped = {target.workload.key for decision in decisions for target in decision.preemption_targets}
        stopped |= {decision.workload.key for decision in decisions if decision.status == "evicted"}
        stopped |= {
            workload.key for index, workload in enumerate(running_workloads(snapshot)) if index in finished_indices
        }
        for workload in running_workloads(snapshot):
            if workload.key in stopped:
                snapshot.remove_workload(workload)


def is_valid_placement(workload: Workload, hosts: dict[str, Host]) -> bool:
    """Return whether all pods are on hosts of their flavor and comply with their request."""
    assert workload.admission is not None
    hosts_by_pod_set = hosts_of(workload)
    for pod_set, admission in zip(workload.pod_sets, workload.admission.pod_sets, strict=True):
        pods_by_host, topology = hosts_by_pod_set[pod_set.name], pod_set.topology
        assert topology is not None
        racks: dict[str, int] = {}
        for host, pods in pods_by_host.items():
            racks[hosts[host].rack] = racks.get(hosts[host].rack, 0) + pods
        levels = {"rack": racks, HOSTNAME: pods_by_host}
        request = topology.request
        valid = sum(pods_by_host.values()) == pod_set.pods
        valid &= admission.flavors["cpu"] == "all" or all(hosts[host].fast for host in pods_by_host)
        valid &= not request.required or len(levels[request.required]) == 1
        valid &= all(
            sum(-(-pods // layer.size) for pods in levels[layer.level].values()) == -(-pod_set.pods // layer.size)
            for layer in request.slice_constraints
        )
        if not valid:
            return False
    return True


@given(_HOSTS, st.lists(_STEP, min_size=1, max_size=4), _SETTINGS)
def test_usage_remains_within_capacity(hosts: list[Host], cycles: list[Step], settings: QuotaSettings) -> None:
    """The cycles include preemption, unhealthy nodes and overlapping flavors; placements comply with requests."""
    snapshot, hosts_by_name = snapshot_of(QUEUES, hosts), {host.name: host for host in hosts}
    for decision in run_history(snapshot, cycles, settings):
        if decision.status == "admitted":
            assert is_valid_placement(decision.workload, hosts_by_name)
        usage = host_usage(running_workloads(snapshot))
        assert all(usage.get(host.name, 0) <= host.cpus for host in hosts)


@given(_HOSTS, st.lists(_STEP, min_size=1, max_size=3), _SETTINGS, _PODS)
def test_usage_is_that_of_running_workloads(
    hosts: list[Host], cycles: list[Step], settings: QuotaSettings, pod_set: PodSet
) -> None:
    """After any history, results equal those of a new snapshot with the same running workloads."""
    snapshot = snapshot_of(QUEUES, hosts)
    for _ in run_history(snapshot, cycles, settings):
        pass
    fresh = TASSnapshot(flavor_topologies(hosts))
    for workload in running_workloads(snapshot):
        fresh.add(workload)
    probe = job("probe", pod_set)
    requests_by_flavor = {
        flavor: [PlacementRequest(probe.pod_sets[0], probe.pod_sets[0].pods, flavor)] for flavor in ("all", "fast")
    }
    for flavor, requests in requests_by_flavor.items():
        assert snapshot.tas_snapshot.find_topology_assignments(
            probe, {flavor: requests}, empty=False
        ) == fresh.find_topology_assignments(probe, {flavor: requests}, empty=False)


@given(_HOSTS, st.lists(_STEP, min_size=1, max_size=3), st.sets(st.integers(0, 9)), _PODS)
def test_batches_equal_single_changes(
    hosts: list[Host], cycles: list[Step], indices: set[int], pod_set: PodSet
) -> None:
    snapshot = snapshot_of(QUEUES, hosts)
    for _ in run_history(snapshot, cycles, QuotaSettings()):
        pass
    workloads = [workload for index, workload in enumerate(running_workloads(snapshot)) if index in indices]
    together, one_by_one = snapshot.tas_snapshot.copy(), snapshot.tas_snapshot.copy()
    probe = job("probe", pod_set)
    requests = {"all": [PlacementRequest(probe.pod_sets[0], probe.pod_sets[0].pods, "all")]}
    initial_result = one_by_one.find_topology_assignments(probe, requests, empty=False)
    together.remove_all(workloads)
    for workload in workloads:
        one_by_one.remove(workload)
    assert together.find_topology_assignments(probe, requests, empty=False) == one_by_one.find_topology_assignments(
        probe, requests, empty=False
    )
    together.add_all(workloads)
    assert together.find_topology_assignments(probe, requests, empty=False) == initial_result


@given(_HOSTS, st.lists(_STEP, min_size=1, max_size=3), st.lists(_PODS, min_size=1, max_size=3), st.data())
def test_cached_results_equal_new_ones(
    hosts: list[Host], cycles: list[Step], pod_sets: list[PodSet], data: st.DataObject
) -> None:
    """After additions, removals and searches, including in copies, results equal those of a new snapshot."""
    snapshot = snapshot_of(QUEUES, hosts)
    for _ in run_history(snapshot, cycles, QuotaSettings()):
        pass
    workloads, copies = (
        running_workloads(snapshot),
        [(snapshot.tas_snapshot, {workload.key: workload for workload in running_workloads(snapshot)})],
    )
    for _ in range(data.draw(st.integers(1, 6))):
        tas_snapshot, workloads_in_copy = data.draw(st.sampled_from(copies))
        if data.draw(st.booleans()):
            tas_snapshot, workloads_in_copy = tas_snapshot.copy(), dict(workloads_in_copy)
            copies.append((tas_snapshot, workloads_in_copy))
        for workload in data.draw(st.lists(st.sampled_from(workloads), unique_by=id)) if workloads else ():
            if workloads_in_copy.pop(workload.key, None) is not None:
                tas_snapshot.remove(workload)
            else:
                tas_snapshot.add(workload)
                workloads_in_copy[workload.key] = workload
        fresh = TASSnapshot(flavor_topologies(hosts))
        fresh.add_all(workloads_in_copy.values())
        probe = job("probe", data.draw(st.sampled_from(pod_sets)))
        requests = {"all": [PlacementRequest(probe.pod_sets[0], probe.pod_sets[0].pods, "all")]}
        for empty in (False, True):
            assert tas_snapshot.find_topology_assignments(
                probe, requests, empty=empty
            ) == fresh.find_topology_assignments(probe, requests, empty=empty)
        assert [tas_snapshot.fits(workload) for workload in workloads] == [
            fresh.fits(workload) for workload in workloads
        ]


_SHAPES = st.sampled_from([pod(container(cpus=cpus, gib=1)) for cpus in (1, 2, 3, 5)])


def pods_in_zones(shape: PodShape, pod_count: int, request: PodSetTopologyRequest) -> PodSet:
    return pods_of_shape(shape, pod_count, request)._replace(requests={"cpu": pod_count})


_PODS_IN_ZONES = st.builds(
    pods_in_zones,
    _SHAPES,
    st.sampled_from([1, 2, 4]),
    st.sampled_from(
        [
            *REQUESTS[:5],
            PodSetTopologyRequest(ZONE_LEVEL),
            PodSetTopologyRequest(preferred=ZONE_LEVEL),
            PodSetTopologyRequest("rack", slice_constraints=(SliceConstraint(ZONE_LEVEL, 2),)),
        ]
    ),
)
_ZONED_STEP = st.tuples(
    st.lists(st.tuples(_PODS_IN_ZONES.map(lambda pod_set: [pod_set]), st.integers(0, 3)), min_size=4, max_size=4),
    st.sets(st.integers(0, 9)),
    st.just(99),
)


@given(st.text("xy", min_size=1, max_size=4), st.lists(_ZONED_STEP, min_size=1, max_size=4), _SETTINGS)
def test_kubelets_admit_all_admitted_pods(racks: str, cycles: list[Step], settings: QuotaSettings) -> None:
    """Over cycles with preemption, every pod has a zone of its host, and required zones hold all pods."""
    aligned = node(2, 4, topology="single-numa-node", cpu="static", memory="Static")
    cluster = zoned_cluster([aligned] * len(racks), racks, flavors=FLAVORS)
    snapshot = Snapshot(QUEUES, resource_flavors=FLAVORS, tas_snapshot=cluster.tas_snapshot)
    for decision in run_history(snapshot, cycles, settings):
        if decision.status == "admitted":
            zones = zone_counts(cluster, decision.workload)["main"]
            assert sum(zones.values()) == decision.workload.pod_sets[0].pods
            assert all(zone in {"0", "1"} for _, zone in zones)
            request = decision.workload.pod_sets[0].topology
            assert request is not None
            assert request.request.required != ZONE_LEVEL or len(zones) == 1
            in_pairs = sum(count % 2 for count in zones.values()) == decision.workload.pod_sets[0].pods % 2
            assert not request.request.slice_constraints or in_pairs
    for workload in running_workloads(snapshot):
        snapshot.remove_workload(workload)
    assert [cluster.tas_snapshot.node_state(row) for row in range(len(racks))] == [aligned] * len(racks)
