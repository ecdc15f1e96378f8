"""Memory that only the Memory Manager aligns: arrays decide it, whichever sets of zones it uses."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.any_nodes import UNIT, kinds
from support.any_nodes import state as any_state
from support.fit_nodes import GIB, STATIC, container, node, pod
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.pod import Container, PodShape
from zonewise_scheduler.admission.topologymanager.numa_info import may_panic
from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable

if TYPE_CHECKING:
    from zonewise_common.k8s.podspec import Role
    from zonewise_scheduler.admission.node import NodeKind, NodeState

_ROLES: st.SearchStrategy[Role] = st.sampled_from(["init", "init", "sidecar"])
_MEMORY = st.tuples(st.sampled_from([0, 0, 1, 3]), st.sampled_from([1, 2, 3, 5, 9, 14, 20]))


@st.composite
def _memory_pods(draw: st.DrawFn, *, types: int) -> PodShape:
    """Draw a pod without exclusive CPUs whose containers request memory and, if there are two types, pages."""
    apps: list[Role] = ["app"]
    roles = draw(st.lists(_ROLES, max_size=3)) + apps * draw(st.integers(1, 4))
    containers: list[Container] = []
    for number, role in enumerate(roles):
        pages, memory = draw(_MEMORY)
        amounts = [("hugepages-2Mi", pages * UNIT)] * (types > 1 and pages > 0) + [("memory", memory * UNIT)]
        containers.append(Container(f"c{number}", role, 500, tuple(amounts)))
    return PodShape(tuple(containers), "Guaranteed")


def _states(kind: NodeKind, scope: str, source: random.Random, release: tuple[int, int] = (1, 36)) -> list[NodeState]:
    """Return nodes on which only memory is aligned and zones form no groups yet."""
    policies = kind.policies._replace(cpu="none", memory="Static", scope=scope, align_by_package=False, release=release)
    if may_panic(policies, kind.zones):
        policies = policies._replace(prefer_closest=False)
    groups = tuple(1 << zone for zone in kind.zones)
    kind = replace(kind, policies=policies)
    return [any_state(kind, source)._replace(memory_groups=groups) for _ in range(8)]


def _assert_decided(kind: NodeKind, scope: str, seed: int, shape: PodShape, release: tuple[int, int] = (1, 36)) -> None:
    _assert_all_decided(_states(kind, scope, random.Random(seed), release), shape)


def _assert_all_decided(cluster: list[NodeState], shape: PodShape) -> None:
    table = NodeStateTable()
    table.set_rows(dict(enumerate(cluster)))
    assert table.fits(shape).tolist() == [admit(state, shape).admitted for state in cluster]


@pytest.mark.parametrize(("topology", "types"), [("none", 2), ("restricted", 2), ("best-effort", 1)])
@given(data=st.data(), seed=st.integers(0, 1 << 32))
def test_separate_containers(topology: str, types: int, data: st.DataObject, seed: int) -> None:
    _assert_decided(data.draw(kinds((topology,))), "container", seed, data.draw(_memory_pods(types=types)))


@given(
    kinds(("single-numa-node",)), st.integers(0, 1 << 32), _memory_pods(types=2), st.sampled_from([(1, 31), (1, 36)])
)
def test_single_numa_node(kind: NodeKind, seed: int, shape: PodShape, release: tuple[int, int]) -> None:
    """A pod that needs the memory of several zones is rejected, even by releases that did not check groups."""
    _assert_decided(kind, "container", seed, shape, release)


@given(
    kinds(("single-numa-node",)), st.integers(0, 1 << 32), _memory_pods(types=1), st.sampled_from([(1, 31), (1, 36)])
)
def test_whole_pods_without_hints(kind: NodeKind, seed: int, shape: PodShape, release: tuple[int, int]) -> None:
    """In this case each container gets its own memory, from several zones if no single zone could have enough."""
    _assert_decided(kind, "pod", seed, shape, release)


@given(kinds(("restricted",)), st.data(), st.integers(0, 1 << 32), _memory_pods(types=2))
def test_nodes_with_different_numbers_of_zones(kind: NodeKind, data: st.DataObject, seed: int, shape: PodShape) -> None:
    """Nodes with the same policies are judged together, whatever their zones and distances."""
    others = data.draw(st.lists(kinds(("restricted",)), min_size=1, max_size=3))
    source = random.Random(seed)
    same_policies = [kind, *(replace(other, policies=kind.policies) for other in others)]
    _assert_all_decided([state for one in same_policies for state in _states(one, "container", source)], shape)


@pytest.mark.parametrize("topology", ["none", "best-effort"])
def test_zones_in_use_join_no_set(topology: str) -> None:
    """Two containers that need two zones each share a group if its zones have enough memory for both."""
    state = node(**STATIC, topology=topology, gib=16)  # type: ignore[arg-type]
    shape = pod(container("a", cpus=0.5, gib=20), container("b", cpus=0.5, gib=11))
    table = NodeStateTable()
    table.set_rows({0: state, 1: state._replace(memory_assigned=0b10)})
    assert [admit(state, shape).admitted, *table.fits(shape).tolist()] == [True, 1, 0]
    larger = pod(container("a", cpus=0.5, gib=20), container("b", cpus=0.5, gib=13))
    assert [admit(state, larger).admitted, int(table.fits(larger)[0])] == [False, 0]
    assert shape.containers[0].memory[0][1] == 20 * GIB
