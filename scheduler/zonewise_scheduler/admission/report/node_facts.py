"""Facts from a v1.Node that the node's report lacks: the kubelet's release and the unhealthy devices.

Both can change without a new report. PodResources lists only healthy devices, so the report lacks unhealthy ones. The
kubelet counts unhealthy devices in the hints (devicemanager/topology_hints.go generateDeviceTopologyHints) and in the
node's capacity (devicemanager/manager.go GetCapacity). So their number is known, but their zones are not.
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
"""Maximum number of unhealthy devices of a resource; if there are more, the capacity is not a count of devices."""


class NodeFacts(NamedTuple):
    """Facts about a kubelet from its v1.Node."""

    release: tuple[int, int]
    device_capacity: Amounts = ()
    """Number of devices by resource, including unhealthy ones, sorted by name."""


def with_node_facts(state: NodeState, facts: NodeFacts, interner: KindInterner) -> NodeState:
    """Return the state from a report, corrected with the facts from its node.

    Unhealthy devices are counted near the likeliest zones, and the kind lists them as unplaced. Since machines are
    symmetric, the likeliest zones are those with fewer devices than others. Reports from other agents have no exact
    counts of devices by zone, so no devices are added to them.
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
    """Return the number of unhealthy devices to count, by resource and zones."""
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
    """Return the likeliest zones of one more device: those with the fewest devices.

    If all of them have equally many, it is the first zone with CPUs that is near no device, if there is one.
    """
    most = max(totals.values())
    fewest = min(totals, key=lambda zones: (totals[zones], zones))
    if totals[fewest] < most:
        return fewest
    known = zone_set(kind.zones)
    others = [1 << zone for zone, _ in kind.cpus.zones if not any(zones >> zone & 1 for zones in totals)]
    has_zones = any(zones & known for zones in totals)
    return others[0] if others and has_zones else fewest
