"""The machine and its usage as a NodeResourceTopology object of topology.node.k8s.io/v1alpha2.

Consumers of the API (the scheduler plugin NodeResourceTopologyMatch, KAI, Volcano) read zones of the type "Node" named
"node-<id>" into a table of 64 entries. So zones of this type are exactly those with CPUs and an id below 64, and only
they have resources. Memory without CPUs, packages, L3 groups, GPUs and NICs are zones of other types that have only
attributes; consumers ignore them. Their allocatable amounts are in the attribute zonewise.dev/amounts.

Without a kubelet (`zonewise show -o nrt`) the usage is unknown. The API requires `allocatable` and `available` beside
`capacity`. They then repeat the amounts of an idle machine without reservations, and the attribute zonewise.dev/usage
is "unknown". Devices are not listed as resources then. Only a device plugin decides under which name and in how many
parts a GPU or a NIC is offered.

Two items are not written. Every consumer prefers the attributes to the deprecated topologyPolicies. scheduler-plugins
reads the annotation topology.node.k8s.io/fingerprint only if the attribute is missing.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from zonewise.objects.nrt_devices import gpu_zones, nic_zones, node_guids
from zonewise.objects.nrt_fields import is_node_zone, numa_zone_name, numa_zone_type, omit_empty
from zonewise.objects.nrt_processors import enclosing_package, l3_zones, package_zones, zone_cpu_attributes
from zonewise.usage.types import Amount, ZoneUsage
from zonewise.usage.zone_capacity import idle_amounts
from zonewise_common.k8s.cpuset import CpuSet
from zonewise_common.nrt import names
from zonewise_common.nrt.attributes import (
    write_amounts,
    write_attributes,
    write_pairs,
    write_shared_resource,
    write_zones,
)
from zonewise_common.nrt.holdings import NODE, write_holdings
from zonewise_common.nrt.zones import write_costs, write_resources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from zonewise.kubelet.types import KubeletConfig
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.model.zone import Zone
    from zonewise.objects.nrt_fields import Object
    from zonewise.usage.types import Usage
    from zonewise_common.nrt.numaplacement import NumaPlacement

API_VERSION = "topology.node.k8s.io/v1alpha2"
KIND = "NodeResourceTopology"


class NrtOptions(NamedTuple):
    """Options of the object."""

    exclude_resources: tuple[str, ...] = ()
    """Names or shell patterns of resources to leave out; nothing else changes."""
    fingerprint: str = names.EXCLUSIVE_PODS
    """The fingerprint method that all consumers read: names.EXCLUSIVE_PODS or names.ALL_PODS."""

    def shows(self, resource: str) -> bool:
        """Return whether a resource is shown."""
        return not any(fnmatchcase(resource, pattern) for pattern in self.exclude_resources)


def machine_to_nrt(
    machine: Machine,
    node_name: str,
    usage: Usage | None = None,
    config: KubeletConfig | None = None,
    *,
    options: NrtOptions = NrtOptions(),  # noqa: B008 -- immutable
    health: Mapping[str, str] | None = None,
) -> Object:
    """Return the object for a node of the given name; equal values give equal bytes.

    `health` is the health of faulty devices, by address or by "device/port".
    """
    placement = usage.placement if usage is not None else None
    holdings = write_holdings(usage.holdings, {zone.id: zone.cpus for zone in machine.zones}) if usage else {}
    entries = _zone_entries(machine, usage, holdings)
    empty = CpuSet(entry.zone.id for entry in entries if _is_empty(entry))
    pairs = [
        *machine_attributes(machine),
        (names.EMPTY_ZONES, empty or None),
        *usage_attributes(usage, options.fingerprint, options.shows),
        (names.HOLDINGS, holdings.get(NODE)),
        *config_attributes(config),
        (names.PLACEMENT_METADATA, placement.metadata if placement else None),
    ]
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": node_name},
        "attributes": write_attributes(pairs),
        "zones": [
            *_numa_zones(machine, [entry for entry in entries if not _is_empty(entry)], options, placement),
            *package_zones(machine),
            *l3_zones(machine),
            *gpu_zones(machine, health or {}),
            *nic_zones(machine, health or {}),
        ],
    }


class _ZoneEntry(NamedTuple):
    """A zone, with its usage."""

    zone: Zone
    usage: ZoneUsage
    known: bool
    holdings: str = ""


def _zone_entries(machine: Machine, usage: Usage | None, holdings: dict[int, str]) -> list[_ZoneEntry]:
    if usage is None:
        return [_ZoneEntry(zone, ZoneUsage(zone.id, idle_amounts(zone)), known=False) for zone in machine.zones]
    usage_by_zone = {zone_usage.zone: zone_usage for zone_usage in usage.zones}
    return [
        _ZoneEntry(zone, usage_by_zone.get(zone.id, ZoneUsage(zone.id, {})), known=True, holdings=holdings[zone.id])
        for zone in machine.zones
    ]


def _is_empty(entry: _ZoneEntry) -> bool:
    """Return whether a zone is a placeholder for memory that may be added: coherent GPUs have seven such zones each for
    MIG.
    """
    zone = entry.zone
    return zone.kind != "cpu" and zone.memory == 0 and not any(any(amount) for amount in entry.usage.amounts.values())


def _numa_zones(
    machine: Machine, zones: list[_ZoneEntry], options: NrtOptions, placement: NumaPlacement | None
) -> Iterator[Object]:
    ordered = sorted(zones, key=lambda entry: (not is_node_zone(entry.zone), entry.zone.kind, entry.zone.id))
    nodes = [entry.zone for entry in ordered if is_node_zone(entry.zone)]
    for entry in ordered:
        zone = entry.zone
        shown = {resource: amount for resource, amount in entry.usage.amounts.items() if options.shows(resource)}
        is_node = is_node_zone(zone)
        pairs = _node_zone_attributes(entry, placement) if is_node else _memory_zone_attributes(entry, shown)
        obj: Object = {
            "name": numa_zone_name(zone),
            "type": numa_zone_type(zone),
            "parent": enclosing_package(machine, zone.cpus),
            "costs": _costs(zone, nodes),
            "attributes": write_attributes([*zone_cpu_attributes(machine, zone), *pairs]),
            "resources": write_resources(shown) if is_node else None,
        }
        yield omit_empty(obj)


def _costs(zone: Zone, nodes: list[Zone]) -> list[Object]:
    """Return the distances to the zones with CPUs: consumers take every name in costs for such a zone."""
    known = ((numa_zone_name(node), zone.distances.get(str(node.id))) for node in nodes)
    return write_costs((name, distance) for name, distance in known if distance is not None)


def _node_zone_attributes(entry: _ZoneEntry, placement: NumaPlacement | None) -> Iterator[tuple[str, object]]:
    if entry.known:
        yield names.FREE_CPUS, entry.usage.free_cpus
        yield names.MEMORY_GROUP, write_zones(entry.usage.memory_group or (entry.zone.id,))
        yield names.HOLDINGS, entry.holdings
    yield names.PLACEMENT_VECTOR, placement.vectors.get(entry.zone.id) if placement else None


def _memory_zone_attributes(entry: _ZoneEntry, shown: dict[str, Amount]) -> Iterator[tuple[str, object]]:
    zone = entry.zone
    if entry.known:
        amounts = {resource: amount for resource, amount in shown.items() if any(amount)}
        yield names.AMOUNTS, write_amounts(amounts)
        yield names.FREE_CPUS, entry.usage.free_cpus if zone.cpus else None
        yield names.MEMORY_GROUP, write_zones(entry.usage.memory_group or (zone.id,))
        yield names.HOLDINGS, entry.holdings or None
    yield names.MEMORY, zone.memory
    yield names.MEDIUM, zone.medium or None
    yield names.LOCAL_CPUS, zone.local_cpus if zone.local_cpus else None
    yield names.TIER, zone.tier
    yield names.DEVICE, zone.device or None
    for access in zone.accesses:
        if access.access_class == 0:
            yield names.INITIATORS, write_zones(access.initiators) or None
            yield names.READ_BANDWIDTH, access.read_bandwidth
            yield names.READ_LATENCY, access.read_latency


Attribute = tuple[str, object]


def machine_attributes(machine: Machine) -> Iterator[Attribute]:
    """Yield attributes that do not depend on the kubelet."""
    yield names.PROBLEMS, len(machine.problems)
    yield names.NODE_GUIDS, node_guids(machine) or None
    if machine.cores:
        # pkg/kubelet/cm/cpumanager/topology/topology.go CPUsPerCore(), the divisor for requests with full-pcpus-only
        yield names.THREADS_PER_CORE, sum(len(core.cpus) for core in machine.cores) // len(machine.cores)
    if machine.architecture == "x86_64":
        # names and format are those of NFD's topology updater for hybrid x86 (after /sys/devices/cpu_core/cpus)
        known = {"performance": "cpu_core", "efficiency": "cpu_atom"}
        for kind in machine.core_kinds:
            if kind.kind in known:
                yield known[kind.kind], kind.cpus


def usage_attributes(usage: Usage | None, method: str, shown: Callable[[str], bool]) -> Iterator[Attribute]:
    """Yield the usage beyond zones. Every name is present even without a value, so that later changes are small."""
    yield names.USAGE, names.USAGE_UNKNOWN if usage is None else names.USAGE_KNOWN
    if usage is None:
        return
    signs = {names.ALL_PODS: usage.fingerprint_all, names.EXCLUSIVE_PODS: usage.fingerprint_exclusive}
    yield names.PODS_FINGERPRINT, signs[method]
    yield names.PODS_FINGERPRINT_METHOD, method
    yield from ((names.FINGERPRINTS[name], sign) for name, sign in signs.items())
    yield names.RESERVED_CPUS, usage.reserved_cpus
    yield names.UNZONED_DEVICES, write_amounts({name: amount for name, amount in _unzoned(usage) if shown(name)})
    for name, group in ((names.SHARED_DEVICES, usage.shared), (names.ABSENT_ZONE_DEVICES, usage.absent)):
        amounts = {write_shared_resource(*devices[:2]): devices.amount for devices in group if shown(devices.resource)}
        yield name, write_amounts(amounts) or None
    excluded = {write_shared_resource(*amount[:2]): amount.size for amount in usage.excluded if shown(amount.resource)}
    yield names.EXCLUDED, write_pairs(excluded) or None
    assigned = usage.memory_assigned
    yield names.MEMORY_ASSIGNED, CpuSet(assigned) if assigned is not None else None
    yield names.CLAIMED_DEVICES, write_pairs(usage.claimed)


def _unzoned(usage: Usage) -> Iterator[tuple[str, Amount]]:
    """Yield the devices whose plugins name no zone; a resource without healthy devices has zero amounts."""
    for resource, amount in usage.unzoned.items():
        absent = [devices.amount for devices in usage.absent if devices.resource == resource]
        remaining = Amount(*(size - sum(sizes) for size, *sizes in zip(amount, *absent, strict=True)))
        if remaining.capacity or not absent:
            yield resource, remaining


def config_attributes(config: KubeletConfig | None) -> Iterator[Attribute]:
    """Yield the policies that affect zones, with the kubelet's defaults filled in."""
    if config is None:
        return
    yield names.TOPOLOGY_MANAGER_POLICY, config.topology_manager_policy
    yield names.TOPOLOGY_MANAGER_SCOPE, config.topology_manager_scope
    yield names.TOPOLOGY_MANAGER_MAX_NUMA_NODES, config.max_allowable_numa_nodes()
    yield names.TOPOLOGY_MANAGER_OPTIONS, write_pairs(dict(config.topology_manager_options)) or None
    yield names.CPU_MANAGER_POLICY, config.cpu_manager_policy
    yield names.CPU_MANAGER_OPTIONS, write_pairs(dict(config.cpu_manager_options)) or None
    yield names.MEMORY_MANAGER_POLICY, config.memory_manager_policy
    gates = {name: str(on).lower() for name, on in config.feature_gates if name in names.DECISIVE_GATES}
    yield names.FEATURE_GATES, write_pairs(gates) or None
