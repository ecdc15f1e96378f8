"""Read the fields of Nodes, NodeResourceTopologies and pods that the tracker needs, and drop all others.

There may be 50,000 pods. Pods of the same template share their requests, which are read once.
"""

from __future__ import annotations

from functools import lru_cache
from sys import intern
from typing import TYPE_CHECKING, Any

import msgspec

from zonewise_common.k8s.feature_groups import recorded_groups
from zonewise_common.k8s.fields import FieldError, object_in, objects_in, string_in
from zonewise_common.k8s.taints import UNSCHEDULABLE, read_taints
from zonewise_scheduler.controller.nodes.types import (
    READINESS_TAINTS,
    NodeHealth,
    TrackedNode,
    TrackedPod,
    TrackedReport,
)
from zonewise_scheduler.controller.pods.pod_names import POD_SET_LABEL, WORKLOAD_ANNOTATION
from zonewise_scheduler.controller.workloads.conditions import transition_time
from zonewise_scheduler.nodes.node.avoided_conditions import KEY as AVOIDED_CONDITION
from zonewise_scheduler.nodes.node.avoided_conditions import with_avoided_conditions
from zonewise_scheduler.nodes.node.pod_requests import bound_pod_requests
from zonewise_scheduler.quota.topology.types import HOSTNAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_common.k8s.taints import Taint
    from zonewise_scheduler.admission.node import Resource
    from zonewise_scheduler.controller.types import Json

_TERMINAL_PHASES = ("Succeeded", "Failed")  # pkg/api/v1/pod/util.go IsPodPhaseTerminal


class _PodMetadata(msgspec.Struct):
    name: str
    namespace: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Container(msgspec.Struct, rename="camel", omit_defaults=True):
    """A container or its status."""

    name: str = ""
    restart_policy: str | None = None
    resources: Any = None
    allocated_resources: Any = None


class _PodSpec(msgspec.Struct, rename="camel", omit_defaults=True):
    node_name: str | None = None
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    overhead: Any = None
    resources: Any = None


class _PodStatus(msgspec.Struct, rename="camel", omit_defaults=True):
    phase: str | None = None
    container_statuses: list[_Container] | None = None
    init_container_statuses: list[_Container] | None = None
    resources: Any = None
    allocated_resources: Any = None
    conditions: Any = None


class _Pod(msgspec.Struct, omit_defaults=True):
    metadata: _PodMetadata
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


class _ReportMetadata(msgspec.Struct, omit_defaults=True):
    name: str
    annotations: dict[str, Any] | None = None


class _Report(msgspec.Struct, rename="camel", omit_defaults=True):
    metadata: _ReportMetadata
    attributes: msgspec.Raw = msgspec.Raw(b"null")
    topology_policies: msgspec.Raw = msgspec.Raw(b"null")
    zones: msgspec.Raw = msgspec.Raw(b"null")


_POD = msgspec.json.Decoder(_Pod)
_REPORT = msgspec.json.Decoder(_Report)
_OBJECT = msgspec.json.Decoder(dict[str, Any])


def decode_pod(raw: msgspec.Raw | bytes) -> TrackedPod:
    """Decode a v1.Pod. Raises msgspec.DecodeError, and FieldError for invalid requests."""
    pod = _POD.decode(raw)
    metadata, status = pod.metadata, pod.status
    node = pod.spec.node_name or ""
    active = status.phase not in _TERMINAL_PHASES
    requests = None
    if node and active:
        requests = _requests(_request_fields(pod))
    workload = (metadata.annotations or {}).get(WORKLOAD_ANNOTATION, "")
    return TrackedPod(
        metadata.namespace,
        metadata.name,
        intern(node),
        active,
        requests,
        intern(f"{metadata.namespace}/{workload}") if workload else "",
        intern((metadata.labels or {}).get(POD_SET_LABEL, "")),
    )


