"""Memory types that only init containers and sidecars of a whole pod request (scope pod).

The kubelet uses only the types of the app containers to align a pod (getPodRequestedResources). The other types are
then allocated from the same zones:

1. If the zone also has these types, the kubelet admits the pod.
2. If the zone lacks them for a container, the Memory Manager extends the zone to a set of several (Allocate). The hint
   was preferred, so the extended hint must be preferred too. It is not if the total of some zone could hold the
   container's memory.
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

    `zones`: the zone of each of these rows; -1 if the pod is aligned to several.
    """
    if view.layout.has_uneven_distances:  # a zone other than the lowest may be preferred
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
