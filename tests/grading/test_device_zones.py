"""GPU memory that is a NUMA node; on POWER, hwloc hides these nodes by default."""

from __future__ import annotations

import pytest

from grading.facts_memory import distances_side_by_side, nodes_side_by_side
from support.snapshots import ABSENT, scan_of, snapshots

EXPECTED = {
    name: snapshot.entry["expected_keep_gpu_numa"]
    for name, snapshot in snapshots().items()
    if "expected_keep_gpu_numa" in snapshot.entry
}


@pytest.mark.skipif(not EXPECTED, reason=ABSENT)
@pytest.mark.parametrize("name", EXPECTED)
def test_nodes_equal_those_of_hwloc(name: str) -> None:
    """Every node, including those of GPUs, equals hwloc's with HWLOC_KEEP_NVIDIA_GPU_NUMA_NODES=1."""
    zones = list(scan_of(name).machine.zones)
    actual, expected = nodes_side_by_side(zones, EXPECTED[name]["numa"])
    assert actual == expected
    assert len(zones) == EXPECTED[name]["numa_count"]


@pytest.mark.skipif(not EXPECTED, reason=ABSENT)
@pytest.mark.parametrize("name", EXPECTED)
def test_distances_equal_those_of_hwloc(name: str) -> None:
    actual, expected = distances_side_by_side(list(scan_of(name).machine.zones), EXPECTED[name]["numa_distances"])
    assert actual == expected


@pytest.mark.parametrize("name", snapshots())
def test_device_zones_have_no_cpus_and_no_memory_of_the_machine(name: str) -> None:
    """Each such node belongs to an existing GPU, has no CPUs, and does not count as memory of the machine."""
    machine = scan_of(name).machine
    devices = [zone for zone in machine.zones if zone.kind == "device"]
    assert all(not zone.cpus and zone.medium == "GPU" for zone in devices)
    assert {zone.device for zone in devices} <= {function.address for function in machine.pci}
    ordinary = [zone.memory or 0 for zone in machine.zones if zone.kind != "device"]
    assert (machine.memory or 0) == sum(ordinary)
