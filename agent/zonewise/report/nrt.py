"""The machine as a NodeResourceTopology object of the API group topology.node.k8s.io/v1alpha2, `zonewise show -o nrt`.

Consumers of the API (the scheduler plugin NodeResourceTopologyMatch, KAI, Volcano) read zones of the type "Node" named
"node-<id>", and keep them in a table of 64 places; so exactly the zones with CPUs and an id below 64 are published as
such, and only they have resources. Whatever else there is, memory without CPUs, packages, L3 groups, GPUs and NICs, is
a zone of another type that carries attributes only, and that consumers pass over. Device attributes have the names
that Dynamic Resource Allocation has standardised (resource.kubernetes.io/...), so that rules can move between the two.

No kubelet is asked here, so nobody knows what is in use. The API requires `allocatable` and `available` beside
`capacity`; they repeat what the machine could give if it were idle and nothing reserved, and the attribute
zonewise.dev/usage says "unknown". Devices are no resources, since only a device plugin decides under which name and in
how many pieces a GPU or a NIC is offered.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from zonewise.report.relations import nearest_nics

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zonewise.machine.model.cpu import Cache
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.model.network import Nic, RdmaDevice
    from zonewise.machine.model.pci import PciFunction
    from zonewise.machine.model.zone import Zone
    from zonewise.topology.cpuset import CpuSet

API_VERSION = "topology.node.k8s.io/v1alpha2"
KIND = "NodeResourceTopology"
MAX_NODE_ZONES = 64
"""Ids from here on overflow the table of scheduler-plugins (pkg/noderesourcetopology/pluginhelpers.go)."""

PCI_ROOT = "resource.kubernetes.io/pcieRoot"
PCI_ADDRESS = "resource.kubernetes.io/pciBusID"
NUMA_NODE = "resource.kubernetes.io/numaNode"

_PAGE_BYTES = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}
_TYPE_OF_MEMORY = {"memory": "MemoryOnly", "device": "DeviceMemory"}

Object = dict[str, Any]


def machine_to_nrt(machine: Machine, node_name: str) -> Object:
    """Return the object for a node of the given name; the same for the same machine, byte for byte."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": node_name},
        "attributes": _attributes(_of_machine(machine)),
        "zones": [
            *_memory_zones(machine),
            *_packages(machine),
            *_l3_groups(machine),
            *_gpus(machine),
            *_nics(machine),
        ],
    }


def zone_name(zone: Zone) -> str:
    """Return the name under which a NUMA node is published."""
    return f"{'node' if _is_node(zone) else zone.kind}-{zone.id}"


def _is_node(zone: Zone) -> bool:
    return zone.kind == "cpu" and zone.id < MAX_NODE_ZONES


def _of_machine(machine: Machine) -> Iterator[tuple[str, object]]:
    yield "zonewise.dev/usage", "unknown"
    yield "zonewise.dev/problems", len(machine.problems)
    if machine.architecture == "x86_64":
        # the names and the form that NFD's topology updater has for hybrid x86 (after /sys/devices/cpu_core/cpus)
        names = {"performance": "cpu_core", "efficiency": "cpu_atom"}
        for kind in machine.core_kinds:
            if kind.kind in names:
                yield names[kind.kind], kind.cpus


# --- NUMA nodes


def _memory_zones(machine: Machine) -> Iterator[Object]:
    ordered = sorted(machine.zones, key=lambda zone: (not _is_node(zone), zone.kind, zone.id))
    for zone in ordered:
        if zone.kind != "cpu" and zone.memory == 0:
            continue  # a place kept for memory to come: coherent GPUs keep seven each for MIG
        made: Object = {
            "name": zone_name(zone),
            "type": "Node" if _is_node(zone) else _TYPE_OF_MEMORY.get(zone.kind, "NodeBeyondLimit"),
            "parent": _package_around(machine, zone.cpus),
            "costs": _costs(zone, [other for other in ordered if _is_node(other)]),
            "attributes": _attributes(_of_zone(zone)),
            "resources": _resources(zone) if _is_node(zone) else None,
        }
        yield _without_nothing(made)


