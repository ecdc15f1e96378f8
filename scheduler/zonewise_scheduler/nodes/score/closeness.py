"""How close to each other the parts of a pod will be, as far as zones tell: GPUs, NICs, CPUs and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.nodes.score.fragmentation import MAX_NODE_SCORE

if TYPE_CHECKING:
    from zonewise_scheduler.nodes.arrays.alignment_request import AlignmentRequest
    from zonewise_scheduler.nodes.arrays.array_view import ArrayView
    from zonewise_scheduler.nodes.arrays.types import I64
    from zonewise_scheduler.nodes.arrays.zone_fit import ZoneFit


def closeness(view: ArrayView, request: AlignmentRequest, zone_fit: ZoneFit, rows: I64) -> I64:
    """Return a score of some rows: 100 where each step gets all from one zone, else 100 by the number of zones.

    Where a kubelet matches nothing to zones, or arrays do not foretell the zones, all zones of the node share. The mean
    of the steps; best-effort too takes one zone where one has all, so the steps of such pods are tried on the zones.
    """
    alone = MAX_NODE_SCORE // view.zones
    total = np.zeros(rows.size, np.int64)
    for number, step in enumerate(request.steps):
        if step.hinted == step.amounts:
            total += np.where(zone_fit.zones[number][rows] >= 0, MAX_NODE_SCORE, alone)
        elif view.layout.policies.topology == "best-effort":
            together = np.ones((view.zones, rows.size), np.bool_)
            for index, amount in step.amounts:
                together &= view.free[index][:, rows] >= amount
            total += np.where(together.any(axis=0), MAX_NODE_SCORE, alone)
        else:
            total += alone
    return total // len(request.steps)
