"""Filters of kube-scheduler's that need nothing but the node and its pods, exact as its plugins (1.36).

pkg/scheduler/framework/plugins: nodeunschedulable, nodename, tainttoleration, nodeaffinity, nodeports, noderesources.
Each is a function of a pod's constraints and a node, and returns the reason that kube-scheduler would give, or None. A
resource that a DeviceClass gives by its extendedResourceName (KEP-5004) counts as missing where no device plugin does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.fit.model.node import amounts
from zonewise_scheduler.fit.model.resources import PODS
from zonewise_scheduler.fit.nodes.info import room
from zonewise_scheduler.fit.nodes.ports import conflict
from zonewise_scheduler.fit.nodes.selectors import NAME
from zonewise_scheduler.fit.nodes.taints import UNSCHEDULABLE, tolerated, untolerated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.fit.model.node import Room
    from zonewise_scheduler.fit.nodes.constraints import Constraints
    from zonewise_scheduler.fit.nodes.info import NodeInfo
    from zonewise_scheduler.fit.nodes.selectors import Term


class Refusal(NamedTuple):
    """Why a node is out of the question."""

    plugin: str
    reason: str
    """As in the events of kube-scheduler; several are parted by ", "."""


def schedulable(pod: Constraints, node: NodeInfo) -> str | None:
    """Refuse nodes with spec.unschedulable, but to pods that tolerate the taint of that name."""
    if not node.unschedulable or tolerated(UNSCHEDULABLE, pod.tolerations):
        return None
    return "node(s) were unschedulable"


def node_name(pod: Constraints, node: NodeInfo) -> str | None:
    """Refuse all nodes but that of spec.nodeName."""
    return None if pod.node_name in {"", node.name} else "node(s) didn't match the requested node name"


def taints(pod: Constraints, node: NodeInfo) -> str | None:
    """Refuse nodes with a taint NoSchedule or NoExecute that the pod does not tolerate."""
    return None if untolerated(node.taints, pod.tolerations) is None else "node(s) had untolerated taint(s)"


def node_affinity(pod: Constraints, node: NodeInfo) -> str | None:
    """Refuse nodes that spec.nodeSelector or the required node affinity does not select."""
    selected = all(one.matches(node.label(one.key)) for one in pod.selector)
    if selected and (pod.terms is None or any(_holds(term, node) for term in pod.terms)):
        return None
    return "node(s) didn't match Pod's node affinity/selector"


def node_ports(pod: Constraints, node: NodeInfo) -> str | None:
    """Refuse nodes where a host port of the pod is used."""
    return "node(s) didn't have free ports for the requested pod ports" if conflict(pod.ports, node.ports) else None


def resources(pod: Constraints, node: NodeInfo) -> str | None:
    """Refuse nodes that have too little left of what the pod requests, or too many pods."""
    return ", ".join(_short(pod.requests, room(node))) or None


FILTERS = {
    "NodeUnschedulable": schedulable,
    "NodeName": node_name,
    "TaintToleration": taints,
    "NodeAffinity": node_affinity,
    "NodePorts": node_ports,
    "NodeResourcesFit": resources,
}
"""In kube-scheduler's order (pkg/scheduler/apis/config/v1/default_plugins.go)."""


def refusal(pod: Constraints, node: NodeInfo) -> Refusal | None:
    """Return the first refusal, the one that kube-scheduler reports; None where the node passes."""
    for plugin, passes in FILTERS.items():
        reason = passes(pod, node)
        if reason is not None:
            return Refusal(plugin, reason)
    return None


def _holds(term: Term, node: NodeInfo) -> bool:
    """Tell whether a node meets a term; a field that nodes do not have is empty (fields/selector.go)."""
    return all(one.matches(node.label(one.key)) for one in term.labels) and all(
        one.matches(node.name if one.key == NAME else "") for one in term.fields
    )


def _short(wanted: Room, left: Room) -> Iterator[str]:
    """Yield what there is too little of (noderesources/fit.go fitsRequest); nobody is refused what it asks none of."""
    free = dict(amounts(left))
    for name, asked in amounts(wanted):
        if asked > max(free.get(name, 0), 0):
            yield "Too many pods" if name == PODS else f"Insufficient {name}"
