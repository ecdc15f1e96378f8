"""The kind of a NUMA node's memory, if it can be derived, and which nodes are the memory of a GPU.

No file contains "HBM". The DAX bus shows the kind of persistent and specific-purpose memory. The speeds in the
firmware's tables separate DRAM and HBM, by hwloc's rule (memattrs.c).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zonewise.machine.collectors.memory.zone_access import best_access
from zonewise.machine.collectors.memory.zone_cpus import NODE
from zonewise.machine.model.machine import X86
from zonewise.machine.sysfs import is_pci_address

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise.machine.model.host import DaxDevice
    from zonewise.machine.model.pci import PciFunction
    from zonewise.machine.model.zone import Zone
    from zonewise.machine.reader import Reader

GPUS = "proc/driver/nvidia/gpus"

_NVIDIA = "10de"
_DISPLAY = "03"
_NODE = re.compile(rb"^Node:\s*(-?\d{1,9})\n(?:Status:\s*(\w+))?", re.MULTILINE)
_CPU_LINK = re.compile(r"cpu\d+")
_MIG_NODES = 7
"""Grace Hopper and Grace Blackwell: the firmware has 8 nodes for each GPU.

One represents all of its memory; seven represent what MIG instances may get of it and have no memory without MIG
(NVIDIA Grace Performance Tuning Guide).
"""

_ALIKE = 1.1
"""Speeds whose ratio is smaller belong to one tier."""
_FASTER = 2
"""HBM has more than this multiple of DRAM's bandwidth."""


def gpu_nodes(
    read: Reader, pci: Sequence[PciFunction], bare: frozenset[int], architecture: str | None
) -> dict[int, str]:
    """Return the PCI address of the GPU by node, for nodes without CPUs that are the memory of an NVIDIA GPU.

    On POWER9 the driver names the node (numa_status). On Grace the firmware names it, as the node of the GPU's PCI
    function. On x86 no GPU's memory is a node: a node without CPUs there is host memory, even if a GPU is in it.
    """
    addresses: dict[int, str] = {}
    if not bare or architecture in X86:
        return addresses
    for function in pci:
        node = function.numa_node
        is_gpu = function.vendor == _NVIDIA and (function.pci_class or "").startswith(_DISPLAY)
        if is_gpu and node is not None and node in bare and not _has_offline_cpus(read, node):
            addresses.setdefault(node, function.address)
    addresses.update(_nodes_by_driver(read, pci, bare))
    for node in sorted(addresses):
        for reserved in range(node + 1, node + 1 + _MIG_NODES):
            if reserved in addresses:
                break
            if reserved in bare:
                addresses[reserved] = addresses[node]
    return addresses


def _has_offline_cpus(read: Reader, node: int) -> bool:
    """Return whether a node without online CPUs has offline CPUs: the node then has links to them."""
    return any(_CPU_LINK.fullmatch(name) for name in read.names(f"{NODE}/node{node}"))


def _nodes_by_driver(read: Reader, pci: Sequence[PciFunction], bare: frozenset[int]) -> dict[int, str]:
    addresses: dict[int, str] = {}
    listed = [name for name in read.names(GPUS) if is_pci_address(name)]
    # a directory may refuse listing and yet permit reads of a known name
    candidates = listed or [each.address for each in pci if (each.pci_class or "").startswith(_DISPLAY)]
    contents = {address: read.raw(f"{GPUS}/{address}/numa_status") for address in candidates}
    platform_has_it = any(content is not None for content in contents.values())
    for address, content in contents.items():
        path = f"{GPUS}/{address}/numa_status"
        if content is None:
            if listed and platform_has_it:
                read.problem(path, "is absent, although other GPUs have one", f"the memory of {address} is unknown")
            continue
        if not listed:
            read.problem(GPUS, "cannot be listed", f"/{path}")
        match = _NODE.search(content)
        if match is None:
            read.problem(path, "has no line Node", f"whether the memory of {address} is a zone is unknown")
        elif int(match[1]) in bare:
            addresses[int(match[1])] = address
        elif match[2] == b"online" and int(match[1]) >= 0:
            read.problem(path, f"contains node {int(match[1])}, which is not a node without CPUs", "the PCI data")
    return addresses


def media(zones: Sequence[Zone], kmem: Mapping[int, DaxDevice]) -> dict[int, str]:
    """Return the medium of each zone for which it can be derived; `kmem` is the DAX device by zone."""
    kinds = {zone.id: kind for zone in zones if (kind := _stated_medium(zone, kmem.get(zone.id)))}
    unknown = _tiers([zone for zone in zones if zone.id not in kinds])
    special = _tiers([zone for zone in zones if kinds.get(zone.id) == "SPM"])
    if len(unknown) == 2 and not special:
        kinds.update(_dram_and_hbm(unknown[0], unknown[1]))
    elif len(unknown) == 1 and len(special) == 1:
        kinds.update(_dram_and_hbm(unknown[0], special[0]))
    return kinds


def _stated_medium(zone: Zone, dax: DaxDevice | None) -> str | None:
    if zone.kind == "device":
        return "GPU"
    if dax is None:
        return None
    return "CXL" if dax.cxl and dax.medium != "NVM" else dax.medium


def _tiers(zones: Sequence[Zone]) -> list[list[Zone]]:
    """Separate zones by speed: a new tier starts where bandwidth or latency differs from the zone before."""
    tiers: list[list[Zone]] = []
    for zone in sorted(zones, key=lambda zone: bandwidth(zone) or 0):
        if tiers and _alike(tiers[-1][-1], zone):
            tiers[-1].append(zone)
        else:
            tiers.append([zone])
    return tiers


def _alike(zone: Zone, other: Zone) -> bool:
    pairs = ((bandwidth(zone), bandwidth(other)), (latency(zone), latency(other)))
    return all(max(a, b) <= _ALIKE * min(a, b) for a, b in pairs if a is not None and b is not None)


def bandwidth(zone: Zone) -> int | None:
    """Return the mean of read and write bandwidth in MB/s; None unless both are known."""
    access = best_access(zone.accesses)
    if access is None or access.read_bandwidth is None or access.write_bandwidth is None:
        return None
    return (access.read_bandwidth + access.write_bandwidth) // 2


def latency(zone: Zone) -> int | None:
    """Return the mean of read and write latency in ns; None unless both are known."""
    access = best_access(zone.accesses)
    if access is None or access.read_latency is None or access.write_latency is None:
        return None
    return (access.read_latency + access.write_latency) // 2


def _dram_and_hbm(first_tier: Sequence[Zone], next_tier: Sequence[Zone]) -> dict[int, str]:
    """Return which of two tiers is DRAM and which is HBM; nothing if their speeds do not decide it."""
    speeds = [[speed for zone in tier if (speed := bandwidth(zone)) is not None] for tier in (first_tier, next_tier)]
    if not all(speeds):
        return {}
    slow, fast = (first_tier, next_tier) if max(speeds[0]) < max(speeds[1]) else (next_tier, first_tier)
    low, high = sorted(speeds, key=max)
    if min(high) <= _FASTER * max(low):
        return {}
    named = [*((zone, "DRAM") for zone in slow), *((zone, "HBM") for zone in fast)]
    return {zone.id: medium for zone, medium in named if bandwidth(zone) is not None}
