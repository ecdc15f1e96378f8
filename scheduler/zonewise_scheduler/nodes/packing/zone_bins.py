"""Nodes as bins: each zone is a bin if kubelets allocate from one zone; otherwise the node as a whole is one bin."""

from __future__ import annotations

from functools import lru_cache
from operator import le
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.nodes.arrays.alignment_request import alignment_request
from zonewise_scheduler.nodes.arrays.layout import Layout, ZoneLocality
from zonewise_scheduler.nodes.arrays.node_model import NodeModel
from zonewise_scheduler.nodes.arrays.state_arrays import state_arrays, total_amounts
from zonewise_scheduler.nodes.arrays.zone_fit import is_strict

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeKind, NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.nodes.packing.bin_packing import Amounts


class NodeBins(NamedTuple):
    """The zones of a node as bins, or the node as one bin."""

    layout: Layout
    free: tuple[Amounts, ...]
    """Free amounts by zone in ascending order, by resource; one entry if the node is one bin."""
    largest: Amounts | None
    """Amounts by resource of the zone with the most, including allocated units: a pod that requests more is allocated
    from several zones. None if the node is one bin."""


@lru_cache(maxsize=1024)
def _model(kind: NodeKind) -> NodeModel:
    return NodeModel.from_kind(kind)


@lru_cache(maxsize=1024)
def _largest_totals(kind: NodeKind) -> Amounts:
    totals = total_amounts(_model(kind), (kind,))
    return tuple(totals[:, :, 0].max(axis=1).tolist())


@lru_cache(maxsize=1 << 14)
def node_bins(state: NodeState) -> NodeBins:
    """Return the bins of a node: its zones if the kubelet allocates from one zone, or else the node."""
    model = _model(state.kind)
    arrays = state_arrays(model, (state,))
    if not _is_by_zone(model.layout):
        return NodeBins(model.layout, (tuple(np.maximum(arrays.node_free[:, 0], 0).tolist()),), None)
    free = tuple(tuple(zone) for zone in arrays.free[:, :, 0].T.tolist())
    return NodeBins(model.layout, free, _largest_totals(state.kind))


@lru_cache(maxsize=1 << 14)
def bin_amounts(layout: Layout, shape: PodShape) -> Amounts | None:
    """Return the amounts that a pod takes from one bin, by resource, or None if amounts do not determine its bin.

    The result is None for several containers aligned one by one, and for devices that belong to several zones. It is
    also None for limits of 0, which produce hints.
    """
    request = alignment_request(layout, shape)
    if request.impossible or not request.exact or not request.steps or request.reuses:
        return None
    if not all(amount for _, amount in request.node_amounts):
        return None
    if not _is_by_zone(layout):
        return _vector(layout, request.node_amounts)
    [*others, step] = request.steps
    indices = [index for index, _ in step.amounts]
    if others or step.hinted != step.amounts or not is_strict(layout, step.hinted):
        return None
    if any(layout.localities[index] is not ZoneLocality.EXACT for index in indices):
        return None
    return _vector(layout, step.amounts)


def is_packable(bins: NodeBins, shape: PodShape) -> bool:
    """Return whether a pod takes its amounts from a single bin of a node."""
    amounts = bin_amounts(bins.layout, shape)
    return amounts is not None and (bins.largest is None or all(map(le, amounts, bins.largest)))


def _is_by_zone(layout: Layout) -> bool:
    return layout.policies.topology in {"restricted", "single-numa-node"}


def _vector(layout: Layout, amounts: tuple[tuple[int, int], ...]) -> Amounts:
    by_index = dict(amounts)
    return tuple(by_index.get(index, 0) for index in range(layout.resource_count))
