"""Decide whether the controller may bind a pod to its node or leaves it to kube-scheduler (see unevaluated.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.controller.pods.unevaluated import INVALID, unevaluated
from zonewise_scheduler.nodes.filters.constraints import Constraints, read_constraints
from zonewise_scheduler.nodes.filters.filter_plugins import run_filter_plugins

if TYPE_CHECKING:
    from zonewise_scheduler.controller.pods.managed_pod import ManagedPod
    from zonewise_scheduler.nodes.node.node_info import NodeInfo

UNASSIGNED = "no assigned node"
NOT_READY = "node not ready"
ANTI_AFFINITY = "anti-affinity of other pods"


class BindVerdict(NamedTuple):
    """Whether a pod may be bound to a node."""

    constraints: Constraints = Constraints()
    reason: str = ""
    """Why it is left to kube-scheduler: a constant above, one of unevaluated(), or a plugin; "": it may be bound."""
    message: str = ""
    """The message of the plugin."""
    depends_on_node: bool = False
    """Whether a change of the node may change the verdict."""


def judge_binding(pod: ManagedPod, node: NodeInfo | None) -> BindVerdict:
    """Return whether a pod may be bound; `node`: includes all its pods; None: the node is not ready."""
    obj = {"metadata": {"namespace": pod.namespace, "name": pod.name}, "spec": pod.spec or {}}
    if reasons := unevaluated(obj):
        return BindVerdict(reason=reasons[0], message=", ".join(reasons))
    try:
        constraints = read_constraints(obj)
    except FieldError as error:
        return BindVerdict(reason=INVALID, message=str(error))
    if node is None:
        return BindVerdict(constraints, NOT_READY, depends_on_node=True)
    rejection = run_filter_plugins(constraints, node)
    if rejection is not None:
        return BindVerdict(constraints, rejection.plugin, rejection.reason, depends_on_node=True)
    return BindVerdict(constraints)
