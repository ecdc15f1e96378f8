"""Pods in one zone, and slices in zones, as kubelets assign them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from support.any_nodes import clusters, pods
from support.fit_nodes import STRICT, admitted_in_sequence, container, node, pod
from support.tas_clusters import (
    ANY,
    find_hosts,
    job,
    placement_exists,
    pods_of_shape,
    start,
    zone_counts,
    zoned_cluster,
)
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.quota.hierarchy.topology_snapshot import TopologyPlacementFailure
from zonewise_scheduler.quota.topology.types import HOSTNAME, PodSetTopologyRequest, SliceConstraint
from zonewise_scheduler.tas.zones.kubelet_states import KubeletStates
from zonewise_scheduler.tas.zones.node_filling import ANY_ZONE, SINGLE_ZONE, assigned_zones, fill_node, fill_nodes
from zonewise_scheduler.tas.zones.zone_level import ZONE_LEVEL

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape


def pods_by_zones(states: list[NodeState], hosts: dict[str, int], shape: PodShape) -> list[dict[int, int]]:
    """Return the pods of each zone bitmask by host, as kubelets assign them; an unaligned host is one zone."""
    by_host: list[dict[int, int]] = []
    for host, count in hosts.items():
        state = states[int(host[1:])]
        aligned = state.kind.policies.topology in {"single-numa-node", "restricted"}
        zones: dict[int, int] = {}
        for _ in range(count):
            verdict = admit(state, shape)
            assert verdict.after is not None
            pod_zones = assigned_zones(state.kind, verdict) if aligned else 0
            zones[pod_zones] = zones.get(pod_zones, 0) + 1
            state = verdict.after
        by_host.append(zones)
    return by_host


@settings(max_examples=60)
@given(clusters(most=3), pods(), st.integers(1, 5))
def test_pods_in_one_zone(states: list[NodeState], shape: PodShape, pod_count: int) -> None:
    """A required zone is found if and only if a kubelet puts all pods into one zone; preferred ones exclude no host."""
    cluster = zoned_cluster(states)

    def in_one_zone(host: int) -> bool:
        if admitted_in_sequence(states[host], shape, pod_count) < pod_count:
            return False
        (zones,) = pods_by_zones(states, {f"h{host}": pod_count}, shape)
        return len(zones) == 1 and max(zones).bit_count() < 2

    exists_in_one_zone = any(map(in_one_zone, range(len(states))))
    for request in (PodSetTopologyRequest(ZONE_LEVEL), PodSetTopologyRequest(preferred=ZONE_LEVEL)):
        result = find_hosts(cluster, job("one", pods_of_shape(shape, pod_count, request)))
        if request.required or exists_in_one_zone:
            assert isinstance(result, TopologyPlacementFailure) is not exists_in_one_zone
            assert isinstance(result, TopologyPlacementFailure) or in_one_zone(int(next(iter(result["main"]))[1:]))
        else:
            assert isinstance(result, TopologyPlacementFailure) is not placement_exists(
                states, "x" * 3, shape, pod_count, ANY
            )


@settings(max_examples=60)
@given(clusters(most=3), pods(), st.sampled_from([1, 2, 3]), st.integers(1, 9), st.booleans())
def test_slices_in_zones(
    states: list[NodeState], shape: PodShape, size: int, count: int, with_host_layer: bool
) -> None:
    """The kubelets put each slice into one zone. A smaller last slice is placed if a whole one would be."""
    layers = (
        (SliceConstraint(HOSTNAME, 2 * size), SliceConstraint(ZONE_LEVEL, size))
        if with_host_layer
        else (SliceConstraint(ZONE_LEVEL, size),)
    )
    request = PodSetTopologyRequest("rack", slice_constraints=layers)
    hosts = find_hosts(zoned_cluster(states), job("one", pods_of_shape(shape, count, request)))
    in_slices = -(-count // layers[0].size) * layers[0].size
    whole = find_hosts(zoned_cluster(states), job("one", pods_of_shape(shape, in_slices, request)))
    assert isinstance(hosts, TopologyPlacementFailure) is isinstance(whole, TopologyPlacementFailure)
    if not isinstance(hosts, TopologyPlacementFailure):
        assert sum(hosts["main"].values()) == count
        by_zone = [item for zones in pods_by_zones(states, hosts["main"], shape) for item in zones.items()]
        assert all(zone_mask.bit_count() < 2 for zone_mask, _ in by_zone)
        assert [pods % size for _, pods in by_zone if pods % size] == [count % size] * (count % size > 0)


@settings(max_examples=60)
@given(clusters(most=4), pods(), st.integers(0, 5), st.sampled_from([SINGLE_ZONE, ANY_ZONE, 1, 2, 3]))
def test_counts_of_many_nodes(states: list[NodeState], shape: PodShape, limit: int, size: int) -> None:
    """The counts equal those of each node alone, in whole slices."""
    counts = fill_nodes(KubeletStates(states).empty_table(), shape, limit, size)
    expected = [fill_node(state, shape, limit, size).pods for state in states]
    assert counts.tolist() == [pod_count - pod_count % max(size, 1) for pod_count in expected]


def test_full_host_leaves_slices_on_others() -> None:
    """A full host holds no pods, even if containers are aligned individually."""
    free = node(2, 4, **STRICT)
    shape = pod(container("first", cpus=2, gib=1), container("second", cpus=1, gib=1))
    pairs = PodSetTopologyRequest("rack", slice_constraints=(SliceConstraint(ZONE_LEVEL, 2),))
    cluster = zoned_cluster([free._replace(free_cpus=0), free])
    assert find_hosts(cluster, job("one", pods_of_shape(shape, 2, pairs))) == {"main": {"h1": 2}}


def test_lowest_zone_is_filled_first() -> None:
    """The kubelet puts the first pod into the first zone, which fits one, so the second zone never gets both."""
    partly_used = admit(node(2, 4, **STRICT), pod(container(cpus=4, gib=1))).after
    shape = pod(container(cpus=4, gib=1))
    cluster = zoned_cluster([partly_used])
    failure = find_hosts(cluster, job("two", pods_of_shape(shape, 2, PodSetTopologyRequest(ZONE_LEVEL))))
    assert isinstance(failure, TopologyPlacementFailure)
    assert (failure.level, failure.domain) == (ZONE_LEVEL, ("x", "h0", "0"))
    assert "allows to fit only 1 out of 2 pod(s)" in failure.reason
    assert failure.kubelet_reason == "the next pod would be in another zone"
    running = start(cluster, job("two", pods_of_shape(shape, 2)))
    assert zone_counts(cluster, running) == {"main": {("h0", "0"): 1, ("h0", "1"): 1}}
    aligned = start(
        zoned_cluster([node(2, 4, **STRICT)]), job("two", pods_of_shape(shape, 2, PodSetTopologyRequest(ZONE_LEVEL)))
    )
    assert aligned.admission is not None


def test_leader_and_workers_in_one_zone() -> None:
    """The leader is in the same zone as its workers, or there is no placement."""
    small, shape = pod(container(cpus=2, gib=1)), pod(container(cpus=3, gib=1))
    for workers, host in ((2, "h0"), (3, "")):
        pod_sets = [
            pods_of_shape(shape, workers, PodSetTopologyRequest(ZONE_LEVEL), "workers", "g"),
            pods_of_shape(small, 1, PodSetTopologyRequest(ZONE_LEVEL), "leader", "g"),
        ]
        result = find_hosts(zoned_cluster([node(2, 4, **STRICT)]), job("one", *pod_sets))
        assert (
            result == {"workers": {host: 2}, "leader": {host: 1}}
            if host
            else isinstance(result, TopologyPlacementFailure)
        )
