"""Fragmentation: the fast way to compute how full a zone is gives the result of the exact one."""

from __future__ import annotations

from itertools import product

import numpy as np

from support.any_nodes import TYPES, cpu_topology
from zonewise_scheduler.admission.node import NodeKind, Policies
from zonewise_scheduler.nodes.arrays.alignment_request import AlignmentStep
from zonewise_scheduler.nodes.arrays.array_view import ArrayView
from zonewise_scheduler.nodes.arrays.node_model import NodeModel
from zonewise_scheduler.nodes.score.fragmentation import ScoredStep, zone_changes, zone_fullness
from zonewise_scheduler.nodes.score.zone_values import free_percents

TOTALS = (24, 7, 9)
"""Amounts whose sums of percents are often rounded to different sides of a whole number."""


def _view() -> ArrayView:
    """Return one row with a single zone for each free amount of CPUs and two types of memory."""
    kind = NodeKind(Policies(), (0,), ((10,),), cpu_topology((0,), 12, 2, 1, 0), TYPES, ((7, 9),), ())
    free = np.array(list(product(*(range(total + 1) for total in TOTALS)))).T
    view = ArrayView.empty(NodeModel.from_kind(kind).layout, free.shape[1])
    view.free[:, 0] = view.node_free[:] = free
    view.percent_per_unit[:] = np.array([100 / total for total in TOTALS])[:, None]
    return view


def test_sums_of_percents_give_the_exact_fullness() -> None:
    view = _view()
    rows = np.arange(view.rows)
    for requested in product((1, 2), (0, 1, 2), (1, 2)):
        amounts = tuple(enumerate(requested))
        for zone in (-1, 0):
            step = ScoredStep(AlignmentStep(amounts, amounts), np.full(view.rows, zone, np.int8))
            changes = zone_changes(view, [step], rows)
            fullness = zone_fullness(changes, free_percents(view, (0, 1, 2))[1 + zone])
            assert fullness.tolist() == zone_fullness(changes, None).tolist()
