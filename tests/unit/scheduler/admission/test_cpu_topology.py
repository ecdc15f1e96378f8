"""Values derived from a CPU topology."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.cpu_nodes import CoreAt, recorded, regular, regular_topologies, state_of_record, topology_of
from zonewise_scheduler.admission.cpu_topology import CpuTopology

RECORDED = st.sampled_from(recorded()).map(lambda record: state_of_record(record).kind.cpus)
TOPOLOGIES = st.one_of(regular_topologies(), RECORDED)


@given(TOPOLOGIES, st.data())
def test_cores_by_count(topology: CpuTopology, data: st.DataObject) -> None:
    """Counting all cores at once gives the same result as counting each core."""
    cpus = data.draw(st.integers(0, topology.cpus))
    by_count = topology.cores_by_count(cpus)
    for number, core in topology.cores:
        assert [count for count, cores in enumerate(by_count) if cores >> number & 1] == [(core & cpus).bit_count()]
    assert sum(by_count) == sum(1 << number for number, _ in topology.cores)


@given(TOPOLOGIES, st.data())
def test_cpus_in_cores_and_zones(topology: CpuTopology, data: st.DataObject) -> None:
    """All CPUs of the cores or zones are returned, and no others."""
    cores = data.draw(st.sets(st.sampled_from(topology.cores)))
    assert topology.cpus_in_cores(sum(1 << number for number, _ in cores)) == sum(cpus for _, cpus in cores)
    zones = data.draw(st.sets(st.sampled_from(topology.zones)))
    assert topology.cpus_in_numa_nodes(sum(1 << number for number, _ in zones)) == sum(cpus for _, cpus in zones)


def test_averages_are_rounded_down() -> None:
    """The kubelet rounds down too: 3 CPUs on 2 cores, 2 packages and 2 caches are 1 for each."""
    hybrid = topology_of((CoreAt(0, 0, 0, 0b11), CoreAt(0, 1, 1, 0b100)))
    assert (hybrid.cpus_per_core, hybrid.cpus_per_socket, hybrid.cpus_per_uncore) == (1, 1, 1)
    assert not hybrid.uniform
    assert hybrid.numa_first
    assert hybrid.largest_totals == (3,)
    empty = topology_of(())
    assert (empty.cpus_per_core, empty.cpus_per_socket, empty.cpus_per_uncore) == (0, 0, 0)
    assert (empty.cpus, empty.smallest_zone, empty.smallest_package) == (0, 0, 0)
    assert empty.cores_by_count(0b11) == [0]


def test_nodes_share_one_topology() -> None:
    """A shared topology cannot be changed. No CPU is reserved unless stated."""
    machine = regular()
    shared = CpuTopology(machine.cores, machine.zones, machine.packages)
    assert shared.reserved_cores == 0
    with pytest.raises(FrozenInstanceError):
        setattr(shared, "reserved", 1)  # noqa: B010 -- pyright rejects the assignment


@pytest.mark.parametrize(
    ("zones", "packages", "expected"), [(1, 2, 0), (1, 1, 1), (3, 2, 1), (4, 2, 2), (5, 2, 2), (6, 2, 3), (0, 0, 0)]
)
def test_zones_per_package_are_rounded_down(zones: int, packages: int, expected: int) -> None:
    machine = topology_of(CoreAt(cpu % zones, cpu % packages, None, 1 << cpu) for cpu in range(zones * packages))
    assert machine.zones_per_package == expected


def test_packages_replace_unknown_caches() -> None:
    """If caches are unknown, the CPUs of a package share one cache."""
    assert regular(packages=2).uncore_caches == regular(packages=2).packages
    assert len(regular(cache=2).uncore_caches) == 4


def test_one_pattern_of_regular_machines() -> None:
    """On most machines, the same shift leads from the first CPU of every core to its sibling."""
    machine = regular(zones=2, cores=4)
    assert machine.patterns == ((0xFF, (0, 8)),)
    assert machine.uniform
    assert topology_of(()).uniform
    assert regular(reserved=0b10).reserved_cores == 0b10_0000_0010


@pytest.mark.parametrize("threads", [(1, 2), (1, 2, 3), (2, 2, 3), (1, 2, 3, 4)])
def test_cores_of_different_sizes_are_not_uniform(threads: tuple[int, ...]) -> None:
    cores = (CoreAt(0, 0, None, ((1 << count) - 1) << 4 * core) for core, count in enumerate(threads))
    assert not topology_of(cores).uniform
