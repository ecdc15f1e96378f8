"""How many devices of DeviceClasses each node provides at most, according to the ResourceSlices.

A pod requests devices of a class through a claim. On nodes without a device plugin, the class may also provide an
extended resource (KEP-5004). In both cases, kube-scheduler allocates devices of ResourceSlices. Their number bounds the
pods on the node:

| what kube-scheduler considers | here |
|---|---|
| CEL selectors of the class | their readable part (device_selectors.py) |
| node selection of slices and devices | exact; devices that several nodes can use count for each |
| generation of a pool | the newest with devices for the node |
| taints of devices | those of ResourceSlices; only claims can tolerate them |
| counters that devices share | each counter of a set limits the devices that take from it |
| devices that several claims share | unlimited |
| incomplete and invalid pools, taint rules | not considered |
| devices that claims hold | the caller names them; not considered if several nodes can use their slice |

So a node never counts too few devices, and may count too many.

Source: structured/internal/incubating allocator_incubating.go, pools_incubating.go; plugins/dynamicresources
extendeddynamicresources.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from zonewise_common.k8s.fields import object_in, quantities_in
from zonewise_common.k8s.quantity import parse_milli_value
from zonewise_scheduler.nodes.devices.class_resource import DEVICE_CLASS
from zonewise_scheduler.nodes.devices.device_selectors import device_requirements

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from zonewise_common.k8s.tolerant import Json
    from zonewise_scheduler.nodes.devices.device_selectors import DeviceRequirement
    from zonewise_scheduler.nodes.devices.resource_slices import CounterSet, Device, ResourceSlice, SliceContent

PoolKey = tuple[str, str]
"""Driver and name of a pool."""
UNLIMITED = 1 << 40
"""Number of devices of a node with a device that any number of claims can share."""

_NO_NAMES: Collection[str] = ()
Held: TypeAlias = "Mapping[PoolKey, Collection[str]]"
"""The devices that claims hold, by pool."""
_NONE_HELD: Held = {}


class DeviceResource(NamedTuple):
    """A resource that counts the devices of a DeviceClass: its own name with a prefix, or its extended resource."""

    name: str
    device_class: str
    requirements: tuple[DeviceRequirement, ...] = ()
    """Necessary conditions on its devices."""
    tolerant: bool = False
    """Whether requests may tolerate taints of devices."""


def device_resources(classes: Iterable[Json]) -> tuple[DeviceResource, ...]:
    """Return the resources of DeviceClasses, sorted by name.

    Of several classes for one extended resource, the newest counts, and of equally new ones the first by name
    (extendedresourcecache.go updateResourceName2class).
    """
    resources: dict[str, DeviceResource] = {}
    by_age = sorted(classes, key=lambda obj: obj["metadata"]["name"], reverse=True)
    for obj in sorted(by_age, key=lambda obj: str(obj["metadata"].get("creationTimestamp", ""))):
        spec: Json = obj.get("spec") or {}
        cels: list[Json] = [each.get("cel") or {} for each in spec.get("selectors") or ()]
        requirements = device_requirements(str(cel.get("expression", "")) for cel in cels)
        device_class: str = obj["metadata"]["name"]
        own_name = f"{DEVICE_CLASS}{device_class}"
        resources[own_name] = DeviceResource(own_name, device_class, requirements, tolerant=True)
        if extended := spec.get("extendedResourceName"):
            resources[extended] = DeviceResource(extended, device_class, requirements)
    return tuple(resources[name] for name in sorted(resources))


class ProvidedDevices:
    """The ResourceSlices of all nodes, and the devices of DeviceClasses in them. See the module docstring."""

    def __init__(self) -> None:
        self.resources: tuple[DeviceResource, ...] = ()
        self._listed = False
        self._slices: dict[str, ResourceSlice] = {}
        self._pools: dict[PoolKey, dict[str, ResourceSlice]] = {}
        """Slices by driver and pool, then by name."""
        self._of_node: dict[str, set[str]] = {}
        """Names of the slices whose devices select nodes by name, by node."""
        self._shared: set[str] = set()
        """Names of the other slices."""

    def set_resources(self, resources: tuple[DeviceResource, ...]) -> bool:
        """Set the resources of all DeviceClasses; return whether the devices of nodes may have changed."""
        changed = self.resources != resources
        self.resources = resources
        return changed

    def end_listing(self) -> bool:
        """Record that all slices have been observed; return whether the devices of nodes may have changed.

        Until then, and without the permission to list slices, no node has devices.
        """
        changed, self._listed = not self._listed, True
        return changed

    def observe_slice(self, name: str, new: ResourceSlice | None) -> set[str] | None:
        """Record a slice; None: it was deleted. Return the nodes whose devices may have changed; None: any node."""
        old = self._slices.pop(name, None)
        if old is not None:
            pool = self._pools[old.driver, old.pool]
            del pool[name]
            if not pool:
                del self._pools[old.driver, old.pool]
            self._shared.discard(name)
            for node in old.nodes or ():
                self._of_node[node].discard(name)
                if not self._of_node[node]:
                    del self._of_node[node]
        if new is not None:
            self._slices[name] = new
            self._pools.setdefault((new.driver, new.pool), {})[name] = new
            if new.nodes is None:
                self._shared.add(name)
            for node in new.nodes or ():
                self._of_node.setdefault(node, set()).add(name)
        return self._affected([each for each in (old, new) if each is not None])

    def _affected(self, changed: list[ResourceSlice]) -> set[str] | None:
        """Return the nodes whose devices depend on slices: those of their pools if they contain counters; None: any."""
        for each in [each for each in changed if each.has_counters]:
            changed += self._pools.get((each.driver, each.pool), {}).values()
        affected: set[str] = set()
        for each in changed:
            if each.nodes is None:
                return None
            affected |= each.nodes
        return affected

    def nodes_of(self, pool: PoolKey) -> set[str]:
        """Return the nodes whose devices change if claims hold other devices of a pool."""
        return {node for each in self._pools.get(pool, {}).values() for node in each.nodes or ()}

    def may_provide(self, node: str) -> bool:
        """Return whether a node may have devices: all slices are known, and some of them may be for the node."""
        return bool(self._listed and self.resources and (self._shared or node in self._of_node))

    def counts(self, node: str, labels: Mapping[str, str], held: Held = _NONE_HELD) -> dict[str, int]:
        """Return the number of devices of each resource on a node, without those that claims hold.

        Raises ValueError for a slice that no API server accepts.
        """
        names = self._of_node.get(node, set()) | self._shared
        counts = dict.fromkeys((resource.name for resource in self.resources), 0)
        pools = {(each.driver, each.pool) for each in map(self._slices.__getitem__, names)}
        for pool in sorted(pools):
            named = [each for name, each in self._pools[pool].items() if each.has_counters or name in names]
            slices = [_UsedSlice(each, held.get(pool, _NO_NAMES) if each.nodes else _NO_NAMES) for each in named]
            usable = [(each.slice.generation, each.devices_of(node, labels)) for each in slices]
            newest = max((generation for generation, devices in usable if devices), default=0)
            current = [each for each in slices if each.slice.generation == newest]
            taken = {each.name: each for used in current for each in used.held_devices()}
            devices = [
                device
                for generation, each in usable
                for device in each
                if generation == newest and (device.name not in taken or device.allow_multiple_allocations)
            ]
            counters = _available(
                (each for used in current for each in used.content.shared_counters), list(taken.values())
            )
            for resource in self.resources:
                matching = [device for device in devices if _may_match(device, pool[0], resource)]
                counts[resource.name] += _max_devices(matching, counters)
        return counts


def with_devices(node: Json, counts: Mapping[str, int]) -> Json:
    """Return a v1.Node whose allocatable contains devices, for resources that it has none of. Raises ValueError.

    The same node is returned if nothing is added.
    """
    status = object_in(node, "status", "")
    allocatable = quantities_in(status, "allocatable", "status.")
    added = {name: str(count) for name, count in counts.items() if count and not allocatable.get(name)}
    if not added:
        return node
    return {**node, "status": {**status, "allocatable": {**object_in(status, "allocatable", "status."), **added}}}


class _UsedSlice(NamedTuple):
    """A slice, and the names of the devices of its pool that claims hold."""

    slice: ResourceSlice
    held: Collection[str]

    @property
    def content(self) -> SliceContent:
        return self.slice.content

    def devices_of(self, node: str, labels: Mapping[str, str]) -> list[Device]:
        content = self.content
        if content.per_device_node_selection:
            return [device for device in content.devices if device.selects(node, labels)]
        return content.devices if content.selects(node, labels) else []

    def held_devices(self) -> list[Device]:
        return [device for device in self.content.devices if device.name in self.held] if self.held else []


def _may_match(device: Device, driver: str, resource: DeviceResource) -> bool:
    if device.is_tainted and not resource.tolerant:
        return False
    return all(each.allows(driver, device.attributes) for each in resource.requirements)


_Counters = dict[str, dict[str, int]]
"""Amounts by counter set and counter, in thousandths."""


def _available(counter_sets: Iterable[CounterSet], taken: Sequence[Device]) -> _Counters:
    """Return the capacity of counters less what allocated devices take (checkAvailableCounters)."""
    available: _Counters = {
        each.name: {name: parse_milli_value(counter.value) for name, counter in each.counters.items()}
        for each in counter_sets
    }
    for consumed in (each for device in taken for each in device.consumes_counters):
        counters = available.get(consumed.counter_set, {})
        for name in counters:
            counters[name] -= _amount(consumed, name)
    return available


def _max_devices(devices: Sequence[Device], available: _Counters) -> int:
    """Return the maximum number of devices of a pool that can be allocated at the same time."""
    if any(device.allow_multiple_allocations for device in devices):
        return UNLIMITED
    by_set: dict[str, list[CounterSet]] = {}
    for device in devices:
        for consumed in device.consumes_counters[:1]:  # those of further sets would only lower the maximum
            by_set.setdefault(consumed.counter_set, []).append(consumed)
    count = sum(not device.consumes_counters for device in devices)
    for name, consumers in by_set.items():
        limits = [len(consumers)]
        for counter, capacity in available.get(name, {}).items():
            least = min(_amount(each, counter) for each in consumers)
            if least:
                limits.append(max(0, capacity) // least)
        count += min(limits)
    return count


def _amount(consumed: CounterSet, counter: str) -> int:
    """Return what a device takes of a counter, in thousandths."""
    entry = consumed.counters.get(counter)
    return 0 if entry is None else parse_milli_value(entry.value)
