"""The filters of kube-scheduler that need only the node and its pods, exactly as in its plugins (1.36).

pkg/scheduler/framework/plugins: nodeunschedulable, nodename, tainttoleration, nodeaffinity, nodeports, noderesources.
Each filter is a function of a pod's constraints and a node. It returns kube-scheduler's reason for a rejection, or
None. A resource that a DeviceClass provides by its extendedResourceName (KEP-5004) counts as missing if no device
plugin provides it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.nodeaffinity import NAME_FIELD
from zonewise_common.k8s.taints import UNSCHEDULABLE, find_matching_untolerated_taint, tolerations_tolerate_taint
from zonewise_scheduler.admission.node import amounts_by_resource
from zonewise_scheduler.admission.resource_names import PODS
from zonewise_scheduler.nodes.node.host_ports import ports_conflict
from zonewise_scheduler.nodes.node.node_info import available

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_common.k8s.nodeaffinity import NodeSelectorTerm
    from zonewise_scheduler.admission.node import Resource
    from zonewise_scheduler.nodes.filters.constraints import Constraints
    from zonewise_scheduler.nodes.node.node_info import NodeInfo


class FilterRejection(NamedTuple):
    """The plugin that rejected a node, and its reason."""

    plugin: str
    reason: str
    """Reason as in the events of kube-scheduler; several are joined by ", "."""


def node_unschedulable(pod: Constraints, node: NodeInfo) -> str | None:
    """Reject nodes with spec.unschedulable, except for pods that tolerate the taint of that name."""
    if not node.unschedulable or tolerations_tolerate_taint(UNSCHEDULABLE, pod.tolerations):
        return None
    return "node(s) were unschedulable"


def node_name(pod: Constraints, node: NodeInfo) -> str | None:
    """Reject all nodes except the one in spec.nodeName."""
    return None if pod.node_name in {"", node.name} else "node(s) didn't match the requested node name"


def taint_toleration(pod: Constraints, node: NodeInfo) -> str | None:
    """Reject nodes with a taint NoSchedule or NoExecute that the pod does not tolerate."""
    return (
        None
        if find_matching_untolerated_taint(node.taints, pod.tolerations) is None
        else "node(s) had untolerated taint(s)"
    )


def node_affinity(pod: Constraints, node: NodeInfo) -> str | None:
    """Reject nodes that spec.nodeSelector or the required node affinity does not select."""
    selected = all(requirement.matches(node.label(requirement.key)) for requirement in pod.selector)
    if selected and (pod.terms is None or any(_matches_term(term, node) for term in pod.terms)):
        return None
    return "node(s) didn't match Pod's node affinity/selector"


def node_ports(pod: Constraints, node: NodeInfo) -> str | None:
    """Reject nodes where a host port of the pod is in use."""
    return (
        "node(s) didn't have free ports for the requested pod ports" if ports_conflict(pod.ports, node.ports) else None
    )


def node_resources_fit(pod: Constraints, node: NodeInfo) -> str | None:
    """Reject nodes with too few available resources for the pod's requests, or with too many pods."""
    return ", ".join(_insufficient(pod.requests, available(node))) or None


FILTERS = {
    "NodeUnschedulable": node_unschedulable,
    "NodeName": node_name,
    "TaintToleration": taint_toleration,
    "NodeAffinity": node_affinity,
    "NodePorts": node_ports,
    "NodeResourcesFit": node_resources_fit,
}
"""The filters in kube-scheduler's order (pkg/scheduler/apis/config/v1/default_plugins.go)."""


def run_filter_plugins(pod: Constraints, node: NodeInfo) -> FilterRejection | None:
    """Return the first rejection, which kube-scheduler reports, or None if the node passes."""
    for plugin, filter_plugin in FILTERS.items():
        reason = filter_plugin(pod, node)
        if reason is not None:
            return FilterRejection(plugin, reason)
    return None


def _matches_term(term: NodeSelectorTerm, node: NodeInfo) -> bool:
    """Return whether a node matches a term; a field that nodes do not have is empty (fields/selector.go)."""
    return all(requirement.matches(node.label(requirement.key)) for requirement in term.match_expressions) and all(
        requirement.matches(node.name if requirement.key == NAME_FIELD else "") for requirement in term.match_fields
    )


def _insufficient(requested: Resource, available: Resource) -> Iterator[str]:
    """Yield a reason for each insufficient resource (noderesources/fit.go fitsRequest); requests of 0 always fit."""
    free = dict(amounts_by_resource(available))
    for name, size in amounts_by_resource(requested):
        if size > max(free.get(name, 0), 0):
            yield "Too many pods" if name == PODS else f"Insufficient {name}"
