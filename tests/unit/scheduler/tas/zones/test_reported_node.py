"""Pods of the queue in reports: each pod counts once, whichever event comes first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.any_nodes import kinds, pods
from support.fit_nodes import STRICT, container, node, pod
from support.reported_pods import RunningNode, key_of, running_node, texts
from zonewise_common.k8s.cpuset import CpuSet
from zonewise_common.nrt.holdings import NODE, UNATTRIBUTED, Holdings, write_holdings
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.node import idle_node
from zonewise_scheduler.tas.zones.kubelet_states import KubeletStates
from zonewise_scheduler.tas.zones.reported_node import reported_node
from zonewise_scheduler.tas.zones.zone_allocations import ZoneAllocations

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.tas.zones.pod_allocation import PodSetKey

WIDE = pod(container(cpus=6, gib=4))
"""A pod; a zone of 8 CPUs holds one."""
QUEUE: PodSetKey = ("ns/first", "main")


@st.composite
def running_nodes(draw: st.DrawFn) -> RunningNode:
    """Draw a node with pods that its kubelet aligns to one zone."""
    kind = draw(kinds(("single-numa-node",)))
    return running_node(idle_node(kind), draw(st.lists(pods(simple=True), min_size=1, max_size=5)))


def amounts(state: NodeState) -> list[int]:
    """Return all numbers of a state: CPUs, bytes and devices."""
    return [state.free_cpus.bit_count(), *(size for row in state.memory_free for size in row), *state.device_free]


@settings(max_examples=150)
@given(running_nodes(), st.data())
def test_base_never_exceeds_the_idle_node(running: RunningNode, data: st.DataObject) -> None:
    """The state without the queue's pods has at least what is available and at most what the idle node has."""
    queue_pods: dict[str, PodSetKey | None] = {
        key_of(name): data.draw(st.sampled_from([QUEUE, ("ns/other", "main"), None]))
        for name in running.held
        if data.draw(st.booleans())
    }
    reported = reported_node(running.state, running.texts(), queue_pods)
    assert reported.base is not None
    assert reported.state is not None
    for bounds in zip(
        amounts(running.state), amounts(reported.state), amounts(reported.base), amounts(running.idle), strict=True
    ):
        assert list(bounds) == sorted(bounds)
    assert not reported.base.free_cpus & ~running.idle.free_cpus
    if set(queue_pods) == {key_of(name) for name in running.held}:
        assert amounts(reported.base) == amounts(running.idle)


@settings(max_examples=150)
@given(running_nodes(), st.data())
def test_order_of_observations_does_not_matter(running: RunningNode, data: st.DataObject) -> None:
    """Admissions, pods and reports arrive in any order. Once reports have caught up, the node is as reported."""
    names = list(running.held)
    keys: dict[str, PodSetKey] = {name: (f"ns/{name}", "main") for name in names}
    events = [("admit", name) for name in names] + [("observe", name) for name in names]
    events += [("report", name) for name in names]
    states = KubeletStates([running.idle])
    allocations = ZoneAllocations(states)
    observed: dict[str, PodSetKey | None] = {}
    reported: NodeState = running.idle
    holdings: tuple[tuple[int, str], ...] = ()
    progress = 0
    for kind, name in data.draw(st.permutations(events)):
        if kind == "admit":
            allocations.add(0, keys[name], running.shapes[name], 1)
        elif kind == "observe":
            observed[key_of(name)] = keys[name]
            states.report(0, reported_node(reported, holdings, observed))
        else:
            progress += 1
            arrived = names[:progress]
            partial = running_node(running.idle, [running.shapes[each] for each in arrived])
            reported = partial.state
            holdings = texts(reported, dict(zip(arrived, partial.held.values(), strict=False)))
            states.report(0, reported_node(reported, holdings, observed))
        if data.draw(st.booleans()):
            visible = allocations.table().state(0)
            assert visible is not None
            assert all(a <= b for a, b in zip(amounts(visible), amounts(reported), strict=True))
    assert allocations.table().state(0) == running.state
    copied = allocations.copy()
    for name in data.draw(st.permutations(names)):
        copied.remove(0, keys[name], 1)
    after = copied.table().state(0)
    assert after is not None
    assert amounts(after) == amounts(running.idle)
    assert allocations.table().state(0) == running.state


