"""Machines on which the number of free CPUs does not decide: offline CPUs, unequal packages, zones across packages.

On such machines the kubelet may allocate busy CPUs, or reject a fitting request. Arrays are compared with whole
admissions.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from support.any_nodes import UNIT, policies
from support.any_nodes import state as any_state
from support.cpu_nodes import CoreAt, state_of, topology_of
from support.fit_nodes import admitted_in_sequence, container, pod
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.node import NodeKind, NodeState, Policies
from zonewise_scheduler.admission.pod import Container, PodShape
from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable

if TYPE_CHECKING:
    from zonewise_common.k8s.podspec import Role
    from zonewise_scheduler.admission.cpu_topology import CpuTopology

_SIZES = [1, 1, 2, 2, 3, 4, 5, 6, 8, 12, 16, 24]
"""Numbers of CPUs of a container."""


@st.composite
def topologies(draw: st.DrawFn) -> CpuTopology:
    """Draw machines of 1 to 6 zones with some CPUs offline, or with zones in arbitrary packages."""
    zones, packages = draw(st.sampled_from([1, 2, 2, 4, 6])), draw(st.sampled_from([1, 2, 2, 4]))
    cores, threads = draw(st.sampled_from([(2, 2), (4, 1), (3, 2), (4, 2), (3, 3)]))
    total = zones * cores
    source = random.Random(draw(st.integers(0, 1 << 32)))
    offline = source.choice(
        [0, 1 << source.randrange(total * threads), source.getrandbits(64) & source.getrandbits(64)]
    )
    across = source.random() < 0.2
    cpus = [sum(1 << thread * total + core for thread in range(threads)) & ~offline for core in range(total)]
    package_size = -(-zones // packages)
    cores_online = [
        CoreAt(core // cores, source.randrange(2) if across else core // cores // package_size, None, bits)
        for core, bits in enumerate(cpus)
        if bits
    ]
    return topology_of(cores_online or [CoreAt(0, 0, None, 3)])


@st.composite
def nodes(draw: st.DrawFn) -> list[NodeState]:
    """Draw states of one kind, with any option of the CPU Manager."""
    topology = draw(topologies())
    options = draw(policies())
    if not options.align_by_package and not options.distribute_across_cores:
        options = options._replace(distribute_across_zones=draw(st.booleans()))
    zones = tuple(number for number, _ in topology.zones)
    distances = tuple(tuple(10 if a == b else 20 for b in zones) for a in zones)
    memory = ((9 * UNIT,),) * len(zones)
    kind = NodeKind(options, zones, distances, topology, ("memory",), memory)
    source = random.Random(draw(st.integers(0, 1 << 32)))
    return [any_state(kind, source) for _ in range(4)]


@st.composite
def cpu_pods(draw: st.DrawFn) -> PodShape:
    """Draw Guaranteed pods of several containers."""
    first: list[Role] = ["init", "sidecar"]
    apps: list[Role] = ["app"]
    roles = draw(st.lists(st.sampled_from(first), max_size=2)) + apps * draw(st.integers(1, 3))
    return PodShape(
        tuple(
            Container(f"c{number}", role, 1000 * draw(st.sampled_from(_SIZES)), (("memory", UNIT),))
            for number, role in enumerate(roles)
        ),
        "Guaranteed",
    )


@given(nodes(), cpu_pods())
def test_no_verdict_is_wrong(states: list[NodeState], shape: PodShape) -> None:
    table = _table(states)
    for fits, state in zip(table.fits(shape).tolist(), states, strict=True):
        assert fits in {-1, admit(state, shape).admitted}


@given(nodes(), cpu_pods(), st.integers(1, 4))
def test_no_count_is_wrong(states: list[NodeState], shape: PodShape, limit: int) -> None:
    assert _table(states).pod_counts(shape, limit).tolist() == [
        admitted_in_sequence(state, shape, limit) for state in states
    ]


def test_busy_cpus_of_a_larger_package() -> None:
    """A package of 4 CPUs counts as free with 3, as the other has 2. A busy CPU is allocated, and a second pod fits."""
    topology = topology_of([CoreAt(0, 0, None, 1 << cpu) for cpu in range(4)] + [CoreAt(0, 1, None, 3 << 4)])
    state = state_of(topology, Policies(cpu="static"), busy=1)
    shape = pod(container("a", cpus=4), container("b", cpus=2))
    assert admit(state, shape).admitted
    assert _table([state]).fits(shape).tolist() == [-1]
    assert _table([state]).fits(pod(container("a", cpus=6))).tolist() == [0]


def test_full_machines_are_decided() -> None:
    """A pod with a container that requests more CPUs than are free is never left to admit()."""
    topology = topology_of([CoreAt(cpu // 4, cpu // 5, None, 1 << cpu) for cpu in range(8)])
    state = state_of(topology, Policies(topology="restricted", cpu="static"), busy=0x3F)
    assert _table([state]).fits(pod(container("a", cpus=1), container("b", cpus=3))).tolist() == [0]


def _table(states: list[NodeState]) -> NodeStateTable:
    table = NodeStateTable()
    table.set_rows(dict(enumerate(states)))
    return table
