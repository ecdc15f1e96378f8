"""Nodes for the CPU Manager: built from a few numbers, drawn with hypothesis, or read from recorded results."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import strategies as st

from support.snapshots import PROJECT
from zonewise_common.k8s.cpuset import CpuSet
from zonewise_scheduler.admission.cpu_topology import CpuGroup, CpuTopology
from zonewise_scheduler.admission.node import NodeKind, NodeState, Policies

if TYPE_CHECKING:
    from collections.abc import Iterable

STATIC = Policies(cpu="static")

RECORDED = PROJECT / "tests" / "fixtures" / "static_cpus.json"
"""Results of functions from the kubelet's source for random nodes, many of them unusual.

Some have hybrid cores, offline threads, or zones that span packages. A core has a zone, a package, an uncore cache and
CPUs. The cache is null if unknown; the package then replaces it. "shared" is the default set in the state, including
the reserved CPUs unless they are strictly reserved.
"""


class CoreAt(NamedTuple):
    """A core with its location and its CPUs as a bitmask."""

    zone: int
    package: int
    cache: int | None
    cpus: int


def topology_of(cores: Iterable[CoreAt], reserved: int = 0) -> CpuTopology:
    """Return the topology of cores, without caches that are None."""
    all_cores = list(cores)
    return CpuTopology(
        cores=_groups((CpuSet.from_bits(core.cpus).first(), core.cpus) for core in all_cores),
        zones=_groups((core.zone, core.cpus) for core in all_cores),
        packages=_groups((core.package, core.cpus) for core in all_cores),
        caches=_groups((core.cache, core.cpus) for core in all_cores if core.cache is not None),
        reserved=reserved,
    )


def regular(
    zones: int = 2, cores: int = 4, threads: int = 2, packages: int = 1, cache: int | None = None, reserved: int = 0
) -> CpuTopology:
    """Return zones of `cores` cores, `cache` of which share a cache; thread t of core c is CPU t*zones*cores + c."""
    total = zones * cores
    return topology_of(
        (
            CoreAt(
                core // cores,
                core // cores * packages // zones if packages <= zones else core * packages // total,
                None if cache is None else core // cache,
                sum(1 << core + total * thread for thread in range(threads)),
            )
            for core in range(total)
        ),
        reserved,
    )


def state_of(topology: CpuTopology, policies: Policies = STATIC, busy: int = 0) -> NodeState:
    """Return a node whose CPUs are free except for the busy and the reserved ones."""
    kind = NodeKind(policies, tuple(number for number, _ in topology.zones), (), topology)
    return NodeState(kind, topology.cpus & ~topology.reserved & ~busy)


def recorded() -> list[dict[str, Any]]:
    return json.loads(RECORDED.read_text())


def state_of_record(record: dict[str, Any]) -> NodeState:
    """Return the node of a recorded result."""
    cores = [CoreAt(zone, package, cache, bits_of(cpus)) for zone, package, cache, cpus in record["cores"]]
    topology = topology_of(cores, bits_of(record["reserved"]))
    policies = STATIC._replace(**dict.fromkeys(record["options"], True), release=tuple(record["release"]))
    state = state_of(topology, policies)
    return state._replace(free_cpus=bits_of(record["shared"]) & ~topology.reserved)


def bits_of(cpus: str) -> int:
    """Return the bitmask for a CPU list in the kernel's notation."""
    return CpuSet.parse_list(cpus).bits


@st.composite
def regular_topologies(draw: st.DrawFn) -> CpuTopology:
    """Draw regular machines: equal zones, packages and cores."""
    packages = draw(st.integers(1, 3))
    zones = packages * draw(st.integers(1, 3)) if draw(st.booleans()) else draw(st.integers(1, 4))
    cores, threads = draw(st.integers(1, 6)), draw(st.sampled_from((1, 2, 2, 4)))
    cache = draw(st.sampled_from([None, *(size for size in range(1, cores + 1) if cores % size == 0)]))
    total = zones * cores * threads
    reserved = draw(st.integers(0, 3).map(lambda bits: bits & (1 << total) - 1))
    return regular(zones, cores, threads, packages if zones % packages == 0 else 1, cache, reserved)


@st.composite
def states(draw: st.DrawFn, policies: st.SearchStrategy[Policies]) -> NodeState:
    """Draw regular machines with any CPUs busy, or only whole cores."""
    topology = draw(regular_topologies())
    if draw(st.booleans()):
        cores = draw(st.sets(st.sampled_from([cpus for _, cpus in topology.cores])))
        busy = sum(cores)
    else:
        busy = draw(st.integers(0, topology.cpus))
    return state_of(topology, draw(policies), busy)


def _groups(members: Iterable[CpuGroup]) -> tuple[CpuGroup, ...]:
    groups: dict[int, int] = {}
    for number, cpus in members:
        groups[number] = groups.get(number, 0) | cpus
    return tuple(sorted(groups.items()))
