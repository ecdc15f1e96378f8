"""What is kept of the API's objects: as little as decides, since there may be 65,000 nodes with a million pods."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.admission.pod_spec import read_pod
from zonewise_scheduler.admission.report.node_report import read_nrt
from zonewise_scheduler.nodes.node.node_info import read_node_info

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.admission.report.interning import KindInterner
    from zonewise_scheduler.admission.report.node_report import NodeReport
    from zonewise_scheduler.nodes.node.node_info import NodeInfo

log = logging.getLogger(__name__)

Json = dict[str, Any]

_FINISHED = ("Succeeded", "Failed")  # pkg/api/v1/pod/util.go IsPodPhaseTerminal
_REJECTION_REASONS = (
    "TopologyAffinityError",
    "SMTAlignmentError",
    "UnexpectedAdmissionError",
    "EmptyPodSharedPoolError",
)
_OUT_OF_PREFIX = "OutOf"  # and a resource: pkg/kubelet/lifecycle/predicate.go


class ObservedPod(NamedTuple):
    """One pod, as the API server shows it."""

    uid: str
    namespace: str
    name: str
    shape: PodShape | None
    """None: it has a field that nobody can read."""
    node: str = ""
    """Empty: not bound."""
    phase: str = ""
    started: float | None = None
    """When its kubelet took it, seconds since the epoch; None: not yet."""
    reason: str = ""
    message: str = ""

    @property
    def terminal(self) -> bool:
        """Tell whether it runs no more, and never will."""
        return self.phase in _FINISHED

    @property
    def rejected(self) -> bool:
        """Tell whether its kubelet refused to run it."""
        return self.phase == "Failed" and (self.reason in _REJECTION_REASONS or self.reason.startswith(_OUT_OF_PREFIX))


class PublishedReport(NamedTuple):
    """A NodeResourceTopology, and when it was written."""

    report: NodeReport
    published: float | None
    """Seconds since the epoch, of the last change of anything in it; None: it does not tell."""


def decode_pod(raw: msgspec.Raw) -> ObservedPod:
    """Return what matters of a v1.Pod. Raises msgspec.DecodeError."""
    pod: Json = _OBJECT.decode(raw)
    metadata: Json = pod.get("metadata") or {}
    status: Json = pod.get("status") or {}
    spec: Json = pod.get("spec") or {}
    namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
    try:
        shape = read_pod(pod)
    except FieldError as error:
        log.warning("pod=%s/%s is not charged to any zone: %s", namespace, name, error)
        shape = None
    return ObservedPod(
        metadata.get("uid", ""), namespace, name, shape, spec.get("nodeName", ""), status.get("phase", ""),
        _seconds(status.get("startTime")), status.get("reason", ""), status.get("message", ""),
    )  # fmt: skip


def decode_node(raw: msgspec.Raw) -> NodeInfo:
    """Return what matters of a v1.Node. Raises msgspec.DecodeError and ValueError."""
    return read_node_info(_OBJECT.decode(raw))


def decode_report(raw: msgspec.Raw, kinds: KindInterner, release: Callable[[str], tuple[int, int]]) -> PublishedReport:
    """Return what a NodeResourceTopology says; its problems are logged. Raises msgspec.DecodeError.

    `release` tells that of a node's kubelet.
    """
    made: Json = _OBJECT.decode(raw)
    metadata: Json = made.get("metadata") or {}
    report = read_nrt(made, kinds, release=release(metadata.get("name", "")))
    for problem in report.problems:
        log.warning("node=%s report: %s", report.node, problem)
    times = [_seconds(one.get("time")) for one in metadata.get("managedFields") or ()]
    return PublishedReport(report, max((time for time in times if time is not None), default=None))


def _seconds(value: object) -> float | None:
    """Return a metav1.Time as seconds since the epoch."""
    try:
        return datetime.fromisoformat(value).timestamp() if isinstance(value, str) else None
    except ValueError:
        return None


_OBJECT = msgspec.json.Decoder(Json)
