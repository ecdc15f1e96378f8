"""The Memory Manager: groups, allocations, and hints compared with the kubelet's algorithm."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.fit_nodes import GIB, STATIC, container, node, pod
from support.wide_hints import listed_sets
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.context import AdmissionContext
from zonewise_scheduler.admission.errors import AdmissionError
from zonewise_scheduler.admission.memorymanager import memory_hints
from zonewise_scheduler.admission.memorymanager.memory_allocation import (
    allocate_container_memory,
    allocation_zones,
    update_machine_state,
)
from zonewise_scheduler.admission.memorymanager.memory_hints import (
    calculate_memory_hints,
    calculate_wide_memory_hints,
    find_best_hint,
)
from zonewise_scheduler.admission.pod import Container, PodShape
from zonewise_scheduler.admission.topologymanager.hints import Hints, TopologyHint

if TYPE_CHECKING:
    from zonewise_common.k8s.podspec import Role
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import Amounts, Qos

Reusable = dict[tuple[int, str], int]


def kubelet_hints(state: NodeState, requests: Amounts, reusable: Reusable) -> tuple[set[int], set[int]]:
    """Run a transcription of calculateHints (policy_static.go); return the preferred and the other sets of zones."""
    kind = state.kind
    width, masks = len(kind.zones), list[int]()
    for size in range(1, len(kind.zones) + 1):
        for indices in combinations(range(len(kind.zones)), size):
            sums = {
                name: [sum(table[i][column] for i in indices) for table in (kind.allocatable, state.memory_free)]
                for column, name in enumerate(kind.memory_types)
            }
            if any(sums[name][0] < request for name, request in requests):
                continue
            width = min(width, size)
            mask = sum(1 << kind.zones[i] for i in indices)
            groups = [state.memory_groups[i] for i in indices]
            assigned = [group for i, group in zip(indices, groups, strict=True) if state.memory_assigned >> i & 1]
            if (size == 1 and groups[0].bit_count() > 1) or (size > 1 and any(group != mask for group in assigned)):
                continue
            if all(sums[name][1] + reusable.get((mask, name), 0) >= request for name, request in requests):
                masks.append(mask)
    return {mask for mask in masks if mask.bit_count() == width}, {mask for mask in masks if mask.bit_count() != width}


@st.composite
def any_request(draw: st.DrawFn) -> tuple[NodeState, Amounts, Reusable]:
    """Draw a node whose zones have allocated memory, alone or as groups; a request; and reusable memory."""
    zones, hugepages = draw(st.integers(1, 5)), draw(st.sampled_from([0, 4]))
    state = node(zones, 1, pages=hugepages, gib=draw(st.integers(4, 12)), **STATIC)
    reusable: Reusable = {}
    idle_zones = list(range(zones))
    while idle_zones and draw(st.booleans()):
        group = draw(st.lists(st.sampled_from(idle_zones), min_size=1, unique=True))
        idle_zones = [zone for zone in idle_zones if zone not in group]
        mask = sum(1 << zone for zone in group)
        for name, most in zip(state.kind.memory_types, state.kind.allocatable[0], strict=True):
            allocated = draw(st.integers(0, most // GIB * len(group)))
            state = update_machine_state(state, mask, name, allocated * GIB)
            # as in a pod, the name is an equal string, but another object
            reusable[mask, "".join([*name])] = draw(st.integers(0, allocated)) * GIB
    names = draw(st.lists(st.sampled_from(state.kind.memory_types), min_size=1, unique=True))
    return state, tuple((name, draw(st.integers(0, 30)) * GIB) for name in sorted(names)), reusable


@given(any_request())
def test_hints_match_the_kubelet(request_input: tuple[NodeState, Amounts, Reusable]) -> None:
    """The sets of zones match the kubelet's; the result is None if the kubelet lists none."""
    preferred, not_preferred = kubelet_hints(*request_input)
    hints = calculate_memory_hints(*request_input, include_not_preferred=True)
    assert (hints is None) == (not preferred and not not_preferred)
    if hints is not None:
        assert (set(hints.preferred), set(hints.not_preferred)) == (preferred, not_preferred)


