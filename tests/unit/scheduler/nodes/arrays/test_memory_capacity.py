"""Nodes that reject a pod because too few sets of zones have enough memory for its containers."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.support.fit_cluster import EIGHT_ZONES, kind, states
from benchmarks.support.fit_layouts import shapes
from support.any_nodes import UNIT, kinds
from support.any_nodes import state as any_state
from support.fit_nodes import container, node, pod
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.pod import Container, PodShape
from zonewise_scheduler.nodes.arrays.alignment_request import alignment_request
from zonewise_scheduler.nodes.arrays.memory_capacity import lacks_memory_sets
from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable

if TYPE_CHECKING:
    from zonewise_common.k8s.podspec import Role
    from zonewise_scheduler.admission.node import NodeKind, NodeState

_ROLES: st.SearchStrategy[Role] = st.sampled_from(["app", "app", "app", "init", "sidecar"])
_STATIC = {"cpu": "static", "memory": "Static", "scope": "container"}


@st.composite
def _pods(draw: st.DrawFn) -> PodShape:
    """Draw a pod of at least two containers that often need memory of several zones."""
    containers: list[Container] = []
    roles = draw(st.lists(_ROLES, min_size=1, max_size=5))
    cpus = draw(st.sampled_from([(1, 2), (2, 4, 6), (4, 8), (0,)]))
    size = draw(st.sampled_from([3, 8, 12]))
    apps: list[Role] = ["app"]
    for number, role in enumerate(sorted(roles, key=lambda role: role == "app") + apps):
        amounts = [("memory", draw(st.integers(max(1, size - 4), size + 4)) * UNIT)]
        if draw(st.integers(0, 5)) == 0:
            amounts.insert(0, ("hugepages-2Mi", draw(st.integers(1, 5)) * UNIT))
        devices = (("example.com/gpu", draw(st.integers(0, 3))),) if draw(st.integers(0, 4)) == 0 else ()
        milli_cpus = draw(st.sampled_from(cpus)) * 1000 or 500
        containers.append(Container(f"c{number}", role, milli_cpus, tuple(amounts), devices))
    return PodShape(tuple(containers), "Guaranteed")


def _cluster(kind: NodeKind, source: random.Random) -> list[NodeState]:
    """Return nodes, many of which have zones without assigned memory."""
    nodes: list[NodeState] = []
    for _ in range(8):
        state = any_state(kind, source)
        idle = sum(1 << zone for zone in kind.zones if source.random() < source.choice([0.3, 0.9]))
        memory = [
            full if idle >> zone & 1 and source.random() < 0.8 else free
            for zone, full, free in zip(kind.zones, kind.allocatable, state.memory_free, strict=True)
        ]
        assigned = state.memory_assigned & ~idle
        groups = tuple(group if group & assigned == group else group & -group for group in state.memory_groups)
        if any(group.bit_count() == 1 and group != 1 << zone for zone, group in zip(kind.zones, groups, strict=True)):
            groups = tuple(1 << zone for zone in kind.zones)
        nodes.append(state._replace(memory_free=tuple(memory), memory_assigned=assigned, memory_groups=groups))
    return nodes


def _rejected_alone(nodes: list[NodeState], shape: PodShape) -> list[bool]:
    """Return which nodes the bound alone rejects, even if other arrays would decide."""
    table = NodeStateTable()
    table.set_rows(dict(enumerate(nodes)))
    rejected = np.zeros(len(nodes), np.bool_)
    table.gather(
        rejected,
        lambda block: lacks_memory_sets(
            block.view(), np.arange(block.rows.size), alignment_request(block.layout, shape)
        ),
    )
    return rejected.tolist()


@given(kinds(("best-effort", "restricted")), st.integers(0, 1 << 32), _pods(), st.booleans())
def test_rejected_nodes_never_admit(kind: NodeKind, seed: int, shape: PodShape, distributed: bool) -> None:
    """The bound rejects only nodes whose kubelets reject the pod, whatever else the pod requests."""
    policies = kind.policies._replace(**_STATIC)
    policies = policies._replace(distribute_across_zones=distributed or policies.distribute_across_zones)
    nodes = _cluster(replace(kind, policies=policies), random.Random(seed))
    for state, rejected in zip(nodes, _rejected_alone(nodes, shape), strict=True):
        assert not (rejected and admit(state, shape).admitted)


@pytest.mark.parametrize(("topology", "distributed"), [("best-effort", False), ("restricted", True)])
def test_containers_that_are_each_wider_than_a_zone(topology: str, distributed: bool) -> None:
    """Eight zones form four pairs, each with memory for one of five containers, so no node needs to be judged."""
    base = kind(EIGHT_ZONES, topology)
    policies = base.policies._replace(distribute_across_zones=distributed)
    nodes = states(replace(base, policies=policies), EIGHT_ZONES, 60)
    table = NodeStateTable()
    table.set_rows(dict(enumerate(nodes)))
    shape = shapes()["5 wider than a zone"]
    assert table.fits(shape).tolist() == [admit(state, shape).admitted for state in nodes]


@pytest.mark.parametrize("topology", ["best-effort", "restricted"])
def test_as_many_pairs_of_zones_as_containers(topology: str) -> None:
    """Four zones form two pairs, which have memory for two containers that are each wider than a zone."""
    state = node(4, 8, topology=topology, cpu="static", memory="Static", gib=16)  # type: ignore[arg-type]
    wide = [container(f"c{number}", cpus=20, gib=20) for number in range(3)]
    assert _rejected_alone([state], pod(*wide[:2])) == [not admit(state, pod(*wide[:2])).admitted] == [False]
    assert _rejected_alone([state], pod(*wide)) == [not admit(state, pod(*wide)).admitted] == [True]


def test_pairs_of_zones_are_shared() -> None:
    """A pair of zones serves several containers if it has memory for all of them."""
    state = node(4, 8, topology="best-effort", cpu="static", memory="Static", gib=16)
    small = [container(f"c{number}", cpus=2, gib=12) for number in range(4)]
    for count, is_admitted in ((3, True), (4, False)):
        shape = pod(container("w", cpus=2, gib=20), *small[:count])
        assert (_rejected_alone([state], shape), admit(state, shape).admitted) == ([not is_admitted], is_admitted)


@pytest.mark.parametrize("cpus", [2, 20])
def test_sets_left_by_an_init_container(cpus: int) -> None:
    """Two pairs of zones have memory for two such containers, even if one of them reuses an init container's memory."""
    state = node(4, 16, topology="best-effort", cpu="static", memory="Static", gib=16)
    init = container("i", cpus=cpus, gib=20, role="init")
    wide = [container(f"c{number}", cpus=cpus, gib=20) for number in range(4)]
    assert (
        _rejected_alone([state], pod(init, *wide[:2])) == [not admit(state, pod(init, *wide[:2])).admitted] == [False]
    )
    assert _rejected_alone([state], pod(init, *wide)) == [not admit(state, pod(init, *wide)).admitted] == [True]


def test_zones_in_use_are_not_paired() -> None:
    """Three zones without assigned memory form one pair; the other zones serve only small containers."""
    state = node(4, 8, topology="restricted", cpu="static", memory="Static", gib=16)._replace(memory_assigned=0b1)
    wide = [container(f"c{number}", cpus=20, gib=20) for number in range(2)]
    assert _rejected_alone([state], pod(*wide)) == [not admit(state, pod(*wide)).admitted] == [True]
    beside = pod(wide[0], *(container(name, cpus=2, gib=10) for name in "ab"))
    assert _rejected_alone([state], beside) == [not admit(state, beside).admitted] == [False]
