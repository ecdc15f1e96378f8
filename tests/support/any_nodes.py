"""Random nodes and pods for property tests, with every policy, scope, option and state of memory groups."""

from __future__ import annotations

import random
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from support.cpu_nodes import CoreAt, topology_of
from zonewise_scheduler.admission.node import NO_ZONE, DeviceClass, NodeKind, NodeState, Policies
from zonewise_scheduler.admission.pod import Container, PodLevelResources, PodShape, Qos

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_common.k8s.podspec import Role
    from zonewise_scheduler.admission.cpu_topology import CpuTopology

GPU, NIC, TPM = "example.com/gpu", "example.com/nic", "example.com/tpm"
RESOURCES = (GPU, NIC, TPM)
TYPES = ("hugepages-2Mi", "memory")
UNIT = 1 << 20


@lru_cache(maxsize=256)
def cpu_topology(zones: tuple[int, ...], cores: int, threads: int, packages: int, reserved: int) -> CpuTopology:
    """Return zones with as many cores each. Thread t of core c is CPU t * all cores + c; two cores share a cache."""
    total = len(zones) * cores
    share = -(-len(zones) // packages)
    return topology_of(
        (
            CoreAt(
                zones[core // cores],
                core // cores // share,
                core // 2 if cores % 2 == 0 else None,
                sum(1 << thread * total + core for thread in range(threads)),
            )
            for core in range(total)
        ),
        reserved & ((1 << total * threads) - 1),
    )


ALIGNED = ("single-numa-node", "restricted")


@st.composite
def policies(draw: st.DrawFn, topologies: Sequence[str] = ("none", "best-effort", *ALIGNED)) -> Policies:
    """Draw a kubelet's configuration."""
    topology = draw(st.sampled_from(topologies))
    maybe = st.booleans()
    seldom = st.sampled_from([False, False, False, True])
    across_cores = draw(seldom)
    return Policies(
        topology=topology,
        scope=draw(st.sampled_from(["container", "pod"])),
        prefer_closest=draw(maybe),
        cpu=draw(st.sampled_from(["static", "static", "static", "none"])),
        full_cores=not across_cores and draw(maybe),
        distribute_across_zones=draw(seldom),
        align_by_package=topology != "single-numa-node" and draw(seldom),
        distribute_across_cores=across_cores,
        memory=draw(st.sampled_from(["None", "Static"])),
        pod_level_managers=draw(seldom),
        release=draw(st.sampled_from([(1, 31), (1, 34), (1, 36)])),
    )


@st.composite
def kinds(draw: st.DrawFn, topologies: Sequence[str] = ("none", "best-effort", *ALIGNED)) -> NodeKind:
    """Draw a node kind with 1 to 4 zones."""
    zones = draw(st.sampled_from([(0,), (0, 1), (0, 1), (0, 2), (0, 1, 2, 3), (0, 1, 2, 3), (0, 8, 40), (0, 252)]))
    cores, threads = draw(st.sampled_from([(2, 2), (4, 1), (3, 2), (4, 2)]))
    packages = draw(st.sampled_from([1, 1, 2]))
    reserved = draw(st.sampled_from([0, 1, 3, 1 << len(zones) * cores | 1]))
    configuration = draw(policies(topologies))
    hugepages = draw(st.lists(st.integers(0, 4), min_size=len(zones), max_size=len(zones)))
    memory = draw(st.lists(st.integers(4, 9), min_size=len(zones), max_size=len(zones)))
    table = tuple((huge * UNIT, size * UNIT) for huge, size in zip(hugepages, memory, strict=True))
    distances = tuple(tuple(10 if a == b else draw(st.sampled_from([11, 21])) for b in zones) for a in zones)
    return NodeKind(
        configuration,
        zones,
        distances,
        cpu_topology(zones, cores, threads, packages, reserved),
        TYPES,
        table,
        draw(_devices(zones)),
    )


@st.composite
def _devices(draw: st.DrawFn, zones: tuple[int, ...]) -> tuple[DeviceClass, ...]:
    single = [1 << zone for zone in zones]
    beyond = [1 << zones[-1] + 1, NO_ZONE]
    pairs = [a | b for a, b in combinations(single, 2)]
    classes: list[DeviceClass] = []
    for resource in draw(st.sets(st.sampled_from(RESOURCES))):
        plain = draw(st.sampled_from([True, True, False]))
        zone_sets = draw(st.sets(st.sampled_from(single if plain else [*single, *pairs, *beyond, 0]), min_size=1))
        for zone_set in zone_sets:
            total = draw(st.integers(1, 4))
            classes.append(DeviceClass(resource, zone_set, total, draw(st.integers(max(0, total - 1), total))))
    return tuple(sorted(classes))


def state(kind: NodeKind, source: random.Random) -> NodeState:
    """Return a random state of a kind; its memory groups are ones that a kubelet could have made."""
    cpus = kind.cpus.cpus & ~kind.cpus.reserved
    busy = source.choice([0, 0, source.getrandbits(64), source.getrandbits(64) & source.getrandbits(64)])
    memory = tuple(tuple(size - source.randint(0, size // UNIT) * UNIT for size in row) for row in kind.allocatable)
    groups = {zone: 1 << zone for zone in kind.zones}
    assigned = sum(1 << zone for zone in kind.zones if source.random() < 0.5)
    if len(kind.zones) > 1 and source.random() < 0.3:
        members = source.sample(kind.zones, source.randint(2, len(kind.zones)))
        group = sum(1 << zone for zone in members)
        groups |= dict.fromkeys(members, group)
        assigned |= group
    return NodeState(
        kind,
        cpus & ~busy,
        memory,
        tuple(groups[zone] for zone in kind.zones),
        assigned,
        tuple(source.randint(0, device_class.healthy) for device_class in kind.devices),
    )


@st.composite
def clusters(
    draw: st.DrawFn, topologies: Sequence[str] = ("none", "best-effort", *ALIGNED), most: int = 8
) -> list[NodeState]:
    """Draw the states of nodes of a few kinds.

    One seed generates all states, because drawing each number separately is slow.
    """
    drawn = draw(st.lists(kinds(topologies), min_size=1, max_size=3))
    source = random.Random(draw(st.integers(0, 1 << 32)))
    return [state(source.choice(drawn), source) for _ in range(draw(st.integers(1, most)))]


_DEVICES = st.dictionaries(
    st.sampled_from([*RESOURCES, "example.com/absent"]), st.sampled_from([1, 1, 1, 2, 2, 3, 5, 0]), max_size=2
)


@st.composite
def containers(draw: st.DrawFn, name: str, role: Role, *, guaranteed: bool) -> Container:
    memory = {"memory": draw(st.sampled_from([1, 1, 2, 3, 5, 10])) * UNIT}
    if draw(st.sampled_from([False, False, True])):
        memory["hugepages-2Mi"] = draw(st.integers(1, 4)) * UNIT
    milli = draw(st.sampled_from([1000, 1000, 2000, 2000, 3000, 4000, 6000, 9000, 500]))
    devices = tuple(sorted(draw(_DEVICES).items()))
    if not guaranteed and draw(st.booleans()):
        return Container(name, role, devices=devices)
    return Container(name, role, milli, tuple(sorted(memory.items())), devices)


_QOS: st.SearchStrategy[Qos] = st.sampled_from(["Guaranteed", "Guaranteed", "Guaranteed", "Burstable", "BestEffort"])


@st.composite
def pods(draw: st.DrawFn, *, simple: bool = False, inits: bool = False) -> PodShape:
    """Draw a pod. A simple pod has only app containers and sidecars; `inits` adds at least one init container."""
    qos = draw(_QOS)
    roles: list[Role] = ["sidecar"] if simple else ["sidecar", "init", "init"]
    apps: list[Role] = ["app"]
    first = draw(st.lists(st.sampled_from(roles), max_size=draw(st.sampled_from([0, 0, 2]))))
    if inits:
        first.insert(draw(st.integers(0, len(first))), "init")
    all_roles = first + apps * draw(st.sampled_from([1, 1, 2, 3]))
    drawn = tuple(draw(containers(f"{r}{n}", r, guaranteed=qos == "Guaranteed")) for n, r in enumerate(all_roles))
    pod_level = (
        PodLevelResources(4000, (("memory", 4 * UNIT),))
        if not simple and draw(st.sampled_from([0] * 9 + [1]))
        else None
    )
    return PodShape(drawn, qos, pod_level)