@given(any_request())
def test_wide_hints_match_listed_hints(request_input: tuple[NodeState, Amounts, Reusable]) -> None:
    """Arrays over all sets give the same hints as lists of sets."""
    preferred, not_preferred = kubelet_hints(*request_input)
    hints = calculate_wide_memory_hints(*request_input)
    assert (hints is None) == (not preferred and not not_preferred)
    if hints is not None:
        assert listed_sets(hints) == (preferred, not_preferred)


@given(any_request())
def test_preferred_hints_only(request_input: tuple[NodeState, Amounts, Reusable]) -> None:
    """Omitting the other hints changes neither the preferred ones nor whether there are any hints."""
    wide, short = (
        calculate_memory_hints(*request_input, include_not_preferred=True),
        calculate_memory_hints(*request_input, include_not_preferred=False),
    )
    assert short == (None if wide is None else Hints(wide.preferred))


@given(any_request(), st.integers(0, 31))
def test_find_best_hint(request_input: tuple[NodeState, Amounts, Reusable], within: int) -> None:
    """A preferred hint comes first, then the fewest zones, then the lowest number (findBestHint)."""
    candidates = [
        (not preferred, zones.bit_count(), zones)
        for sets, preferred in zip(kubelet_hints(*request_input), (True, False), strict=True)
        for zones in sets
        if zones & within == within
    ]
    best = min(candidates, default=None)
    expected = None if best is None else (best[2], not best[0])
    assert find_best_hint(*request_input, within) == expected
    with patch.object(memory_hints, "MAX_LISTED_ZONES", 0):
        assert find_best_hint(*request_input, within) == expected


def test_a_group_of_higher_zones_is_listed() -> None:
    """Zones 1 and 2 allocate together; arrays and lists of sets give the same hints."""
    state = update_machine_state(node(3, 1, gib=8, **STATIC), 0b110, "memory", 10 * GIB)
    request = (("memory", 5 * GIB),)
    assert kubelet_hints(state, request, {}) == ({0b001}, {0b110})
    hints = calculate_wide_memory_hints(state, request, {})
    assert hints is not None
    assert listed_sets(hints) == ({0b001}, {0b110})


def test_a_byte_more_than_is_free_does_not_fit() -> None:
    """Memory that is reusable in other zones counts only there."""
    state = node(2, 1, gib=8, **STATIC)
    hints = calculate_memory_hints(state, (("memory", 8 * GIB + 1),), {(1, "memory"): 1}, include_not_preferred=True)
    assert hints == Hints((0b11,), (0b01,))


def test_unassigned_zones_have_enough_together() -> None:
    """Zone 0 has most memory and would suffice alone, but is full; so there is a hint, but no preferred one."""
    state = node(4, 1, gib=2, **STATIC)
    allocatable = ((8 * GIB,), (2 * GIB,), (2 * GIB,), (2 * GIB,))
    state = state._replace(kind=replace(state.kind, allocatable=allocatable), memory_free=allocatable)
    state = update_machine_state(state, 0b1, "memory", 8 * GIB)
    request = (("memory", 6 * GIB),)
    assert calculate_memory_hints(state, request, {}, include_not_preferred=True) == Hints((), (0b1110,))
    assert calculate_memory_hints(state, request, {}, include_not_preferred=False) == Hints(())


def test_a_default_hint_must_be_preferred_if_the_alignment_is() -> None:
    """One zone of 8 GiB would suffice, but both have less free. As in some reports, no zone counts as assigned."""
    state = node(2, 1, gib=8, **STATIC)._replace(memory_free=((7 * GIB,), (7 * GIB,)))
    context, request = AdmissionContext(state, pod()), (("memory", 8 * GIB),)
    assert allocation_zones(context, request, TopologyHint(None, preferred=False)) == 0b11
    with pytest.raises(AdmissionError, match="failed to find the default preferred hint"):
        allocation_zones(context, request, TopologyHint(None, preferred=True))


