"""Pods that are aligned as a whole (scope pod): arrays compared with whole admissions.

Pods that need several zones are drawn often. Each of their containers alone would need fewer zones.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.support.fit_cluster import TWO_ZONES, kind
from benchmarks.support.fit_cluster import states as node_states
from support.any_nodes import GPU, NIC, UNIT, cpu_topology, kinds, state
from support.fit_nodes import STATIC, container, node, pod, zone_cpus
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.node import DeviceClass, NodeKind, NodeState, Policies
from zonewise_scheduler.admission.pod import Container, PodLevelResources, PodShape
from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_common.k8s.podspec import Role
    from zonewise_scheduler.admission.pod import Qos


def _table(states: Sequence[NodeState]) -> NodeStateTable:
    table = NodeStateTable()
    table.set_rows(dict(enumerate(states)))
    return table


@st.composite
def wide_pods(draw: st.DrawFn) -> PodShape:
    """Draw Guaranteed pods that often need more zones in total than each container alone."""
    first: list[Role] = ["init", "init", "sidecar"]
    apps: list[Role] = ["app"]
    seldom = st.sampled_from([False, False, False, True])
    roles = draw(st.lists(st.sampled_from(first), max_size=3)) + apps * draw(st.integers(1, 4))
    drawn: list[Container] = []
    without_memory = draw(st.sampled_from([-1, -1, len(roles) - 1, draw(st.integers(0, len(roles) - 1))]))
    for number, role in enumerate(roles):
        memory = {"memory": draw(st.sampled_from([1, 2, 3, 4, 5, 7])) * UNIT}
        if number == without_memory:
            memory = {}
        if draw(seldom):
            memory["hugepages-2Mi"] = draw(st.integers(1, 3)) * UNIT
        devices = {name: draw(st.sampled_from([0, 1, 1, 2, 3])) for name in (GPU, NIC) if draw(seldom)}
        cpus = draw(st.sampled_from([1, 2, 2, 3, 4, 5, 6]))
        drawn.append(
            Container(f"c{number}", role, 1000 * cpus, tuple(sorted(memory.items())), tuple(sorted(devices.items())))
        )
    return PodShape(tuple(drawn), "Guaranteed")


@st.composite
def nodes(draw: st.DrawFn) -> list[NodeState]:
    """Draw states of one regular kind with partly used zones."""
    zones = tuple(range(draw(st.sampled_from([2, 2, 3, 4]))))
    policies = Policies(
        topology=draw(st.sampled_from(["restricted", "restricted", "single-numa-node", "best-effort"])),
        scope="pod",
        cpu="static",
        memory=draw(st.sampled_from(["None", "Static", "Static"])),
        full_cores=draw(st.booleans()),
        release=draw(st.sampled_from([(1, 31), (1, 34), (1, 36)])),
    )
    cores, threads = draw(st.sampled_from([(4, 1), (8, 1), (4, 2)]))
    memory = ((draw(st.integers(0, 6)) * UNIT, draw(st.sampled_from([4, 8, 12, 40])) * UNIT),) * len(zones)
    devices = tuple(
        DeviceClass(name, 1 << zone, count, count) for name in (GPU, NIC) if (count := draw(st.integers(0, 3)))
        for zone in zones
    )  # fmt: skip
    kind = NodeKind(
        policies,
        zones,
        tuple(tuple(10 if a == b else 20 for b in zones) for a in zones),
        cpu_topology(zones, cores, threads, 1, 0),
        ("hugepages-2Mi", "memory"),
        memory,
        devices,
    )
    source = random.Random(draw(st.integers(0, 1 << 32)))
    return [_state(kind, source) for _ in range(12)]


def _state(kind: NodeKind, source: random.Random) -> NodeState:
    """Return a state in which each zone is at most half used, or sometimes any state."""
    if source.random() < 0.3:
        return state(kind, source)
    busy = sum(core for _, core in kind.cpus.cores if source.random() < 0.3)
    memory = tuple(
        tuple(size - source.randint(0, size // UNIT // 2) * UNIT for size in row) for row in kind.allocatable
    )
    assigned = sum(1 << zone for zone in kind.zones if source.random() < 0.2)
    devices = tuple(source.randint(each.healthy // 2, each.healthy) for each in kind.devices)
    groups = tuple(1 << zone for zone in kind.zones)
    return NodeState(kind, kind.cpus.cpus & ~busy, memory, groups, assigned, devices)


@settings(max_examples=300)
@given(nodes(), wide_pods())
def test_no_verdict_is_wrong(states: list[NodeState], shape: PodShape) -> None:
    fits = _table(states).fits(shape).tolist()
    for verdict, each in zip(fits, states, strict=True):
        assert verdict in {-1, admit(each, shape).admitted}


@given(kinds(("restricted", "single-numa-node", "best-effort")), st.integers(0, 1 << 32), wide_pods())
def test_no_verdict_is_wrong_on_any_node(drawn: NodeKind, seed: int, shape: PodShape) -> None:
    """Irregular machines, memory groups and devices near several zones are included."""
    drawn = replace(drawn, policies=drawn.policies._replace(scope="pod", cpu="static", memory="Static"))
    source = random.Random(seed)
    states = [state(drawn, source) for _ in range(8)]
    for verdict, each in zip(_table(states).fits(shape).tolist(), states, strict=True):
        assert verdict in {-1, admit(each, shape).admitted}


def test_containers_that_alone_prefer_one_zone() -> None:
    """12 CPUs alone would need one zone of 16; all 18 CPUs need two zones, each of which has 10 free."""
    idle = node(2, 8, topology="restricted", scope="pod", **STATIC)
    busy = sum(zone_cpus(idle, zone) & 0b111111 << 16 * zone for zone in (0, 1))
    one = idle._replace(free_cpus=idle.free_cpus & ~busy)
    apps = container("a", cpus=12, gib=9), container("b", cpus=6, gib=9)
    for shape in (pod(*apps, container("c")), pod(container("i", cpus=1, gib=1, pages=1, role="init"), *apps)):
        assert admit(one, shape).admitted == bool(_table([one]).admitted(shape)[0])
    assert admit(one, pod(*apps, container("c"))).admitted


def test_init_containers_of_several_zones_never_need_admit() -> None:
    """Arrays suffice if later containers need no more free memory than the pod requests."""
    spec = TWO_ZONES._replace(memory=100)
    base = kind(spec, "restricted")
    states = node_states(replace(base, policies=base.policies._replace(scope="pod")), spec, 200)
    apps = container("a", cpus=60, gib=30), container("b", cpus=40, gib=40)
    for gib in (20, 60):
        shape = pod(container("i", cpus=20, gib=gib, role="init"), *apps)
        states = [each._replace(memory_assigned=0) for each in states]
        fits = _table(states).fits(shape).tolist()
        assert fits == [admit(each, shape).admitted for each in states]


@st.composite
def pods_with_pod_level_resources(draw: st.DrawFn) -> PodShape:
    """Draw pods whose containers have exclusive resources or share the rest, within what the pod requests."""
    roles: list[Role] = ["init", "sidecar"]
    apps: list[Role] = ["app"]
    containers: list[Container] = []
    for number, role in enumerate(draw(st.lists(st.sampled_from(roles), max_size=2)) + apps * draw(st.integers(1, 3))):
        devices = {name: draw(st.sampled_from([0, 1, 1, 2])) for name in (GPU, NIC) if draw(st.booleans())}
        memory = (("memory", draw(st.sampled_from([1, 1, 2, 3])) * UNIT),)
        cpus, is_complete = draw(st.sampled_from([1, 2, 2, 3])), draw(st.booleans())
        containers.append(
            Container(f"c{number}", role, 1000 * cpus, memory, tuple(sorted(devices.items())), complete=is_complete)
        )
    cpus = sum(each.milli_cpus for each in containers if each.complete) // 1000 + draw(st.sampled_from([-1, 0, 1, 4]))
    memory = {"memory": draw(st.integers(2, 12)) * UNIT}
    if draw(st.booleans()):
        memory["hugepages-2Mi"] = draw(st.integers(0, 3)) * UNIT
    classes: list[Qos] = ["Guaranteed", "Guaranteed", "Burstable"]
    qos = draw(st.sampled_from(classes))
    return PodShape(tuple(containers), qos, PodLevelResources(max(cpus, 1) * 1000, tuple(sorted(memory.items()))))


@settings(max_examples=300)
@given(nodes(), pods_with_pod_level_resources(), st.booleans())
def test_pods_that_are_allocated_as_a_whole(states: list[NodeState], shape: PodShape, whole: bool) -> None:
    """With PodLevelResourceManagers no verdict is wrong, and scope pod rejects no fitting pod because of devices."""
    policies = states[0].kind.policies._replace(
        pod_level_managers=True, release=(1, 36), scope="pod" if whole else "container"
    )
    drawn = replace(states[0].kind, policies=policies)
    cluster = [each._replace(kind=drawn) for each in states]
    for verdict, each in zip(_table(cluster).fits(shape).tolist(), cluster, strict=True):
        assert verdict in {-1, admit(each, shape).admitted}


def test_pods_that_are_allocated_as_a_whole_never_need_admit() -> None:
    """In scope pod, arrays suffice if the pod has as much as its containers; they reject an empty shared pool."""
    base = kind(TWO_ZONES, "restricted")
    policies = base.policies._replace(scope="pod", pod_level_managers=True)
    states = node_states(replace(base, policies=policies), TWO_ZONES, 200)
    own = container("a", cpus=8, gib=30), container("b", cpus=4, gib=20)
    shared = own[1]._replace(complete=False)
    gib = 1 << 30
    for containers, cpus, admits in ((own, 12, True), ((own[0], shared), 20, True), ((own[0], shared), 8, False)):
        shape = PodShape(containers, "Guaranteed", PodLevelResources(cpus * 1000, (("memory", 60 * gib),)))
        fits = _table(states).fits(shape).tolist()
        assert fits == [admit(each, shape).admitted for each in states]
        assert (1 in fits) is admits
