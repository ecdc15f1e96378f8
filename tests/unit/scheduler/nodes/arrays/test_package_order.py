"""CPUs of whole packages (align-by-socket): arrays compared with the CPU Manager and with whole admissions."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from support.any_nodes import cpu_topology, kinds, pods, state
from support.fit_nodes import GIB, container, pod
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.cpumanager.policy_static import allocate_cpus
from zonewise_scheduler.admission.node import NodeKind, NodeState, Policies
from zonewise_scheduler.admission.pod import PodShape
from zonewise_scheduler.nodes.arrays.package_order import take_from_packages
from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable

if TYPE_CHECKING:
    from zonewise_common.k8s.podspec import Role
    from zonewise_scheduler.admission.cpu_topology import CpuTopology

ALIGNED = Policies(topology="restricted", cpu="static", full_cores=True, align_by_package=True)


@st.composite
def topologies(draw: st.DrawFn) -> CpuTopology:
    """Draw a topology of packages with several zones."""
    zones, packages = draw(st.sampled_from([(2, 1), (4, 1), (4, 2), (6, 2), (6, 3), (8, 2)]))
    cores, threads = draw(st.sampled_from([(2, 2), (4, 1), (3, 2), (4, 2)]))
    reserved = draw(st.sampled_from([0, 1 << zones * cores | 1 if threads == 2 else 1]))
    return cpu_topology(tuple(range(zones)), cores, threads, packages, reserved)


def with_busy_cores(topology: CpuTopology, busy: list[bool]) -> int:
    """Return the free CPUs if some cores are busy."""
    taken = sum(bits for (_, bits), is_busy in zip(topology.cores, busy, strict=False) if is_busy)
    return topology.cpus & ~topology.reserved & ~taken


def kind_of(topology: CpuTopology, policies: Policies = ALIGNED) -> NodeKind:
    return NodeKind(policies, tuple(number for number, _ in topology.zones), (), topology)


@given(topologies(), st.lists(st.booleans(), max_size=32), st.data())
def test_the_cpu_manager_takes_the_same_cpus(topology: CpuTopology, busy: list[bool], data: st.DataObject) -> None:
    """The CPUs are compared by zone after each request for cores that fits into a zone."""
    kind = kind_of(topology)
    packages = [
        sum(1 << number for number, zone in topology.zones if zone & package) for _, package in topology.packages
    ]
    free = with_busy_cores(topology, busy)
    zone_cpus = np.array([topology.largest_totals[0]])
    for _ in range(4):
        counts = np.array([[(free & zone).bit_count()] for _, zone in topology.zones])
        zone = data.draw(st.integers(0, len(topology.zones) - 1))
        count = data.draw(st.integers(0, int(counts[zone, 0]) // topology.cpus_per_core)) * topology.cpus_per_core
        if count:
            free &= ~allocate_cpus(NodeState(kind, free), count, 1 << zone, 0)
            take_from_packages(packages, counts, zone_cpus, count, np.array([zone], np.int8))
            assert counts[:, 0].tolist() == [(free & cpus).bit_count() for _, cpus in topology.zones]


@given(topologies(), st.lists(st.booleans(), max_size=32), st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_containers_of_cpus_never_need_admit(topology: CpuTopology, busy: list[bool], cores: list[int]) -> None:
    """Containers request whole cores, from one zone each or more than a zone has."""
    one = NodeState(kind_of(topology), with_busy_cores(topology, busy))
    apps = [container(f"c{number}", cpus=count * topology.cpus_per_core, gib=1) for number, count in enumerate(cores)]
    table = NodeStateTable()
    table.set(0, one)
    for shape in (pod(*apps), pod(apps[0])):
        fits, expected = int(table.fits(shape)[0]), admit(one, shape).admitted
        assert fits in {-1, expected}
        if len(shape.containers) == 1 or max(cores) * topology.cpus_per_core <= topology.smallest_zone:
            assert fits == expected


_ROLES: st.SearchStrategy[Role] = st.sampled_from(["init", "init", "sidecar"])
_STEPS = st.lists(st.tuples(_ROLES, st.integers(1, 5)), min_size=1, max_size=4)


@settings(max_examples=200)
@given(topologies(), st.integers(0, 1 << 32), _STEPS, st.lists(st.integers(1, 5), min_size=1, max_size=3))
def test_reused_cpus(topology: CpuTopology, seed: int, first: list[tuple[Role, int]], apps: list[int]) -> None:
    """Zones of a package leave CPUs to later containers, whose hints must contain all these zones."""
    source = random.Random(seed)
    kind = replace(kind_of(topology), policies=ALIGNED._replace(memory=source.choice(["None", "Static"])))
    kind = replace(kind, memory_types=("memory",), allocatable=((64 * GIB,),) * len(kind.zones))
    roles: list[tuple[Role, int]] = [*first, *(("app", cores) for cores in apps)]
    shape = PodShape(
        tuple(
            container(f"c{number}", cpus=cores * topology.cpus_per_core, gib=1, role=role)
            for number, (role, cores) in enumerate(roles)
        ),
        "Guaranteed",
    )
    share = source.choice([0.1, 0.3, 0.6])
    nodes = [
        NodeState(kind, with_busy_cores(topology, [source.random() < share for _ in topology.cores]), kind.allocatable,
                  tuple(1 << zone for zone in kind.zones))
        for _ in range(8)
    ]  # fmt: skip
    table = NodeStateTable()
    table.set_rows(dict(enumerate(nodes)))
    for fits, each in zip(table.fits(shape).tolist(), nodes, strict=True):
        assert fits in {-1, admit(each, shape).admitted}


def test_init_containers_with_memory_never_need_admit() -> None:
    """Each container has memory in one zone, and therefore prefers one zone."""
    topology = cpu_topology((0, 1, 2, 3), 8, 2, 2, 0)
    kind = replace(kind_of(topology, ALIGNED._replace(memory="Static")), memory_types=("memory",),
                   allocatable=((64 * GIB,),) * 4)  # fmt: skip
    source = random.Random(1)
    nodes = [
        NodeState(kind, with_busy_cores(topology, [source.random() < source.random() for _ in topology.cores]),
                  kind.allocatable, (1, 2, 4, 8)) for _ in range(100)
    ]  # fmt: skip
    inits = (container(f"i{number}", cpus=2 + 2 * number, gib=1, role="init") for number in range(3))
    shape = pod(*inits, container("a", cpus=4, gib=1), container("b", cpus=4, gib=1))
    table = NodeStateTable()
    table.set_rows(dict(enumerate(nodes)))
    fits = table.fits(shape).tolist()
    assert set(fits) == {0, 1}
    assert fits == [admit(each, shape).admitted for each in nodes]


@given(kinds(("restricted", "best-effort")), st.integers(0, 1 << 32), pods())
def test_any_node_and_pod(kind: NodeKind, seed: int, shape: PodShape) -> None:
    """With memory, devices, split cores and init containers, arrays have the right verdict or leave it to admit()."""
    kind = replace(kind, policies=kind.policies._replace(align_by_package=True, cpu="static", full_cores=True))
    source = random.Random(seed)
    cluster = [state(kind, source) for _ in range(6)]
    cluster += [each._replace(free_cpus=_whole_cores(kind.cpus, each.free_cpus)) for each in cluster]
    table = NodeStateTable()
    table.set_rows(dict(enumerate(cluster)))
    for fits, each in zip(table.fits(shape).tolist(), cluster, strict=True):
        assert fits in {-1, admit(each, shape).admitted}


def _whole_cores(topology: CpuTopology, free: int) -> int:
    return sum(core for _, core in topology.cores if not core & ~free)


def test_packages_of_one_zone_change_nothing() -> None:
    """If each zone is a package, nodes with and without align-by-socket share arrays."""
    topology = cpu_topology((0, 1), 4, 2, 2, 0)
    policies = (ALIGNED, ALIGNED._replace(align_by_package=False))
    rows = [NodeState(kind_of(topology, each), topology.cpus) for each in policies]
    table = NodeStateTable()
    table.set_rows(dict(enumerate(rows)))
    assert len(table.views()) == 1
