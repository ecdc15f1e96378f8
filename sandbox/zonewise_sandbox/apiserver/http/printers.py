"""The tables that `kubectl get` prints for built-in kinds, without the name column.

Source: pkg/printers/internalversion/printers.go (printPod, printNode, printJob, printEvent), simplified.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from zonewise_sandbox.apiserver.json_values import list_in, object_in

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zonewise_sandbox.apiserver.json_values import Object, Value

_ROLE = "node-role.kubernetes.io/"
_UNKNOWN, _NONE = "<unknown>", "<none>"


class Printer(NamedTuple):
    """The columns of a kind, and the cells of an object."""

    columns: tuple[tuple[str, int], ...]
    """Names and priorities: columns with 0 are always shown, others only in wide tables."""
    cells: Callable[[Object, float], list[Value]]
    """Function of an object and the time in seconds since 1970."""


def age(text: Value, now: float) -> str:
    """Return the time since a timestamp, or `<unknown>` without one."""
    return duration(now - _seconds(text)) if isinstance(text, str) and text else _UNKNOWN


def duration(seconds: float) -> str:
    """Return a duration in its largest unit (k8s.io/apimachinery/pkg/util/duration, simplified)."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{int(seconds) // length}{unit}"
    return f"{max(int(seconds), 0)}s"


def _pod(pod: Object, now: float) -> list[Value]:
    spec, status = object_in(pod, "spec"), object_in(pod, "status")
    statuses = list_in(status, "containerStatuses")
    ready = sum(bool(container.get("ready")) for container in statuses)
    restarts = sum(int(container.get("restartCount") or 0) for container in statuses)
    created = object_in(pod, "metadata").get("creationTimestamp")
    nominated = status.get("nominatedNodeName") or _NONE
    return [f"{ready}/{len(list_in(spec, 'containers'))}", _pod_status(pod), str(restarts), age(created, now),
            status.get("podIP") or _NONE, spec.get("nodeName") or _NONE, nominated, _NONE]  # fmt: skip


def _pod_status(pod: Object) -> str:
    status, metadata = object_in(pod, "status"), object_in(pod, "metadata")
    phase = str(status.get("reason") or status.get("phase") or "Unknown")
    if metadata.get("deletionTimestamp") and phase not in {"Succeeded", "Failed"}:
        return "Terminating"
    if list_in(object_in(pod, "spec"), "schedulingGates"):
        return "SchedulingGated"
    ended = [
        object_in(object_in(container, "state"), "terminated") for container in list_in(status, "containerStatuses")
    ]
    reasons = [str(state["reason"]) for state in ended if state.get("reason")]
    return reasons[0] if reasons else phase


def _node(node: Object, now: float) -> list[Value]:
    metadata, status = object_in(node, "metadata"), object_in(node, "status")
    ready = next((entry for entry in list_in(status, "conditions") if entry.get("type") == "Ready"), None)
    state = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    state += ",SchedulingDisabled" if object_in(node, "spec").get("unschedulable") else ""
    roles = sorted(label.removeprefix(_ROLE) for label in object_in(metadata, "labels") if label.startswith(_ROLE))
    version = object_in(status, "nodeInfo").get("kubeletVersion", "")
    return [state, ",".join(roles) or _NONE, age(metadata.get("creationTimestamp"), now), version]


def _job(job: Object, now: float) -> list[Value]:
    spec, status = object_in(job, "spec"), object_in(job, "status")
    succeeded, completions = int(status.get("succeeded") or 0), spec.get("completions")
    parallelism = spec.get("parallelism") or 1
    total = str(completions) if completions is not None else f"1 of {parallelism}" if parallelism > 1 else "1"
    begin, end = status.get("startTime"), status.get("completionTime")
    took = duration((_seconds(end) if end else now) - _seconds(begin)) if begin else ""
    created = object_in(job, "metadata").get("creationTimestamp")
    return [_job_status(job), f"{succeeded}/{total}", took, age(created, now)]


def _job_status(job: Object) -> str:
    metadata, status = object_in(job, "metadata"), object_in(job, "status")
    true = {entry.get("type") for entry in list_in(status, "conditions") if entry.get("status") == "True"}
    for condition in ("Complete", "Failed"):
        if condition in true:
            return condition
    if metadata.get("deletionTimestamp"):
        return "Terminating"
    return next((name for name in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if name in true), "Running")


def _event(event: Object, now: float) -> list[Value]:
    involved = object_in(event, "involvedObject")
    series = object_in(event, "series").get("lastObservedTime")
    last = series or event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp")
    target = f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"
    return [age(last, now), event.get("type", ""), event.get("reason", ""), target, event.get("message", "")]


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


PRINTERS: Mapping[tuple[str, str], Printer] = {
    ("", "pods"): Printer(
        (("Ready", 0), ("Status", 0), ("Restarts", 0), ("Age", 0), ("IP", 1), ("Node", 1), ("Nominated Node", 1),
         ("Readiness Gates", 1)),
        _pod,
    ),
    ("", "nodes"): Printer((("Status", 0), ("Roles", 0), ("Age", 0), ("Version", 0)), _node),
    ("batch", "jobs"): Printer((("Status", 0), ("Completions", 0), ("Duration", 0), ("Age", 0)), _job),
    ("", "events"): Printer((("Last Seen", 0), ("Type", 0), ("Reason", 0), ("Object", 0), ("Message", 0)), _event),
}  # fmt: skip
"""Printers by group and plural; the table of events has no name column."""
NAMELESS = frozenset({("", "events")})
"""Kinds whose tables have no name column."""
