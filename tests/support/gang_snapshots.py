"""Snapshots for gang placements, and the checks for each placement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable
from zonewise_scheduler.nodes.filters.filter_plugins import run_filter_plugins
from zonewise_scheduler.nodes.filters.info_table import NodeInfoTable
from zonewise_scheduler.nodes.gang.topology_levels import build_levels
from zonewise_scheduler.nodes.gang.types import NodeSnapshot
from zonewise_scheduler.nodes.node.node_info import Labels, NodeInfo, PodInfo, add_pod

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.nodes.gang.types import GangPlacement, GangPodSet

AMPLE = Resource(1 << 40, 1 << 60, 1 << 20, 1 << 60)


def info(name: str, labels: Mapping[str, str] | None = None, allocatable: Resource = AMPLE, **fields: Any) -> NodeInfo:
    keys = tuple(sorted(labels or {}))
    return NodeInfo(name, Labels(keys, tuple((labels or {})[key] for key in keys)), allocatable=allocatable, **fields)


def snapshot(
    states: Sequence[NodeState | None], infos: Sequence[NodeInfo | None] | None = None, keys: Sequence[str] = ()
) -> NodeSnapshot:
    """Return a snapshot; by default nodes are named n0, n1, ... and have ample resources."""
    table = NodeStateTable()
    for row, state in enumerate(states):
        table.set(row, state)
    nodes = NodeInfoTable(infos if infos is not None else [info(f"n{row}") for row in range(len(states))])
    return NodeSnapshot(table, nodes, build_levels(nodes, keys))


def check(cluster: NodeSnapshot, pod_sets: Sequence[GangPodSet], placement: GangPlacement) -> None:
    """Add the pods to their nodes one by one, in placement order; fail if a kubelet or a filter would reject one."""
    assert [set_placement.name for set_placement in placement.sets] == [pods.name for pods in pod_sets]
    infos: list[NodeInfo | None] = list(cluster.nodes.infos)
    states: dict[int, NodeState | None] = {}
    by_name = {pods.name: (pods, set_placement) for pods, set_placement in zip(pod_sets, placement.sets, strict=True)}
    for name in placement.order:
        pods, set_placement = by_name[name]
        assert len(set_placement.rows) == len(set_placement.nodes) == len(set_placement.verdicts) == pods.size
        for row, node, verdict in zip(
            map(int, set_placement.rows), set_placement.nodes, set_placement.verdicts, strict=True
        ):
            before = infos[row]
            assert before is not None
            assert before.name == node
            assert run_filter_plugins(pods.constraints, before) is None
            infos[row] = add_pod(before, PodInfo(pods.constraints.requests, pods.constraints.ports))
            state = states.get(row, cluster.table.state(row))
            assert state is not None
            assert admit(state, pods.shape) == verdict
            assert verdict.admitted
            states[row] = verdict.after
    assert placement.after == states
