"""Pins, which tie a pod to one node or to one domain of nodes.

A pin cannot be changed once no gate holds the pod. Required node affinity pins a pod to a node by its name.
kube-scheduler then considers only that node (kube-scheduler pkg/scheduler/framework/plugins/nodeaffinity PreFilter).
A pod is pinned to a domain above nodes by the labels of the domain's levels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from zonewise_common.k8s.nodeaffinity import NAME_FIELD, read_required_terms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_common.k8s.labels import Requirement
    from zonewise_scheduler.controller.pods.managed_pod import ManagedPod

Json = dict[str, Any]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class NodePin(NamedTuple):
    """A node by its name, or a domain by its labels."""

    node: str = ""
    """Name of the node; "": the labels are the pin."""
    labels: Mapping[str, str] = {}

    def pinned(self, pod: ManagedPod) -> tuple[Mapping[str, str], Json | None]:
        """Return the node selector and the affinity of a pod with this pin."""
        if self.node:
            return pod.node_selector, pin_to_node(pod.affinity or {}, self.node)
        return {**pod.node_selector, **self.labels}, pod.affinity


def pin_to_node(affinity: Mapping[str, Any], node: str) -> Json:
    """Return an affinity that also requires a node by name. It shares its unchanged parts with the original.

    Terms are alternatives, so each of them gets the requirement. A term without requirements matches no node and is
    left unchanged: the API server allows no additions to it (pkg/apis/core/validation/validation.go
    validateNodeSelectorTermHasOnlyAdditions).
    """
    node_affinity: Json = affinity.get("nodeAffinity") or {}
    required: Json = node_affinity.get(_REQUIRED) or {}
    requirement = {"key": NAME_FIELD, "operator": "In", "values": [node]}
    terms = [_with_field(term, requirement) for term in cast("list[Json]", required.get("nodeSelectorTerms") or [])]
    selector = {**required, "nodeSelectorTerms": terms or [{"matchFields": [requirement]}]}
    return {**affinity, "nodeAffinity": {**node_affinity, _REQUIRED: selector}}


def pinned_node(pod: ManagedPod) -> str:
    """Return the only node on which a pod can run: its own node, or the one that its affinity names; "": there is none.

    Raises FieldError for an affinity that the API server would reject.
    """
    if pod.node:
        return pod.node
    terms = read_required_terms({"affinity": pod.affinity}) or ()
    names = [[name for field in term.match_fields for name in _named_node(field)] for term in terms]
    return next((name for name in names[0] if all(name in term for term in names)), "") if names else ""


def _with_field(term: Json, requirement: Json) -> Json:
    fields = cast("list[Json]", term.get("matchFields") or [])
    if requirement in fields or not (fields or term.get("matchExpressions")):
        return term
    return {**term, "matchFields": [*fields, requirement]}


def _named_node(field: Requirement) -> tuple[str, ...]:
    return field.values if field.key == NAME_FIELD and field.operator == "In" else ()
