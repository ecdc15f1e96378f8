"""Events on jobs: what the queue has done with each, and why. They are derived from completed writes.

| write | reason | type |
|---|---|---|
| admit, pass checks | QuotaReserved or Admitted | Normal |
| evict | Preempted, EvictedDueTo and the reason | Normal |
| reject | AdmissionCheckRejected | Warning |
| finish | FinishedWorkload; for a slice also WorkloadSliceReplaced, OutOfSync | Normal |
| cannot start | FailedToStart | Warning |
| update the check | AdmissionCheckUpdated | Normal |
| create the ProvisioningRequest | ProvisioningRequestCreated, or FailedCreate | Normal, Warning |
| create the Workload | only FailedCreate | Warning |
| explain | Pending | Normal |
| any other change of a job, its Workload or its pods | only FailedUpdate | Warning |

FailedCreate and FailedUpdate are also for a write that is delayed because the API server gives no definite response.

The reasons are Kueue's (pkg/controller/jobframework/events.go, pkg/workload/evict). There are also Events that Kueue
lacks. InvalidWorkload and similar reasons are for objects that cannot be read, PodRejected for each pod that its
kubelet has rejected. RunTimeExceeded and StartDelayed come from overruns.py. If an Event equals the last one of its
job, it is not repeated within REPEAT seconds.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.fields import FieldReader
from zonewise_common.kube.events import Occurrences, event
from zonewise_common.kube.resources import EVENTS, PODS, WORKLOADS
from zonewise_scheduler.backfill.explanation.message import format_duration
from zonewise_scheduler.controller.admissionchecks.provisioning import CHECK_UPDATED
from zonewise_scheduler.controller.admissionchecks.provisioning_reconciler import WATCHED as PROVISIONING_KINDS
from zonewise_scheduler.controller.admissionchecks.provisioning_request import PROVISIONING_REQUESTS
from zonewise_scheduler.controller.reconcile.workload import REJECT
from zonewise_scheduler.controller.types import ObjectKey, Verb, Write
from zonewise_scheduler.controller.workloads.admission_checks import checks_of
from zonewise_scheduler.controller.workloads.conditions import condition_time, find_condition, is_true, message_of
from zonewise_scheduler.controller.workloads.slices import OUT_OF_SYNC, REPLACED, is_slice

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.controller.writing.outcome import Outcome

COMPONENT = "zonewise-controller"
PURPOSE = "event"
EXPLAIN_PURPOSE = "explain"
FAILED_CREATE = "FailedCreate"
"""Reason of the Event about an object whose creation the API server rejects or delays."""
FAILED_UPDATE = "FailedUpdate"
"""Reason of the Event about a change that the API server rejects or delays, for example a start."""
REPEAT = 600.0
"""Seconds before an unchanged Event is repeated."""
_MAX_REMEMBERED = 10_000
"""Number of jobs whose last Event is remembered. The oldest is forgotten first."""


_FAILURES = frozenset({"rejected", "unknown"})
"""Results of a write of which its job gets an Event. A write whose result is unknown is reported only once delayed."""


class JobEvent(NamedTuple):
    """The content of an Event."""

    reason: str
    message: str
    is_warning: bool = False


def creation_event(write: Write, outcome: Outcome) -> JobEvent | None:
    """Return the Event for the creation of a Workload or of an object for it; None: it needs none."""
    kind, name = write.key.resource.kind, write.key.name
    if write.verb is not Verb.CREATE or write.key.resource not in {*PROVISIONING_KINDS, WORKLOADS}:
        return None
    if outcome.result in _FAILURES:
        return JobEvent(FAILED_CREATE, f"{kind} {name} cannot be created: {outcome.message}", True)
    is_request = outcome.result == "done" and write.key.resource == PROVISIONING_REQUESTS
    return JobEvent("ProvisioningRequestCreated", f"{kind} {name}") if is_request else None


def failed_change_event(write: Write, outcome: Outcome) -> JobEvent | None:
    """Return the Event for a rejected or delayed change of a job, its Workload or its pods; None: it needs none.

    A job that may not be stopped, because no Workload can be created for it, simply continues. The pods of a job are
    not named, since all of them usually fail alike, and an equal Event is not repeated.
    """
    is_change = write.verb in {Verb.MERGE_PATCH, Verb.JSON_PATCH} and write.purpose != EXPLAIN_PURPOSE
    if outcome.result not in _FAILURES or not is_change or write.needs is not None:
        return None
    what = "a pod" if write.key.resource == PODS else f"{write.key.resource.kind} {write.key.name}"
    return JobEvent(FAILED_UPDATE, f"{what} cannot be changed ({write.purpose}): {outcome.message}", True)


def workload_event(write: Write, outcome: Outcome) -> JobEvent | None:
    """Return the Event for a write of a Workload; None: it needs none."""
    obj = outcome.obj
    if outcome.result != "done" or obj is None or write.key.resource != WORKLOADS:
        return None
    make = _EVENTS.get(write.purpose)
    return None if make is None else make(obj)


def admission_message(workload: Json) -> str:
    """Return a message such as "by ClusterQueue q, on 2 domains of flavor f; waited for 3 min"."""
    reader = FieldReader(workload, "", [])
    admission = reader.child("status").child("admission")
    flavors: dict[str, None] = {}
    domains = 0
    for pod_set in admission.children("podSetAssignments"):
        flavors |= dict.fromkeys(pod_set.pairs("flavors").values())
        slices = pod_set.child("topologyAssignment").children("slices")
        domains += sum(entry.count("domainCount", 0) or 0 for entry in slices)
    place = f"on {domains} domain{'' if domains == 1 else 's'} of" if domains else "with"
    names = f"flavor{'s' if len(flavors) > 1 else ''} {', '.join(sorted(flavors)) or '(none)'}"
    message = f"by ClusterQueue {admission.text('clusterQueue')}, {place} {names}"
    created = reader.child("metadata").time("creationTimestamp")
    reserved = condition_time(workload, "QuotaReserved")
    if created is None or reserved is None:
        return message
    return f"{message}; waited for {format_duration(reserved - created)}"


class EventLog:
    """Creates Events, except those that repeat the last one."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[JobEvent, float]] = {}
        """The last Event and its time, by UID of the object."""
        self._serial = 0

    def write(self, involved: dict[str, str], told: JobEvent, now: float) -> Write | None:
        """Return the write of an Event; None: the last Event of the object is the same."""
        uid = involved.get("uid", "")
        last, at = self._last.pop(uid, (None, 0.0))
        self._last[uid] = told, now
        if last == told and now < at + REPEAT:
            self._last[uid] = told, at
            return None
        while len(self._last) > _MAX_REMEMBERED:
            del self._last[next(iter(self._last))]
        self._serial += 1
        time = datetime.fromtimestamp(now, UTC)
        body = event(
            involved,
            f"{int(now * 1000):x}.{self._serial:x}",
            COMPONENT,
            told.reason,
            told.message,
            event_type="Warning" if told.is_warning else "Normal",
            seen=Occurrences(time, time),
        )
        metadata = body["metadata"]
        return Write(Verb.CREATE, ObjectKey(EVENTS, metadata["namespace"], metadata["name"]), PURPOSE, body)


