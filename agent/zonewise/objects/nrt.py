"""The machine, and what of it is in use, as a NodeResourceTopology object of topology.node.k8s.io/v1alpha2.

Consumers of the API (the scheduler plugin NodeResourceTopologyMatch, KAI, Volcano) read zones of the type "Node" named
"node-<id>", and keep them in a table of 64 places; so exactly the zones with CPUs and an id below 64 are published as
such, and only they have resources. Whatever else there is, memory without CPUs, packages, L3 groups, GPUs and NICs, is
a zone of another type that carries attributes only, and that consumers pass over; what the kubelet can give of one is
in its attribute zonewise.dev/amounts.

Without a kubelet to ask (`zonewise show -o nrt`) nobody knows what is in use. The API requires `allocatable` and
`available` beside `capacity`; they then repeat what the machine could give if it were idle and nothing reserved, and
the attribute zonewise.dev/usage says "unknown". Devices are no resources then, since only a device plugin decides under
which name and in how many pieces a GPU or a NIC is offered.

Left out on purpose: the deprecated topologyPolicies (every consumer prefers the attributes), and the annotation
topology.node.k8s.io/fingerprint, which scheduler-plugins reads only where the attribute is missing.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from zonewise.objects.nrt_attributes import config_attributes, machine_attributes, usage_attributes
from zonewise.objects.nrt_devices import gpu_zones, nic_zones
from zonewise.objects.nrt_fields import MAX_NODE_ZONES as MAX_NODE_ZONES
from zonewise.objects.nrt_fields import attributes, format_amount, is_node_zone, omit_empty, zone_name
from zonewise.objects.nrt_processors import enclosing_package, l3_zones, package_zones, zone_cpu_attributes
from zonewise.usage.types import ZoneUsage
from zonewise.usage.zone_capacity import idle_amounts
from zonewise_common.k8s.cpuset import CpuSet
from zonewise_common.nrt import names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise.kubelet.types import KubeletConfig
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.model.zone import Zone
    from zonewise.objects.nrt_fields import Object
    from zonewise.usage.types import Amount, Usage
    from zonewise_common.nrt.numaplacement import NumaPlacement

API_VERSION = "topology.node.k8s.io/v1alpha2"
KIND = "NodeResourceTopology"

_TYPE_OF_MEMORY = {"memory": "MemoryOnly", "device": "DeviceMemory"}


class NrtOptions(NamedTuple):
    """What may be wished of the object."""

    exclude_resources: tuple[str, ...] = ()
    """Names or shell patterns of resources that are not shown; nothing else changes."""
    fingerprint: str = names.EXCLUSIVE_PODS
    """The method of the fingerprint that all consumers read: names.EXCLUSIVE_PODS or names.ALL_PODS."""

    def shows(self, resource: str) -> bool:
        """Tell whether a resource is shown."""
        return not any(fnmatchcase(resource, pattern) for pattern in self.exclude_resources)


def machine_to_nrt(
    machine: Machine,
    node_name: str,
    usage: Usage | None = None,
    config: KubeletConfig | None = None,
    *,
    options: NrtOptions = NrtOptions(),  # noqa: B008 -- immutable
) -> Object:
    """Return the object for a node of the given name; the same for the same values, byte for byte."""
    placement = usage.placement if usage is not None else None
    used = _used(machine, usage)
    empty = CpuSet(one.zone.id for one in used if _is_empty(one))
    told = [
        *machine_attributes(machine),
        (names.EMPTY_ZONES, empty or None),
        *usage_attributes(usage, options.fingerprint, options.shows),
        *config_attributes(config),
        (names.PLACEMENT_METADATA, placement.metadata if placement else None),
    ]
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": node_name},
        "attributes": attributes(told),
        "zones": [
            *_numa_zones(machine, [one for one in used if not _is_empty(one)], options, placement),
            *package_zones(machine),
            *l3_zones(machine),
            *gpu_zones(machine),
            *nic_zones(machine),
        ],
    }


class _Used(NamedTuple):
    """A zone, and what of it is in use."""

    zone: Zone
    usage: ZoneUsage
    known: bool


def _used(machine: Machine, usage: Usage | None) -> list[_Used]:
    if usage is None:
        return [_Used(zone, ZoneUsage(zone.id, idle_amounts(zone)), known=False) for zone in machine.zones]
    of_zones = {one.zone: one for one in usage.zones}
    return [_Used(zone, of_zones.get(zone.id, ZoneUsage(zone.id, {})), known=True) for zone in machine.zones]


def _is_empty(one: _Used) -> bool:
    """Tell whether a zone is a place kept for memory to come: coherent GPUs keep seven each for MIG."""
    zone = one.zone
    return zone.kind != "cpu" and zone.memory == 0 and not any(any(amount) for amount in one.usage.amounts.values())


def _numa_zones(
    machine: Machine, zones: list[_Used], options: NrtOptions, placement: NumaPlacement | None
) -> Iterator[Object]:
    ordered = sorted(zones, key=lambda one: (not is_node_zone(one.zone), one.zone.kind, one.zone.id))
    nodes = [one.zone for one in ordered if is_node_zone(one.zone)]
    for one in ordered:
        zone = one.zone
        shown = {resource: amount for resource, amount in one.usage.amounts.items() if options.shows(resource)}
        told = [*_of_node(one, placement)] if is_node_zone(zone) else [*_of_memory(one, shown)]
        made: Object = {
            "name": zone_name(zone),
            "type": "Node" if is_node_zone(zone) else _TYPE_OF_MEMORY.get(zone.kind, "NodeBeyondLimit"),
            "parent": enclosing_package(machine, zone.cpus),
            "costs": _costs(zone, nodes),
            "attributes": attributes([*zone_cpu_attributes(machine, zone), *told]),
            "resources": _resources(shown) if is_node_zone(zone) else None,
        }
        yield omit_empty(made)


def _costs(zone: Zone, nodes: list[Zone]) -> list[Object]:
    """Return the distances to the zones with CPUs: consumers take every name in costs for such a zone's."""
    known = ((zone_name(node), zone.distances.get(str(node.id))) for node in nodes)
    return [{"name": name, "value": distance} for name, distance in known if distance is not None]


