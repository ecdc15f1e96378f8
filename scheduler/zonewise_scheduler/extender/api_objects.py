"""The fields of API objects that the extender needs. All else is dropped: there may be a million pods."""

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

_TERMINAL_PHASES = ("Succeeded", "Failed")  # pkg/api/v1/pod/util.go IsPodPhaseTerminal
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
    """None: the spec has an invalid field."""
    node: str = ""
    """Empty: not bound."""
    phase: str = ""
    started: float | None = None
    """status.startTime in seconds since the epoch; None: its kubelet has not seen it yet."""
    reason: str = ""
    message: str = ""

    @property
    def terminal(self) -> bool:
        """Tell whether the phase is final."""
        return self.phase in _TERMINAL_PHASES

    @property
    def rejected(self) -> bool:
        """Tell whether its kubelet rejected it at admission."""
        return self.phase == "Failed" and (self.reason in _REJECTION_REASONS or self.reason.startswith(_OUT_OF_PREFIX))


class PublishedReport(NamedTuple):
    """A NodeResourceTopology and its time of writing."""

    report: NodeReport
    published: float | None
    """Seconds since the epoch of the last change of any field; None: unknown."""


def decode_pod(raw: msgspec.Raw) -> ObservedPod:
    """Decode a v1.Pod. Raises msgspec.DecodeError."""
    pod: Json = _OBJECT.decode(raw)
    metadata: Json = pod.get("metadata") or {}
    status: Json = pod.get("status") or {}
    spec: Json = pod.get("spec") or {}
    namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
    try:
        shape = read_pod(pod)
    except FieldError as error:
        log.warning("pod=%s/%s counts in no zone: %s", namespace, name, error)
        shape = None
    return ObservedPod(
        metadata.get("uid", ""), namespace, name, shape, spec.get("nodeName", ""), status.get("phase", ""),
        _seconds(status.get("startTime")), status.get("reason", ""), status.get("message", ""),
    )  # fmt: skip


def decode_node(raw: msgspec.Raw) -> NodeInfo:
    """Decode a v1.Node. Raises msgspec.DecodeError and ValueError."""
    return read_node_info(_OBJECT.decode(raw))


def decode_report(raw: msgspec.Raw, kinds: KindInterner, release: Callable[[str], tuple[int, int]]) -> PublishedReport:
    """Decode a NodeResourceTopology, and log its problems. Raises msgspec.DecodeError.

    `release` returns the release of a node's kubelet.
    """
    nrt: Json = _OBJECT.decode(raw)
    metadata: Json = nrt.get("metadata") or {}
    report = read_nrt(nrt, kinds, release=release(metadata.get("name", "")))
    for problem in report.problems:
        log.warning("node=%s report: %s", report.node, problem)
    times = [_seconds(entry.get("time")) for entry in metadata.get("managedFields") or ()]
    return PublishedReport(report, max((time for time in times if time is not None), default=None))


def _seconds(value: object) -> float | None:
    """Return a metav1.Time as seconds since the epoch."""
    try:
        return datetime.fromisoformat(value).timestamp() if isinstance(value, str) else None
    except ValueError:
        return None


_OBJECT = msgspec.json.Decoder(Json)
