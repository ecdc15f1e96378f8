"""How close to each other the parts of a pod will be, as far as zones tell: GPUs, NICs, CPUs and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.fit.score.remains import BEST

if TYPE_CHECKING:
    from zonewise_scheduler.fit.batch.asks import Asks
    from zonewise_scheduler.fit.batch.place import Placed
    from zonewise_scheduler.fit.batch.types import I64
    from zonewise_scheduler.fit.batch.view import View


def closeness(view: View, asked: Asks, placed: Placed, rows: I64) -> I64:
    """Return a score of some rows: 100 where each step gets all from one zone, else 100 by the number of zones.

    Where a kubelet matches nothing to zones, or arrays do not foretell the zones, all zones of the node share. The mean
    of the steps; best-effort too takes one zone where one has all, so the steps of such pods are tried on the zones.
    """
    alone = BEST // view.zones
    total = np.zeros(rows.size, np.int64)
    for number, step in enumerate(asked.steps):
        if step.hinted == step.whole:
            total += np.where(placed.zones[number][rows] >= 0, BEST, alone)
        elif view.layout.policies.topology == "best-effort":
            together = np.ones((view.zones, rows.size), np.bool_)
            for index, amount in step.whole:
                together &= view.free[index][:, rows] >= amount
            total += np.where(together.any(axis=0), BEST, alone)
        else:
            total += alone
    return total // len(asked.steps)