@pytest.mark.parametrize(
    ("gib", "preferred", "zones"),
    [(6, False, 0b11), (6, True, None), (9, False, 0b11), (9, True, 0b11), (2, True, 0b01)],
)
def test_an_alignment_with_too_little_memory_is_extended(gib: int, preferred: bool, zones: int | None) -> None:
    """Zone 0 has 2 of 8 GiB free. A preferred alignment is extended only to a preferred one: as few zones as idle."""
    state = node(2, 1, gib=8, **STATIC)._replace(memory_free=((2 * GIB,), (8 * GIB,)))
    context, request = AdmissionContext(state, pod()), (("memory", gib * GIB),)
    alignment = TopologyHint(0b01, preferred)
    if zones is None:
        with pytest.raises(AdmissionError, match="failed to find the extended preferred hint"):
            allocation_zones(context, request, alignment)
    else:
        assert allocation_zones(context, request, alignment) == zones


def test_an_allocation_does_not_change_other_types() -> None:
    state = node(2, 1, gib=8, pages=4, **STATIC)
    assert update_machine_state(state, 0b10, "memory", GIB).memory_free == ((4 * GIB, 8 * GIB), (4 * GIB, 7 * GIB))
    after = update_machine_state(state, 0b10, "hugepages-1Gi", GIB)
    assert after.memory_free == ((4 * GIB, 8 * GIB), (3 * GIB, 8 * GIB))


def test_memory_of_a_type_that_no_zone_has() -> None:
    """Nothing is allocated, but the zones become a group."""
    state = node(2, 1, gib=8, **STATIC)
    after = update_machine_state(state, 0b11, "hugepages-2Mi", GIB)
    assert (after.memory_free, after.memory_groups, after.memory_assigned) == (state.memory_free, (3, 3), 3)


@given(any_request(), st.integers(1, 31), st.integers(0, 40))
def test_update_machine_state(request_input: tuple[NodeState, Amounts, Reusable], zones: int, gib: int) -> None:
    """Memory is taken from the lowest zone first, no zone falls below 0, and the zones become one group."""
    state = request_input[0]
    zones &= (1 << len(state.kind.zones)) - 1
    after = update_machine_state(state, zones, "memory", gib * GIB)
    column = state.kind.memory_types.index("memory")
    before = [row[column] for row in state.memory_free]
    left = [row[column] for row in after.memory_free]
    inside = [index for index in range(len(before)) if zones >> index & 1]
    assert sum(before) - sum(left) == min(gib * GIB, sum(before[index] for index in inside))
    assert all(a == b for index, (a, b) in enumerate(zip(before, left, strict=True)) if index not in inside)
    touched = [index for index in inside if before[index] != left[index]]
    assert all(left[index] == 0 for index in inside if touched and index < touched[-1])
    assert all(after.memory_groups[index] == zones for index in inside)
    assert after.memory_assigned == state.memory_assigned | zones


def test_an_alignment_with_exactly_enough_memory_is_not_extended() -> None:
    """The zones are a group, so zone 0 is not a hint; an extended alignment would contain both."""
    state = update_machine_state(node(2, 1, gib=8, **STATIC), 0b11, "memory", 3 * GIB)
    alignment = TopologyHint(0b01, preferred=False)
    zones = [allocation_zones(AdmissionContext(state, pod()), (("memory", gib * GIB),), alignment) for gib in (5, 6)]
    assert zones == [0b01, 0b11]


@pytest.mark.parametrize(("more", "sets"), [(0, {0b110}), (1, None)])
def test_free_and_reusable_memory_of_a_group_adds_up(more: int, sets: set[int] | None) -> None:
    """One more byte does not fit. The third zone has no free memory."""
    state = update_machine_state(node(3, 1, gib=8, **STATIC), 0b110, "memory", 10 * GIB)
    state = update_machine_state(state, 0b001, "memory", 8 * GIB)
    request_input = state, (("memory", 9 * GIB + more),), {(0b110, "memory"): 3 * GIB}
    listed = calculate_memory_hints(*request_input, include_not_preferred=True)
    wide = calculate_wide_memory_hints(*request_input)
    assert (listed and {*listed.preferred}) == (wide and listed_sets(wide)[0]) == sets


