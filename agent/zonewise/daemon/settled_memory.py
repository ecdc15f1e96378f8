"""The memory of zones, without intermediate sizes while a kernel initializes it.

Such a kernel raises a node's MemTotal for up to an hour after the start. Each step would cause a write to the API
server. The kubelet itself reads the sizes once, at its start (cadvisor machine/info.go).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zonewise.machine.model.machine import Machine


class SettledMemory:
    """Shows a new size of a zone once two scans in a row have read it."""

    def __init__(self) -> None:
        self._last: dict[int, int | None] = {}
        self._settled: dict[int, int | None] = {}

    def apply(self, machine: Machine) -> Machine:
        """Return a machine with the settled sizes of its zones; the first size of a zone counts at once."""
        sizes = {zone.id: zone.memory for zone in machine.zones}
        self._settled = {
            zone: size if size == self._last.get(zone, size) else self._settled.get(zone, size)
            for zone, size in sizes.items()
        }
        self._last = sizes
        if self._settled == sizes:
            return machine
        return machine._replace(zones=tuple(zone._replace(memory=self._settled[zone.id]) for zone in machine.zones))
