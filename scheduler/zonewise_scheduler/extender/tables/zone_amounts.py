"""Free amounts in the zones of all nodes: what the largest pods may request, and how scattered the rest is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.nodes.arrays.layout import CPU, ZoneLocality

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.nodes.arrays.array_view import ArrayView
    from zonewise_scheduler.nodes.arrays.layout import Layout


class ZoneAmount(NamedTuple):
    """Free amounts of one resource, in CPUs, bytes or devices."""

    largest: int
    """Largest amount in one zone of any node."""
    in_largest: int
    """Sum over all nodes of the amount in the zone with the most."""
    total: int
    """Sum over all zones of all nodes."""

    @property
    def largest_ratio(self) -> float | None:
        """Return the fraction of the free amount that is in the largest zones, or None if nothing is free.

        At 1, all that a node has free is in one zone; towards 0, it is scattered.
        """
        return self.in_largest / self.total if self.total else None


def free_by_zone(views: Iterable[ArrayView]) -> dict[str, ZoneAmount]:
    """Return the free amounts by resource, without resources that belong to no zone."""
    amounts: dict[str, ZoneAmount] = {}
    for view in views:
        for index, resource in enumerate(_resources(view.layout)):
            if view.layout.localities[index] is ZoneLocality.ANYWHERE:
                continue
            largest = np.maximum(view.free[index].max(axis=0), 0)  # less than 0 in zones that allocate only together
            before = amounts.get(resource, ZoneAmount(0, 0, 0))
            amounts[resource] = ZoneAmount(
                max(before.largest, int(largest.max(initial=0))),
                before.in_largest + int(largest.sum()),
                before.total + int(np.maximum(view.node_free[index], largest).sum()),
            )
    return amounts


def _resources(layout: Layout) -> list[str]:
    """Return the resources in the order of the first axis."""
    names = {CPU: "cpu"} | {index: name for name, index in (layout.memory_index | layout.device_index).items()}
    return [names[index] for index in range(layout.resource_count)]
