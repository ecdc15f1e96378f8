"""Graders of PCI facts: functions, bridges, relations, and the devices that hwloc attaches to them.

The following rules derive hwloc's view from ours. hwloc treats a function of class 0604 as a bridge, not as a PCI
device. It omits such a function if it has no bus of its own or is absent from the bus. A host bridge contains the
functions of one root, and has the name of their buses. A locality is a set of CPUs; we compare it only if it belongs to
a single zone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grading.types import Grader
    from support.snapshots import Snapshot
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.model.pci import PciFunction, PciLink

_PCI_BRIDGE = "0604"
_RECONSTRUCTED = "reconstructed from real lstopo XML"
"""Such a tree contains neither link speeds nor the capabilities from which hwloc read them."""

# payload per bit on the wire: 8b/10b coding, 128b/130b from 8 GT/s, flits with 242 of 256 bytes at 64 GT/s
_CODING = {2.5: 8 / 10, 5.0: 8 / 10, 8.0: 128 / 130, 16.0: 128 / 130, 32.0: 128 / 130, 64.0: 242 / 256}

_KINDS = {
    "1": "storage",
    "2": "dax",  # specific-purpose memory
    "3": "dax",  # persistent memory
    "4": "gpu",
    "8": "coprocessor",
    "16": "network",
    "48": "rdma",
    "64": "dma",
}
"""hwloc's osdev types by bit: storage 1, memory 2, GPU 4, coprocessor 8, network 16, RDMA 32, DMA 64."""


class _Osdev(NamedTuple):
    """A device of a driver."""

    kind: str
    name: str | None
    address: str | None
    zone: int | None
    identity: Any
    """MAC address, GUID, or size in KiB."""


def _devices(machine: Machine) -> list[PciFunction]:
    return [function for function in machine.pci if function.pci_class != _PCI_BRIDGE]


def _gigabytes(link: PciLink | None) -> float:
    """Return the bandwidth of a link in GB/s as hwloc computes it; 0 if the link is unknown."""
    if link is None or link.speed_gts is None or link.width is None:
        return 0.0
    return round(link.speed_gts * _CODING[link.speed_gts] * link.width / 8, 4)


def _locality_zone(machine: Machine, locality: str) -> int | None:
    """Return the zone of a locality; None for several zones, or for CPUs in no zone."""
    cpus = CpuSet.parse_list(locality)
    holding = [zone.id for zone in machine.zones if zone.cpus and cpus <= zone.cpus]
    return holding[0] if len(holding) == 1 else None


def grade_pci(machine: Machine, snapshot: Snapshot) -> tuple[Any, Any]:
    """Compare ids, chain of bridges, bandwidth and zone of every function."""
    has_links = snapshot.entry.get("origin") != _RECONSTRUCTED
    expected: dict[str, tuple[Any, ...]] = {}
    zones: dict[str, int | None] = {}
    for device in snapshot.expected["pci"]:
        address, locality = device["busid"], device["locality_cpus"]
        zones[address] = _locality_zone(machine, locality)
        expected[address] = (
            device["cls"],
            device["vendor"],
            device["device"],
            device["bridge_path"][1:],
            round(device["link_gbps_bytes"], 4) if has_links else 0.0,
            zones[address],
        )
    listed = {function.address for function in machine.pci}
    actual = {
        function.address: (
            function.pci_class,
            function.vendor or "0000",  # hwloc fills in zeros for a missing file
            function.device or "0000",
            [address for address in function.bridges if address in listed],
            _gigabytes(function.link),
            function.zone if zones.get(function.address) is not None else None,
        )
        for function in _devices(machine)
    }
    return actual, expected


def grade_pci_count(machine: Machine, snapshot: Snapshot) -> tuple[Any, Any]:
    """Compare the number of functions that are not bridges."""
    return len(_devices(machine)), snapshot.expected["pci_count"]


def grade_pci_bridges(machine: Machine, snapshot: Snapshot) -> tuple[Any, Any]:
    """Compare bridges and host bridges, with the buses below them and their nearest zone."""
    expected = {
        (bridge["kind"], bridge["busid"], bridge["bridge_pci"], _locality_zone(machine, bridge["locality_cpus"]))
        for bridge in snapshot.expected["pci_bridges"]
    }
    unknown = {(kind, address, buses) for kind, address, buses, zone in expected if zone is None}
    actual = {
        (kind, address, buses, None if (kind, address, buses) in unknown else zone)
        for kind, address, buses, zone in [*_pci_bridges(machine), *_host_bridges(machine)]
    }
    return actual, expected


