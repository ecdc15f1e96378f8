"""Snapshots of clusters for gangs, and what a placement must keep to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable
from zonewise_scheduler.nodes.filters.filter_plugins import run_filter_plugins
from zonewise_scheduler.nodes.filters.info_table import NodeInfoTable
from zonewise_scheduler.nodes.gang.snapshot import NodeSnapshot
from zonewise_scheduler.nodes.gang.topology_levels import build_levels
from zonewise_scheduler.nodes.node.node_info import Labels, NodeInfo, PodInfo, add_pod

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.nodes.gang.types import GangPlacement, GangPodSet

AMPLE = Resource(1 << 40, 1 << 60, 1 << 20, 1 << 60)


def info(name: str, labels: Mapping[str, str] | None = None, room: Resource = AMPLE, **fields: Any) -> NodeInfo:
    keys = tuple(sorted(labels or {}))
    return NodeInfo(name, Labels(keys, tuple((labels or {})[key] for key in keys)), allocatable=room, **fields)


def snapshot(
    states: Sequence[NodeState | None], infos: Sequence[NodeInfo | None] | None = None, keys: Sequence[str] = ()
) -> NodeSnapshot:
    """Make one; nodes of which nothing is told are named n0, n1, ... and have room for anything."""
    table = NodeStateTable()
    for row, state in enumerate(states):
        table.set(row, state)
    nodes = NodeInfoTable(infos if infos is not None else [info(f"n{row}") for row in range(len(states))])
    return NodeSnapshot(table, nodes, build_levels(nodes, keys))


def check(cluster: NodeSnapshot, pod_sets: Sequence[GangPodSet], found: GangPlacement) -> None:
    """Put the pods on their nodes one by one, in the order of the placement, as kubelets and filters would."""
    assert [placed.name for placed in found.sets] == [pods.name for pods in pod_sets]
    seen: list[NodeInfo | None] = list(cluster.nodes.infos)
    states: dict[int, NodeState | None] = {}
    by_name = {pods.name: (pods, placed) for pods, placed in zip(pod_sets, found.sets, strict=True)}
    for name in found.order:
        pods, placed = by_name[name]
        assert len(placed.rows) == len(placed.nodes) == len(placed.verdicts) == pods.size
        for row, node, verdict in zip(map(int, placed.rows), placed.nodes, placed.verdicts, strict=True):
            before = seen[row]
            assert before is not None
            assert before.name == node
            assert run_filter_plugins(pods.constraints, before) is None
            seen[row] = add_pod(before, PodInfo(pods.constraints.requests, pods.constraints.ports))
            state = states.get(row, cluster.table.state(row))
            assert state is not None
            assert admit(state, pods.shape) == verdict
            assert verdict.admitted
            states[row] = verdict.after
    assert found.after == states