def _resources(amounts: dict[str, Amount]) -> list[Object]:
    # strings, as the API machinery writes quantities, and since numbers of JSON lose bytes above 2^53
    return [
        {
            "name": resource,
            "capacity": str(amount.capacity),
            "allocatable": str(amount.allocatable),
            "available": str(amount.available),
        }
        for resource, amount in amounts.items()
    ]


def _of_node(one: _Used, placement: NumaPlacement | None) -> Iterator[tuple[str, object]]:
    if one.known:
        yield names.FREE_CPUS, one.usage.free_cpus
        yield names.MEMORY_GROUP, ",".join(map(str, one.usage.memory_group or (one.zone.id,)))
    yield names.PLACEMENT_VECTOR, placement.vectors.get(one.zone.id) if placement else None


def _of_memory(one: _Used, shown: dict[str, Amount]) -> Iterator[tuple[str, object]]:
    zone = one.zone
    if one.known:
        amounts = {resource: format_amount(amount) for resource, amount in shown.items() if any(amount)}
        yield names.AMOUNTS, names.write_pairs(amounts)
        yield names.FREE_CPUS, one.usage.free_cpus if zone.cpus else None
        yield names.MEMORY_GROUP, ",".join(map(str, one.usage.memory_group or (zone.id,)))
    yield "zonewise.dev/memory", zone.memory
    yield "zonewise.dev/medium", zone.medium or None
    yield "zonewise.dev/local-cpus", zone.local_cpus if zone.local_cpus else None
    yield "zonewise.dev/tier", zone.tier
    yield "zonewise.dev/device", zone.device or None
    for access in zone.accesses:
        if access.access_class == 0:
            yield "zonewise.dev/initiators", ",".join(map(str, access.initiators)) or None
            yield "zonewise.dev/read-bandwidth-mbps", access.read_bandwidth
            yield "zonewise.dev/read-latency-ns", access.read_latency
