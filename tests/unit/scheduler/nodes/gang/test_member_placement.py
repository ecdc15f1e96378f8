"""Placement of gangs without a template, by their existing pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.any_nodes import clusters, pods
from support.gang_snapshots import AMPLE, info, snapshot
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.admission.pod import Container, PodShape
from zonewise_scheduler.nodes.filters.constraints import Constraints
from zonewise_scheduler.nodes.filters.filter_plugins import run_filter_plugins
from zonewise_scheduler.nodes.gang.member_placement import UnplacedMember, place_members
from zonewise_scheduler.nodes.gang.types import GangDiagnosis
from zonewise_scheduler.nodes.node.node_info import PodInfo, add_pod

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.nodes.gang.member_placement import PlacedMember
    from zonewise_scheduler.nodes.gang.types import NodeSnapshot

RACK = "rack"


@st.composite
def snapshots(draw: st.DrawFn) -> NodeSnapshot:
    states: list[NodeState | None] = list(draw(clusters()))
    states += [None] * draw(st.integers(0, 1))
    racks = [draw(st.sampled_from(["1", "2"])) for _ in states]
    limits = [draw(st.sampled_from([1, 3, 100])) for _ in states]
    infos = [
        info(f"n{row}", {RACK: rack}, AMPLE._replace(pods=limit))
        for row, (rack, limit) in enumerate(zip(racks, limits, strict=True))
    ]
    return snapshot(states, infos, (RACK,))


@st.composite
def gangs(draw: st.DrawFn, shapes: int) -> list[UnplacedMember]:
    drawn = [draw(pods()) for _ in range(draw(st.integers(1, shapes)))]
    constraints = st.sampled_from([Constraints(), Constraints(Resource(1000, 0, 1, 0))])
    count = draw(st.integers(1, 8))
    shared = draw(constraints)
    return [
        UnplacedMember(
            f"uid-{i}", f"worker-{i}", draw(st.sampled_from(drawn)), draw(constraints) if shapes > 1 else shared
        )
        for i in range(count)
    ]


def check(cluster: NodeSnapshot, members: Sequence[UnplacedMember], placed: Sequence[PlacedMember]) -> None:
    """Admit the members one by one, as kubelets and filters would."""
    by_uid = {member.uid: member for member in members}
    rows = {node.name: row for row, node in enumerate(cluster.nodes.infos) if node is not None}
    infos, states = list(cluster.nodes.infos), [cluster.table.state(row) for row in range(len(rows))]
    assert len({member.uid for member in placed}) == len(placed)
    for uid, node, predicted in placed:
        member, row = by_uid[uid], rows[node]
        node_info, state = infos[row], states[row]
        assert node_info is not None
        assert state is not None
        assert row not in member.excluded
        assert run_filter_plugins(member.constraints, node_info) is None
        infos[row] = add_pod(node_info, PodInfo(member.constraints.requests))
        verdict = admit(state, member.shape)
        assert verdict == predicted
        assert verdict.admitted
        states[row] = verdict.after


def capacity(cluster: NodeSnapshot, shape: PodShape, constraints: Constraints, rows: Sequence[int]) -> int:
    """Return the number of equal pods that fit on some nodes, computed pod by pod."""
    fitting = 0
    for row in rows:
        node_info, state = cluster.nodes.infos[row], cluster.table.state(row)
        while state is not None and node_info is not None and run_filter_plugins(constraints, node_info) is None:
            verdict = admit(state, shape)
            if not verdict.admitted:
                break
            state, node_info = verdict.after, add_pod(node_info, PodInfo(constraints.requests))
            fitting += 1
            if fitting > 20:
                break
    return fitting


@settings(max_examples=60)
@given(snapshots(), gangs(shapes=1), st.integers(1, 8), st.sets(st.integers(0, 3)))
def test_equal_members(cluster: NodeSnapshot, members: list[UnplacedMember], required: int, excluded: set[int]) -> None:
    """As many equal pods are placed as fit, in their order, unless the required number does not fit."""
    required = min(required, len(members))
    excluded = {row for row in excluded if row < len(cluster.nodes)}
    members = [member._replace(excluded=frozenset(excluded)) for member in members]
    rows = [row for row in range(len(cluster.nodes)) if row not in excluded]
    fitting = min(capacity(cluster, members[0].shape, members[0].constraints, rows), len(members))
    placed = place_members(cluster, members, required)
    if isinstance(placed, GangDiagnosis):
        assert fitting < required
        assert (placed.size, placed.fitting_pods) == (len(members), fitting)
    else:
        check(cluster, members, placed)
        assert len(placed) == fitting >= required
        assert {member.uid for member in placed} == {member.uid for member in members[:fitting]}


@settings(max_examples=60)
@given(snapshots(), gangs(shapes=3), st.integers(1, 8), st.sampled_from(["", RACK]))
def test_different_members(cluster: NodeSnapshot, members: list[UnplacedMember], required: int, level: str) -> None:
    """Kubelets and filters admit every placed member in the order of the result, and never fewer than required."""
    placed = place_members(cluster, members, required, level=level)
    if isinstance(placed, GangDiagnosis):
        assert str(placed)
        assert placed.pod_set in {member.name for member in members}
        return
    check(cluster, members, placed)
    assert min(required, len(members)) <= len(placed) <= len(members)
    if level:
        racks = {node.name: node.label(RACK) for node in cluster.nodes.infos if node is not None}
        assert len({racks[member.node] for member in placed}) == 1


@settings(max_examples=40)
@given(snapshots(), gangs(shapes=2), st.integers(1, 8), st.data())
def test_limits(cluster: NodeSnapshot, members: list[UnplacedMember], required: int, data: st.DataObject) -> None:
    """No node has more pods of one shape and one set of constraints than its limit."""
    limited = data.draw(st.sampled_from(members)).shape
    limits = {limited: {row: data.draw(st.integers(0, 2)) for row in range(len(cluster.nodes))}}
    placed = place_members(cluster, members, required, limits=limits)
    if isinstance(placed, GangDiagnosis):
        return
    check(cluster, members, placed)
    by_uid = {member.uid: member for member in members}
    rows = {node.name: row for row, node in enumerate(cluster.nodes.infos) if node is not None}
    for constraints in {member.constraints for member in members}:
        for name, row in rows.items():
            alike = [
                uid
                for uid, node, _ in placed
                if node == name and (by_uid[uid].shape, by_uid[uid].constraints) == (limited, constraints)
            ]
            assert len(alike) <= limits[limited][row]


def test_no_members() -> None:
    assert place_members(snapshot([]), [], 0) == ()


def test_unknown_level() -> None:
    members = [UnplacedMember("u", "worker", PodShape((Container("c", "app", 1000),), "Guaranteed"))]
    with pytest.raises(ValueError, match="pod set worker: no level of the snapshot: block"):
        place_members(snapshot([]), members, 1, level="block")
