"""Tracked fields of nodes and pods. They are kept small, since there are tens of thousands of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from zonewise_common.k8s.taints import Taint
    from zonewise_scheduler.admission.node import Resource


READINESS_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Keys of the taints that only reflect the condition Ready (pkg/controller/nodelifecycle)."""


class TrackedPod(msgspec.Struct, frozen=True, gc=False):
    """The tracked fields of a pod."""

    namespace: str
    name: str
    node: str
    """Node to which the pod is bound; "": not bound."""
    active: bool
    """Whether its phase is not final."""
    requests: Resource | None
    """Requests from the node, with 1 for `pods`; None: not bound, or not active. Pods of one template share them."""
    workload: str
    """Key of its Workload (namespace/name); "": the pod is outside the queue."""
    pod_set: str


class NodeHealth(NamedTuple):
    """The conditions and taints that determine whether a node can run pods."""

    ready: bool
    ready_since: float | None
    """When the condition Ready last changed, seconds since 1970; 0: unknown; None: there is no such condition."""
    no_execute: tuple[Taint, ...] = ()
    """Taints with the effect NoExecute."""
    closing: tuple[Taint, ...] = ()
    """Taints that keep further pods away, and the one that stands for a cordoned node; none that follow from Ready."""
    avoided: tuple[Taint, ...] = ()
    """Conditions that gangs avoid, represented as taints (nodes/node/avoided_conditions.py)."""


class TrackedNode(NamedTuple):
    """The tracked fields of a Node."""

    name: str
    content: str
    """The reduced object as JSON."""
    health: NodeHealth
    hostname: str
    """Value of the label kubernetes.io/hostname; the name of the node if it is absent."""
    feature_groups: frozenset[str] | None = None
    """NodeFeatureGroups (namespace/name) that the node's agents have recorded; None: no agent evaluates groups."""


class TrackedReport(NamedTuple):
    """The tracked fields of a NodeResourceTopology."""

    node: str
    content: str
    """The object as JSON, without fields that change with every write."""
