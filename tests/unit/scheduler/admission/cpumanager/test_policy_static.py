"""The CPUs that the static policy allocates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from support.cpu_nodes import STATIC, bits_of, regular, state_of, states, topology_of
from support.cpu_nodes import CoreAt as Core
from zonewise_scheduler.admission.context import AdmissionContext
from zonewise_scheduler.admission.cpu_topology import CpuGroup, CpuTopology
from zonewise_scheduler.admission.cpumanager import (
    CpuAllocationError,
    allocate_cpus,
    divide_pod_cpus,
    generate_cpu_topology_hints,
    smt_alignment_error,
)
from zonewise_scheduler.admission.cpumanager.policy_static import allocate_container_cpus
from zonewise_scheduler.admission.errors import AdmissionError
from zonewise_scheduler.admission.pod import Container, PodLevelResources, PodShape

if TYPE_CHECKING:
    from zonewise_common.k8s.podspec import Role
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
    """Draw the size of a request that fits."""
    assume(state.free_cpus)
    return data.draw(st.integers(1, state.free_cpus.bit_count()))


def some_zones(data: st.DataObject, state: NodeState) -> int:
    """Draw the zones of an affinity."""
    return sum(1 << zone for zone in data.draw(st.sets(st.sampled_from(state.kind.zones), min_size=1)))


def some_affinity(data: st.DataObject, state: NodeState) -> int | None:
    """Draw an affinity or None."""
    return some_zones(data, state) if data.draw(st.booleans()) else None


@given(states(PACKED), st.data())
def test_the_requested_count_of_free_cpus(state: NodeState, data: st.DataObject) -> None:
    """A request that fits gets its count of free or reusable CPUs; a CPU that is both counts once."""
    count, zones = some_count(data, state), some_affinity(data, state)
    reusable = data.draw(st.integers(0, state.kind.cpus.cpus)) & state.kind.cpus.cpus
    cpus = allocate_cpus(state, count, zones, reusable)
    assert cpus.bit_count() == count
    assert not cpus & ~(state.free_cpus | reusable)


@given(states(ANY), st.data())
def test_any_option_allocates_free_cpus_or_nothing(state: NodeState, data: st.DataObject) -> None:
    """With any option, the CPUs are free and as many as requested, or the allocation fails."""
    count, zones = some_count(data, state), some_affinity(data, state)
    try:
        cpus = allocate_cpus(state, count, zones, 0)
    except CpuAllocationError:
        assert state.kind.policies.distribute_across_zones
        return
    assert cpus.bit_count() == count
    assert not cpus & ~state.free_cpus


@given(states(PACKED), st.data())
def test_the_affinity_comes_first(state: NodeState, data: st.DataObject) -> None:
    """CPUs outside the affinity are used last. With align-by-socket, the affinity is extended to the package."""
    count, zones = some_count(data, state), some_zones(data, state)
    near = state.kind.cpus.cpus_in_numa_nodes(zones)
    if state.kind.policies.align_by_package:
        near = sum(package for _, package in state.kind.cpus.packages if package & near)
    cpus = allocate_cpus(state, count, zones, 0)
    assert (cpus & near).bit_count() == min(count, (state.free_cpus & near).bit_count())


@given(states(st.just(STATIC._replace(full_cores=True))), st.data())
def test_whole_cores(state: NodeState, data: st.DataObject) -> None:
    """If all busy and reserved CPUs form whole cores, a multiple of the core size is allocated in whole cores."""
    topology = state.kind.cpus
    state = state._replace(free_cpus=sum(cpus for _, cpus in topology.cores if not cpus & ~state.free_cpus))
    count = some_count(data, state) // topology.cpus_per_core * topology.cpus_per_core
    assume(count and smt_alignment_error(state, count) is None)
    hints = generate_cpu_topology_hints(state, count, 0, include_not_preferred=True)
    assert hints is not None
    zones = data.draw(st.sampled_from(hints.preferred or hints.not_preferred))
    allocated = allocate_cpus(state, count, zones, 0)
    assert all(core & allocated in (0, core) for _, core in topology.cores)


@given(states(ANY), st.data())
def test_only_the_order_of_ids_matters(state: NodeState, data: st.DataObject) -> None:
    """CPUs that are renumbered in the same order are allocated in the same way."""
    topology = state.kind.cpus
    gaps = data.draw(
        st.lists(st.integers(1, 3), min_size=topology.cpus.bit_length(), max_size=topology.cpus.bit_length())
    )
    new_ids = [sum(gaps[: cpu + 1]) for cpu in range(len(gaps))]

    def moved(bits: int) -> int:
        return sum(1 << new_id for cpu, new_id in enumerate(new_ids) if bits >> cpu & 1)

    def regrouped(groups: tuple[CpuGroup, ...]) -> tuple[CpuGroup, ...]:
        return tuple((number, moved(cpus)) for number, cpus in groups)

    renumbered = CpuTopology(
        tuple((new_ids[number], moved(cpus)) for number, cpus in topology.cores),
        *map(regrouped, (topology.zones, topology.packages, topology.caches)),
        reserved=moved(topology.reserved),
    )
    renumbered_state = state_of(renumbered, state.kind.policies)._replace(free_cpus=moved(state.free_cpus))
    count, zones = some_count(data, state), some_affinity(data, state)
    results: list[int | str] = []
    for node, renumber in ((state, moved), (renumbered_state, int)):
        try:
            results.append(renumber(allocate_cpus(node, count, zones, 0)))
        except CpuAllocationError as error:
            results.append(str(error))
    assert results[0] == results[1]


def allocated_on(policies: Policies, count: int, busy: str = "", **machine: int) -> int:
    """Return the CPUs allocated on a machine without an affinity."""
    return allocate_cpus(state_of(regular(**machine), policies, bits_of(busy)), count, None, 0)


def test_fewest_free_cpus_first() -> None:
    """The rest of a core is used first, from the zone with the fewest free CPUs."""
    assert allocated_on(STATIC, 1, busy="4") == bits_of("12")
    assert allocated_on(STATIC, 2, busy="4") == bits_of("5,13")
    assert allocated_on(STATIC, 3, busy="4") == bits_of("5,12,13")


def test_whole_zone_before_parts() -> None:
    """A request as large as a zone gets a free zone, not the rest of another one."""
    assert allocated_on(STATIC, 8, busy="0") == bits_of("4-7,12-15")


def test_spread_over_cores() -> None:
    """With distribute-cpus-across-cores, the first threads of all cores of a package are used first."""
    assert allocated_on(STATIC._replace(distribute_across_cores=True), 3) == bits_of("0-2")


@pytest.mark.parametrize(("release", "cpus"), [((1, 33), "0,2,10"), ((1, 34), "2-3,10"), ((1, 36), "2-3,10")])
def test_odd_remainder_within_a_cache(release: tuple[int, int], cpus: str) -> None:
    """Up to 1.33, no odd remainder comes from one cache: whole cores do, and then half a core of another cache."""
    policies = STATIC._replace(align_by_cache=True, release=release)
    state = state_of(regular(zones=1, cores=8, cache=2), policies, bits_of("1,5,6-9,13-15"))
    assert allocate_cpus(state, 3, None, 0) == bits_of(cpus)


def test_even_remainder_within_a_cache() -> None:
    """If a cache has one CPU too many, an odd request omits its last one; an even request takes whole cores first."""
    machine = regular(zones=1, cores=4, threads=4, cache=2)
    state = state_of(machine, STATIC._replace(align_by_cache=True), bits_of("0,2-3,6-7,10-11,14-15"))
    assert allocate_cpus(state, 6, None, 0) == bits_of("1,5,9,13,4,8")


def test_not_enough_cpus() -> None:
    """The message states the number of CPUs left outside the affinity."""
    state = state_of(regular(), busy=bits_of("0-3"))
    with pytest.raises(
        CpuAllocationError, match=r"^not enough cpus available to satisfy request: requested=9, available=8$"
    ):
        allocate_cpus(state, 13, 0b01, 0)
    assert allocate_cpus(state, 0, None, 0) == 0


@pytest.mark.parametrize(("zone", "package"), [(0, "0-3,8-11"), (1, "0-3,8-11"), (2, "4-7,12-15"), (3, "4-7,12-15")])
@pytest.mark.parametrize("count", [1, 4, 6, 8])
def test_cpus_of_the_package_come_first(zone: int, package: str, count: int) -> None:
    """With align-by-socket, the CPUs of the other package are not used."""
    state = state_of(regular(packages=2, zones=4, cores=2), STATIC._replace(align_by_package=True))
    assert allocate_cpus(state, count, 1 << zone, 0) & ~bits_of(package) == 0


def containers_of(*counts: tuple[Role, int]) -> tuple[Container, ...]:
    return tuple(
        Container(f"c{index}", role, count * 1000, (("memory", 1),)) for index, (role, count) in enumerate(counts)
    )


STARTING: st.SearchStrategy[Role] = st.sampled_from(["init", "sidecar"])


@given(st.lists(st.tuples(STARTING, st.integers(1, 6)), max_size=4), st.lists(st.integers(1, 4), max_size=3))
def test_cpus_of_ended_init_containers_are_reusable(starting: list[tuple[Role, int]], apps: list[int]) -> None:
    """Long-running containers share no CPUs. All other CPUs of the pod are reusable after its init containers."""
    state = state_of(regular(cores=16))
    ending: list[tuple[Role, int]] = [("app", count) for count in apps]
    containers = containers_of(*starting, *ending)
    context = AdmissionContext(state, PodShape(containers, "Guaranteed"))
    running = 0
    for each in containers:
        count = each.milli_cpus // 1000
        allocate_container_cpus(context, each, count, None)
        assert context.cpus[each.name].bit_count() == count
        assert not context.cpus[each.name] & running
        running |= context.cpus[each.name] if each.role != "init" else 0
        assert context.reusable_cpus == state.free_cpus & ~context.state.free_cpus & ~running


def test_a_pod_fits_if_its_peak_does() -> None:
    """All sixteen CPUs are used by an init container, then by a sidecar together with the next containers."""
    containers = containers_of(("init", 16), ("sidecar", 4), ("init", 12), ("app", 5), ("app", 7))
    context = AdmissionContext(state_of(regular()), PodShape(containers, "Guaranteed"))
    for each in containers:
        allocate_container_cpus(context, each, each.milli_cpus // 1000, None)
    assert (context.state.free_cpus, context.reusable_cpus) == (0, 0)


def test_too_few_cpus_reject_the_pod() -> None:
    state = state_of(regular(), busy=bits_of("0-11"))
    (each,) = containers_of(("app", 5))
    context = AdmissionContext(state, PodShape((each,), "Guaranteed"))
    with pytest.raises(AdmissionError, match="not enough cpus available") as raised:
        allocate_container_cpus(context, each, 5, None)
    assert (raised.value.reason, raised.value.resource) == ("UnexpectedAdmissionError", "cpu")
    assert context.state == state


def test_cpus_of_a_pod_are_divided() -> None:
    """Init containers may use all CPUs but those of earlier sidecars; containers without own CPUs share the rest."""
    policies = STATIC._replace(pod_level_managers=True)
    containers = containers_of(("init", 0), ("sidecar", 2), ("init", 0), ("init", 3), ("app", 4), ("app", 0))
    shape = PodShape(containers, "Guaranteed", PodLevelResources(10_000))
    cpus = bits_of("2-6,10-14")
    first, sidecar, second, third, app, other = divide_pod_cpus(state_of(regular(), policies).kind, shape, cpus)
    assert [each.bit_count() for each in (first, sidecar, second, third, app, other)] == [10, 2, 8, 3, 4, 4]
    assert first == sidecar | second == sidecar | app | other == cpus
    assert third & ~second == 0


def test_unequal_cores_are_taken_whole_with_busy_cpus() -> None:
    """On hybrid cores, the kubelet counts a core as free if it has as many free CPUs as the average core has CPUs."""
    hybrid = topology_of((Core(0, 0, None, 0b11), Core(0, 0, None, 0b100), Core(0, 0, None, 0b1000)))
    assert allocate_cpus(state_of(hybrid, busy=0b1), 2, None, 0) == 0b11