@pytest.mark.parametrize(
    ("zones", "violates"),
    [
        *((zones, False) for zones in (0b00001, 0b00010, 0b00100, 0b01000, 0b00011, 0b11000)),
        *((zones, True) for zones in (0b00101, 0b00110, 0b00111, 0b01100, 0b11010, 0b11111)),
    ],
)
def test_sets_of_several_zones_do_not_cut_across_groups(zones: int, violates: bool) -> None:
    """Zones 0 and 1 are a group, zone 2 allocates alone, and the other zones have allocated nothing."""
    state = update_machine_state(node(5, 1, gib=8, **STATIC), 0b011, "memory", GIB)
    state = update_machine_state(state, 0b100, "memory", GIB)
    assert memory_hints.MemoryView(state, (), {}).violates_numa_allocations(zones) is violates


def test_a_part_of_a_group_cuts_across_it() -> None:
    state = update_machine_state(node(3, 1, gib=8, **STATIC), 0b111, "memory", GIB)
    assert memory_hints.MemoryView(state, (), {}).violates_numa_allocations(0b011)
    assert not memory_hints.MemoryView(state, (), {}).violates_numa_allocations(0b111)


@pytest.mark.parametrize("most_listed", [0, 8])
def test_two_zones_are_better_than_three_lower_ones(most_listed: int) -> None:
    """An idle zone could provide the 5 GiB, so no hint of several zones is preferred."""
    state = node(4, 1, gib=8, **STATIC)._replace(memory_free=((GIB,), (GIB,), (3 * GIB,), (3 * GIB,)))
    with patch.object(memory_hints, "MAX_LISTED_ZONES", most_listed):
        assert find_best_hint(state, (("memory", 5 * GIB),), {}, 0) == (0b1100, False)


def test_no_zone_has_memory_of_a_type_that_the_node_lacks() -> None:
    assert memory_hints.free_memory(node(2, 1, gib=8, **STATIC), "hugepages-2Mi") == {0: 0, 1: 0}
    assert memory_hints.free_memory(node(2, 1, gib=8, **STATIC), "memory") == {0: 8 * GIB, 1: 8 * GIB}


# --- what pods get


def test_both_types_need_more_zones_than_each_type() -> None:
    """Two zones have memory, and two have hugepages. Zones that suffice for one type do not suffice for both."""
    kind = node(4, 1, pages=4, gib=8, **STATIC).kind
    assert kind.memory_types == ("hugepages-1Gi", "memory")
    uneven = replace(kind, allocatable=((0, 8), (0, 8), (4, 0), (4, 0)))
    widths = {
        (pages, memory): memory_hints.memory_min_affinity_size(uneven, (("hugepages-1Gi", pages), ("memory", memory)))
        for pages, memory in ((4, 0), (4, 8), (8, 8), (8, 16), (9, 1))
    }
    assert widths == {(4, 0): 1, (4, 8): 2, (8, 8): 3, (8, 16): 4, (9, 1): 4}
    assert memory_hints.memory_min_affinity_size(uneven, (("hugepages-2Mi", 1),)) == 4
    assert memory_hints.memory_min_affinity_size(uneven, (("hugepages-2Mi", 0), ("memory", 9))) == 2


def test_a_group_allocates_only_as_a_whole() -> None:
    """Once two zones have allocated as a group, a pod that would fit into one of them is rejected."""
    state = node(2, 8, gib=16, topology="restricted", **STATIC)
    first = admit(state, pod(container(cpus=20, gib=20)))
    assert first.after is not None
    assert first.after.memory_groups == (3, 3)
    second = admit(first.after, pod(container(cpus=2, gib=1)))
    assert (second.reason, second.container) == ("TopologyAffinityError", "c0")


def test_without_a_policy_memory_need_not_be_preferred() -> None:
    """An idle zone has 8 GiB, but 6 are left in each. Since no zone is assigned, both provide the memory together."""
    state = node(2, 8, gib=8, topology="none", **STATIC)._replace(memory_free=((6 * GIB,), (6 * GIB,)))
    verdict = admit(state, pod(container(cpus=2, gib=8)))
    assert [block.zones for block in verdict.assignments[0].memory] == [0b11]


