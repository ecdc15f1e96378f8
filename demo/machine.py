"""The machine of the demonstration: two packages, each one zone with 16 cores of two threads and four GPUs."""

from __future__ import annotations

from zonewise.machine.discover import Scan
from zonewise.machine.model.cpu import Core, Cpus, Package
from zonewise.machine.model.machine import Machine
from zonewise.machine.model.zone import Zone
from zonewise_common.k8s.cpuset import CpuSet
from zonewise_sandbox.kubelet import SimulatedDevice, SimulatedZone, even_zones

GPU = "nvidia.com/gpu"
CORES = 16
GPUS = 4
MEMORY = 64 << 30  # bytes in each zone

ZONES: tuple[SimulatedZone, ...] = even_zones(2, CORES, memory=MEMORY)
DEVICES = tuple(SimulatedDevice(GPU, f"GPU-{zone}{number}", (zone,)) for zone in range(2) for number in range(GPUS))


def machine() -> Machine:
    """Return the machine that discovery would find."""
    every = CpuSet.union(zone.cpus for zone in ZONES)
    zones = tuple(
        Zone(zone.id, zone.cpus, zone.cpus, MEMORY, {}, {"0": 10 + 11 * zone.id, "1": 21 - 11 * zone.id}, "cpu")
        for zone in ZONES
    )
    cores = tuple(
        Core(core, zone.id, zone.id, CpuSet([zone.id * CORES + core, 2 * CORES + zone.id * CORES + core]))
        for zone in ZONES
        for core in range(CORES)
    )
    packages = tuple(Package(zone.id, zone.cpus) for zone in ZONES)
    return Machine("x86_64", cpus=Cpus(every, CpuSet()), packages=packages, cores=cores, zones=zones)


class FixedScanner:
    """A scanner that always returns the same machine."""

    def __init__(self) -> None:
        self._scan = Scan(machine(), (), {})

    def scan(self) -> Scan:
        """Return the machine."""
        return self._scan