def _request_fields(pod: _Pod) -> bytes:
    """Return the fields that determine the requests, as JSON."""
    conditions: list[Json] = [
        {"type": "PodResizePending", "reason": each.get("reason")}
        for each in pod.status.conditions or ()
        if each.get("type") == "PodResizePending"
    ]
    spec, status = pod.spec, pod.status
    fields = {
        "spec": _PodSpec(None, spec.containers, spec.init_containers, spec.overhead, spec.resources),
        "status": _PodStatus(
            None,
            status.container_statuses,
            status.init_container_statuses,
            status.resources,
            status.allocated_resources,
            conditions or None,
        ),
    }
    return msgspec.json.encode(fields)


@lru_cache(1 << 12)
def _requests(fields: bytes) -> Resource:
    return bound_pod_requests(_OBJECT.decode(fields))


def decode_report(raw: msgspec.Raw | bytes) -> TrackedReport:
    """Decode the tracked fields of a NodeResourceTopology. Raises msgspec.DecodeError."""
    report = _REPORT.decode(raw)
    return TrackedReport(report.metadata.name, msgspec.json.encode(report).decode())


def decode_node(raw: msgspec.Raw | bytes, avoided: Iterable[str] = ()) -> TrackedNode:
    """Decode a v1.Node; `avoided`: types of conditions. Raises msgspec.DecodeError, and FieldError like read_node."""
    return read_node(with_avoided_conditions(_OBJECT.decode(raw), avoided))


def read_node(node: Mapping[str, Any]) -> TrackedNode:
    """Return the tracked fields of a v1.Node. Raises FieldError for fields with other types than expected."""
    slim = slim_node(node)
    ready, taints = _ready_condition(node), read_taints(slim["spec"])
    health = NodeHealth(
        ready is not None and ready.get("status") == "True",
        None if ready is None else transition_time(ready) or 0.0,
        no_execute=tuple(taint for taint in taints if taint.effect == "NoExecute"),
        closing=tuple(filter(_closes_node, (*taints, UNSCHEDULABLE) if slim["spec"]["unschedulable"] else taints)),
        avoided=tuple(taint for taint in taints if taint.key == AVOIDED_CONDITION),
    )
    name = slim["metadata"]["name"]
    hostname = string_in(object_in(slim["metadata"], "labels", "metadata."), HOSTNAME, "metadata.labels.") or name
    groups = recorded_groups(object_in(object_in(node, "metadata", ""), "annotations", "metadata."))
    return TrackedNode(name, msgspec.json.encode(slim).decode(), health, intern(hostname), groups)


def slim_node(node: Mapping[str, Any]) -> Json:
    """Return the part of a v1.Node that tas.cluster_nodes reads. Raises FieldError for fields with unexpected types."""
    metadata, spec, status = (object_in(node, name, "") for name in ("metadata", "spec", "status"))
    name = string_in(metadata, "name", "metadata.")
    if not name:
        raise FieldError("metadata.name", "is missing")
    ready = _ready_condition(node)
    return {
        "metadata": {"name": name, "labels": metadata.get("labels") or {}},
        "spec": {"taints": spec.get("taints") or [], "unschedulable": spec.get("unschedulable") is True},
        "status": {
            "allocatable": status.get("allocatable") or {},
            "capacity": status.get("capacity") or {},
            "conditions": [] if ready is None else [{"type": "Ready", "status": ready.get("status")}],
            "nodeInfo": {
                "kubeletVersion": string_in(
                    object_in(status, "nodeInfo", "status."), "kubeletVersion", "status.nodeInfo."
                )
            },
        },
    }


def _closes_node(taint: Taint) -> bool:
    return taint.effect in {"NoSchedule", "NoExecute"} and taint.key not in {*READINESS_TAINTS, AVOIDED_CONDITION}


def _ready_condition(node: Mapping[str, Any]) -> Json | None:
    conditions = objects_in(object_in(node, "status", ""), "conditions", "status.")
    return next((each for each in conditions if each.get("type") == "Ready"), None)
