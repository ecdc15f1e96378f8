"""How close any two endpoint devices are, in the terms of `nvidia-smi topo -m`, for devices of any vendor.

Endpoints are devices that workloads should be close to: GPUs, network and RDMA functions, disks, accelerators. Below
one host bridge the tree of bridges decides the relation. Across host bridges the zones decide; the relation is unknown
if one of the zones is.

Three kinds of hardware show bridges that are not switches (NCCL, src/graph/topo.cc, makes the same corrections). AMD
GPUs and NVIDIA NICs contain their own switch. Broadcom switches appear as two levels. The two functions of a
socket-direct adapter get the relation of their paths, since each is near its own socket.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise.machine.collector import Collector, NoData, Peek
from zonewise.machine.collectors.pci.classes import is_endpoint
from zonewise.machine.collectors.pci.functions import DEVICES
from zonewise.machine.model.pci import Link, PciFunction
from zonewise.machine.sysfs import pci_order

if TYPE_CHECKING:
    from collections.abc import Hashable

    from zonewise.machine.model.gpu import Gpu, NvLinkPeer
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.reader import Reader

MAX_ENDPOINTS = 256
"""Number of endpoints above which virtual functions are related only to their physical function.

A thousand of them would make half a million pairs, each of which follows from the physical function's.
"""

_AMD, _MELLANOX, _BROADCOM = "1002", "15b3", "1000"
_AMD_GPU_PORTS = ("1478", "1479", "14a0", "14a1")  # upstream and downstream port of the switch on a GPU's package

_RULES = {
    "SAME": "functions of one device, or of a physical function and its virtual ones",
    "PIX": "at most one bridge on each side below the lowest common one: one switch",
    "PXB": "several bridges below the lowest common one: several switches",
    "PHB": "the same host bridge, and no bridge in common",
    "NODE": "different host bridges, the same zone",
    "SYS": "different zones",
    None: "different host bridges, and one of the zones is unknown",
}


class _End(NamedTuple):
    """An endpoint, with the data that its relations are derived from."""

    address: str
    adapter: str
    """The same for all functions of one device: the address of its physical function, without the function number."""
    root: str | None
    bridges: tuple[str, ...]
    """The bridges above it, topmost first; a two-level Broadcom switch counts as one bridge."""
    inner: int
    """Number of the lowest bridges that are part of the device itself."""
    zone: int | None


def _collect(read: Reader, machine: Machine) -> Machine:
    ends, virtual = _ends(machine)
    if len(ends) + len(virtual) < 2:
        raise NoData("no two endpoint devices")
    nvlinks = _nvlink_pairs(machine.gpus)
    links = [
        Link(a.address, b.address, nvlinks.get((a.address, b.address)) or _relation(a, b))
        for at, a in enumerate(ends)
        for b in ends[at + 1 :]
    ]
    if virtual:
        links += [Link(*_ordered(address, physical), "SAME") for address, physical in virtual]
        links.sort(key=lambda link: (pci_order(link.a), pci_order(link.b)))
    if read.sources is not None:
        for at, link in enumerate(links):
            rule = _RULES.get(link.relation, "active NVLinks between the two, direct or through switches")
            read.source(f"links.{at}", DEVICES, f"{link.a} {link.b}", rule)
    return machine._replace(links=tuple(links))


def _ordered(address: str, second: str) -> tuple[str, str]:
    return (address, second) if pci_order(address) < pci_order(second) else (second, address)


def _ends(machine: Machine) -> tuple[list[_End], list[tuple[str, str]]]:
    """Return the endpoints to pair with each other, and the virtual functions to pair only with their physical
    function.
    """
    functions = {function.address: function for function in machine.pci}
    known = {gpu.address for gpu in machine.gpus}
    known |= {accelerator.address for accelerator in machine.accelerators}
    known |= {disk.address for disk in machine.block_devices}  # behind any controller: virtio, RAID, SATA
    ends = [f for f in machine.pci if is_endpoint(f) or f.address in known]
    virtual: list[tuple[str, str]] = []
    if len(ends) > MAX_ENDPOINTS:
        virtual = [(f.address, f.physical_function) for f in ends if f.physical_function in functions]
        ends = [f for f in ends if f.physical_function not in functions]
    return [_end(function, functions) for function in ends], virtual


def _end(function: PciFunction, functions: dict[str, PciFunction]) -> _End:
    bridges = _flattened(function.bridges, functions)
    device = (function.physical_function or function.address).rpartition(".")[0]
    inner = _inner(function, bridges, functions)
    return _End(function.address, device, function.root, bridges, inner, function.zone)


def _inner(function: PciFunction, bridges: tuple[str, ...], functions: dict[str, PciFunction]) -> int:
    """Return the number of bridges directly above a function that form a switch on the device itself."""
    count = 0
    for address in reversed(bridges):
        bridge = functions.get(address)
        if bridge is None or bridge.vendor != function.vendor or not _is_own_port(bridge):
            break
        count += 1
    return count


def _is_own_port(bridge: PciFunction) -> bool:
    if bridge.vendor == _AMD:
        return bridge.device in _AMD_GPU_PORTS
    return bridge.vendor == _MELLANOX


def _flattened(bridges: tuple[str, ...], functions: dict[str, PciFunction]) -> tuple[str, ...]:
    """Return a chain without the inner level of a Broadcom PEX switch in base mode.

    Such a switch shows an upstream port, downstream ports and, below some of them, the upstream ports of sub-switches,
    though all its ports are equivalent.
    """
    for at in range(len(bridges) - 2):
        generation = _pex_generation(functions.get(bridges[at]), 0)
        if generation is not None and _pex_generation(functions.get(bridges[at + 2]), 1) == generation:
            return bridges[: at + 1] + bridges[at + 3 :]
    return bridges


def _pex_generation(bridge: PciFunction | None, level: int) -> int | None:
    """Return the PCIe generation of a PEX switch that may be in base mode, according to its ids (NCCL, getBcmGen())."""
    if bridge is None or bridge.vendor != _BROADCOM or bridge.subsystem_vendor != _BROADCOM:
        return None
    mode = (bridge.subsystem_device or "?")[0]
    if bridge.device == "c010" and mode == "a":
        return 4
    if bridge.device == "c030" and mode == str(level):
        return 5
    return None


def _relation(a: _End, b: _End) -> str | None:
    if a.adapter == b.adapter:
        return "SAME"
    if a.root is None or a.root != b.root:
        if a.zone is None or b.zone is None:
            return None
        return "NODE" if a.zone == b.zone else "SYS"
    above_a, above_b = a.bridges, b.bridges
    common = 0
    for first, second in zip(above_a, above_b, strict=False):
        if first != second:
            break
        common += 1
    if common == 0:
        return "PHB"
    if len(above_a) - common - a.inner <= 1 and len(above_b) - common - b.inner <= 1:
        return "PIX"
    return "PXB"


def _nvlink_pairs(gpus: tuple[Gpu, ...]) -> dict[tuple[str, str], str]:
    """Return "NV<n>" for each pair of GPUs joined by n NVLinks, directly or through switches that both reach."""
    if not any(gpu.nvlinks for gpu in gpus):
        return {}
    linked = [(gpu.address, gpu.nvlinks) for gpu in gpus if gpu.address is not None]
    linked.sort(key=lambda first: pci_order(first[0]))
    pairs: dict[tuple[str, str], str] = {}
    for at, (a, peers_a) in enumerate(linked):
        for b, peers_b in linked[at + 1 :]:
            direct = max(_direct(peers_a, b), _direct(peers_b, a))  # perhaps only one end was readable
            if count := direct + _switched(peers_a, peers_b):
                pairs[a, b] = f"NV{count}"
    return pairs


def _direct(peers: tuple[NvLinkPeer, ...], address: str) -> int:
    return sum(peer.links for peer in peers if peer.kind == "gpu" and peer.address == address)


def _switched(peers_a: tuple[NvLinkPeer, ...], peers_b: tuple[NvLinkPeer, ...]) -> int:
    """Return the number of links through switches; a guest that sees no switch addresses sees them all as
    one switch.
    """
    links_a, links_b = _by_switch(peers_a), _by_switch(peers_b)
    return sum(min(count, links_b.get(switch, 0)) for switch, count in links_a.items())


def _by_switch(peers: tuple[NvLinkPeer, ...]) -> dict[str | None, int]:
    links_by_switch: dict[str | None, int] = {}
    for peer in peers:
        if peer.kind == "switch":
            links_by_switch[peer.address] = links_by_switch.get(peer.address, 0) + peer.links
    return links_by_switch


def _volatile(_peek: Peek) -> Hashable:
    """Return nothing: this collector reads no file."""
    return None


COLLECTOR = Collector(
    name="links",
    provides=("links",),
    needs=("pci", "gpus", "block_devices", "accelerators"),
    collect=_collect,
    volatile=_volatile,
)