def _pci_bridges(machine: Machine) -> Iterable[tuple[str, str | None, str, int | None]]:
    for function in machine.pci:
        if function.pci_class == _PCI_BRIDGE and (buses := function.buses) and buses[0] > 0:
            first, last = buses
            domain = function.address.partition(":")[0]
            yield "pci", function.address, f"{domain}:[{first:02x}-{last:02x}]", function.zone


def _host_bridges(machine: Machine) -> Iterable[tuple[str, str | None, str, int | None]]:
    roots: dict[str, list[PciFunction]] = {}
    for function in machine.pci:
        if not function.bridges:
            roots.setdefault(str(function.root), []).append(function)
    for functions in roots.values():
        domain, bus = functions[0].address.split(":")[:2]
        last = max([int(bus, 16), *(function.buses[1] for function in functions if function.buses)])
        zones = {function.zone for function in functions}
        yield (
            "host",
            None,
            f"{domain}:[{bus}-{last:02x}]",
            min((zone for zone in zones if zone is not None), default=None),
        )


def grade_pci_links(machine: Machine, snapshot: Snapshot) -> tuple[Any, Any]:
    """Compare the relation of every pair in hwloc's tree; unknown relations are None."""
    expected = {
        (a, b): None if relation == "SYS?" else relation
        for a, b, relation in snapshot.expected["pci_links"]
        if relation != "UNGRADED"
    }
    ours = {frozenset((link.a, link.b)): link.relation for link in machine.links}
    actual = {pair: ours.get(frozenset(pair)) for pair in expected}
    return actual, expected


def grade_osdevs(machine: Machine, snapshot: Snapshot) -> tuple[Any, Any]:
    """Compare the devices of drivers: the PCI function of each, its identity, and its zone."""
    expected = [
        entry for device in snapshot.expected["osdevs"] if (entry := _expected_osdev(machine, device)) is not None
    ]
    placed = {(entry.kind, entry.name, entry.address) for entry in expected if entry.zone is not None}
    actual = [
        entry if (entry.kind, entry.name, entry.address) in placed else entry._replace(zone=None)
        for entry in _osdevs(machine, {entry.address for entry in expected if entry.kind == "gpu"})
    ]
    return sorted(actual, key=str), sorted(expected, key=str)


def _osdevs(machine: Machine, shown_gpus: set[str | None]) -> list[_Osdev]:
    return [
        *(_Osdev("storage", d.name, d.address, d.zone, _kib(d.size)) for d in machine.block_devices),
        # a NIC without a visible netdev (unbound, or moved to a pod) has its address as its name, and hwloc omits it
        *(_Osdev("network", n.name, n.address, n.zone, n.mac) for n in machine.nics if n.address not in (None, n.name)),
        *(_Osdev("rdma", d.name, d.address, d.zone, d.node_guid) for d in machine.infiniband if d.address is not None),
        *(_Osdev("dax", d.name, None, None, _kib(d.size)) for d in machine.dax_devices if d.driver != "kmem"),
        *(_Osdev("gpu", None, g.address, g.zone, None) for g in machine.gpus if g.address in shown_gpus),
        *(_Osdev("coprocessor", a.name, a.address, a.zone, None) for a in machine.accelerators if a.kind == "vector"),
        *(_Osdev("dma", a.name, a.address, a.zone, None) for a in machine.dma_engines),
    ]


def _expected_osdev(machine: Machine, device: dict[str, Any]) -> _Osdev | None:
    """Return an entry of hwloc in our form; None if it cannot be compared."""
    kind, infos, address = _KINDS[device["osdev_type"]], device["infos"], device["pci_busid"]
    zone = _locality_zone(machine, device["locality_cpus"])
    if kind == "gpu":
        # hwloc uses the DRM card, we the function; a card without a known function cannot be compared
        return None if address is None else _Osdev(kind, None, address, zone, None)
    if kind == "dax":
        zone = None  # hwloc's zone is that of the device's parent, ours that of its present or future memory
    size = int(infos["Size"].removesuffix("KiB")) if "Size" in infos else None
    identity = {"storage": size, "dax": size, "network": infos.get("Address"), "rdma": infos.get("NodeGUID")}
    return _Osdev(kind, device["name"], address, zone, identity.get(kind))


def _kib(size: int | None) -> int | None:
    return None if size is None else size >> 10


GRADERS: dict[str, Grader] = {
    "pci": grade_pci,
    "pci_count": grade_pci_count,
    "pci_bridges": grade_pci_bridges,
    "pci_links": grade_pci_links,
    "osdevs": grade_osdevs,
}
UNGRADED: dict[tuple[str, str], str] = {}