def involved_object(key: ObjectKey, obj: Json) -> dict[str, str]:
    """Return the job that owns a Workload, or the object itself if no job owns it."""
    references: list[Json] = obj["metadata"].get("ownerReferences") or []
    owner = next((entry for entry in references if entry.get("controller")), None)
    if key.resource == WORKLOADS and owner is not None:
        fields = {name: str(owner.get(name, "")) for name in ("apiVersion", "kind", "name", "uid")}
        return {**fields, "namespace": key.namespace}
    api_version = obj.get("apiVersion", key.resource.api_version)
    reference = {"apiVersion": api_version, "kind": key.resource.kind, "name": key.name}
    return {**reference, "uid": obj["metadata"].get("uid", "")} | (
        {"namespace": key.namespace} if key.namespace else {}
    )


def _admission(obj: Json) -> JobEvent | None:
    reason = "Admitted" if is_true(obj, "Admitted") else "QuotaReserved"
    return JobEvent(reason, admission_message(obj)) if is_true(obj, "QuotaReserved") else None


def _eviction(obj: Json) -> JobEvent | None:
    if not is_true(obj, "Evicted"):
        return None
    if is_true(obj, "Preempted"):
        return JobEvent("Preempted", message_of(obj, "Preempted"))
    evicted = find_condition(obj, "Evicted") or {}
    return JobEvent(f"EvictedDueTo{evicted.get('reason', '')}", str(evicted.get("message", "")))


def _end_reason(obj: Json) -> str:
    """Return the reason of the Event about a Workload that has ended. Not every end of a slice is that of its job."""
    reason = str((find_condition(obj, "Finished") or {}).get("reason"))
    return reason if is_slice(obj) and reason in {REPLACED, OUT_OF_SYNC} else "FinishedWorkload"


def _check_states(obj: Json) -> str:
    """Return a text such as "capacity: Ready (nodes are there); licence: Pending"."""
    parts = (
        f"{check.get('name')}: {check.get('state')}" + (f" ({check['message']})" if check.get("message") else "")
        for check in checks_of(obj)
    )
    return "; ".join(parts)


_EVENTS: Mapping[str, Callable[[Json], JobEvent | None]] = {
    "admit": _admission,
    "pass checks": _admission,
    "evict": _eviction,
    REJECT: lambda obj: JobEvent("AdmissionCheckRejected", message_of(obj, "DeactivationTarget"), True),
    EXPLAIN_PURPOSE: lambda obj: JobEvent("Pending", message_of(obj, "QuotaReserved")),
    "finish": lambda obj: JobEvent(_end_reason(obj), message_of(obj, "Finished")),
    CHECK_UPDATED: lambda obj: JobEvent("AdmissionCheckUpdated", _check_states(obj)),
    "cannot start": lambda obj: JobEvent("FailedToStart", message_of(obj, "Finished"), True),
}
"""Functions by purpose of a write. Each returns the Event for the Workload that the write returned."""
