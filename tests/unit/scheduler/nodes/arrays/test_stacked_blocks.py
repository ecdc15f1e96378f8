"""Rows of many layouts that are judged at once get the verdicts and scores that each would get alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.support.fit_layouts import cluster as sample_cluster
from benchmarks.support.fit_layouts import shapes
from support.any_nodes import ALIGNED, clusters, pods, policies
from support.fit_nodes import GIB, STATIC, container, node, pod, zone_cpus
from zonewise_scheduler.nodes.arrays import stacked_blocks
from zonewise_scheduler.nodes.arrays.block import zone_fit_key
from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable
from zonewise_scheduler.nodes.arrays.zone_fit import REJECTED
from zonewise_scheduler.nodes.score.fragmentation import PendingShape
from zonewise_scheduler.nodes.score.node_score import score

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.admission.node import NodeState, Policies
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.nodes.arrays.array_view import ArrayView
    from zonewise_scheduler.nodes.arrays.block import Block
    from zonewise_scheduler.nodes.arrays.types import I64


def _with_policies(cluster: Sequence[NodeState], configuration: Policies) -> list[NodeState]:
    kinds = {id(state.kind): replace(state.kind, policies=configuration) for state in cluster}
    return [state._replace(kind=kinds[id(state.kind)]) for state in cluster]


def _table(rows: Mapping[int, NodeState]) -> NodeStateTable:
    table = NodeStateTable()
    table.set_rows(dict(rows))
    return table


def _blocks(table: NodeStateTable) -> list[Block]:
    blocks: list[Block] = []

    def collect(block: Block) -> I64:
        blocks.append(block)
        return block.rows

    table.gather(np.zeros(table.rows, np.int64), collect)
    return blocks


def _zones(table: NodeStateTable, shape: PodShape) -> list[list[int]]:
    """Return the zone of each step by row, for rows that may admit the pod."""
    zones: list[list[int]] = [[] for _ in range(table.rows)]
    for block in _blocks(table):
        fit = block.zone_fit(shape)
        for slot, row in enumerate(block.rows.tolist()):
            if fit.fits[slot] != REJECTED:
                zones[row] = fit.zones[:, slot].tolist()
    return zones


def _assert_matches_single_rows(
    table: NodeStateTable, cluster: Sequence[NodeState], shape: PodShape, pending: tuple[PendingShape, ...]
) -> None:
    alone = [_table({0: state}) for state in cluster]
    assert table.fits(shape).tolist() == [int(one.fits(shape)[0]) for one in alone]
    assert _zones(table, shape) == [_zones(one, shape)[0] for one in alone]
    assert score(table, shape, pending).tolist() == [int(score(one, shape, pending)[0]) for one in alone]


@settings(max_examples=40)
@given(clusters(most=12), policies(), pods(), pods(), st.data())
def test_rows_match_single_rows(
    cluster: list[NodeState], configuration: Policies, shape: PodShape, pending: PodShape, data: st.DataObject
) -> None:
    """The other rows may have any zones, resources and CPUs, and some rows may change."""
    cluster = _with_policies(cluster, configuration)
    waiting = (PendingShape(pending, 3),)
    table = _table(dict(enumerate(cluster)))
    _assert_matches_single_rows(table, cluster, shape, waiting)
    for row in data.draw(st.sets(st.integers(0, len(cluster) - 1), max_size=2)):
        cluster[row] = cluster[row]._replace(free_cpus=cluster[row].free_cpus & ~0b11)
        table.set(row, cluster[row])
    _assert_matches_single_rows(table, cluster, shape, waiting)


@settings(max_examples=40)
@given(clusters(("restricted", "best-effort"), most=12), policies((*ALIGNED, "best-effort")), pods(inits=True))
def test_init_containers_in_single_rows(cluster: list[NodeState], configuration: Policies, shape: PodShape) -> None:
    cluster = _with_policies(cluster, configuration)
    _assert_matches_single_rows(_table(dict(enumerate(cluster))), cluster, shape, ())


@pytest.mark.parametrize("topology", ["none", "best-effort", "restricted", "single-numa-node"])
@pytest.mark.parametrize("scope", ["container", "pod"])
def test_large_pods_on_many_layouts(topology: str, scope: str) -> None:
    """Rows with 1, 2, 4 and 8 zones share stacks, and get the same verdicts as alone."""
    cluster = sample_cluster(40, 20, {"topology": topology, "scope": scope})
    for title in ("10 containers", "23 init containers", "nothing fits", "2 sidecars, init container, devices"):
        _assert_matches_single_rows(_table(dict(enumerate(cluster))), cluster, shapes()[title], ())


def test_blocks_are_renewed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """One computation serves all blocks with stale slots, in stacks of limited size."""
    monkeypatch.setattr(stacked_blocks, "_MAX_ROWS", 25)
    table = _table(dict(enumerate(sample_cluster(40, 20, {"topology": "restricted"}))))
    shape = shapes()["one container"]
    key = zone_fit_key(shape)
    rows: list[int] = []

    def compute(view: ArrayView, _: object) -> I64:
        rows.append(view.rows)
        return view.free[:1, 0]

    table.renew(key, [shape], compute, padded=True)
    stacked = [block for block in _blocks(table) if block.stale_slots(key) is not None]
    assert len(stacked) > len(rows) > 0
    assert max(rows) <= 25
    assert sum(block.rows.size for block in stacked) == sum(rows)


def test_memory_of_several_zones_with_larger_nodes_in_the_table() -> None:
    """Zones that a node lacks do not distort hints: two zones of 8 GiB serve 10 GiB under best-effort."""
    few, many = (node(zones, **STATIC, topology="best-effort") for zones in (2, 4))
    few = few._replace(memory_free=((8 * GIB,), (8 * GIB,)))
    table = _table({0: few, 1: many})
    assert table.fits(pod(container(cpus=1, gib=10))).tolist() == [1, 1]


def test_memory_of_whole_pods_with_larger_nodes_in_the_table() -> None:
    """Zones that a node lacks join no set: the memory of zone 1 serves both containers, although its CPUs do not."""
    few, many = (node(zones, **STATIC, topology="best-effort", scope="pod") for zones in (2, 4))
    few = few._replace(
        free_cpus=zone_cpus(few, 0) | 0b11 << 8, memory_free=((4 * GIB,), (12 * GIB,)), memory_assigned=1
    )
    table = _table({0: few, 1: many})
    one = container("a", cpus=2, gib=5)
    assert table.fits(pod(one, one._replace(name="b"))).tolist() == [1, 1]
