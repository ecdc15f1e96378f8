"""Memory types that only init containers and sidecars of a whole pod request (scope pod).

The kubelet aligns a pod by the types of its app containers (getPodRequestedResources). The other types are then
allocated from the same zones:

1. If the zone has them too, the kubelet admits the pod.
2. If it lacks them for a container, the Memory Manager extends the zone to a set of several (Allocate). The hint was
   preferred, so the extended one must be. It is not if some zone could have the container's memory at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from zonewise_scheduler.nodes.arrays.alignment_request import AlignmentStep
    from zonewise_scheduler.nodes.arrays.array_view import ArrayView
    from zonewise_scheduler.nodes.arrays.types import I8, I64, Bools


def unhinted_memory_rows(view: ArrayView, step: AlignmentStep, rows: I64, zones: I8) -> tuple[Bools, Bools]:
    """Return which of some rows have the unhinted memory in their zone, and which the arrays cannot decide.

    `zones`: of these rows; -1 where the pod is aligned to several.
    """
    if view.layout.has_uneven_distances:  # another zone than the lowest may be preferred
        return np.zeros(rows.size, np.bool_), np.ones(rows.size, np.bool_)
    fits: Bools = zones >= 0
    unclear = ~fits
    cells = view.flat_indices(zones, rows)
    for index, amount in step.unhinted_memory:
        fits &= view.free_at(index, cells) >= amount
    for container in step.own_memory:
        totals = [view.total[index].take(rows, axis=1) >= amount for index, amount in container.hinted]
        unclear |= ~fits & ~np.logical_and.reduce(totals).any(axis=0)
    return fits, unclear
