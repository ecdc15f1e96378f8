"""How many pods of one shape a node admits one after another, and how they fill its zones.

The kubelet, not the scheduler, chooses the zones. It uses the lowest zone that fits a pod until that zone is full
(pkg/kubelet/cm/topologymanager/policy.go). So all pods share a zone only if the first zone that fits one of them fits
all.

A node counts as one zone if its kubelet does not align pods (policy none or best-effort), and for pods without
exclusive resources.
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

ANY_ZONE, SINGLE_ZONE = 0, -1
"""Zone slice sizes: any zones, or one zone for all pods; a positive size N: each slice of N pods is in one zone."""

MAX_PODS = np.iinfo(np.int32).max
"""Upper bound on every pod count; pod counts are int32 in the API."""

_ALIGNED = ("single-numa-node", "restricted")


class FilledNode(NamedTuple):
    """A node with pods of one shape."""

    pods: int
    """Number of admitted pods."""
    state: NodeState
    """The node with these pods."""
    zones: int
    """Bitmask of the zones assigned to these pods; 0 if the kubelet does not align pods."""


@lru_cache(maxsize=1 << 14)
def predict_admission(state: NodeState, shape: PodShape) -> Verdict:
    """Return the verdict on a pod; cached."""
    return admit(state, shape)


def assigned_zones(kind: NodeKind, verdict: Verdict) -> int:
    """Return the bitmask of the zones from which an admitted pod is assigned resources."""
    zones = 0
    for container in verdict.assignments:
        zones |= sum(1 << zone for zone, cpus in kind.cpus.zones if cpus & container.cpus)
        for share in (*container.memory, *container.devices):
            zones |= share.zones
    return zones


def in_whole_slices(pods: int, zone_slice_size: int) -> int:
    """Return a number of pods, rounded up to whole zone slices: the smaller last slice needs the room of a whole one.

    A kubelet that admits all of these pods also admits the first ones alone.
    """
    return -(-pods // zone_slice_size) * zone_slice_size if zone_slice_size > 0 else pods


@lru_cache(maxsize=1 << 14)
def fill_node(state: NodeState, shape: PodShape, limit: int, zone_slice_size: int = ANY_ZONE) -> FilledNode:
    """Return the node with the largest number of pods, up to a limit, whose zone slices are whole.

    Zone slices are then also whole for any smaller number of slices.
    """
    filled = FilledNode(0, state, 0)
    aligned = state.kind.policies.topology in _ALIGNED
    zones, pods_by_zones = 0, Counter[int]()
    for pods in range(1, limit + 1):
        verdict = predict_admission(state, shape)
        if verdict.after is None:
            break
        state, pod_zones = verdict.after, assigned_zones(state.kind, verdict) if aligned else 0
        zones |= pod_zones
        if zone_slice_size != ANY_ZONE and pod_zones:
            pods_by_zones[pod_zones] += 1
            if pod_zones.bit_count() > 1 or (zone_slice_size == SINGLE_ZONE and len(pods_by_zones) > 1):
                break
            if zone_slice_size > 0 and pods % zone_slice_size:
                continue
            if zone_slice_size > 0 and any(count % zone_slice_size for count in pods_by_zones.values()):
                break
        filled = FilledNode(pods, state, zones)
    return filled


def fill_nodes(
    table: NodeStateTable, shape: PodShape, limit: int, zone_slice_size: int = ANY_ZONE
) -> NDArray[np.int64]:
    """Return (rows,): `fill_node(...).pods` of each row; 0 for rows without a state."""
    pod_counts = table.pod_counts(shape, limit)
    if zone_slice_size == ANY_ZONE:
        return pod_counts

    def compute(view: ArrayView, _: Slots) -> NDArray[np.int64]:
        return _whole_slice_counts(view, alignment_request(view.layout, shape), zone_slice_size)

    whole_counts = table.gather(
        np.zeros(table.rows, np.int64), lambda block: block.get_or_compute(("whole", shape, zone_slice_size), compute)
    )
    whole_counts[pod_counts == 0] = 0
    for row in np.flatnonzero(whole_counts == UNDECIDED_COUNT).tolist():
        state = table.state(row)
        whole_counts[row] = 0 if state is None else fill_node(state, shape, limit, zone_slice_size).pods
    np.minimum(pod_counts, whole_counts, out=pod_counts)
    return pod_counts if zone_slice_size == SINGLE_ZONE else pod_counts - pod_counts % zone_slice_size


def _whole_slice_counts(view: ArrayView, request: AlignmentRequest, zone_slice_size: int) -> NDArray[np.int64]:
    """Return (rows,): the number of pods that the zones allow; UNDECIDED_COUNT if the arrays do not suffice."""
    needs_zones = any(_zone_amounts(view.layout, step.hinted) for step in request.steps)
    if view.layout.policies.topology not in _ALIGNED or not needs_zones:
        return np.full(view.rows, MAX_PODS, np.int64)
    if not _fills_lowest_zone(view.layout, request):
        return np.full(view.rows, UNDECIDED_COUNT, np.int64)
    pods_by_zone = zone_pod_counts(view.free, _zone_amounts(view.layout, request.steps[0].hinted))
    if zone_slice_size == SINGLE_ZONE:
        first_zone = (pods_by_zone > 0).argmax(axis=0)
        return pods_by_zone[first_zone, np.arange(view.rows)]
    pod_counts, is_whole = np.zeros(view.rows, np.int64), np.ones(view.rows, np.bool_)
    for zone_pods in pods_by_zone:
        pod_counts += zone_pods * is_whole
        is_whole &= zone_pods % zone_slice_size == 0
    return pod_counts


def _zone_amounts(layout: Layout, amounts: IndexedAmounts) -> IndexedAmounts:
    return tuple(
        amount for amount in amounts if layout.localities[amount[0]] is not ZoneLocality.ANYWHERE and amount[1]
    )


def _fills_lowest_zone(layout: Layout, request: AlignmentRequest) -> bool:
    """Return whether the kubelet fills the lowest zone that fits a whole pod until that zone is full."""
    if len(request.steps) != 1 or not request.exact or request.impossible:
        return False
    (step,) = request.steps
    in_order = not layout.has_uneven_distances
    return is_repeatable(layout, request) and in_order and not step.sums_memory and is_strict(layout, step.hinted)
