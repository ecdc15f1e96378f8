"""The fields of nodes and pods that the runner reads."""

from __future__ import annotations

from typing import Any

import msgspec

from zonewise_common.k8s.labels import Requirement, selects
from zonewise_common.k8s.nodeaffinity import NodeSelectorTerm, read_node_selector, read_required_terms
from zonewise_common.k8s.podspec import containers
from zonewise_common.k8s.quantity import quantity_milli_value
from zonewise_common.k8s.taints import (
    UNSCHEDULABLE,
    Taint,
    Toleration,
    find_matching_untolerated_taint,
    read_taints,
    read_tolerations,
)

RUN_SECONDS = "zonewise.dev/simulated-run-seconds"
EXIT_CODE = "zonewise.dev/simulated-exit-code"
GANG_PODS = "zonewise.dev/simulated-gang-pods"
"""The number of pods of a Job that must run before any of them does its work."""
JOB_LABEL = "batch.kubernetes.io/job-name"
STOP_SECONDS = "zonewise.dev/simulated-stop-seconds"
"""Seconds that a deleted pod takes to end; its grace period limits them."""

Amounts = dict[str, int]
"""Thousandths of each resource's unit."""


class RunnerMetadata(msgspec.Struct, rename="camel", frozen=True):
    """Metadata of a node or a pod."""

    name: str
    uid: str
    namespace: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None


class RunnerNodeStatus(msgspec.Struct, frozen=True):
    """The status of a node."""

    allocatable: dict[str, str] = {}


class RunnerNode(msgspec.Struct, frozen=True):
    """A node."""

    metadata: RunnerMetadata
    spec: dict[str, Any] = {}
    status: RunnerNodeStatus = RunnerNodeStatus()

    def allocatable(self) -> Amounts:
        """Return the amounts that pods can use."""
        return {name: quantity_milli_value(value) for name, value in self.status.allocatable.items()}

    def taints(self) -> tuple[Taint, ...]:
        """Return its taints, with an additional one if it is unschedulable."""
        return (*read_taints(self.spec), *((UNSCHEDULABLE,) if self.spec.get("unschedulable") else ()))


class RunnerPodStatus(msgspec.Struct, frozen=True):
    """The status of a pod."""

    phase: str = "Pending"
    qos_class: str = msgspec.field(name="qosClass", default="BestEffort")


class RunnerPod(msgspec.Struct, frozen=True):
    """A pod."""

    metadata: RunnerMetadata
    spec: dict[str, Any]
    status: RunnerPodStatus = RunnerPodStatus()

    @property
    def key(self) -> tuple[str, str]:
        """Return namespace and name."""
        return self.metadata.namespace, self.metadata.name

    @property
    def node(self) -> str:
        """Return the node to which it is bound; "" for none."""
        return self.spec.get("nodeName") or ""

    @property
    def is_ended(self) -> bool:
        """Return whether its containers have ended permanently."""
        return self.status.phase in {"Succeeded", "Failed"}

    @property
    def is_schedulable(self) -> bool:
        """Return whether it waits for a node and has no scheduling gate."""
        waits = not self.node and not self.is_ended and self.metadata.deletion_timestamp is None
        return waits and not self.spec.get("schedulingGates")

    def seconds(self, annotation: str) -> float | None:
        """Return the seconds in an annotation; None if it is absent or not a number of seconds."""
        try:
            value = float(self.metadata.annotations.get(annotation, ""))
        except ValueError:
            return None
        return value if 0 <= value < float("inf") else None

    def requests(self) -> Amounts:
        """Return the resources that it needs: the sum of its containers, and one of `pods`.

        An init container counts if it needs more than all containers that run after it (KEP-753, simplified).
        """
        total: Amounts = {}
        largest: Amounts = {}
        for role, container, _ in containers(self.spec):
            resources: dict[str, Any] = container.get("resources") or {}
            requests: dict[str, str] = resources.get("requests") or {}
            for name, value in requests.items():
                amount = quantity_milli_value(value)
                if role == "init":
                    largest[name] = max(largest.get(name, 0), amount)
                else:
                    total[name] = total.get(name, 0) + amount
        combined = {name: max(total.get(name, 0), largest.get(name, 0)) for name in total | largest}
        return {name: amount for name, amount in combined.items() if amount} | {"pods": 1000}

    def selection(self) -> Selection:
        """Return the nodes on which it may run. Raises FieldError."""
        terms = read_required_terms(self.spec)
        return Selection(read_node_selector(self.spec), terms, read_tolerations(self.spec, comparisons=False))


class Selection(msgspec.Struct, frozen=True):
    """The nodes on which pods may run; hashable."""

    labels: tuple[Requirement, ...]
    terms: tuple[NodeSelectorTerm, ...] | None
    """Terms of which one must match; None for every node."""
    tolerations: tuple[Toleration, ...]

    def matches(self, node: RunnerNode) -> bool:
        """Return whether pods may run on a node."""
        if find_matching_untolerated_taint(node.taints(), self.tolerations) is not None:
            return False
        labels, fields = node.metadata.labels, {"metadata.name": node.metadata.name}
        if not selects(self.labels, labels):
            return False
        terms = self.terms
        return terms is None or any(
            selects(term.match_expressions, labels) and selects(term.match_fields, fields) for term in terms
        )

    def pinned(self) -> str:
        """Return the single node that it names; "" if it names none."""
        if self.terms is None or len(self.terms) != 1:
            return ""
        for requirement in self.terms[0].match_fields:
            if requirement.operator == "In" and len(requirement.values) == 1:
                return requirement.values[0]
        return ""
