"""Kinds of nodes, and idle nodes."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest

from support.fit_nodes import GIB, GPU, STATIC, node
from zonewise_common.nrt.attributes import MAX_NUMA_NODES
from zonewise_scheduler.admission.node import NO_ZONE, NodeState, Policies, idle_node
from zonewise_scheduler.admission.topologymanager.bitmask import members


def test_an_idle_node_has_everything_that_its_managers_allocate() -> None:
    """It has all CPUs but the reserved ones, all memory, with each zone as its own group, and all healthy devices."""
    kind = node(4, 1, gib=2, devices={GPU: {1: 2, 6: 1}}, reserved=0b10, **STATIC).kind
    assert idle_node(kind) == NodeState(
        kind,
        free_cpus=0b11111101,
        memory_free=((2 * GIB,),) * 4,
        memory_groups=(1, 2, 4, 8),
        memory_assigned=0,
        device_free=(2, 1),
    )


def test_without_managers_an_idle_node_has_nothing() -> None:
    kind = node(4, 1).kind
    bare = replace(kind, memory_types=(), allocatable=())
    assert bare.policies == Policies()
    assert idle_node(bare) == NodeState(bare, 0)


def test_no_zone_is_the_first_number_beyond_any_node() -> None:
    assert members(NO_ZONE) == (MAX_NUMA_NODES,)


def test_a_kind_is_immutable() -> None:
    """Nodes share a kind, and it caches its hash."""
    with pytest.raises(FrozenInstanceError):
        node().kind.zones = ()  # pyright: ignore[reportAttributeAccessIssue]