def test_a_zone_that_allocates_alone_joins_no_group() -> None:
    """The kubelet lists no hint in this case, and fails only in the allocation."""
    state = node(2, 8, gib=16, topology="restricted", **STATIC)
    first = admit(state, pod(container(cpus=2, gib=1)))
    assert first.after is not None
    second = admit(first.after, pod(container(cpus=20, gib=20)))
    assert second.reason == "UnexpectedAdmissionError"
    assert second.resource == "memory"


def test_before_1_32_groups_may_be_mixed() -> None:
    """Release 1.31 does not check during the allocation whether a set cuts across groups."""
    wide, small = pod(container(cpus=20, gib=20)), pod(container(cpus=2, gib=1))
    for release, admitted in (((1, 31), True), ((1, 32), False)):
        state = node(2, 8, gib=16, topology="best-effort", release=release, **STATIC)
        first = admit(state, small)
        assert first.after is not None
        second = admit(first.after, wide)
        assert second.admitted is admitted
        assert ("violates NUMA node allocation" in second.message) is not admitted


@pytest.mark.parametrize(("topology", "message"), [("none", "default NUMA affinity"), ("single-numa-node", "extend")])
def test_memory_that_no_zones_have_fails_unexpectedly(topology: str, message: str) -> None:
    """Without hints for a request, the Topology Manager assumes that there is no preference."""
    state = node(2, 8, gib=16, topology=topology, **STATIC)
    verdict = admit(state, pod(container(cpus=2, gib=40)))
    assert verdict.reason == "UnexpectedAdmissionError"
    assert f"[memorymanager] failed to {'get the' if topology == 'none' else 'find NUMA nodes to'} " in verdict.message
    assert message in verdict.message


