"""Nodes as bins: a pod that fits the amounts of a bin is admitted, and only that bin has less afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.any_nodes import clusters, pods
from support.fit_nodes import GIB, GPU, STATIC, container, node, pod
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.nodes.packing.zone_bins import bin_amounts, is_packable, node_bins

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape


@pytest.mark.parametrize("topology", ["restricted", "single-numa-node"])
def test_zones_are_bins(topology: str) -> None:
    state = node(**STATIC, topology=topology, devices={GPU: {1: 2, 2: 1}})._replace(
        memory_free=((3 * GIB,), (16 * GIB,))
    )
    bins = node_bins(state)
    assert bins.free == ((8, 3 * GIB, 2), (8, 16 * GIB, 1))
    assert bins.largest == (8, 16 * GIB, 2)


@pytest.mark.parametrize("topology", ["none", "best-effort"])
def test_nodes_without_one_zone_are_one_bin(topology: str) -> None:
    bins = node_bins(node(**STATIC, topology=topology, reserved=0b11))
    assert bins.free == ((14, 32 * GIB),)
    assert bins.largest is None


def test_amounts_of_pods() -> None:
    """Pods with several containers that are aligned individually, or that no kubelet admits, have no amounts."""
    state = node(**STATIC, topology="restricted", devices={GPU: {1: 2}})
    layout = node_bins(state).layout
    one = container("a", cpus=4, gib=2, devices={GPU: 1})
    assert bin_amounts(layout, pod(one)) == (4, 2 * GIB, 1)
    assert bin_amounts(layout, pod(one, one._replace(name="b"))) is None
    assert bin_amounts(layout, pod(one._replace(role="init"), one)) is None
    both_zones = node_bins(node(**STATIC, topology="restricted", devices={GPU: {0b11: 2}})).layout
    assert bin_amounts(both_zones, pod(one)) is None


def test_pods_larger_than_a_zone_are_not_packable() -> None:
    """Reserved and allocated CPUs count, as the kubelet uses them to compute how many zones a pod needs."""
    bins = node_bins(node(**STATIC, topology="restricted", reserved=0b11)._replace(free_cpus=0b1111 << 8))
    assert is_packable(bins, pod(container(cpus=8, gib=1)))
    assert not is_packable(bins, pod(container(cpus=9, gib=1)))


@pytest.mark.parametrize("resource", ["devices", "memory"])
def test_pods_with_more_devices_or_memory_than_a_zone_has_are_not_packable(resource: str) -> None:
    """As with CPUs, allocated amounts count; in total, the node has the amounts of both zones."""
    state = node(**STATIC, topology="restricted", devices={GPU: {1: 2, 2: 2}})
    bins = node_bins(state._replace(memory_free=((0,), (0,)), device_free=(0, 0)))
    zone, more = (
        (container(cpus=1, gib=1, devices={GPU: 2}), container(cpus=1, gib=1, devices={GPU: 3}))
        if resource == "devices"
        else (container(cpus=1, gib=16), container(cpus=1, gib=17))
    )
    assert is_packable(bins, pod(zone))
    assert not is_packable(bins, pod(more))


@given(clusters(("restricted", "single-numa-node"), most=4), pods(simple=True), st.data())
def test_admitted_pods_leave_one_bin_with_less(cluster: list[NodeState], shape: PodShape, data: st.DataObject) -> None:
    """A packable pod takes its amounts from one bin only."""
    state = data.draw(st.sampled_from(cluster))
    bins = node_bins(state)
    after = admit(state, shape).after
    amounts = bin_amounts(bins.layout, shape)
    if after is None or amounts is None or not is_packable(bins, shape):
        return
    changed = [
        tuple(a - b for a, b in zip(before, left, strict=True))
        for before, left in zip(bins.free, node_bins(after).free, strict=True)
        if before != left
    ]
    assert changed == [amounts]
