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

from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.nodes.arrays.alignment_request import alignment_request
from zonewise_scheduler.nodes.arrays.layout import ZoneLocality
from zonewise_scheduler.nodes.arrays.pod_counts import UNDECIDED_COUNT, is_repeatable, zone_pod_counts
from zonewise_scheduler.nodes.arrays.zone_fit import is_strict

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zonewise_scheduler.admission.node import NodeKind, NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.admission.verdict import Verdict
    from zonewise_scheduler.nodes.arrays.alignment_request import AlignmentRequest, IndexedAmounts
    from zonewise_scheduler.nodes.arrays.array_view import ArrayView
    from zonewise_scheduler.nodes.arrays.block import Slots
    from zonewise_scheduler.nodes.arrays.layout import Layout
    from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable

ANY_ZONE, ONE_ZONE = 0, -1
"""Whatever zones, or all in one; any other number: so many pods at a time are in one zone."""

MAX_PODS = np.iinfo(np.int32).max
"""More pods than there are: counts of pods are int32 in the API."""

_ALIGNED = ("single-numa-node", "restricted")


class FilledNode(NamedTuple):
    """A node with pods of one shape."""

    pods: int
    """How many it takes."""
    state: NodeState
    """As it is with them."""
    zones: int
    """The set of zones that they are given anything of; 0 where the kubelet keeps pods to none."""


@lru_cache(maxsize=1 << 14)
def predict_admission(state: NodeState, shape: PodShape) -> Verdict:
    """Return the verdict on a pod."""
    return admit(state, shape)


def assigned_zones(kind: NodeKind, verdict: Verdict) -> int:
    """Return the set of zones that an admitted pod is given anything of; 0 where it is given nothing of a zone."""
    found = 0
    for one in verdict.assignments:
        found |= sum(1 << zone for zone, cpus in kind.cpus.zones if cpus & one.cpus)
        for share in (*one.memory, *one.devices):
            found |= share.zones
    return found


@lru_cache(maxsize=1 << 14)
def fill_node(state: NodeState, shape: PodShape, limit: int, zone_slice_size: int = ANY_ZONE) -> FilledNode:
    """Return how many pods a node takes at most, up to a limit, so that with any fewer they are whole as well.

    Fewer: so many at a time as are to be in one zone.
    """
    best = FilledNode(0, state, 0)
    aligned = state.kind.policies.topology in _ALIGNED
    zones, taken = 0, Counter[int]()
    for count in range(1, limit + 1):
        verdict = predict_admission(state, shape)
        if verdict.after is None:
            break
        state, own = verdict.after, assigned_zones(state.kind, verdict) if aligned else 0
        zones |= own
        if zone_slice_size != ANY_ZONE and own:
            taken[own] += 1
            if own.bit_count() > 1 or (zone_slice_size == ONE_ZONE and len(taken) > 1):
                break
            if zone_slice_size > 0 and count % zone_slice_size:
                continue
            if zone_slice_size > 0 and any(part % zone_slice_size for part in taken.values()):
                break
        best = FilledNode(count, state, zones)
    return best


def fill_nodes(
    table: NodeStateTable, shape: PodShape, limit: int, zone_slice_size: int = ANY_ZONE
) -> NDArray[np.int64]:
    """Return (rows,): fill().pods of each row; 0 for rows without a state."""
    found = table.pod_counts(shape, limit)
    if zone_slice_size == ANY_ZONE:
        return found

    def make(view: ArrayView, _: Slots) -> NDArray[np.int64]:
        return _whole(view, alignment_request(view.layout, shape), zone_slice_size)

    usable = table.gather(
        np.zeros(table.rows, np.int64), lambda block: block.get_or_compute(("whole", shape, zone_slice_size), make)
    )
    for row in np.flatnonzero((usable == UNDECIDED_COUNT) & (found > 0)).tolist():
        state = table.state(row)
        usable[row] = 0 if state is None else fill_node(state, shape, limit, zone_slice_size).pods
    np.minimum(found, usable, out=found)
    return found if zone_slice_size == ONE_ZONE else found - found % zone_slice_size


def _whole(view: ArrayView, asked: AlignmentRequest, whole: int) -> NDArray[np.int64]:
    """Return (rows,): how many pods there is room for by zones alone; -1 where arrays do not suffice."""
    if view.layout.policies.topology not in _ALIGNED or not any(_zoned(view.layout, one.hinted) for one in asked.steps):
        return np.full(view.rows, MAX_PODS, np.int64)
    if not _is_countable(view.layout, asked):
        return np.full(view.rows, UNDECIDED_COUNT, np.int64)
    by_zone = zone_pod_counts(view.free, _zoned(view.layout, asked.steps[0].hinted))
    if whole == ONE_ZONE:
        first = (by_zone > 0).argmax(axis=0)
        return by_zone[first, np.arange(view.rows)]
    found, going = np.zeros(view.rows, np.int64), np.ones(view.rows, np.bool_)
    for room in by_zone:
        found += room * going
        going &= room % whole == 0
    return found


def _zoned(layout: Layout, wanted: IndexedAmounts) -> IndexedAmounts:
    return tuple(one for one in wanted if layout.localities[one[0]] is not ZoneLocality.ANYWHERE and one[1])


def _is_countable(layout: Layout, asked: AlignmentRequest) -> bool:
    """Tell whether pods go to the lowest zone that has all of it, until it is full."""
    if len(asked.steps) != 1 or not asked.exact or asked.impossible:
        return False
    (step,) = asked.steps
    ordered = not (layout.policies.prefer_closest and layout.has_uneven_distances)
    return is_repeatable(layout, asked) and ordered and not step.sums_memory and is_strict(layout, step.hinted)
