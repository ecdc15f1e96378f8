"""The score of one node from the verdict itself: for the best few, where counts by zone are not enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.fit.batch.absorb import changing
from zonewise_scheduler.fit.batch.asks import asks
from zonewise_scheduler.fit.batch.copies import zone_copies
from zonewise_scheduler.fit.batch.layout import Layout
from zonewise_scheduler.fit.score.remains import BEST, needs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.fit.model.cpus import Group
    from zonewise_scheduler.fit.model.node import NodeState
    from zonewise_scheduler.fit.model.verdict import Verdict
    from zonewise_scheduler.fit.score.remains import Waiting


def places_lost(before: NodeState, after: NodeState, waiting: Sequence[Waiting]) -> int:
    """Return how many pods of those that wait, by their number, lose their place in a zone of the node: in sum.

    Takes the node before and after a pod (Verdict.after); of a shape that asks for nothing by zone none is lost.
    """
    layout = Layout.of(before.kind)
    free = changing(layout, [before, after]).free
    lost = 0
    for one in waiting:
        other = asks(layout, one.shape)
        need = tuple(needs(other).items()) if other.sure and not other.impossible else ()
        if need:
            had, has = zone_copies(free, need).sum(axis=0).tolist()
            lost += one.pods * (had - has)
    return lost


def zones_used(verdict: Verdict, state: NodeState) -> int:
    """Return the number of zones that the pod's exclusive CPUs, memory and devices are from."""
    used = 0
    held = state.kind.cpus.zones
    for share in verdict.assignments:
        used |= sum(1 << zone for zone, cpus in held if cpus & share.cpus)
        for part in (*share.memory, *share.devices):
            used |= part.zones
    return used.bit_count()


def groups_broken(before: NodeState, after: NodeState) -> int:
    """Return 100 where no free core or L3 group is broken up, 0 where as many as CPUs are taken."""
    taken = (before.free_cpus & ~after.free_cpus).bit_count()
    if not taken:
        return BEST
    cpus = before.kind.cpus
    broken = sum(_broken(before.free_cpus, after.free_cpus, groups) for groups in (cpus.cores, cpus.caches))
    return max(0, BEST - BEST * broken // taken)


def _broken(before: int, after: int, groups: Sequence[Group]) -> int:
    """Return how many groups were all free before, and are in part now."""
    return sum(1 for _, bits in groups if not bits & ~before and after & bits and bits & ~after)
