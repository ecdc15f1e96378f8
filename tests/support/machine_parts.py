"""Parts of handmade machines: processors with their caches and zones, and PCI functions."""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

from zonewise.machine.model.cpu import Cache, Core, Cpus, Model, Package
from zonewise.machine.model.machine import Machine
from zonewise.machine.model.pci import Link, PciFunction, PciLink
from zonewise.machine.model.zone import Zone
from zonewise_common.k8s.cpuset import EMPTY, CpuSet

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40


class Processors(NamedTuple):
    """How many of each unit the next larger unit has."""

    packages: int
    zones: int
    l3_groups: int
    cores: int
    threads: int

    @property
    def all_cores(self) -> int:
        """The number of cores of the machine."""
        return self.packages * self.zones * self.l3_groups * self.cores


class CacheSizes(NamedTuple):
    """Bytes of each cache; 0 if there is none."""

    l1d: int
    l1i: int
    l2: int
    l3: int


def cpus(text: str) -> CpuSet:
    """Return the CPU set for a list notation."""
    return CpuSet.parse_list(text)


def core_cpus(number: int, shape: Processors) -> CpuSet:
    """Return the CPUs of a core. As on x86, all first threads are numbered before all second ones."""
    return CpuSet(number + thread * shape.all_cores for thread in range(shape.threads))


def processors(shape: Processors, sizes: CacheSizes, model: str, zone_memory: int) -> Machine:
    """Return a machine of equal packages, zones, L3 groups and cores, and nothing else."""
    of_core = [core_cpus(number, shape) for number in range(shape.all_cores)]
    per_zone = shape.l3_groups * shape.cores
    per_package = shape.zones * per_zone
    zones = _runs(of_core, per_zone)
    return Machine(
        architecture="x86_64",
        cpus=Cpus(_union(of_core), EMPTY, possible=_union(of_core), allowed=_union(of_core)),
        model=Model(name=model),
        packages=tuple(Package(number, held, model) for number, held in enumerate(_runs(of_core, per_package))),
        cores=tuple(
            Core(number % per_package, number // per_package, number // per_zone, held)
            for number, held in enumerate(of_core)
        ),
        caches=tuple(_private_caches(of_core, sizes))
        + tuple(
            Cache(3, "Unified", sizes.l3, held, number)
            for number, held in enumerate(_runs(of_core, shape.cores))
            if sizes.l3
        ),
        zones=tuple(Zone(number, held, held, zone_memory, {}, {}, "cpu") for number, held in enumerate(zones)),
        memory=zone_memory * len(zones),
    )


def _private_caches(of_core: list[CpuSet], sizes: CacheSizes) -> list[Cache]:
    kinds = ((1, "Data", sizes.l1d), (1, "Instruction", sizes.l1i), (2, "Unified", sizes.l2))
    return [Cache(level, kind, size, held) for level, kind, size in kinds if size for held in of_core]


def _runs(of_core: list[CpuSet], length: int) -> list[CpuSet]:
    return [_union(of_core[start : start + length]) for start in range(0, len(of_core), length)]


def _union(sets: list[CpuSet]) -> CpuSet:
    return CpuSet(cpu for one in sets for cpu in one)


def with_distances(machine: Machine, matrix: tuple[tuple[int, ...], ...]) -> Machine:
    """Set the zones' distances, in the order of the zones."""
    ids = [str(zone.id) for zone in machine.zones]
    zones = tuple(
        zone._replace(distances=dict(zip(ids, row, strict=True)))
        for zone, row in zip(machine.zones, matrix, strict=True)
    )
    return machine._replace(zones=zones)


# --- PCI


class Slot(NamedTuple):
    """The location of a PCI function and its link."""

    root: str
    bridges: tuple[str, ...]
    zone: int | None
    link: PciLink | None = PciLink(32.0, 16, 32.0, 16)


def function(address: str, pci_class: str, ids: tuple[str, str], slot: Slot, **more: object) -> PciFunction:
    """Return a PCI function with these ids (vendor, device)."""
    made = PciFunction(
        address=address,
        pci_class=pci_class,
        class_full=f"{pci_class}00",
        vendor=ids[0],
        device=ids[1],
        subsystem_vendor=None,
        subsystem_device=None,
        driver=None,
        zone=slot.zone,
        zone_source=None if slot.zone is None else "numa_node",
        cpus=None,
        parent=slot.bridges[-1] if slot.bridges else None,
        root=slot.root,
        link=slot.link,
        iommu_group=None,
        sriov=None,
        bridges=slot.bridges,
    )
    return made._replace(**more)


def with_links(machine: Machine) -> Machine:
    """Add the relation of every two endpoint devices."""
    own = [*machine.gpus, *machine.nics, *machine.infiniband, *machine.block_devices]
    addresses = {device.address for device in own}
    endpoints = [one for one in machine.pci if one.address in addresses]
    nvlinks = {
        frozenset((gpu.address, peer.address)): peer.links
        for gpu in machine.gpus
        for peer in gpu.nvlinks
        if peer.kind == "gpu"
    }
    links: list[Link] = []
    for a, b in combinations(endpoints, 2):
        count = nvlinks.get(frozenset((a.address, b.address)))
        links.append(Link(a.address, b.address, f"NV{count}" if count else relation(a, b)))
    return machine._replace(links=tuple(links))


def relation(a: PciFunction, b: PciFunction) -> str | None:
    """Return the relation of two PCI functions, such as PIX, PHB or SYS."""
    if a.address[:-2] == b.address[:-2]:
        return "SAME"
    if a.root != b.root:
        if a.zone is None or b.zone is None:
            return None
        return "NODE" if a.zone == b.zone else "SYS"
    common = 0
    while common < min(len(a.bridges), len(b.bridges)) and a.bridges[common] == b.bridges[common]:
        common += 1
    if not common:
        return "PHB"
    return "PIX" if max(len(a.bridges), len(b.bridges)) - common <= 1 else "PXB"
