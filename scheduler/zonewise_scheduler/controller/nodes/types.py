"""What is tracked of nodes and pods: small, since there are ten thousands of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from zonewise_common.k8s.taints import Taint
    from zonewise_scheduler.admission.node import Resource


class TrackedPod(msgspec.Struct, frozen=True, gc=False):
    """One pod."""

    namespace: str
    name: str
    node: str
    """"": not bound."""
    active: bool
    """Its phase is not final."""
    requests: Resource | None
    """Of the node, `pods` is 1; None: the pod is not bound, or not active. Pods of a template share it."""
    workload: str
    """Key of its Workload (namespace/name); "": it is outside the queue."""
    pod_set: str


class NodeHealth(NamedTuple):
    """Whether a node can run pods."""

    ready: bool
    ready_since: float | None
    """Seconds since 1970 of the last change of the condition Ready, 0: unknown; None: there is no such condition."""
    no_execute: tuple[Taint, ...] = ()
    """Its taints with the effect NoExecute."""
    avoided: tuple[Taint, ...] = ()
    """Its conditions that gangs avoid, as taints (nodes/node/avoided_conditions.py)."""


class TrackedNode(NamedTuple):
    """One node."""

    name: str
    content: str
    """The slim object as JSON."""
    health: NodeHealth
    hostname: str
    """The label kubernetes.io/hostname; the name where it is absent."""
    feature_groups: frozenset[str] | None = None
    """NodeFeatureGroups (namespace/name) that its agents have recorded; None: no agent evaluates groups."""


class TrackedReport(NamedTuple):
    """One NodeResourceTopology."""

    node: str
    content: str
    """The object as JSON, without what changes with every write."""
