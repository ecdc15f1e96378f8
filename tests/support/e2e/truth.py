"""The free resources of each zone by the kubelet's own files, computed as plainly as possible, without the project's
code.

They are true only while no file has an entry of a deleted pod: the kubelet removes these at the next admission.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from support.e2e.node import Node


class Stock(NamedTuple):
    """One resource in one zone: CPUs, bytes or devices."""

    allocatable: int
    available: int


Truth = dict[int, dict[str, Stock]]
"""By zone and resource, without resources that the kubelet does not allocate by zone."""


def truth(node: Node) -> Truth:
    """Return the truth from the kubelet's files."""
    made: Truth = {zone: {} for zone in node.hardware.ids}
    _add_cpus(made, node, _file(node, "cpu_manager_state"))
    _add_memory(made, _file(node, "memory_manager_state"))
    _add_devices(made, node, _file(node, "device-plugins/kubelet_internal_checkpoint"))
    return made


def unzoned(node: Node) -> dict[str, Stock]:
    """Return the devices without a zone from the kubelet's checkpoint of devices."""
    taken = _taken(_file(node, "device-plugins/kubelet_internal_checkpoint"))
    made: dict[str, Stock] = {}
    for plugin in node.plugins:
        ids = {device.id for device in plugin.devices if device.healthy and not _zones(device.zones)}
        if ids:
            made[plugin.resource] = Stock(len(ids), len(ids - taken[plugin.resource]))
    return made


def _add_cpus(made: Truth, node: Node, state: Any) -> None:
    if state.get("policyName") != "static":
        return
    pool, reserved = _numbers(state["defaultCpuSet"]), _numbers(node.settings.reserved_cpus)
    for zone in made:
        held = set(node.hardware.cpus(zone))
        made[zone]["cpu"] = Stock(len(held - reserved), len(held & pool - reserved))


def _add_memory(made: Truth, state: Any) -> None:
    for zone, content in state.get("machineState", {}).items():
        for kind, table in content["memoryMap"].items():
            made[int(zone)][kind] = Stock(table["allocatable"], table["free"])


def _add_devices(made: Truth, node: Node, checkpoint: Any) -> None:
    taken = _taken(checkpoint)
    for plugin in node.plugins:
        counts: dict[bool, Counter[int]] = {True: Counter(), False: Counter()}
        for device in plugin.devices:
            for zone in _zones(device.zones) if device.healthy else ():
                counts[device.id in taken[plugin.resource]][zone] += 1
        for zone in made.keys() & (counts[True] + counts[False]).keys():
            made[zone][plugin.resource] = Stock(counts[True][zone] + counts[False][zone], counts[False][zone])


def _taken(checkpoint: Any) -> defaultdict[str, set[str]]:
    taken: defaultdict[str, set[str]] = defaultdict(set)
    entries: list[dict[str, Any]] = checkpoint.get("Data", {}).get("PodDeviceEntries") or []
    for entry in entries:
        taken[entry["ResourceName"]].update(name for names in entry["DeviceIDs"].values() for name in names)
    return taken


def _zones(zones: tuple[int, ...] | None) -> tuple[int, ...]:
    return tuple(zone for zone in zones or () if zone >= 0)


def _numbers(text: str) -> set[int]:
    parts = [part.split("-") for part in text.split(",") if part]
    return {number for part in parts for number in range(int(part[0]), int(part[-1]) + 1)}


def _file(node: Node, name: str) -> Any:
    """Return a file of the kubelet; an empty object if the kubelet has not written it yet."""
    file = node.kubelet.directory / name
    return json.loads(file.read_text()) if file.exists() else {}