def memory_groups(allocations: ZoneAllocations) -> list[tuple[int, ...]]:
    """Return the memory groups of the queue's pods on the first node."""
    return [allocation.memory_groups for allocation in allocations.predicted_allocations(0, QUEUE)]


def test_reported_pod_counts_in_its_actual_zone() -> None:
    """If a kubelet puts a pod into another zone than predicted, the predicted zone is free."""
    idle = node(2, 4, **STRICT)
    states = KubeletStates([idle])
    allocations = ZoneAllocations(states)
    allocations.add(0, QUEUE, WIDE, 1)
    assert memory_groups(allocations) == [(0b01,)]
    in_second_zone = idle._replace(free_cpus=0x00FF | 0xC000)
    held = Holdings(0x3F00, (("memory", 0b10, 4 << 30),))
    in_second_zone = in_second_zone._replace(
        memory_free=(idle.memory_free[0], (idle.memory_free[1][0] - (4 << 30),)), memory_assigned=0b10
    )
    states.report(0, reported_node(in_second_zone, texts(idle, {"p0": held}), {key_of("p0"): QUEUE}))
    assert memory_groups(allocations) == [(0b10,)]
    assert allocations.table().state(0) == in_second_zone
    allocations.remove(0, QUEUE, 1)
    assert allocations.table().state(0) == idle


def test_unknown_holdings_count_twice() -> None:
    """If a report does not state which resources a pod holds, the pod also counts as predicted."""
    running = running_node(node(2, 4, **STRICT), [WIDE])
    for unknown in (None, ((0, "damaged"),), ((0, ""),)):
        states = KubeletStates([running.idle])
        allocations = ZoneAllocations(states)
        states.report(0, reported_node(running.state, unknown, {key_of("p0"): QUEUE}))
        allocations.add(0, QUEUE, WIDE, 1)
        assert allocations.table().state(0) == admit(running.state, WIDE).after


def test_partly_admitted_pod_counts_twice() -> None:
    """A report from the middle of an admission shows one of two containers, so the pod also counts as predicted."""
    half = container(cpus=2, gib=1)
    pair = pod(half, half._replace(name="second"))
    whole = running_node(node(2, 4, **STRICT), [pair])
    part = running_node(node(2, 4, **STRICT), [pod(half)])
    states = KubeletStates([whole.idle])
    allocations = ZoneAllocations(states)
    allocations.add(0, QUEUE, pair, 1)
    queue_pods: dict[str, PodSetKey | None] = {key_of("p0"): QUEUE}
    states.report(0, reported_node(part.state, part.texts(), queue_pods))
    assert allocations.table().state(0) == admit(part.state, pair).after
    states.report(0, reported_node(whole.state, whole.texts(), queue_pods))
    assert allocations.table().state(0) == whole.state


def test_ended_pod_is_released_before_the_next_report() -> None:
    """A kubelet that has reported the end of a pod has released its resources."""
    running = running_node(node(2, 4, **STRICT), [WIDE])
    assert reported_node(running.state, running.texts(), {key_of("p0"): None}).state == running.idle


@pytest.mark.parametrize("other_key", [UNATTRIBUTED, None])
def test_memory_of_unknown_holders_remains_assigned(other_key: str | None) -> None:
    """A zone with memory that no listed pod holds remains assigned after the queue's pods are released."""
    running = running_node(node(2, 4, **STRICT), [WIDE, WIDE])
    entries = [(key_of("p0"), running.held["p0"])]
    if other_key is not None:
        entries.append((other_key, running.held["p1"]))
    zone_cpus = {zone: CpuSet.from_bits(cpus) for zone, cpus in running.state.kind.cpus.zones}
    reported = reported_node(
        running.state,
        tuple((zone, text) for zone, text in write_holdings(entries, zone_cpus).items() if zone != NODE),
        {key_of("p0"): QUEUE},
    )
    assert reported.base is not None
    assert reported.base.memory_assigned == 0b10
