"""How many pods of one shape a node takes, one after another, and how they fill its zones.

The kubelet chooses the zones, not the scheduler: of those that have room for a pod the lowest, and so the lowest until
it is full (pkg/kubelet/cm/topologymanager/policy.go). So pods are together in one zone only where the first zone with
room for one of them has room for all.

A node whose kubelet keeps pods to no zone (policy none or best-effort) is one zone, and so is every node for pods that
are given nothing exclusively.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.fit.batch.asks import asks
from zonewise_scheduler.fit.batch.copies import UNCLEAR, is_repeatable, zone_copies
from zonewise_scheduler.fit.batch.layout import Nature
from zonewise_scheduler.fit.batch.place import is_strict
from zonewise_scheduler.fit.kubelet.admit import admit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zonewise_scheduler.fit.batch.asks import Asks, Wanted
    from zonewise_scheduler.fit.batch.block import At
    from zonewise_scheduler.fit.batch.layout import Layout
    from zonewise_scheduler.fit.batch.table import Table
    from zonewise_scheduler.fit.batch.view import View
    from zonewise_scheduler.fit.model.node import NodeKind, NodeState
    from zonewise_scheduler.fit.model.pod import PodShape
    from zonewise_scheduler.fit.model.verdict import Verdict

ANYWHERE, TOGETHER = 0, -1
"""Whatever zones, or all in one; any other number: so many pods at a time are in one zone."""

MOST = np.iinfo(np.int32).max
"""More pods than there are: counts of pods are int32 in the API."""

_ALIGNED = ("single-numa-node", "restricted")


class Filled(NamedTuple):
    """A node with pods of one shape."""

    pods: int
    """How many it takes."""
    after: NodeState
    """As it is with them."""
    zones: int
    """The set of zones that they are given anything of; 0 where the kubelet keeps pods to none."""


@lru_cache(maxsize=1 << 14)
def answer(state: NodeState, shape: PodShape) -> Verdict:
    """Return the verdict on a pod."""
    return admit(state, shape)


def zones_of(kind: NodeKind, verdict: Verdict) -> int:
    """Return the set of zones that an admitted pod is given anything of; 0 where it is given nothing of a zone."""
    found = 0
    for one in verdict.assignments:
        found |= sum(1 << zone for zone, cpus in kind.cpus.zones if cpus & one.cpus)
        for share in (*one.memory, *one.devices):
            found |= share.zones
    return found


@lru_cache(maxsize=1 << 14)
def fill(state: NodeState, shape: PodShape, limit: int, whole: int = ANYWHERE) -> Filled:
    """Return how many pods a node takes at most, up to a limit, so that with any fewer they are whole as well.

    Fewer: so many at a time as are to be in one zone.
    """
    best = Filled(0, state, 0)
    aligned = state.kind.policies.topology in _ALIGNED
    zones, taken = 0, Counter[int]()
    for count in range(1, limit + 1):
        verdict = answer(state, shape)
        if verdict.after is None:
            break
        state, own = verdict.after, zones_of(state.kind, verdict) if aligned else 0
        zones |= own
        if whole != ANYWHERE and own:
            taken[own] += 1
            if own.bit_count() > 1 or (whole == TOGETHER and len(taken) > 1):
                break
            if whole > 0 and count % whole:
                continue
            if whole > 0 and any(part % whole for part in taken.values()):
                break
        best = Filled(count, state, zones)
    return best


def counts(table: Table, shape: PodShape, limit: int, whole: int = ANYWHERE) -> NDArray[np.int64]:
    """Return (rows,): fill().pods of each row; 0 for rows without a state."""
    found = table.copies(shape, limit)
    if whole == ANYWHERE:
        return found

    def make(view: View, _: At) -> NDArray[np.int64]:
        return _whole(view, asks(view.layout, shape), whole)

    usable = table.gather(np.zeros(table.rows, np.int64), lambda block: block.recall(("whole", shape, whole), make))
    for row in np.flatnonzero((usable == UNCLEAR) & (found > 0)).tolist():
        state = table.state(row)
        usable[row] = 0 if state is None else fill(state, shape, limit, whole).pods
    np.minimum(found, usable, out=found)
    return found if whole == TOGETHER else found - found % whole


def _whole(view: View, asked: Asks, whole: int) -> NDArray[np.int64]:
    """Return (rows,): how many pods there is room for by zones alone; -1 where arrays do not suffice."""
    if view.layout.policies.topology not in _ALIGNED or not any(_zoned(view.layout, one.hinted) for one in asked.steps):
        return np.full(view.rows, MOST, np.int64)
    if not _is_countable(view.layout, asked):
        return np.full(view.rows, UNCLEAR, np.int64)
    by_zone = zone_copies(view.free, _zoned(view.layout, asked.steps[0].hinted))
    if whole == TOGETHER:
        first = (by_zone > 0).argmax(axis=0)
        return by_zone[first, np.arange(view.rows)]
    found, going = np.zeros(view.rows, np.int64), np.ones(view.rows, np.bool_)
    for room in by_zone:
        found += room * going
        going &= room % whole == 0
    return found


def _zoned(layout: Layout, wanted: Wanted) -> Wanted:
    return tuple(one for one in wanted if layout.natures[one[0]] is not Nature.ANYWHERE and one[1])


def _is_countable(layout: Layout, asked: Asks) -> bool:
    """Tell whether pods go to the lowest zone that has all of it, until it is full."""
    if len(asked.steps) != 1 or not asked.sure or asked.impossible:
        return False
    (step,) = asked.steps
    ordered = not (layout.policies.prefer_closest and layout.uneven)
    return is_repeatable(layout, asked) and ordered and not step.in_parts and is_strict(layout, step.hinted)