def _costs(zone: Zone, nodes: list[Zone]) -> list[Object]:
    """Return the distances to the zones with CPUs: consumers take every name in costs for such a zone's."""
    known = ((zone_name(node), zone.distances.get(str(node.id))) for node in nodes)
    return [{"name": name, "value": distance} for name, distance in known if distance is not None]


def _resources(zone: Zone) -> list[Object]:
    reserved = sum(_bytes_of(size) * pages for size, pages in zone.hugepages.items())
    found = [_resource("cpu", len(zone.cpus), len(zone.cpus))] if zone.cpus else []
    for size, pages in sorted(zone.hugepages.items(), key=lambda pool: _bytes_of(pool[0])):
        found.append(_resource(f"hugepages-{size}", _bytes_of(size) * pages, _bytes_of(size) * pages))
    if zone.memory is not None:
        # pages reserved in a pool are no longer memory that a pod could get
        found.append(_resource("memory", zone.memory, max(0, zone.memory - reserved)))
    return found


def _resource(name: str, capacity: int, idle: int) -> Object:
    # strings, as the API machinery writes quantities, and since numbers of JSON lose bytes above 2^53
    return {"name": name, "capacity": str(capacity), "allocatable": str(idle), "available": str(idle)}


def _bytes_of(size: str) -> int:
    """Return the bytes of a page size such as "2Mi"."""
    return int(size[:-2]) * _PAGE_BYTES[size[-2:]]


def _of_zone(zone: Zone) -> Iterator[tuple[str, object]]:
    yield "zonewise.dev/cpus", zone.cpus if zone.cpus else None
    if _is_node(zone):
        return
    yield "zonewise.dev/memory", zone.memory
    yield "zonewise.dev/medium", zone.medium
    yield "zonewise.dev/local-cpus", zone.local_cpus
    yield "zonewise.dev/tier", zone.tier
    yield "zonewise.dev/device", zone.device
    for access in zone.accesses:
        if access.access_class == 0:
            yield "zonewise.dev/initiators", ",".join(map(str, access.initiators))
            yield "zonewise.dev/read-bandwidth-mbps", access.read_bandwidth
            yield "zonewise.dev/read-latency-ns", access.read_latency


# --- what holds CPUs


def _packages(machine: Machine) -> Iterator[Object]:
    for number, package in enumerate(machine.packages):
        attributes = [("zonewise.dev/cpus", package.cpus), ("zonewise.dev/model", package.model)]
        parent = _node_around(machine, package.cpus) if _package_of_zone(machine, number) is None else None
        made: Object = {"name": f"package-{number}", "type": "Package", "parent": parent}
        yield _without_nothing({**made, "attributes": _attributes(attributes)})


def _l3_groups(machine: Machine) -> Iterator[Object]:
    number = 0
    for cache in machine.caches:
        zone = _holder(machine, cache) if cache.level == 3 else None
        if zone is not None:
            attributes = [("zonewise.dev/cpus", cache.cpus), ("zonewise.dev/size", cache.size)]
            yield {
                "name": f"l3-{number}",
                "type": "L3",
                "parent": zone_name(zone),
                "attributes": _attributes(attributes),
            }
            number += 1


def _holder(machine: Machine, cache: Cache) -> Zone | None:
    """Return the zone of which a cache serves a part; none where it serves a whole zone and says nothing new."""
    return next((zone for zone in machine.zones if cache.cpus and cache.cpus < zone.cpus), None)


def _package_around(machine: Machine, cpus: CpuSet) -> str | None:
    for number, package in enumerate(machine.packages):
        if cpus and cpus <= package.cpus:
            return f"package-{number}"
    return None


def _package_of_zone(machine: Machine, number: int) -> Zone | None:
    """Return a zone that lies within a package, which cannot then lie within that zone."""
    package = machine.packages[number]
    return next((zone for zone in machine.zones if zone.cpus and zone.cpus <= package.cpus), None)


