"""What `zonewise explain` reads about a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from zonewise_common.kube.resources import EVENTS, WORKLOADS
from zonewise_scheduler.client.explaining import explain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.client.session import Session

Json = dict[str, Any]
NOW = 1767225600.0


class _Listed(NamedTuple):
    """A session with objects that are listed."""

    objects: Mapping[Resource, list[Json]]
    namespace: str = "ns"

    def now(self) -> float:
        return NOW

    def list(self, resource: Resource, **_: object) -> list[Json]:
        return self.objects.get(resource, [])


def workload(uid: str) -> Json:
    owner = {"kind": "Job", "apiVersion": "batch/v1", "name": "train", "uid": uid, "controller": True}
    metadata = {"name": f"job-train-{uid}", "namespace": "ns", "ownerReferences": [owner]}
    finished = {"type": "Finished", "status": "True", "reason": "Succeeded"}
    return {"metadata": metadata, "spec": {"podSets": []}, "status": {"conditions": [finished]}}


def event(message: str, **involved: str) -> Json:
    return {"reason": "Admitted", "message": message, "lastTimestamp": "2025-12-31T23:59:00Z",
            "involvedObject": {"name": "train", **involved}}  # fmt: skip


def test_events_of_an_earlier_job_of_the_same_name_are_left_out() -> None:
    events = [event("earlier", uid="1"), event("this", uid="2"), event("unknown")]
    session = _Listed({WORKLOADS: [workload("2")], EVENTS: events})
    description = explain(cast("Session", session), "train")
    assert description is not None
    [rows] = [table.rows for table in description.tables if table.rows]
    text = str(rows)
    assert ("this" in text, "unknown" in text, "earlier" in text) == (True, True, False)
