"""The nodes on which the planner accounts for the pods of a workload, and the amounts that it counts for each pod."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.quota.topology.types import HOSTNAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.quota.api.workload_types import Amounts, Workload

NodesByPodSet = dict[str, "frozenset[str] | None"]
"""Nodes by pod set with a topology assignment; None: its lowest level is above nodes, so any node is possible."""


class PlacedPodSets(NamedTuple):
    """The placement of a workload in the planner."""

    nodes: NodesByPodSet
    requests: Mapping[str, Amounts] = {}
    """Amounts that the planner counts for each pod on its node, by pod set; absent: all requests of the pod."""


def placement_of(workload: Workload) -> PlacedPodSets | None:
    """Return the placement of a workload; None: there is none."""
    nodes = nodes_by_pod_set(workload)
    if nodes is None:
        return None
    return PlacedPodSets(nodes, {pod_set.name: pod_set.requests_on_node for pod_set in workload.pod_sets})


def nodes_by_pod_set(workload: Workload) -> NodesByPodSet | None:
    """Return the nodes in the placement of a workload; None: there is none."""
    if workload.admission is None:
        return None
    nodes: NodesByPodSet = {}
    for pod_set in workload.admission.pod_sets:
        assignment = pod_set.topology_assignment
        if assignment is not None:
            is_node = assignment.levels[-1:] == (HOSTNAME,)
            nodes[pod_set.name] = frozenset(values[-1] for values, _ in assignment.domains) if is_node else None
    return nodes or None


def placed_pod_set(nodes: NodesByPodSet, pod_set: str, node: str) -> str | None:
    """Return the placed pod set of a pod on a node; None: the pod is not part of the placement.

    `pod_set`: "" stands for the pod set of a workload with only one.
    """
    if not pod_set and len(nodes) == 1:
        pod_set = next(iter(nodes))
    if pod_set not in nodes:
        return None
    names = nodes[pod_set]
    return pod_set if names is None or node in names else None
