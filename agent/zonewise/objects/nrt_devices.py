"""GPUs and NICs, as zones of a NodeResourceTopology object, and how near they are to each other.

Attributes have the names that Dynamic Resource Allocation has standardised (resource.kubernetes.io/...), so that rules
can move between the two. The costs of a GPU zone are to NIC zones, on the scale of NIC_COSTS; consumers of the API read
costs of Node zones only (scheduler-plugins pkg/noderesourcetopology/pluginhelpers.go createNUMANodeList). A NIC that is
not among a GPU's costs is in another zone, as the parents of both tell.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zonewise.objects.nearest_nics import CLOSEST_FIRST, nearest_nics
from zonewise.objects.nrt_fields import attributes, omit_empty, zone_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zonewise.machine.model.machine import Machine
    from zonewise.machine.model.network import Nic, RdmaDevice
    from zonewise.machine.model.pci import PciFunction
    from zonewise.objects.nrt_fields import Object

PCI_ROOT = "resource.kubernetes.io/pcieRoot"
PCI_ADDRESS = "resource.kubernetes.io/pciBusID"
NUMA_NODE = "resource.kubernetes.io/numaNode"

NIC_COSTS = {relation: 10 * place for place, relation in enumerate(CLOSEST_FIRST, 1)}
"""SAME 10, PIX 20, PXB 30, PHB 40, NODE 50, SYS 60: lower is closer, 10 is local as in a table of NUMA distances."""


def gpu_zones(machine: Machine) -> Iterator[Object]:
    """Yield the GPUs."""
    functions = {function.address: function for function in machine.pci}
    nearest = nearest_nics(machine)
    costs = _nic_costs(machine)
    for gpu in machine.gpus:
        if gpu.address is None:
            continue
        near = nearest.get(gpu.address)
        told = [
            *_of_function(functions.get(gpu.address), gpu.address, gpu.zone),
            ("zonewise.dev/vendor", gpu.vendor or None),
            ("zonewise.dev/model", gpu.model or None),
            ("zonewise.dev/memory", gpu.memory),
            ("zonewise.dev/uuid", gpu.uuid or None),
            ("zonewise.dev/nearest-nics", ",".join(near.nics) if near else None),
            ("zonewise.dev/nearest-nics-relation", near.relation if near else None),
        ]
        yield _device("GPU", machine, gpu.address, gpu.zone, told, costs.get(gpu.address, []))


def nic_zones(machine: Machine) -> Iterator[Object]:
    """Yield the physical NICs."""
    functions = {function.address: function for function in machine.pci}
    for address in _nic_addresses(machine):
        nics = [nic for nic in machine.nics if nic.address == address]
        devices = [device for device in machine.infiniband if device.address == address]
        zone = next((device.zone for device in (*nics, *devices)), None)
        told = [*_of_function(functions.get(address), address, zone), *_of_nic(nics, devices)]
        yield _device("NIC", machine, address, zone, told, [])


def _nic_costs(machine: Machine) -> dict[str, list[Object]]:
    """Return the costs of each GPU by its address, the nearest NIC first; those across zones are left out."""
    gpus = {gpu.address for gpu in machine.gpus}
    nics = set(_nic_addresses(machine))
    found: dict[str, list[tuple[int, str]]] = {}
    for link in machine.links:
        for gpu, nic in ((link.a, link.b), (link.b, link.a)):
            if gpu in gpus and nic in nics and link.relation in NIC_COSTS and link.relation != "SYS":
                found.setdefault(gpu, []).append((NIC_COSTS[link.relation], _name("NIC", nic)))
    return {gpu: [{"name": name, "value": cost} for cost, name in sorted(costs)] for gpu, costs in found.items()}


def _nic_addresses(machine: Machine) -> list[str]:
    """Return the addresses of physical NICs; virtual functions come and go by hundreds and belong to pods."""
    virtual = {function.address for function in machine.pci if function.physical_function is not None}
    found = {device.address for device in (*machine.nics, *machine.infiniband) if device.address is not None}
    return sorted(found - virtual)


def _of_nic(nics: list[Nic], devices: list[RdmaDevice]) -> Iterator[tuple[str, object]]:
    yield "zonewise.dev/netdev", ",".join(nic.name for nic in nics) or None
    yield "zonewise.dev/rdma", ",".join(device.name for device in devices) or None
    layers = {port.link_layer for device in devices for port in device.ports} or {nic.link_layer for nic in nics}
    yield "zonewise.dev/link-layer", ",".join(sorted(layer for layer in layers if layer)) or None
    rates = [port.rate_gbps for device in devices for port in device.ports if port.rate_gbps is not None]
    speeds = [nic.speed_mbps / 1000 for nic in nics if nic.speed_mbps is not None]
    yield "zonewise.dev/rate-gbps", f"{max(rates or speeds):g}" if rates or speeds else None


def _of_function(function: PciFunction | None, address: str, zone: int | None) -> Iterator[tuple[str, object]]:
    yield PCI_ADDRESS, address
    yield NUMA_NODE, zone
    # the standard is the name of the host bridge ("pci0000:3a"), which ours has a path before where it is not unique
    yield PCI_ROOT, function.root.rpartition("/")[2] if function and function.root else None


def _device(
    kind: str,
    machine: Machine,
    address: str,
    zone: int | None,
    told: Iterable[tuple[str, object]],
    costs: list[Object],
) -> Object:
    near = next((zone_name(one) for one in machine.zones if one.id == zone), None)
    return omit_empty(
        {"name": _name(kind, address), "type": kind, "parent": near, "costs": costs, "attributes": attributes(told)}
    )


def _name(kind: str, address: str) -> str:
    return f"{kind.lower()}-{re.sub('[^0-9a-z]+', '-', address.lower())}"
