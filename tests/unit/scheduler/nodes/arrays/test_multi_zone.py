"""Requests for several zones, for which arrays check only necessary conditions."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.support.fit_cluster import EIGHT_ZONES, kind, states
from benchmarks.support.fit_layouts import shapes
from support.any_nodes import UNIT, kinds
from support.any_nodes import state as any_state
from support.fit_nodes import container, node, pod
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.node import idle_node
from zonewise_scheduler.admission.pod import Container, PodShape
from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable

if TYPE_CHECKING:
    from zonewise_common.k8s.podspec import Role
    from zonewise_scheduler.admission.node import NodeKind, NodeState


def _fits(cluster: list[NodeState], shape: PodShape) -> list[int]:
    table = NodeStateTable()
    table.set_rows(dict(enumerate(cluster)))
    return table.fits(shape).tolist()


@pytest.mark.parametrize("scope", ["container", "pod"])
def test_distributed_cpus_with_memory_without_a_hint(scope: str) -> None:
    """Memory wider than a zone has no hint if memory is assigned, so the zones of the CPUs do not matter."""
    base = kind(EIGHT_ZONES, "restricted")
    policies = base.policies._replace(distribute_across_zones=True, scope=scope)
    cluster = states(replace(base, policies=policies), EIGHT_ZONES, 60)
    wide = (
        "2 wider than a zone",
        "24, the first one wider than a zone",
        "init container wider than a zone, 3 containers",
    )
    for shape in (shapes()[name] for name in wide):
        assert _fits(cluster, shape) == [admit(state, shape).admitted for state in cluster]


def test_sum_of_distributed_cpus() -> None:
    """Only free CPUs are distributed, so the kubelet rejects a pod that requests more than are free."""
    cpus = (15, 15, 17, 17)
    for topology, full_cores in product(("none", "best-effort"), (False, True)):
        idle = node(4, 8, topology=topology, cpu="static", full_cores=full_cores, distribute_across_zones=True)
        shape = pod(*(container(f"c{number}", cpus=2 * count, gib=1) for number, count in enumerate(cpus)))
        assert _fits([idle], shape) == [admit(idle, shape).admitted] == [False]


def test_reusable_cpus_of_more_zones_than_the_next_container_needs() -> None:
    """A hint must contain all zones with reusable CPUs, but preferred hints have fewer zones."""
    idle = node(4, 8, topology="restricted", cpu="static")
    init = container("i", cpus=20, gib=1, role="init")
    narrow = pod(init, container("a", cpus=4, gib=1), container("b", cpus=4, gib=1))
    wide = pod(init, container("a", cpus=18, gib=1), container("b", cpus=4, gib=1))
    assert _fits([idle], narrow) == [admit(idle, narrow).admitted] == [False]
    assert _fits([idle], wide) == [-1]
    distributed = replace(idle.kind, policies=idle.kind.policies._replace(distribute_across_zones=True))
    assert _fits([idle._replace(kind=distributed)], narrow) == [False]


_ROLES: st.SearchStrategy[Role] = st.sampled_from(["init", "init", "app", "app", "sidecar"])


@st.composite
def _wide_pods(draw: st.DrawFn) -> PodShape:
    """Draw a pod with exclusive CPUs and memory whose containers often need several zones."""
    roles: list[Role] = sorted(draw(st.lists(_ROLES, min_size=1, max_size=4)), key=lambda role: role == "app")
    containers: list[Container] = []
    roles.append("app")
    for number, role in enumerate(roles):
        cpus, memory = draw(st.sampled_from([1, 2, 4, 6, 8, 10, 12])), draw(st.sampled_from([1, 2, 4, 7, 10, 14]))
        amounts = (("hugepages-2Mi", UNIT),) * draw(st.integers(0, 1)) + (("memory", memory * UNIT),)
        containers.append(Container(f"c{number}", role, cpus * 1000, amounts))
    return PodShape(tuple(containers), "Guaranteed")


def _assert_agrees(kind: NodeKind, seed: int, shape: PodShape, **policies: object) -> None:
    source = random.Random(seed)
    kind = replace(kind, policies=kind.policies._replace(memory="Static", pod_level_managers=False, **policies))
    groups = tuple(1 << zone for zone in kind.zones)
    cluster = [any_state(kind, source) for _ in range(8)]
    cluster += [state._replace(memory_groups=groups, memory_assigned=0) for state in cluster]
    for fits, state in zip(_fits(cluster, shape), cluster, strict=True):
        assert fits in {-1, admit(state, shape).admitted}


@given(kinds(("best-effort", "restricted")), st.integers(0, 1 << 32), _wide_pods())
def test_whole_pods_whose_containers_reuse_memory(kind: NodeKind, seed: int, shape: PodShape) -> None:
    """If arrays decide about a whole pod, their verdict is the kubelet's, whatever its containers reuse."""
    _assert_agrees(kind, seed, shape, scope="pod")


@given(kinds(("restricted",)), st.integers(0, 1 << 32), _wide_pods())
def test_reusable_cpus_of_whole_packages(kind: NodeKind, seed: int, shape: PodShape) -> None:
    """With align-by-socket, if arrays decide, their verdict is the kubelet's in any release."""
    _assert_agrees(kind, seed, shape, scope="container", align_by_package=True, cpu="static")


@pytest.mark.parametrize("topology", ["best-effort", "restricted"])
def test_memory_that_a_container_may_not_reuse(topology: str) -> None:
    """If memory of several zones is not free, the kubelet rejects the pod, even if an init container has left it."""
    idle = node(4, 8, topology=topology, scope="pod", cpu="static", memory="Static")
    half = idle.kind.allocatable[0][-1] // 2 >> 30
    init = container("i", cpus=2, gib=3 * half, role="init")
    narrow = pod(init, *(container(name, cpus=12, gib=half + 1) for name in "ab"))
    assert _fits([idle], narrow) == [admit(idle, narrow).admitted]


def test_reusable_cpus_and_memory_of_a_single_zone() -> None:
    """With align-by-socket, hints for CPUs may have more zones than needed, but memory prefers single zones."""
    name = "init container wider than a zone, 3 containers"
    base = kind(EIGHT_ZONES, "restricted")
    policies = base.policies._replace(align_by_package=True)
    cluster = states(replace(base, policies=policies), EIGHT_ZONES, 20)
    cluster.append(idle_node(cluster[0].kind))
    assert (
        _fits(cluster, shapes()[name]) == [False] * 21 == [admit(state, shapes()[name]).admitted for state in cluster]
    )
