"""prefer-align-cpus-by-uncorecache: a request smaller than a cache is served from one cache if one has enough CPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from support.cpu_nodes import STATIC, CoreAt, regular, state_of, topology_of
from zonewise_scheduler.admission.cpumanager import allocate_cpus

if TYPE_CHECKING:
    from zonewise_scheduler.admission.cpu_topology import CpuTopology

BY_CACHE = STATIC._replace(align_by_cache=True)
HYBRID = topology_of(
    (*(CoreAt(0, 0, 0, 0b11 << 2 * core) for core in range(2)), *(CoreAt(0, 0, 0, 1 << cpu) for cpu in range(4, 8)))
)
"""Two cores of two CPUs and four of one: 1 CPU per core on average, rounded down."""
UNEQUAL = topology_of(CoreAt(0, 0, 0, cpus) for cpus in (0b111, 0b111 << 3, 1 << 6, 1 << 7))
"""Two cores of three CPUs and two of one: 2 CPUs per core on average."""


def members(bits: int) -> list[int]:
    return [cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1]


def claimed(topology: CpuTopology, free: int, needed: int, *, rounds_up: bool) -> int:
    """Return the CPUs that takePartialUncore claims from the first cache with enough (a transcription); 0: none has."""
    caches = sorted((number for number, bits in topology.uncore_caches if bits & free), key=lambda number: (
        (dict(topology.uncore_caches)[number] & free).bit_count(), number
    ))  # fmt: skip
    for number in caches:
        in_cache = dict(topology.uncore_caches)[number] & free
        needed_cores = (needed + rounds_up * (topology.cpus_per_core - 1)) // topology.cpus_per_core
        cores = sorted(core for core, bits in topology.cores if bits & in_cache)[:needed_cores]
        cpus = sorted(cpu for core in cores for cpu in members(dict(topology.cores)[core] & in_cache))
        if rounds_up and needed % 2 and topology.cpus_per_core > 1 and len(cpus) > needed:
            cpus = cpus[:-1]
        if len(cpus) == needed:
            return sum(1 << cpu for cpu in cpus)
    return 0


@given(
    st.sampled_from([*(regular(1, 6, threads, cache=size) for threads in (1, 2) for size in (2, 3)), HYBRID, UNEQUAL]),
    st.integers(0, (1 << 12) - 1),
    st.integers(1, 5),
    st.sampled_from([(1, 33), (1, 34)]),
)
@example(regular(1, 6, 2, cache=3), 0b1, 3, (1, 34)).via("the first core of a cache has a free CPU less")
@example(regular(1, 6, 2, cache=3), 0b1_000_001, 4, (1, 34)).via("the first core of a cache is busy")
@example(HYBRID, 0, 3, (1, 34)).via("cores have more CPUs than the mean")
@example(UNEQUAL, 0, 3, (1, 34)).via("two cores have twice the CPUs that are needed")
def test_a_need_less_than_a_cache(topology: CpuTopology, busy: int, needed: int, release: tuple[int, int]) -> None:
    """The CPUs are the lowest free cores of the first cache where these have exactly as many free CPUs as needed.

    If there is no such cache, the option changes nothing. Since 1.34 the need is rounded up to whole cores.
    """
    free = topology.cpus & ~busy
    assume(needed < topology.cpus_per_uncore)
    assume(needed <= free.bit_count())
    in_cache = claimed(topology, free, needed, rounds_up=release > (1, 33))
    expected = in_cache or allocate_cpus(state_of(topology, busy=busy), needed, None, 0)
    assert expected.bit_count() == needed
    policies = BY_CACHE._replace(release=release)
    assert allocate_cpus(state_of(topology, policies, busy), needed, None, 0) == expected


@pytest.mark.parametrize(("busy", "cpus"), [(0b0, 0b1), (0b1, 0b1_0000)])
def test_one_cpu_of_a_cache(busy: int, cpus: int) -> None:
    """The CPU is of the lowest core with a free CPU; packing would take it from a core with few free CPUs."""
    topology = regular(1, 4, 2, cache=4)
    assert allocate_cpus(state_of(topology, BY_CACHE, busy | 0b1000), 1, None, 0) == cpus


@pytest.mark.parametrize(("release", "cpus"), [((1, 33), 0b11_0001), ((1, 34), 0b111_0000)])
def test_the_rest_is_rounded_to_cores(release: tuple[int, int], cpus: int) -> None:
    """Since 1.34, three CPUs need two cores. Before, they need one core, and no cache has a core of three CPUs."""
    topology = topology_of(CoreAt(0, 0, int(core > 1), 0b11 << 2 * core) for core in range(5))
    assert allocate_cpus(state_of(topology, BY_CACHE._replace(release=release), 0b1000_1010), 3, None, 0) == cpus


def test_whole_caches_come_first() -> None:
    """Caches have one and three cores, two on average: two cores are the small cache and one core of the other."""
    topology = topology_of(CoreAt(0, 0, int(core > 0), 0b11 << 2 * core) for core in range(4))
    assert allocate_cpus(state_of(topology, BY_CACHE), 4, None, 0) == 0b1111


def test_no_cpu_is_left_out_if_cores_have_one_cpu_on_average() -> None:
    """The lowest core has two CPUs, so the cache does not provide exactly one; a core of one CPU does."""
    assert allocate_cpus(state_of(HYBRID, BY_CACHE), 1, None, 0) == 0b1_0000
