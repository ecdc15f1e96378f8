"""PCI functions made of files, at any path below /sys/devices, and zones for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise.machine.collector import NoData
from zonewise.machine.collectors.pci import accelerators, links, locality, storage
from zonewise.machine.collectors.pci import functions as pci
from zonewise.machine.files import MemoryFiles
from zonewise.machine.model.machine import Machine
from zonewise.machine.model.zone import Zone
from zonewise.machine.reader import Reader
from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from zonewise.machine.collector import Collector
    from zonewise.machine.model.gpu import Gpu
    from zonewise.machine.model.pci import PciFunction
    from zonewise.machine.model.problem import Problem, Source

BRIDGE, NETWORK, GPU, NVME, SERIAL = "060400", "020000", "030200", "010802", "070002"
DEVICES = "sys/bus/pci/devices"


def zone(number: int, cpus: str, distances: dict[str, int] | None = None, device: str | None = None) -> Zone:
    """Return a zone with these CPUs, or a memory-only zone if there are none."""
    held = CpuSet.parse_list(cpus)
    return Zone(number, held, held, None, {}, distances or {}, "cpu" if held else "memory", device=device)


TWO_ZONES = (zone(0, "0-7"), zone(1, "8-15"))
ONE_ZONE = (zone(0, "0-15"),)


class PciScan(NamedTuple):
    """The result of the collectors for a tree."""

    machine: Machine
    problems: list[Problem]
    sources: dict[str, Source]

    def function(self, address: str) -> PciFunction:
        """Return the function with an address."""
        return next(function for function in self.machine.pci if function.address == address)

    def relation(self, a: str, b: str) -> str | None:
        """Return the relation of two endpoints; None if they have none."""
        return next((link.relation for link in self.machine.links if {link.a, link.b} == {a, b}), None)


class PciTree:
    """A tree of PCI functions that tests add to."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes | str | None] = {}

    def add(
        self,
        place: str,
        pci_class: str = BRIDGE,
        ids: str = "8086:1000:8086:0001",
        *,
        node: int | None = 0,
        cpus: str | None = "0-7",
        **more: object,
    ) -> str:
        """Add a function at a path below /sys/devices; return its address."""
        path, address = f"sys/devices/{place}", place.rpartition("/")[2]
        names = ("vendor", "device", "subsystem_vendor", "subsystem_device")
        values: dict[str, object] = {"class": f"0x{pci_class}"}
        values |= {name: f"0x{value}" for name, value in zip(names, ids.split(":"), strict=True)}
        if pci_class == BRIDGE:
            values |= {"secondary_bus_number": 1, "subordinate_bus_number": 2}
        if node is not None:
            values["numa_node"] = node
        if cpus is not None:
            values["local_cpulist"] = cpus
        self.contents |= {f"{path}/{name}": f"{value}\n".encode() for name, value in (values | more).items()}
        self.contents[f"{DEVICES}/{address}"] = f"../../../devices/{place}"
        return address

    def chain(self, place: str, *, node: int | None = 0, **bridge_ids: str) -> str:
        """Add every bridge on a path below /sys/devices; return the path."""
        parts = place.split("/")
        for at, part in enumerate(parts):
            path = "/".join(parts[: at + 1])
            if ":" in part and "." in part and f"sys/devices/{path}/class" not in self.contents:
                self.add(path, BRIDGE, bridge_ids.get(f"at_{at}", "8086:2030:8086:0000"), node=node)
        return place

    def link(self, address: str, name: str, target: str) -> None:
        """Add a link to a function's directory."""
        place = str(self.contents[f"{DEVICES}/{address}"]).removeprefix("../../../")
        self.contents[f"sys/{place}/{name}"] = target

    def files(self) -> MemoryFiles:
        """Return the tree as files."""
        return MemoryFiles(self.contents.items())

    def collect(self, zones: tuple[Zone, ...] = TWO_ZONES, gpus: tuple[Gpu, ...] = ()) -> PciScan:
        """Run the PCI collectors on the tree for a machine with these zones and GPUs."""
        chain = (pci.COLLECTOR, locality.COLLECTOR, storage.COLLECTOR, accelerators.COLLECTOR, links.COLLECTOR)
        return run(self.files(), Machine(zones=zones, gpus=gpus), chain)


def run(files: MemoryFiles, machine: Machine, collectors: tuple[Collector, ...]) -> PciScan:
    """Run collectors one after another, as a scan does."""
    read = Reader(files, explain=True)
    for collector in collectors:
        try:
            machine = collector.collect(read, machine)
        except NoData:
            continue
    return PciScan(machine, read.problems, read.sources or {})


NIC = "0000:3b:00.0"


def nic_below_root_port(*, node: int | None = 0, cpus: str | None = "0-7", **attributes: object) -> PciTree:
    """Return a NIC behind one root port."""
    tree = PciTree()
    tree.add("pci0000:3a/0000:3a:00.0", BRIDGE)
    tree.add(f"pci0000:3a/0000:3a:00.0/{NIC}", NETWORK, "15b3:1021:15b3:0023", node=node, cpus=cpus, **attributes)
    return tree