def _node_around(machine: Machine, cpus: CpuSet) -> str | None:
    return next((zone_name(zone) for zone in machine.zones if cpus and cpus <= zone.cpus), None)


# --- devices


def _gpus(machine: Machine) -> Iterator[Object]:
    functions = {function.address: function for function in machine.pci}
    nearest = nearest_nics(machine)
    for gpu in machine.gpus:
        if gpu.address is None:
            continue
        near = nearest.get(gpu.address)
        attributes = [
            *_of_function(functions.get(gpu.address), gpu.address, gpu.zone),
            ("zonewise.dev/vendor", gpu.vendor),
            ("zonewise.dev/model", gpu.model),
            ("zonewise.dev/memory", gpu.memory),
            ("zonewise.dev/uuid", gpu.uuid),
            ("zonewise.dev/nearest-nics", ",".join(near.nics) if near else None),
            ("zonewise.dev/nearest-nics-relation", near.relation if near else None),
        ]
        yield _device("GPU", machine, gpu.address, gpu.zone, attributes)


def _nics(machine: Machine) -> Iterator[Object]:
    functions = {function.address: function for function in machine.pci}
    for address in _nic_addresses(machine):
        nics = [nic for nic in machine.nics if nic.address == address]
        devices = [device for device in machine.infiniband if device.address == address]
        zone = next((device.zone for device in (*nics, *devices)), None)
        attributes = [*_of_function(functions.get(address), address, zone), *_of_nic(nics, devices)]
        yield _device("NIC", machine, address, zone, attributes)


def _nic_addresses(machine: Machine) -> list[str]:
    """Return the addresses of physical NICs; virtual functions come and go by hundreds and belong to pods."""
    virtual = {function.address for function in machine.pci if function.physical_function is not None}
    found = {device.address for device in (*machine.nics, *machine.infiniband) if device.address is not None}
    return sorted(found - virtual)


def _of_nic(nics: list[Nic], devices: list[RdmaDevice]) -> Iterator[tuple[str, object]]:
    yield "zonewise.dev/netdev", ",".join(nic.name for nic in nics)
    yield "zonewise.dev/rdma", ",".join(device.name for device in devices)
    layers = {port.link_layer for device in devices for port in device.ports} or {nic.link_layer for nic in nics}
    yield "zonewise.dev/link-layer", ",".join(sorted(layer for layer in layers if layer))
    rates = [port.rate_gbps for device in devices for port in device.ports if port.rate_gbps is not None]
    speeds = [nic.speed_mbps / 1000 for nic in nics if nic.speed_mbps is not None]
    yield "zonewise.dev/rate-gbps", f"{max(rates or speeds):g}" if rates or speeds else None


def _of_function(function: PciFunction | None, address: str, zone: int | None) -> Iterator[tuple[str, object]]:
    yield PCI_ADDRESS, address
    yield NUMA_NODE, zone
    # the standard is the name of the host bridge ("pci0000:3a"), which ours has a path before where it is not unique
    yield PCI_ROOT, function.root.rpartition("/")[2] if function and function.root else None


def _device(
    kind: str, machine: Machine, address: str, zone: int | None, attributes: Iterable[tuple[str, object]]
) -> Object:
    near = next((zone_name(one) for one in machine.zones if one.id == zone), None)
    name = f"{kind.lower()}-{re.sub('[^0-9a-z]+', '-', address.lower())}"
    return _without_nothing({"name": name, "type": kind, "parent": near, "attributes": _attributes(attributes)})


def _attributes(pairs: Iterable[tuple[str, object]]) -> list[Object]:
    """Return attributes by name; one that is unknown is left out."""
    known = {name: str(value) for name, value in pairs if value is not None and value != ""}
    return [{"name": name, "value": known[name]} for name in sorted(known)]


def _without_nothing(made: Object) -> Object:
    return {name: value for name, value in made.items() if value is not None and value != []}
