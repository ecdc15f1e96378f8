"""Values of zones, which a block caches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from support.any_nodes import clusters, pods
from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable
from zonewise_scheduler.nodes.score.fragmentation import PendingShape
from zonewise_scheduler.nodes.score.node_score import score
from zonewise_scheduler.nodes.score.zone_values import free_percents, pod_counts_in_zones

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape


@settings(max_examples=60)
@given(clusters(), clusters(), st.lists(pods(), min_size=1, max_size=2), st.lists(pods(simple=True), max_size=2))
def test_scores_after_changes_are_those_of_a_new_table(
    cluster: list[NodeState], later: list[NodeState], shapes: list[PodShape], waiting: list[PodShape]
) -> None:
    """Rows change, vanish and appear again, so their slots are no longer in the order of the rows."""
    pending = tuple(PendingShape(shape, 2) for shape in waiting)
    table, rows = NodeStateTable(), dict[int, "NodeState | None"](enumerate(cluster))
    table.set_rows(rows)
    for number, state in enumerate([*later, None, *later]):
        row = 3 * number % (len(cluster) + 1)
        rows[row] = state
        table.set(row, state)
        new = NodeStateTable()
        new.set_rows(rows)
        for shape in shapes:
            assert score(table, shape, pending).tolist() == score(new, shape, pending).tolist()


@given(clusters())
def test_the_first_values_are_those_of_whole_nodes(cluster: list[NodeState]) -> None:
    table = NodeStateTable()
    table.set_rows(dict(enumerate(cluster)))
    for view in table.views():
        counts = pod_counts_in_zones(view, ((0, 2),))
        assert counts.shape == (1 + view.zones, view.rows)
        assert counts[0].tolist() == (view.node_free[0] // 2).tolist()
        assert counts[1:].tolist() == (view.free[0] // 2).tolist()
        percents = free_percents(view, (0, 1))
        assert np.allclose(percents[0], (view.node_free[:2] * view.percent_per_unit[:2]).sum(axis=0))
        assert np.allclose(percents[1:], (view.free[:2] * view.percent_per_unit[:2, None]).sum(axis=0))
