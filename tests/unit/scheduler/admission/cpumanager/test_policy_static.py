"""Which CPUs are taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from support.cpu_nodes import STATIC, bits_of, regular, state_of, states, topology_of
from support.cpu_nodes import CoreAt as Core
from zonewise_scheduler.admission.cpu_topology import CpuGroup, CpuTopology
from zonewise_scheduler.admission.cpumanager import (
    CpuAllocationError,
    allocate_cpus,
    generate_cpu_topology_hints,
    smt_alignment_error,
)

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState, Policies

PACKED = st.sampled_from(
    (
        STATIC,
        STATIC._replace(full_cores=True),
        STATIC._replace(align_by_cache=True),
        STATIC._replace(align_by_cache=True, release=(1, 33)),
        STATIC._replace(distribute_across_cores=True),
        STATIC._replace(align_by_package=True),
    )
)
SPREAD = STATIC._replace(distribute_across_zones=True)
ANY = PACKED | st.sampled_from((SPREAD, SPREAD._replace(full_cores=True)))


def some_count(data: st.DataObject, state: NodeState) -> int:
    """Draw a request that fits."""
    assume(state.free_cpus)
    return data.draw(st.integers(1, state.free_cpus.bit_count()))


def some_zones(data: st.DataObject, state: NodeState) -> int:
    """Draw zones to be aligned to."""
    return sum(1 << zone for zone in data.draw(st.sets(st.sampled_from(state.kind.zones), min_size=1)))


def some_affinity(data: st.DataObject, state: NodeState) -> int | None:
    """Draw such zones, or none."""
    return some_zones(data, state) if data.draw(st.booleans()) else None


@given(states(PACKED), st.data())
def test_exactly_as_many_of_the_free_ones(state: NodeState, data: st.DataObject) -> None:
    """A request that fits gets its count of CPUs, of those that are free or reusable."""
    count, zones = some_count(data, state), some_affinity(data, state)
    busy = state.kind.cpus.cpus & ~state.free_cpus
    reusable = data.draw(st.integers(0, busy)) & busy
    taken = allocate_cpus(state, count, zones, reusable)
    assert taken.bit_count() == count
    assert not taken & ~(state.free_cpus | reusable)


@given(states(ANY), st.data())
def test_spread_or_not_only_free_ones(state: NodeState, data: st.DataObject) -> None:
    """With any option, what is taken is free and as much as was asked for; else nothing is."""
    count, zones = some_count(data, state), some_affinity(data, state)
    try:
        taken = allocate_cpus(state, count, zones, 0)
    except CpuAllocationError:
        assert state.kind.policies.distribute_across_zones
        return
    assert taken.bit_count() == count
    assert not taken & ~state.free_cpus


@given(states(PACKED), st.data())
def test_inside_the_affinity_where_that_suffices(state: NodeState, data: st.DataObject) -> None:
    """None outside as long as some inside are left, where align-by-socket widens it to the package."""
    count, zones = some_count(data, state), some_zones(data, state)
    near = state.kind.cpus.cpus_in_numa_nodes(zones)
    if state.kind.policies.align_by_package:
        near = sum(package for _, package in state.kind.cpus.packages if package & near)
    taken = allocate_cpus(state, count, zones, 0)
    assert (taken & near).bit_count() == min(count, (state.free_cpus & near).bit_count())


@given(states(st.just(STATIC._replace(full_cores=True))), st.data())
def test_whole_cores(state: NodeState, data: st.DataObject) -> None:
    """Where cores are busy or reserved as a whole, a multiple of their CPUs is given in whole cores."""
    topology = state.kind.cpus
    state = state._replace(free_cpus=sum(cpus for _, cpus in topology.cores if not cpus & ~state.free_cpus))
    count = some_count(data, state) // topology.cpus_per_core * topology.cpus_per_core
    assume(count and smt_alignment_error(state, count) is None)
    hints = generate_cpu_topology_hints(state, count, 0, include_not_preferred=True)
    assert hints is not None
    zones = data.draw(st.sampled_from(hints.preferred or hints.not_preferred))
    taken = allocate_cpus(state, count, zones, 0)
    assert all(cpus & taken in (0, cpus) for _, cpus in topology.cores)


@given(states(ANY), st.data())
def test_only_the_order_of_ids_matters(state: NodeState, data: st.DataObject) -> None:
    """CPUs renumbered in the same order are taken alike."""
    topology = state.kind.cpus
    gaps = data.draw(
        st.lists(st.integers(1, 3), min_size=topology.cpus.bit_length(), max_size=topology.cpus.bit_length())
    )
    new = [sum(gaps[: cpu + 1]) for cpu in range(len(gaps))]

    def moved(bits: int) -> int:
        return sum(1 << place for cpu, place in enumerate(new) if bits >> cpu & 1)

    def regrouped(groups: tuple[CpuGroup, ...]) -> tuple[CpuGroup, ...]:
        return tuple((number, moved(cpus)) for number, cpus in groups)

    renumbered = CpuTopology(
        tuple((new[number], moved(cpus)) for number, cpus in topology.cores),
        *map(regrouped, (topology.zones, topology.packages, topology.caches)),
        reserved=moved(topology.reserved),
    )
    other = state_of(renumbered, state.kind.policies)._replace(free_cpus=moved(state.free_cpus))
    count, zones = some_count(data, state), some_affinity(data, state)
    answers: list[int | str] = []
    for node, change in ((state, moved), (other, int)):
        try:
            answers.append(change(allocate_cpus(node, count, zones, 0)))
        except CpuAllocationError as shortage:
            answers.append(str(shortage))
    assert answers[0] == answers[1]


def taken_of(policies: Policies, count: int, busy: str = "", **machine: int) -> int:
    """Return what is taken of a machine without an affinity."""
    return allocate_cpus(state_of(regular(**machine), policies, bits_of(busy)), count, None, 0)


def test_fullest_zone_and_core_first() -> None:
    """CPUs are taken where the fewest are left: the rest of a core, of the zone with fewer free ones."""
    assert taken_of(STATIC, 1, busy="4") == bits_of("12")
    assert taken_of(STATIC, 2, busy="4") == bits_of("5,13")
    assert taken_of(STATIC, 3, busy="4") == bits_of("5,12,13")


def test_whole_zone_before_parts() -> None:
    """A request of a zone's size takes a free zone, not what is left of another."""
    assert taken_of(STATIC, 8, busy="0") == bits_of("4-7,12-15")


