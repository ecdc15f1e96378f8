"""Sets of zones that the CPU Manager hints at."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from support.cpu_nodes import STATIC, bits_of, regular, state_of, states
from zonewise_scheduler.admission.cpumanager import generate_cpu_topology_hints
from zonewise_scheduler.admission.cpumanager.cpu_hints import MAX_ZONE_SETS
from zonewise_scheduler.admission.topologymanager.hints import Hints

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState

POLICIES = st.sampled_from((STATIC, STATIC._replace(align_by_package=True)))


def by_definition(state: NodeState, count: int, reusable: int) -> Hints:
    """Weigh each set of zones on its own, by the words of the kubelet's source."""
    topology = state.kind.cpus
    every = [
        tuple(chosen) for size in range(1, len(topology.zones) + 1) for chosen in combinations(topology.zones, size)
    ]
    fewest = min(
        (len(chosen) for chosen in every if sum(cpus.bit_count() for _, cpus in chosen) >= count),
        default=len(topology.zones),
    )
    per_package = len(topology.zones) // len(topology.packages)
    preferred: list[int] = []
    others: list[int] = []
    for chosen in every:
        cpus = sum(cpus for _, cpus in chosen)
        if reusable & ~cpus or (state.free_cpus & cpus).bit_count() + reusable.bit_count() < count:
            continue
        packages = sum(1 for _, package in topology.packages if package & cpus)
        aligned = state.kind.policies.align_by_package and per_package and packages == -(-fewest // per_package)
        (preferred if aligned or len(chosen) == fewest else others).append(sum(1 << number for number, _ in chosen))
    return Hints(tuple(preferred), tuple(others))


@given(states(POLICIES), st.data())
def test_as_defined(state: NodeState, data: st.DataObject) -> None:
    """All sets at once give what each set on its own does, in the same order."""
    busy = state.kind.cpus.cpus & ~state.free_cpus
    reusable = data.draw(st.integers(0, busy).map(lambda bits: bits & busy)) if data.draw(st.booleans()) else 0
    count = data.draw(st.integers(1, state.kind.cpus.cpus.bit_count() + 1))
    expected = by_definition(state, count, reusable)
    assert generate_cpu_topology_hints(state, count, reusable, include_not_preferred=True) == expected
    assert generate_cpu_topology_hints(state, count, reusable, include_not_preferred=False) == Hints(expected.preferred)


@given(states(POLICIES), st.data())
def test_more_free_cpus_never_cost_a_hint(state: NodeState, data: st.DataObject) -> None:
    """What is possible on a busy node is possible on an idle one, and as preferred."""
    count = data.draw(st.integers(1, state.kind.cpus.cpus.bit_count()))
    idle = state._replace(free_cpus=state.kind.cpus.cpus)
    busy_hints, idle_hints = (
        generate_cpu_topology_hints(node, count, 0, include_not_preferred=True) for node in (state, idle)
    )
    assert busy_hints is not None
    assert idle_hints is not None
    assert set(busy_hints.preferred) <= set(idle_hints.preferred)
    assert set(busy_hints.not_preferred) <= set(idle_hints.not_preferred)


def test_who_does_not_care() -> None:
    """No exclusive CPUs, or no static policy: no hints at all, which is not the same as none that fits."""
    state = state_of(regular())
    assert generate_cpu_topology_hints(state, 0, 0, include_not_preferred=False) is None
    assert (
        generate_cpu_topology_hints(state_of(regular(), STATIC._replace(cpu="none")), 1, 0, include_not_preferred=False)
        is None
    )
    assert generate_cpu_topology_hints(state, 17, 0, include_not_preferred=True) == Hints(())


def test_reserved_cpus_count_for_the_width() -> None:
    """A request of 7 of 8 CPUs is for one zone, though one that has 6 left never fits: only wide hints are left."""
    state = state_of(regular(reserved=0b11))
    assert generate_cpu_topology_hints(
        state._replace(free_cpus=state.free_cpus & ~bits_of("4-5")), 7, 0, include_not_preferred=True
    ) == Hints((), (0b11,))


def test_cpus_of_init_containers_bind_to_their_zone() -> None:
    """A hint holds all reusable CPUs, which count as free."""
    state = state_of(regular(), busy=0b1)
    assert generate_cpu_topology_hints(state, 8, 0b1, include_not_preferred=True) == Hints((0b01,), (0b11,))
    assert generate_cpu_topology_hints(state, 1, 0b10001, include_not_preferred=False) == Hints(())


def test_sparse_zones() -> None:
    """Hints name the kernel's zones, not their places."""
    topology = regular(zones=2)
    sparse = state_of(
        type(topology)(topology.cores, ((3, topology.zones[0][1]), (9, topology.zones[1][1])), ((0, 0xFFFF),))
    )
    assert generate_cpu_topology_hints(sparse, 2, 0, include_not_preferred=True) == Hints(
        (1 << 3, 1 << 9), (1 << 3 | 1 << 9,)
    )


def test_aligned_to_packages() -> None:
    """With align-by-socket both zones of a package are as good as one, and two zones of two packages are not."""
    state = state_of(regular(zones=4, packages=2), STATIC._replace(align_by_package=True))
    hints = generate_cpu_topology_hints(state, 2, 0, include_not_preferred=True)
    assert hints is not None
    assert hints.preferred == (0b0001, 0b0010, 0b0100, 0b1000, 0b0011, 0b1100)


def test_more_sets_than_are_considered() -> None:
    """With 20 zones the sets of a width are cut off, and those of one zone are all there."""
    state = state_of(regular(zones=20, cores=1, threads=1))
    one, ten = (generate_cpu_topology_hints(state, count, 0, include_not_preferred=False) for count in (1, 10))
    assert one == Hints(tuple(1 << zone for zone in range(20)))
    assert ten is not None
    assert len(ten.preferred) == MAX_ZONE_SETS
