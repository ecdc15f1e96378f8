"""Hints of the CPU Manager."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.cpu_nodes import STATIC, CoreAt, bits_of, regular, state_of, states, topology_of
from support.wide_hints import listed_sets
from zonewise_scheduler.admission.cpumanager import generate_cpu_topology_hints
from zonewise_scheduler.admission.cpumanager.cpu_hints import generate_wide_cpu_hints
from zonewise_scheduler.admission.errors import AdmissionError
from zonewise_scheduler.admission.topologymanager.hints import Hints

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState

POLICIES = st.sampled_from((STATIC, STATIC._replace(align_by_package=True)))


def kubelet_hints(state: NodeState, count: int, reusable: int) -> Hints:
    """Evaluate each set of zones individually, as the kubelet's source does."""
    topology = state.kind.cpus
    sets = [
        tuple(members) for size in range(1, len(topology.zones) + 1) for members in combinations(topology.zones, size)
    ]
    min_size = min(
        (len(members) for members in sets if sum(cpus.bit_count() for _, cpus in members) >= count),
        default=len(topology.zones),
    )
    per_package = len(topology.zones) // len(topology.packages)
    preferred: list[int] = []
    not_preferred: list[int] = []
    for members in sets:
        cpus = sum(cpus for _, cpus in members)
        if reusable & ~cpus or (state.free_cpus & cpus).bit_count() + reusable.bit_count() < count:
            continue
        packages = sum(1 for _, package in topology.packages if package & cpus)
        aligned = state.kind.policies.align_by_package and per_package and packages == -(-min_size // per_package)
        (preferred if aligned or len(members) == min_size else not_preferred).append(
            sum(1 << number for number, _ in members)
        )
    return Hints(tuple(preferred), tuple(not_preferred))


@given(states(POLICIES), st.data())
def test_hints_match_the_kubelet(state: NodeState, data: st.DataObject) -> None:
    """Evaluating all sets at once gives the same hints as evaluating each set, in the same order."""
    busy = state.kind.cpus.cpus & ~state.free_cpus
    reusable = data.draw(st.integers(0, busy).map(lambda bits: bits & busy)) if data.draw(st.booleans()) else 0
    count = data.draw(st.integers(1, state.kind.cpus.cpus.bit_count() + 1))
    expected = kubelet_hints(state, count, reusable)
    assert generate_cpu_topology_hints(state, count, reusable, include_not_preferred=True) == expected
    assert generate_cpu_topology_hints(state, count, reusable, include_not_preferred=False) == Hints(expected.preferred)


@given(states(POLICIES), st.data())
def test_hints_of_a_busy_node_are_hints_of_an_idle_node(state: NodeState, data: st.DataObject) -> None:
    """Each hint of a busy node is also a hint of the idle node, with the same preference."""
    count = data.draw(st.integers(1, state.kind.cpus.cpus.bit_count()))
    idle = state._replace(free_cpus=state.kind.cpus.cpus)
    busy_hints, idle_hints = (
        generate_cpu_topology_hints(node, count, 0, include_not_preferred=True) for node in (state, idle)
    )
    assert busy_hints is not None
    assert idle_hints is not None
    assert set(busy_hints.preferred) <= set(idle_hints.preferred)
    assert set(busy_hints.not_preferred) <= set(idle_hints.not_preferred)


@pytest.mark.parametrize(("cpu", "count"), [("static", 0), ("none", 1)])
def test_no_preference(cpu: str, count: int) -> None:
    """Without exclusive CPUs or the static policy the hints are None, which differs from empty hints."""
    state = state_of(regular(), STATIC._replace(cpu=cpu))
    assert generate_cpu_topology_hints(state, count, 0, include_not_preferred=False) is None
    assert generate_wide_cpu_hints(state, count, 0) is None
    assert generate_cpu_topology_hints(state_of(regular()), 17, 0, include_not_preferred=True) == Hints(())


def test_a_node_without_cpus_has_no_hints() -> None:
    state = state_of(topology_of(()), STATIC._replace(align_by_package=True))
    assert generate_cpu_topology_hints(state, 1, 0, include_not_preferred=True) == Hints(())
    wide = generate_wide_cpu_hints(state, 1, 0)
    assert wide is not None
    assert listed_sets(wide) == (set(), set())


@pytest.mark.parametrize("count", range(1, 6))
@pytest.mark.parametrize("packages", [(0, 0, 0, 0, 1), (0, 0, 0, 1, 1), (0, 1, 2, 2, 2), (0, 0, 0, 0, 0)])
def test_packages_of_different_sizes(packages: tuple[int, ...], count: int) -> None:
    """Zones have one CPU each. Four of five zones in one package are more than the average of two."""
    topology = topology_of(CoreAt(zone, package, None, 1 << zone) for zone, package in enumerate(packages))
    state = state_of(topology, STATIC._replace(align_by_package=True))
    expected = kubelet_hints(state, count, 0)
    assert generate_cpu_topology_hints(state, count, 0, include_not_preferred=True) == expected
    wide = generate_wide_cpu_hints(state, count, 0)
    assert wide is not None
    assert listed_sets(wide) == (set(expected.preferred), set(expected.not_preferred))


def test_packages_that_outnumber_zones_make_no_set_preferred() -> None:
    """Zones 0 and 1 are one package, and zone 2 is three: a pair of zones in one package is not preferred."""
    cores = zip((0, 1, 2, 2, 2), (0, 0, 1, 2, 3), strict=True)
    topology = topology_of(CoreAt(zone, package, None, 1 << cpu) for cpu, (zone, package) in enumerate(cores))
    state = state_of(topology, STATIC._replace(align_by_package=True))
    expected = Hints((0b001, 0b010, 0b100), (0b011, 0b101, 0b110, 0b111))
    assert generate_cpu_topology_hints(state, 1, 0, include_not_preferred=True) == expected
    wide = generate_wide_cpu_hints(state, 1, 0)
    assert wide is not None
    assert listed_sets(wide) == (set(expected.preferred), set(expected.not_preferred))


def test_reserved_cpus_count_for_the_width() -> None:
    """A request of 7 of 8 CPUs prefers one zone, although none has 7 free; the only hint left is not preferred."""
    state = state_of(regular(reserved=0b11))
    assert generate_cpu_topology_hints(
        state._replace(free_cpus=state.free_cpus & ~bits_of("4-5")), 7, 0, include_not_preferred=True
    ) == Hints((), (0b11,))


def test_reusable_cpus_restrict_hints() -> None:
    """A hint contains all reusable CPUs, which count as free."""
    state = state_of(regular(), busy=0b1)
    assert generate_cpu_topology_hints(state, 8, 0b1, include_not_preferred=True) == Hints((0b01,), (0b11,))
    assert generate_cpu_topology_hints(state, 1, 0b10001, include_not_preferred=False) == Hints(())


@pytest.mark.parametrize("reusable", [0b1, 0b1111])
def test_reusable_cpus_suffice_if_none_is_free(reusable: int) -> None:
    """There are as many reusable CPUs as requested, or more."""
    state = state_of(regular(), busy=0xFFFF)
    assert generate_cpu_topology_hints(state, 1, reusable, include_not_preferred=True) == Hints((0b01,), (0b11,))
    wide = generate_wide_cpu_hints(state, 1, reusable)
    assert wide is not None
    assert listed_sets(wide) == ({0b01}, {0b11})


def test_sparse_zones() -> None:
    """Hints contain the kernel's ids of zones, not indices."""
    topology = regular(zones=2)
    sparse = state_of(
        type(topology)(topology.cores, ((3, topology.zones[0][1]), (9, topology.zones[1][1])), ((0, 0xFFFF),))
    )
    assert generate_cpu_topology_hints(sparse, 2, 0, include_not_preferred=True) == Hints(
        (1 << 3, 1 << 9), (1 << 3 | 1 << 9,)
    )


def test_align_by_socket() -> None:
    """Both zones of one package are as preferred as a single zone; two zones of different packages are not."""
    state = state_of(regular(zones=4, packages=2), STATIC._replace(align_by_package=True))
    hints = generate_cpu_topology_hints(state, 2, 0, include_not_preferred=True)
    assert hints is not None
    assert hints.preferred == (0b0001, 0b0010, 0b0100, 0b1000, 0b0011, 0b1100)


@pytest.mark.parametrize(
    ("zones", "count", "preferred"),
    [
        (4, 20, {0b0111, 0b1011, 0b1101, 0b1110, 0b1111}),
        (4, 2, {0b0001, 0b0010, 0b0100, 0b1000, 0b0011, 0b1100}),
        (3, 10, {0b011, 0b101, 0b110, 0b111}),
    ],
)
def test_wide_hints_align_by_socket(zones: int, count: int, preferred: set[int]) -> None:
    """Sets in no more packages than needed are preferred too. Three zones in two packages count as one per package."""
    state = state_of(regular(zones, packages=2), STATIC._replace(align_by_package=True))
    wide = generate_wide_cpu_hints(state, count, 0)
    assert wide is not None
    assert listed_sets(wide)[0] == preferred


@given(states(POLICIES), st.data())
def test_wide_hints_match_listed_hints(state: NodeState, data: st.DataObject) -> None:
    """Arrays over all sets give the same hints as lists of sets."""
    busy = state.kind.cpus.cpus & ~state.free_cpus
    reusable = data.draw(st.integers(0, busy).map(lambda bits: bits & busy)) if data.draw(st.booleans()) else 0
    count = data.draw(st.integers(1, state.kind.cpus.cpus.bit_count() + 1))
    listed = generate_cpu_topology_hints(state, count, reusable, include_not_preferred=True)
    wide = generate_wide_cpu_hints(state, count, reusable)
    assert listed is not None
    assert wide is not None
    assert listed_sets(wide) == (set(listed.preferred), set(listed.not_preferred))


def test_too_many_zones_have_no_hints() -> None:
    """Computing the hints would take minutes, so there is no verdict."""
    with pytest.raises(AdmissionError, match=r"unknown: too many zones: hints of cpu are made of 2\^17 sets"):
        generate_wide_cpu_hints(state_of(regular(zones=17, cores=1, threads=1)), 1, 0)