def test_spread_over_cores() -> None:
    """With distribute-cpus-across-cores the first threads of all cores of a package come first."""
    assert taken_of(STATIC._replace(distribute_across_cores=True), 3) == bits_of("0-2")


@pytest.mark.parametrize(("release", "cpus"), [((1, 33), "0,2,10"), ((1, 34), "2-3,10")])
def test_odd_rest_within_a_cache(release: tuple[int, int], cpus: str) -> None:
    """Kubelets up to 1.33 never take an odd rest of one cache; they take whole cores, and then half of another."""
    policies = STATIC._replace(align_by_cache=True, release=release)
    state = state_of(regular(zones=1, cores=8, cache=2), policies, bits_of("1,5,6-9,13-15"))
    assert allocate_cpus(state, 3, None, 0) == bits_of(cpus)


def test_shortage() -> None:
    """The kubelet's words tell of what is left outside the affinity, where that is short too."""
    state = state_of(regular(), busy=bits_of("0-3"))
    with pytest.raises(
        CpuAllocationError, match=r"^not enough cpus available to satisfy request: requested=9, available=8$"
    ):
        allocate_cpus(state, 13, 0b01, 0)
    assert allocate_cpus(state, 0, None, 0) == 0


def test_unequal_cores_are_taken_whole_with_what_others_have() -> None:
    """On hybrid cores the kubelet takes a core as free that has as many free CPUs as the average one has."""
    hybrid = topology_of((Core(0, 0, None, 0b11), Core(0, 0, None, 0b100), Core(0, 0, None, 0b1000)))
    assert allocate_cpus(state_of(hybrid, busy=0b1), 2, None, 0) == 0b11
