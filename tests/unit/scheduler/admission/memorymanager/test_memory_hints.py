"""The Memory Manager: its hints against the procedure as it is written down, its groups, and what it gives."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.fit_nodes import GIB, STATIC, container, node, pod
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.memorymanager.memory_allocation import update_machine_state
from zonewise_scheduler.admission.memorymanager.memory_hints import calculate_memory_hints, find_best_hint
from zonewise_scheduler.admission.topologymanager.hints import Hints

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import Amounts, Qos

Idle = dict[tuple[int, str], int]


def literal(state: NodeState, requests: Amounts, idle: Idle) -> tuple[set[int], set[int]]:
    """Calculate hints as calculateHints does (policy_static.go): by every set of zones; preferred, and the others."""
    kind = state.kind
    width, found = len(kind.zones), list[int]()
    for size in range(1, len(kind.zones) + 1):
        for places in combinations(range(len(kind.zones)), size):
            sums = {
                name: [sum(table[place][column] for place in places) for table in (kind.allocatable, state.memory_free)]
                for column, name in enumerate(kind.memory_types)
            }
            if any(sums[name][0] < wanted for name, wanted in requests):
                continue
            width = min(width, size)
            mask = sum(1 << kind.zones[place] for place in places)
            groups = [state.memory_groups[place] for place in places]
            busy = [group for place, group in zip(places, groups, strict=True) if state.memory_assigned >> place & 1]
            if (size == 1 and groups[0].bit_count() > 1) or (size > 1 and any(group != mask for group in busy)):
                continue
            if all(sums[name][1] + idle.get((mask, name), 0) >= wanted for name, wanted in requests):
                found.append(mask)
    return {one for one in found if one.bit_count() == width}, {one for one in found if one.bit_count() != width}


@st.composite
def any_request(draw: st.DrawFn) -> tuple[NodeState, Amounts, Idle]:
    """A node of which some zones have given memory, alone or as groups; a request; and what an init container left."""
    zones, pages = draw(st.integers(1, 5)), draw(st.sampled_from([0, 4]))
    state = node(zones, 1, pages=pages, gib=draw(st.integers(4, 12)), **STATIC)
    idle: Idle = {}
    rest = list(range(zones))
    while rest and draw(st.booleans()):
        some = draw(st.lists(st.sampled_from(rest), min_size=1, unique=True))
        rest = [zone for zone in rest if zone not in some]
        mask = sum(1 << zone for zone in some)
        for name, most in zip(state.kind.memory_types, state.kind.allocatable[0], strict=True):
            taken = draw(st.integers(0, most // GIB * len(some)))
            state = update_machine_state(state, mask, name, taken * GIB)
            idle[mask, name] = draw(st.integers(0, taken)) * GIB
    names = draw(st.lists(st.sampled_from(state.kind.memory_types), min_size=1, unique=True))
    return state, tuple((name, draw(st.integers(0, 30)) * GIB) for name in sorted(names)), idle


@given(any_request())
def test_hints_are_those_of_the_procedure(question: tuple[NodeState, Amounts, Idle]) -> None:
    """All and only the sets of zones that the kubelet would list, and none where it lists none."""
    preferred, others = literal(*question)
    hints = calculate_memory_hints(*question, include_not_preferred=True)
    assert (hints is None) == (not preferred and not others)
    if hints is not None:
        assert (set(hints.preferred), set(hints.not_preferred)) == (preferred, others)


@given(any_request())
def test_the_short_form_has_the_preferred_ones(question: tuple[NodeState, Amounts, Idle]) -> None:
    """Without the others, the preferred ones are the same, and so is whether there is any hint."""
    wide, short = (
        calculate_memory_hints(*question, include_not_preferred=True),
        calculate_memory_hints(*question, include_not_preferred=False),
    )
    assert short == (None if wide is None else Hints(wide.preferred))


@given(any_request(), st.integers(0, 31))
def test_the_narrowest_hint_around_zones_is_found(question: tuple[NodeState, Amounts, Idle], within: int) -> None:
    """A preferred hint first, then fewest zones, then the lowest number (findBestHint)."""
    found = [
        (not preferred, zones.bit_count(), zones)
        for some, preferred in zip(literal(*question), (True, False), strict=True)
        for zones in some
        if zones & within == within
    ]
    best = min(found, default=None)
    assert find_best_hint(*question, within) == (None if best is None else (best[2], not best[0]))


@given(any_request(), st.integers(1, 31), st.integers(0, 40))
def test_what_is_taken_is_what_was_free(question: tuple[NodeState, Amounts, Idle], zones: int, gib: int) -> None:
    """Bytes go from the lowest zone upwards, none below nothing, and the zones are one group then."""
    state = question[0]
    zones &= (1 << len(state.kind.zones)) - 1
    after = update_machine_state(state, zones, "memory", gib * GIB)
    column = state.kind.memory_types.index("memory")
    before = [row[column] for row in state.memory_free]
    left = [row[column] for row in after.memory_free]
    inside = [place for place in range(len(before)) if zones >> place & 1]
    assert sum(before) - sum(left) == min(gib * GIB, sum(before[place] for place in inside))
    assert all(a == b for place, (a, b) in enumerate(zip(before, left, strict=True)) if place not in inside)
    touched = [place for place in inside if before[place] != left[place]]
    assert all(left[place] == 0 for place in inside if touched and place < touched[-1])
    assert all(after.memory_groups[place] == zones for place in inside)
    assert after.memory_assigned == state.memory_assigned | zones


# --- what a pod gets


def test_a_group_gives_only_as_one() -> None:
    """After memory of two zones as one, a pod that fits into one zone of them is refused."""
    state = node(2, 8, gib=16, topology="restricted", **STATIC)
    first = admit(state, pod(container(cpus=20, gib=20)))
    assert first.after is not None
    assert first.after.memory_groups == (3, 3)
    second = admit(first.after, pod(container(cpus=2, gib=1)))
    assert (second.reason, second.container) == ("TopologyAffinityError", "c0")


def test_a_zone_that_gives_alone_joins_no_group() -> None:
    """The same the other way round; the kubelet lists no hint, and fails only when it allocates."""
    state = node(2, 8, gib=16, topology="restricted", **STATIC)
    first = admit(state, pod(container(cpus=2, gib=1)))
    assert first.after is not None
    second = admit(first.after, pod(container(cpus=20, gib=20)))
    assert second.reason == "UnexpectedAdmissionError"
    assert second.resource == "memory"


def test_before_1_32_groups_may_be_mixed() -> None:
    """1.31 does not look whether a set cuts across groups when it allocates."""
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
    """A request that nothing satisfies gives no hints, which the Topology Manager takes for no preference."""
    state = node(2, 8, gib=16, topology=topology, **STATIC)
    verdict = admit(state, pod(container(cpus=2, gib=40)))
    assert verdict.reason == "UnexpectedAdmissionError"
    assert f"[memorymanager] failed to {'get the' if topology == 'none' else 'find NUMA nodes to'} " in verdict.message
    assert message in verdict.message


def test_an_init_container_hands_its_memory_on() -> None:
    """The app takes over what its init container had of the same zones, whose block shrinks to what is left."""
    state = node(2, 8, gib=16, topology="single-numa-node", **STATIC)
    verdict = admit(state, pod(container("i0", 2, 12, role="init"), container("c0", 2, 10)))
    assert verdict.after is not None
    assert verdict.after.memory_free == ((4 * GIB,), (16 * GIB,))
    assert [one.memory[0].size // GIB for one in verdict.assignments] == [2, 10]


def test_a_sidecar_keeps_its_memory() -> None:
    """What a sidecar has is nobody else's."""
    state = node(2, 8, gib=16, topology="single-numa-node", **STATIC)
    verdict = admit(state, pod(container("i0", 2, 12, role="sidecar"), container("c0", 2, 10)))
    assert verdict.after is not None
    assert verdict.after.memory_free == ((4 * GIB,), (6 * GIB,))


def test_pages_and_memory_come_from_the_same_zones() -> None:
    """A zone without pages gives no memory to a container that wants both, and both are given as one."""
    state = node(2, 8, gib=16, pages=4, topology="none", **STATIC)
    state = update_machine_state(state, 1, "hugepages-1Gi", 3 * GIB)
    verdict = admit(state, pod(container(cpus=2, gib=1, pages=2)))
    assert [(share.type, share.zones) for share in verdict.assignments[0].memory] == [
        ("hugepages-1Gi", 2),
        ("memory", 2),
    ]


@pytest.mark.parametrize("qos", ["Burstable", "BestEffort"])
def test_only_guaranteed_pods_are_pinned(qos: Qos) -> None:
    """Other classes get no memory of their own."""
    state = node(2, 8, topology="restricted", **STATIC)
    verdict = admit(state, pod(container(cpus=2, gib=40), qos=qos))
    assert verdict.admitted
    assert verdict.after == state
