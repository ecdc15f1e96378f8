"""The inputs on which the writes of all workloads' pods depend."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.nodes.node.node_info import NodeInfo
    from zonewise_scheduler.quota.hierarchy.topology_snapshot import SentPods


class PodContext(NamedTuple):
    """Observed objects, and the planner's predictions."""

    workloads: Mapping[str, Json]
    """Workloads by key."""
    node_names: Mapping[str, str]
    """Names of nodes by hostname."""
    predicted: Callable[[str], Mapping[tuple[str, str], Sequence[str]]] = lambda _workload: {}
    """Returns what kubelets will assign to the pods of a workload, by pod set and node (predicted_admissions.py)."""
    admits_next: Callable[[tuple[str, str], str, Mapping[tuple[str, str], SentPods]], bool] = (
        lambda _key, _node, _sent: True
    )
    """Returns whether one more pod may be sent to a node now (TopologySnapshot.admits_next)."""
    now: float = 0.0
    """Seconds since 1970."""
    find: Callable[[Resource, str, str], Json | None] = lambda _resource, _namespace, _name: None
    """Returns a LocalQueue or ClusterQueue by namespace and name."""
    node_info: Callable[[str], NodeInfo | None] = lambda _name: None
    """Returns a node that includes all its observed pods; None: it is not ready."""
    avoids: Callable[[str, str, str], bool] = lambda _workload, _pod_set, _node: False
    """Returns whether the pods of a workload's pod set avoid a node because of one of its conditions."""
    is_closed: Callable[[str, str, str], bool] = lambda _workload, _pod_set, _node: False
    """Returns whether no further pod of a workload's pod set may be bound to a node (NodeView.is_closed)."""