def test_an_app_reuses_the_memory_of_its_init_container() -> None:
    """The block of the init container shrinks to the rest."""
    state = node(2, 8, gib=16, topology="single-numa-node", **STATIC)
    verdict = admit(state, pod(container("i0", 2, 12, role="init"), container("c0", 2, 10)))
    assert verdict.after is not None
    assert verdict.after.memory_free == ((4 * GIB,), (16 * GIB,))
    assert [assignment.memory[0].size // GIB for assignment in verdict.assignments] == [2, 10]


STARTING: st.SearchStrategy[Role] = st.sampled_from(["init", "sidecar"])


def allocated(zone: int, containers: list[tuple[Role, int]]) -> tuple[AdmissionContext, list[int]]:
    """Allocate bytes of one zone to the containers in turn; return the context and the final size of each block."""
    names = [f"c{index}" for index in range(len(containers))]
    shapes = [
        Container(name, role, 1000, (("memory", size),)) for name, (role, size) in zip(names, containers, strict=True)
    ]
    context = AdmissionContext(node(10, 1, gib=8, **STATIC), PodShape(tuple(shapes), "Guaranteed"))
    for shape in shapes:
        # equal to the zones and names of earlier containers, but other objects
        requests = tuple(("".join([*name]), size) for name, size in shape.memory)
        allocate_container_memory(context, shape, requests, TopologyHint(1 << zone, preferred=True))
    return context, [context.memory[name][0].size for name in names]


@pytest.mark.parametrize("zone", [0, 9])
@pytest.mark.parametrize(
    ("containers", "sizes"),
    [
        ([("init", 12), ("app", 5)], [7, 5]),
        ([("init", 12), ("app", 5), ("app", 4)], [3, 5, 4]),
        ([("init", 12), ("init", 10), ("app", 11)], [0, 1, 11]),
        ([("sidecar", 5), ("init", 4), ("app", 3)], [5, 1, 3]),
        ([("init", 4), ("sidecar", 5), ("init", 6), ("app", 7)], [0, 5, 0, 7]),
        ([("init", 0), ("app", 3), ("app", 0)], [0, 3, 0]),
    ],
)
def test_blocks_of_the_first_init_containers_shrink_first(
    containers: list[tuple[Role, int]], sizes: list[int], zone: int
) -> None:
    """The blocks of sidecars and apps do not shrink."""
    assert allocated(zone, containers)[1] == sizes


@given(st.lists(st.tuples(STARTING, st.integers(0, 9)), max_size=4), st.lists(st.integers(0, 9), max_size=3))
def test_the_memory_of_a_pod_is_its_peak(starting: list[tuple[Role, int]], apps: list[int]) -> None:
    """The blocks add up to the peak over time; what long-running containers do not use is reusable."""
    running = peak = 0
    for role, size in starting:
        peak = max(peak, running + size)
        running += size if role == "sidecar" else 0
    peak = max(peak, running + sum(apps))
    context, sizes = allocated(0, [*starting, *(("app", size) for size in apps)])
    assert 8 * GIB - context.state.memory_free[0][0] == sum(sizes) == peak
    assert sum(context.reusable_memory.values()) == peak - running - sum(apps)


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize(("pages", "rest"), [(5, 3), (1, 0)])
def test_blocks_of_each_type_shrink_by_that_type(pages: int, rest: int, *, copied: bool) -> None:
    """They shrink by no other type, even if there are too few pages to reuse. Types are compared by value."""
    state = node(2, 8, gib=16, pages=8, topology="none", **STATIC)
    app = container("c0", 2, 10, pages=2)
    if copied:
        app = app._replace(memory=tuple(("".join([*name]), size) for name, size in app.memory))
    verdict = admit(state, pod(container("i0", 2, 12, role="init", pages=pages), app))
    blocks = [{block.type: block.size // GIB for block in each.memory} for each in verdict.assignments]
    assert blocks == [{"hugepages-1Gi": rest, "memory": 2}, {"hugepages-1Gi": 2, "memory": 10}]


def test_memory_of_an_init_container_in_a_higher_zone_is_not_reused() -> None:
    """Zone 0 has 2 GiB free, and the second container needs its pages."""
    state = node(2, 8, gib=16, pages=4, topology="none", **STATIC)
    state = update_machine_state(update_machine_state(state, 1, "memory", 14 * GIB), 2, "hugepages-1Gi", 4 * GIB)
    verdict = admit(state, pod(container("i0", 1, 10, role="init"), container("c0", 1, 1, pages=1)))
    blocks = [(block.type, block.zones, block.size // GIB) for each in verdict.assignments for block in each.memory]
    assert blocks == [("memory", 2, 10), ("hugepages-1Gi", 1, 1), ("memory", 1, 1)]


def test_the_memory_of_an_init_container_in_another_zone_is_not_reused() -> None:
    """The block of the init container does not shrink."""
    state = update_machine_state(node(2, 8, gib=16, topology="none", **STATIC), 1, "memory", 12 * GIB)
    verdict = admit(state, pod(container("i0", gib=2, role="init"), container("c0", gib=10)))
    blocks = [(block.zones, block.size // GIB) for each in verdict.assignments for block in each.memory]
    assert blocks == [(1, 2), (2, 10)]


def test_a_sidecar_keeps_its_memory() -> None:
    """Other containers do not reuse the memory of a sidecar."""
    state = node(2, 8, gib=16, topology="single-numa-node", **STATIC)
    verdict = admit(state, pod(container("i0", 2, 12, role="sidecar"), container("c0", 2, 10)))
    assert verdict.after is not None
    assert verdict.after.memory_free == ((4 * GIB,), (6 * GIB,))


def test_hugepages_and_memory_come_from_the_same_zones() -> None:
    """A zone without free hugepages provides no memory to a container that requests both."""
    state = node(2, 8, gib=16, pages=4, topology="none", **STATIC)
    state = update_machine_state(state, 1, "hugepages-1Gi", 3 * GIB)
    verdict = admit(state, pod(container(cpus=2, gib=1, pages=2)))
    assert [(block.type, block.zones) for block in verdict.assignments[0].memory] == [
        ("hugepages-1Gi", 2),
        ("memory", 2),
    ]


@pytest.mark.parametrize("qos", ["Burstable", "BestEffort"])
def test_only_guaranteed_pods_are_pinned(qos: Qos) -> None:
    """Pods of other QoS classes get no pinned memory."""
    state = node(2, 8, topology="restricted", **STATIC)
    verdict = admit(state, pod(container(cpus=2, gib=40), qos=qos))
    assert verdict.admitted
    assert verdict.after == state
