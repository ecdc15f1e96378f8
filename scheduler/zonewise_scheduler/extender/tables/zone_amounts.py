"""How much the zones of all nodes have free: what the largest pods may request, and how scattered the rest is."""

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
    """In one zone of any node."""
    in_largest: int
    """In the largest free zone of each node, summed up."""
    total: int
    """In all zones of all nodes."""

    @property
    def largest_ratio(self) -> float | None:
        """Return the part of the free amount in the largest zones; None where nothing is free.

        1: each node has it all in one zone; towards 0: it is scattered.
        """
        return self.in_largest / self.total if self.total else None


def free_by_zone(views: Iterable[ArrayView]) -> dict[str, ZoneAmount]:
    """Return the free amounts by resource; a resource that belongs to no zone is left out."""
    amounts: dict[str, ZoneAmount] = {}
    for view in views:
        for index, resource in enumerate(_resources(view.layout)):
            if view.layout.localities[index] is ZoneLocality.ANYWHERE:
                continue
            largest = np.maximum(view.free[index].max(axis=0), 0)  # less than 0 in zones that allocate together only
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
