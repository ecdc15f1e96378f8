"""What the page of a job shows besides its row: its history, and the placement of its pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.controller.workloads.conditions import api_time, conditions_of, is_true, transition_time
from zonewise_scheduler.controller.workloads.workload_owner import owner_of, user_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_scheduler.controller.status.reporter import RecentEvent
    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.quota.api.workload_types import PodSetAdmission, Workload

MAX_DOMAINS = 1000
"""Maximum number of domains shown for a pod set."""


def job_json(namespace: str, obj: Json, events: Iterable[RecentEvent]) -> Json:
    """Return the job that owns a Workload, and its history: conditions of the Workload and Events of the job.

    `obj`: the Workload as observed.
    """
    kind, name = owner_of(obj)
    own = {("Workload", obj["metadata"]["name"]), (kind, name)}
    entries: list[Json] = []
    created = obj["metadata"].get("creationTimestamp")
    if created:
        entries.append({"at": created, "source": "Workload", "reason": "Created", "message": "", "warning": False})
    entries += [entry for each in conditions_of(obj) if (entry := _condition_json(each)) is not None]
    entries += [
        {
            "at": api_time(each.at),
            "source": "Event",
            "reason": each.event.reason,
            "message": each.event.message,
            "warning": each.event.is_warning,
        }
        for each in events
        if each.namespace == namespace and (each.kind, each.name) in own
    ]
    job = {"kind": kind, "name": name, "user": user_of(obj) or None}
    return {"job": job, "history": sorted(entries, key=lambda entry: str(entry["at"]))}


def ended_json(namespace: str, name: str, obj: Json) -> Json:
    """Return a Workload that the queue no longer contains, or does not contain yet."""
    state = "Finished" if is_true(obj, "Finished") else "Unknown"
    return {"namespace": namespace, "name": name, "state": state}


def placement_json(workload: Workload) -> list[Json]:
    """Return the placement of the pods of a workload with quota, by pod set."""
    if workload.admission is None:
        return []
    return [_pod_set_json(pod_set) for pod_set in workload.admission.pod_sets]


def _pod_set_json(pod_set: PodSetAdmission) -> Json:
    assignment = pod_set.topology_assignment
    domains = () if assignment is None else assignment.domains
    return {
        "podSet": pod_set.name,
        "pods": pod_set.pods,
        "flavors": dict(pod_set.flavors),
        "levels": [] if assignment is None else list(assignment.levels),
        "domains": [{"values": list(values), "pods": pods} for values, pods in domains[:MAX_DOMAINS]],
        "domainCount": len(domains),
    }


def _condition_json(condition: Mapping[str, object]) -> Json | None:
    at = transition_time(condition)
    if at is None:
        return None
    holds = condition.get("status") == "True"
    return {
        "at": api_time(at),
        "source": "Condition",
        "reason": f"{condition.get('type')}{'' if holds else '=' + str(condition.get('status'))}",
        "message": ": ".join(str(condition[field]) for field in ("reason", "message") if condition.get(field)),
        "warning": False,
    }
