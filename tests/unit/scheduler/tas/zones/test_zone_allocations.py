"""Allocations of the queue's pods: trials, reports, and nodes whose pods no longer fit."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from support.any_nodes import clusters, pods
from support.fit_nodes import STRICT, container, node, pod
from support.tas_clusters import (
    find_hosts,
    job,
    pods_of_shape,
    start,
    zone_counts,
    zoned_cluster,
)
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.quota.hierarchy.topology_snapshot import TopologyPlacementFailure
from zonewise_scheduler.tas.zones.kubelet_states import KubeletStates
from zonewise_scheduler.tas.zones.reported_node import ReportedNode
from zonewise_scheduler.tas.zones.zone_allocations import MIN_REMOVALS, NodeAllocations, ZoneAllocations

if TYPE_CHECKING:
    import pytest

    from support.tas_clusters import ZonedCluster
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.quota.api.workload_types import Workload


WIDE = pod(container(cpus=6, gib=4))
"""A pod; a zone of 8 CPUs holds one."""


@settings(max_examples=60)
@given(clusters(most=3), st.lists(st.tuples(pods(), st.integers(1, 3)), min_size=1, max_size=4), st.data())
def test_trials_can_be_undone(
    states: list[NodeState], pod_sets: list[tuple[PodShape, int]], data: st.DataObject
) -> None:
    """Removing and adding workloads in any order restores the states; without workloads the nodes are empty."""
    cluster = zoned_cluster(states)
    running: list[Workload] = []
    for i, (shape, pod_count) in enumerate(pod_sets):
        workload = job(f"w{i}", pods_of_shape(shape, pod_count))
        if not isinstance(find_hosts(cluster, workload), TopologyPlacementFailure):
            running.append(start(cluster, workload))
    initial_states = node_states(cluster, len(states))
    removed = data.draw(st.permutations(running))[: data.draw(st.integers(0, len(running)))]
    snapshot_copy = cluster.tas_snapshot.copy()
    for workload in removed:
        cluster.tas_snapshot.remove(workload)
    for workload in data.draw(st.permutations(removed)):
        assert cluster.tas_snapshot.fits(workload) or has_init_containers(workload)
        cluster.tas_snapshot.add(workload)
    assert (
        node_states(cluster, len(states))
        == initial_states
        == node_states(cluster._replace(tas_snapshot=snapshot_copy), len(states))
    )
    for workload in running:
        cluster.tas_snapshot.remove(workload)
    assert node_states(cluster, len(states)) == states


def has_init_containers(workload: Workload) -> bool:
    """Return whether the admission of the pods may need more than they are allocated."""
    return any(
        container.role == "init"
        for pod_set in workload.pod_sets
        if pod_set.shape is not None
        for container in pod_set.shape.containers
    )


def node_states(cluster: ZonedCluster, rows: int) -> list[NodeState | None]:
    """Return the states of the nodes for further pods."""
    return [cluster.tas_snapshot.node_state(row) for row in range(rows)]


def report(cluster: ZonedCluster, state: NodeState | None) -> None:
    """Report a state of the first node without pods of the queue."""
    cluster.kubelet_states.report(0, ReportedNode(state, state, {}))


def test_reports_are_added_and_removed() -> None:
    """Placed pods are allocated when a report arrives; without a report, their zones are unknown."""
    idle = node(2, 4, **STRICT)
    cluster = zoned_cluster([None])
    first = start(cluster, job("first", pods_of_shape(WIDE)))
    assert zone_counts(cluster, first) == {"main": {}}
    report(cluster, idle)
    assert zone_counts(cluster, first) == {"main": {("h0", "0"): 1}}
    assert isinstance(find_hosts(cluster, job("two", pods_of_shape(WIDE, 2))), TopologyPlacementFailure)
    report(cluster, None)
    assert find_hosts(cluster, job("two", pods_of_shape(WIDE, 2))) == {"main": {"h0": 2}}
    assert isinstance(
        find_hosts(zoned_cluster([None], allow_unknown=False), job("one", pods_of_shape(WIDE))),
        TopologyPlacementFailure,
    )


def test_report_of_another_kind_reallocates() -> None:
    """A kubelet with another configuration reports other devices, so earlier allocations do not apply."""
    idle = node(2, 4, **STRICT)
    cluster = zoned_cluster([idle])
    first = start(cluster, job("first", pods_of_shape(WIDE)))
    assert node_states(cluster, 1) == [admit(idle, WIDE).after]
    cluster.tas_snapshot.remove(first)
    other = node(2, 4, devices={"example.com/gpu": {1: 1}}, **STRICT)
    report(cluster, other)
    cluster.tas_snapshot.add(first)
    assert node_states(cluster, 1) == [admit(other, WIDE).after]


def test_node_with_unallocated_pods_is_exhausted() -> None:
    """A node that lost CPUs no longer fits its pods, and admits no other pods until they are removed."""
    idle, small = node(2, 4, **STRICT), pod(container(cpus=1, gib=1))
    cluster = zoned_cluster([idle])
    first = start(cluster, job("first", pods_of_shape(WIDE, 2)))
    report(cluster, idle._replace(free_cpus=idle.free_cpus & 0xFF0F))
    assert isinstance(find_hosts(cluster, job("next", pods_of_shape(small))), TopologyPlacementFailure)
    cluster.tas_snapshot.remove(first)
    assert find_hosts(cluster, job("next", pods_of_shape(small))) == {"main": {"h0": 1}}


def states_in_memory() -> int:
    """Return the number of states of nodes that are not garbage; other tests may have left some."""
    gc.collect()
    return sum(isinstance(obj, NodeAllocations) for obj in gc.get_objects())


def test_ended_pods_leave_nothing_that_grows() -> None:
    """However many pods have ended on a node, a bounded number of its earlier states is kept."""
    allocations, before = ZoneAllocations(KubeletStates([node(2, 4, **STRICT)])), states_in_memory()
    for i in range(3 * MIN_REMOVALS):
        allocations.add(0, (f"ns/job-{i}", "main"), WIDE, 1)
        allocations.remove(0, (f"ns/job-{i}", "main"), 1)
    assert states_in_memory() - before <= 2 * MIN_REMOVALS


def test_trials_with_many_pods_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The removals of a trial are computed once more at most, however many pod sets it removes."""
    keys = [(f"ns/job-{i}", "main") for i in range(2 * MIN_REMOVALS)]
    allocations = ZoneAllocations(KubeletStates([None] * len(keys)))
    for row, key in enumerate(keys):
        allocations.add(row, key, WIDE, 1)
    computed: list[int] = []
    compute = ZoneAllocations._removal  # pyright: ignore[reportPrivateUsage]

    def counted(self: ZoneAllocations, row: int, *arguments: Any) -> Any:
        computed.append(row)
        return compute(self, row, *arguments)

    monkeypatch.setattr(ZoneAllocations, "_removal", counted)
    for _ in range(5):
        trial = allocations.copy()
        for row, key in enumerate(keys):
            trial.remove(row, key, 1)
        for row, key in enumerate(keys):
            trial.add(row, key, WIDE, 1)
    assert len(computed) <= 2 * len(keys)
