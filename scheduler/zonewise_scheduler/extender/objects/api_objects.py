"""The fields of API objects that the extender needs. All other fields are dropped: there may be a million pods."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.admission.pod_spec import read_pod
from zonewise_scheduler.admission.report.node_report import NodeReport, read_nrt
from zonewise_scheduler.extender.objects.allocated_resources import with_allocated_resources
from zonewise_scheduler.extender.objects.pod_limits import size_problem
from zonewise_scheduler.extender.objects.running_pods import VictimFields, read_victim_fields
from zonewise_scheduler.extender.objects.scheduling_spec import read_scheduling_spec
from zonewise_scheduler.extender.objects.start_times import read_start_times, seconds
from zonewise_scheduler.extender.objects.static_pods import static_uid
from zonewise_scheduler.nodes.filters.anti_affinity import read_anti_affinity
from zonewise_scheduler.nodes.node.avoided_conditions import with_avoided_conditions
from zonewise_scheduler.nodes.node.kubelet_rejection import is_kubelet_rejection
from zonewise_scheduler.nodes.node.node_info import read_node_info, read_pod_info
from zonewise_scheduler.quota.api.pod_group_key import read_group_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.admission.report.interning import KindInterner
    from zonewise_scheduler.extender.objects.scheduling_spec import SchedulingSpec
    from zonewise_scheduler.nodes.filters.anti_affinity import AntiAffinityTerm
    from zonewise_scheduler.nodes.node.node_info import NodeInfo, PodInfo
    from zonewise_scheduler.quota.api.pod_group_key import GroupKey

log = logging.getLogger(__name__)

Json = dict[str, Any]

MAX_REPORT_BYTES = 1 << 20
"""Maximum size of a report. One of 64 zones, 128 L3 groups and 16 GPUs needs a quarter of it."""
_MAX_LOGGED_PROBLEMS = 8

_TERMINAL_PHASES = ("Succeeded", "Failed")  # pkg/api/v1/pod/util.go IsPodPhaseTerminal


class ObservedPod(NamedTuple):
    """A pod as the API server shows it."""

    uid: str
    """The UID; for a mirror pod, the identity of its static pod."""
    namespace: str
    name: str
    shape: PodShape | None
    """None if the spec has an invalid field or the pod is too large to be judged."""
    node: str = ""
    """Name of the node; empty if the pod is not bound."""
    phase: str = ""
    started: float | None = None
    """Start times as in StartTimes."""
    reason: str = ""
    message: str = ""
    scheduling: SchedulingSpec | None = None
    """Fields of an unbound pod; None also if a field is invalid."""
    info: PodInfo | None = None
    """Requests and host ports of a bound pod that has not terminated; None also if a field is invalid."""
    group: GroupKey | None = None
    """The PodGroup that the pod names, unless the pod has terminated; None also if a field is invalid."""
    nominated: str = ""
    """status.nominatedNodeName of an unbound pod."""
    victim: VictimFields = VictimFields()
    """Fields of a bound pod that has not terminated."""
    anti_affinity: tuple[AntiAffinityTerm, ...] = ()
    """Required anti-affinity of a pod that has not terminated."""
    confirmed: float | None = None

    @property
    def terminal(self) -> bool:
        """Return whether the phase is final."""
        return self.phase in _TERMINAL_PHASES

    @property
    def rejected(self) -> bool:
        """Return whether the kubelet rejected the pod at admission."""
        return is_kubelet_rejection(self.phase, self.reason)


class PublishedReport(NamedTuple):
    """A NodeResourceTopology and the time of its last change."""

    report: NodeReport
    published: float | None
    """Time of the last change of any field, in seconds since the epoch; None if unknown."""


def decode_pod(raw: msgspec.Raw) -> ObservedPod:
    """Decode a v1.Pod. Raises msgspec.DecodeError."""
    pod: Json = _OBJECT.decode(raw)
    metadata: Json = pod.get("metadata") or {}
    status: Json = pod.get("status") or {}
    spec: Json = pod.get("spec") or {}
    namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
    try:
        shape = read_pod(with_allocated_resources(pod))
        problem = size_problem(shape)
    except FieldError as error:
        shape, problem = None, str(error)
    if problem:
        log.warning("pod=%s/%s counts in no zone: %s", namespace, name, problem)
        shape = None
    started, confirmed = read_start_times(pod)
    uid = static_uid(metadata) or metadata.get("uid", "")
    observed = ObservedPod(
        uid, namespace, name, shape, spec.get("nodeName", ""), status.get("phase", ""),
        started, status.get("reason", ""), status.get("message", ""), confirmed=confirmed,
    )  # fmt: skip
    return observed if observed.terminal else _with_scheduling_fields(observed, pod)


def _with_scheduling_fields(observed: ObservedPod, pod: Json) -> ObservedPod:
    anti_affinity = read_anti_affinity(pod)
    try:
        if observed.node:
            return observed._replace(
                info=read_pod_info(pod),
                victim=read_victim_fields(pod),
                group=read_group_key(pod),
                anti_affinity=anti_affinity,
            )
        created = seconds(pod["metadata"].get("creationTimestamp")) or 0.0
        scheduling = read_scheduling_spec(pod, created)
        return observed._replace(
            scheduling=scheduling,
            nominated=str(pod.get("status", {}).get("nominatedNodeName") or ""),
            group=scheduling.group,
            anti_affinity=anti_affinity,
        )
    except FieldError as error:
        log.warning("pod=%s/%s is left to kube-scheduler: %s", observed.namespace, observed.name, error)
        return observed._replace(anti_affinity=anti_affinity)


def decode_node(raw: msgspec.Raw, avoided: Iterable[str] = ()) -> NodeInfo:
    """Decode a v1.Node; `avoided`: types of conditions. Raises msgspec.DecodeError and ValueError."""
    return read_node_info(with_avoided_conditions(_OBJECT.decode(raw), avoided))


def decode_report(raw: msgspec.Raw, kinds: KindInterner, release: Callable[[str], tuple[int, int]]) -> PublishedReport:
    """Decode a NodeResourceTopology, and log its problems. Raises msgspec.DecodeError if it has no name.

    `release` returns the release of a node's kubelet. An unreadable report affects only its node: the node then has no
    state, and a problem states the reason.
    """
    metadata = _NAMED.decode(raw).metadata
    try:
        nrt = _sized_object(raw)
        decoded = PublishedReport(read_nrt(nrt, kinds, release=release(metadata.name)), _last_written(nrt["metadata"]))
    except Exception as error:  # noqa: BLE001 -- the node's last state must not stay in use
        problem = f"object: {error.__class__.__name__}: {error}"
        decoded = PublishedReport(NodeReport(metadata.name, None, (), (problem,), metadata.resource_version), None)
    for problem in decoded.report.problems[:_MAX_LOGGED_PROBLEMS]:
        log.warning("node=%s report: %s", metadata.name, problem)
    if len(decoded.report.problems) > _MAX_LOGGED_PROBLEMS:
        log.warning("node=%s report: %d problems in all", metadata.name, len(decoded.report.problems))
    return decoded


def _sized_object(raw: msgspec.Raw) -> Json:
    if len(bytes(raw)) > MAX_REPORT_BYTES:
        raise ValueError(f"larger than {MAX_REPORT_BYTES} bytes")
    return _OBJECT.decode(raw)


def _last_written(metadata: Json) -> float | None:
    times = [seconds(entry.get("time")) for entry in metadata.get("managedFields") or ()]
    return max((time for time in times if time is not None), default=None)


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    resource_version: str = ""


class _NamedObject(msgspec.Struct):
    metadata: _Metadata


_NAMED = msgspec.json.Decoder(_NamedObject)
_OBJECT = msgspec.json.Decoder(Json)
