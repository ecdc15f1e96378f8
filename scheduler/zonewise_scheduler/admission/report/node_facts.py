"""Facts of a v1.Node that its report lacks: the release of the kubelet, and devices that are unhealthy.

Both change without a new report. PodResources has healthy devices only, so the report lacks the other ones. The
kubelet counts them in the hints (devicemanager/topology_hints.go generateDeviceTopologyHints), and in the node's
capacity (devicemanager/manager.go GetCapacity). Their number is thereby known, and their zones are not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.admission.node import DeviceClass
from zonewise_scheduler.admission.topologymanager.bitmask import zone_set

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeKind, NodeState
    from zonewise_scheduler.admission.pod import Amounts
    from zonewise_scheduler.admission.report.interning import KindInterner

_MOST_UNPLACED = 1024
"""Devices of a resource that are placed one by one; with more, the capacity is not that of devices."""


class NodeFacts(NamedTuple):
    """What a v1.Node tells of its kubelet."""

    release: tuple[int, int]
    device_capacity: Amounts = ()
    """Devices by resource, unhealthy ones included, sorted by name."""


def with_node_facts(state: NodeState, facts: NodeFacts, interner: KindInterner) -> NodeState:
    """Return the state of a report under the facts of its node.

    Unhealthy devices count near the likeliest zones, and the kind lists them as unplaced. Machines are symmetric, so
    the likeliest zones are those with fewer devices than others. Reports of other agents have no count of devices by
    zone that is exact, and are left alone.
    """
    kind = state.kind
    policies = kind.policies._replace(release=facts.release)
    additions = _unplaced(kind, facts.device_capacity) if kind.cpus.exact else {}
    if policies == kind.policies and not additions:
        return state
    devices = tuple(device._replace(total=device.total + additions.get(device[:2], 0)) for device in kind.devices)
    known = {device[:2] for device in devices}
    added = [DeviceClass(*key, number, 0) for key, number in additions.items() if key not in known]
    classes = sorted((*devices, *added))
    free = dict(zip((device[:2] for device in kind.devices), state.device_free, strict=True))
    adapted = replace(
        kind,
        policies=policies,
        devices=interner.intern(tuple(classes)),
        unplaced_devices=tuple(
            (index, additions[device[:2]]) for index, device in enumerate(classes) if device[:2] in additions
        ),
    )
    return state._replace(
        kind=interner.intern_kind(adapted),
        device_free=interner.intern(tuple(free.get(each[:2], 0) for each in classes)),
    )


def _unplaced(kind: NodeKind, capacity: Amounts) -> dict[tuple[str, int], int]:
    """Return how many unhealthy devices count near which zones, by resource and zones."""
    additions: dict[tuple[str, int], int] = {}
    for resource, count in capacity:
        indices = kind.device_indices.get(resource, ())
        totals = {kind.devices[index].zones: kind.devices[index].total for index in indices}
        missing = count - sum(totals.values())
        if missing > _MOST_UNPLACED or not any(totals.values()):
            continue
        for _ in range(missing):
            zones = _likeliest(kind, totals)
            totals[zones] = totals.get(zones, 0) + 1
            additions[resource, zones] = additions.get((resource, zones), 0) + 1
    return additions


def _likeliest(kind: NodeKind, totals: dict[int, int]) -> int:
    """Return the zones of one more device: those with fewest, of those that have any or, then, of all with CPUs."""
    most = max(totals.values())
    fewest = min(totals, key=lambda zones: (totals[zones], zones))
    if totals[fewest] < most:
        return fewest
    known = zone_set(kind.zones)
    others = [1 << zone for zone, _ in kind.cpus.zones if not any(zones >> zone & 1 for zones in totals)]
    has_zones = any(zones & known for zones in totals)
    return others[0] if others and has_zones else fewest
