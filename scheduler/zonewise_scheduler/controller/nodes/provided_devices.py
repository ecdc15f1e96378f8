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
| devices that are allocated through claims | not considered |

So a node never counts too few devices, and may count too many.

Source: structured/internal/incubating allocator_incubating.go, pools_incubating.go; plugins/dynamicresources
extendeddynamicresources.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from zonewise_common.k8s.fields import object_in, quantities_in
from zonewise_common.k8s.quantity import parse_milli_value
from zonewise_scheduler.controller.nodes.device_selectors import device_requirements
from zonewise_scheduler.nodes.node.pod_requests import DEVICE_CLASS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set

    from zonewise_scheduler.controller.nodes.device_selectors import DeviceRequirement
    from zonewise_scheduler.controller.nodes.resource_slices import CounterSet, Device, ResourceSlice, SliceContent
    from zonewise_scheduler.controller.nodes.types import TrackedNode
    from zonewise_scheduler.controller.types import Json

UNLIMITED = 1 << 40
"""Number of devices of a node with a device that any number of claims can share."""


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
        self._pools: dict[tuple[str, str], dict[str, ResourceSlice]] = {}
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

    def with_devices(self, node: TrackedNode) -> TrackedNode:
        """Return a node whose allocatable contains the devices that it provides, for resources that it has none of.

        An invalid amount or selector in its slices leaves the node as it is.
        """
        if not self._slices or not self._listed or not self.resources:
            return node
        names = self._of_node.get(node.name, set()) | self._shared
        if not names:
            return node
        obj: Json = msgspec.json.decode(node.content)
        status: Json = obj["status"]
        try:
            allocatable = quantities_in(status, "allocatable", "status.")
            counts = self._counts(node.name, object_in(obj["metadata"], "labels", "metadata."), names)
        except ValueError:  # the API server accepts no such slice
            return node
        added = {name: str(count) for name, count in counts.items() if count and not allocatable.get(name)}
        if not added:
            return node
        status["allocatable"] = {**status["allocatable"], **added}
        return node._replace(content=msgspec.json.encode(obj).decode())

    def _counts(self, node: str, labels: Mapping[str, str], names: Set[str]) -> dict[str, int]:
        """Return the number of devices of each resource on a node. Raises ValueError for invalid slices."""
        counts = dict.fromkeys((resource.name for resource in self.resources), 0)
        pools = {(each.driver, each.pool) for each in map(self._slices.__getitem__, names)}
        for driver, pool in sorted(pools):
            named = [each for name, each in self._pools[driver, pool].items() if each.has_counters or name in names]
            slices = [(each.generation, each.content) for each in named]
            usable = [(generation, _devices_of_node(content, node, labels)) for generation, content in slices]
            newest = max((generation for generation, devices in usable if devices), default=0)
            devices = [device for generation, each in usable if generation == newest for device in each]
            counters = [
                each for generation, content in slices if generation == newest for each in content.shared_counters
            ]
            for resource in self.resources:
                matching = [device for device in devices if _may_match(device, driver, resource)]
                counts[resource.name] += _max_devices(matching, counters)
        return counts


def _devices_of_node(content: SliceContent, node: str, labels: Mapping[str, str]) -> list[Device]:
    if content.per_device_node_selection:
        return [device for device in content.devices if device.selects(node, labels)]
    return content.devices if content.selects(node, labels) else []


def _may_match(device: Device, driver: str, resource: DeviceResource) -> bool:
    if device.is_tainted and not resource.tolerant:
        return False
    return all(each.allows(driver, device.attributes) for each in resource.requirements)


def _max_devices(devices: Sequence[Device], counter_sets: Iterable[CounterSet]) -> int:
    """Return the maximum number of devices of a pool that can be allocated at the same time."""
    if any(device.allow_multiple_allocations for device in devices):
        return UNLIMITED
    capacities = {each.name: each.counters for each in counter_sets}
    by_set: dict[str, list[CounterSet]] = {}
    for device in devices:
        for consumed in device.consumes_counters[:1]:  # those of further sets would only lower the maximum
            by_set.setdefault(consumed.counter_set, []).append(consumed)
    count = sum(not device.consumes_counters for device in devices)
    for name, consumers in by_set.items():
        limits = [len(consumers)]
        for counter, capacity in capacities.get(name, {}).items():
            least = min(_amount(each, counter) for each in consumers)
            if least:
                limits.append(parse_milli_value(capacity.value) // least)
        count += min(limits)
    return count


def _amount(consumed: CounterSet, counter: str) -> int:
    """Return what a device takes of a counter, in thousandths."""
    entry = consumed.counters.get(counter)
    return 0 if entry is None else parse_milli_value(entry.value)
