"""The nodes on which the planner accounts for the pods of a workload."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.quota.topology.types import HOSTNAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.quota.api.workload_types import Workload

NodesByPodSet = dict[str, "frozenset[str] | None"]
"""By pod set with a topology assignment: its nodes; None: its lowest level is not the node, so any node may have it."""


def nodes_by_pod_set(workload: Workload) -> NodesByPodSet | None:
    """Return the nodes of a workload's placement; None: it has none."""
    if workload.admission is None:
        return None
    nodes: NodesByPodSet = {}
    for pod_set in workload.admission.pod_sets:
        assignment = pod_set.topology_assignment
        if assignment is not None:
            is_node = assignment.levels[-1:] == (HOSTNAME,)
            nodes[pod_set.name] = frozenset(values[-1] for values, _ in assignment.domains) if is_node else None
    return nodes or None


def is_placed_on(nodes: Mapping[str, frozenset[str] | None], pod_set: str, node: str) -> bool:
    """Tell whether a pod of a pod set on a node is part of a placement; "": the pod set of a workload with only one."""
    if not pod_set and len(nodes) == 1:
        pod_set = next(iter(nodes))
    if pod_set not in nodes:
        return False
    names = nodes[pod_set]
    return names is None or node in names
