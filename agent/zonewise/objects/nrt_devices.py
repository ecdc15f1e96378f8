"""GPUs and NICs as zones of a NodeResourceTopology object, and the costs between them.

Attributes have the names that Dynamic Resource Allocation has standardised (resource.kubernetes.io/...), so that rules
can move between the two. The costs of a GPU zone refer to NIC zones, on the scale of NIC_COSTS. Consumers of the API
read only the costs of Node zones (scheduler-plugins pkg/noderesourcetopology/pluginhelpers.go createNUMANodeList). A
NIC without a cost is in another zone, as the parents of both show.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zonewise.machine.physical_nics import physical_netdevs, physical_rdma, virtual_functions
from zonewise.objects.nearest_nics import CLOSEST_FIRST, nearest_nics
from zonewise.objects.nrt_fields import numa_zone_name, omit_empty
from zonewise_common.nrt import names
from zonewise_common.nrt.attributes import write_attributes
from zonewise_common.nrt.zones import GPU, NIC, write_costs, zone_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zonewise.machine.model.machine import Machine
    from zonewise.machine.model.network import Nic, RdmaDevice
    from zonewise.machine.model.pci import PciFunction
    from zonewise.objects.nrt_fields import Object

NIC_COSTS = {relation: 10 * rank for rank, relation in enumerate(CLOSEST_FIRST, 1)}
"""SAME 10, PIX 20, PXB 30, PHB 40, NODE 50, SYS 60. A lower number is closer, and 10 is local, as in a table of NUMA
distances."""


def gpu_zones(machine: Machine, health: Mapping[str, str]) -> Iterator[Object]:
    """Yield the GPUs."""
    functions = {function.address: function for function in machine.pci}
    nearest = nearest_nics(machine)
    costs = _nic_costs(machine)
    for gpu in machine.gpus:
        if gpu.address is None:
            continue
        near = nearest.get(gpu.address)
        pairs = [
            *_pci_attributes(functions.get(gpu.address), gpu.address, gpu.zone),
            (names.VENDOR, gpu.vendor or None),
            (names.MODEL, gpu.model or None),
            (names.MEMORY, gpu.memory),
            (names.UUID, gpu.uuid or None),
            (names.NEAREST_NICS, ",".join(near.nics) if near else None),
            (names.NEAREST_NICS_RELATION, near.relation if near else None),
            (names.HEALTH, health.get(gpu.address)),
        ]
        yield _device(GPU, machine, gpu.address, gpu.zone, pairs, costs.get(gpu.address, []))


def nic_zones(machine: Machine, health: Mapping[str, str]) -> Iterator[Object]:
    """Yield the physical NICs."""
    functions = {function.address: function for function in machine.pci}
    for address in _nic_addresses(machine):
        nics = [nic for nic in machine.nics if nic.address == address]
        devices = [device for device in machine.infiniband if device.address == address]
        zone = next((device.zone for device in (*nics, *devices)), None)
        parts = [address, *(f"{device.name}/{port.number}" for device in devices for port in device.ports)]
        pairs = [
            *_pci_attributes(functions.get(address), address, zone),
            *_nic_attributes(nics, devices),
            (names.HEALTH, max((health[part] for part in parts if part in health), key=_has_failed, default=None)),
        ]
        yield _device(NIC, machine, address, zone, pairs, [])


def node_guids(machine: Machine) -> str:
    """Return the node GUIDs of the physical InfiniBand adapters, sorted and without colons; "" if there are none."""
    devices = physical_rdma(machine)
    guids = {device.node_guid for device in devices if any(port.link_layer == "InfiniBand" for port in device.ports)}
    return ",".join(sorted(guid.replace(":", "") for guid in guids if guid))


def _has_failed(health: str) -> bool:
    return health.startswith("failed:")


def _nic_costs(machine: Machine) -> dict[str, list[Object]]:
    """Return the costs of each GPU by its address, the nearest NIC first; NICs of other zones are omitted."""
    gpus = {gpu.address for gpu in machine.gpus}
    nics = set(_nic_addresses(machine))
    costs_by_gpu: dict[str, list[tuple[int, str]]] = {}
    for link in machine.links:
        for gpu, nic in ((link.a, link.b), (link.b, link.a)):
            if gpu in gpus and nic in nics and link.relation in NIC_COSTS and link.relation != "SYS":
                costs_by_gpu.setdefault(gpu, []).append((NIC_COSTS[link.relation], _name(NIC, nic)))
    return {gpu: write_costs((name, cost) for cost, name in sorted(costs)) for gpu, costs in costs_by_gpu.items()}


def _nic_addresses(machine: Machine) -> list[str]:
    """Return the addresses of physical NICs; virtual functions come and go by the hundreds and belong to pods."""
    rdma = {device.address for device in machine.infiniband if device.address is not None}
    return sorted(physical_netdevs(machine) | (rdma - virtual_functions(machine)))


def _nic_attributes(nics: list[Nic], devices: list[RdmaDevice]) -> Iterator[tuple[str, object]]:
    yield names.NETDEV, ",".join(nic.name for nic in nics) or None
    yield names.RDMA, ",".join(device.name for device in devices) or None
    layers = {port.link_layer for device in devices for port in device.ports} or {nic.link_layer for nic in nics}
    yield names.LINK_LAYER, ",".join(sorted(layer for layer in layers if layer)) or None
    rates = [port.rate_gbps for device in devices for port in device.ports if port.rate_gbps is not None]
    speeds = [nic.speed_mbps / 1000 for nic in nics if nic.speed_mbps is not None]
    yield names.RATE, f"{max(rates or speeds):g}" if rates or speeds else None


def _pci_attributes(function: PciFunction | None, address: str, zone: int | None) -> Iterator[tuple[str, object]]:
    yield names.PCI_ADDRESS, address
    yield names.NUMA_NODE, zone
    # the standard uses the name of the host bridge ("pci0000:3a"); ours has a path before the name if it is not unique
    yield names.PCI_ROOT, function.root.rpartition("/")[2] if function and function.root else None


def _device(
    kind: str,
    machine: Machine,
    address: str,
    zone: int | None,
    pairs: Iterable[tuple[str, object]],
    costs: list[Object],
) -> Object:
    parent = next((numa_zone_name(candidate) for candidate in machine.zones if candidate.id == zone), None)
    return omit_empty(
        {
            "name": _name(kind, address),
            "type": kind,
            "parent": parent,
            "costs": costs,
            "attributes": write_attributes(pairs),
        }
    )


def _name(kind: str, address: str) -> str:
    return zone_name(kind, re.sub("[^0-9a-z]+", "-", address.lower()))
