"""The facts about a job that `zonewise explain` reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pytest

from zonewise_common.kube.resources import EVENTS, JOBS, NODES, PODS, WORKLOADS
from zonewise_scheduler.client.describe.explaining import explain
from zonewise_scheduler.client.jobs.job_facts import read_job

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.client.cluster.session import Session

Json = dict[str, Any]
NOW = 1767225600.0


class _Rows(NamedTuple):
    """A read API that returns the given rows; `explanation` is that of the waiting job."""

    explanation: Json
    rows: Mapping[str, Json]

    def workload(self, _namespace: str, name: str) -> Json:
        return {"explanation": self.explanation, **self.rows[name]}

    def workloads(self) -> Mapping[tuple[str, str], Json]:
        return {("ns", name): row for name, row in self.rows.items()}


class _Listed(NamedTuple):
    """A session that lists the given objects."""

    objects: Mapping[Resource, list[Json]]
    namespace: str = "ns"
    read_api: _Rows | None = None
    finds: list[Resource] | None = None
    """Resources of which single objects were requested; None: they are not recorded."""

    def now(self) -> float:
        return NOW

    def list(self, resource: Resource, *, scope: str = "ns", label_selector: str = "", **_: str) -> list[Json]:
        assert scope == self.namespace
        label, _equals, value = label_selector.partition("=")
        objects = self.objects.get(resource, [])
        return [each for each in objects if not label or each["metadata"]["labels"].get(label) == value]

    def read(self, resource: Resource, read: Callable[[Json], object], *, scope: str) -> list[object]:
        return [value for value in map(read, self.list(resource, scope=scope)) if value is not None]

    def find(self, resource: Resource, name: str, **_: object) -> Json | None:
        if self.finds is not None:
            self.finds.append(resource)
        return next((obj for obj in self.objects.get(resource, ()) if obj["metadata"]["name"] == name), None)


def workload(uid: str) -> Json:
    owner = {"kind": "Job", "apiVersion": "batch/v1", "name": "train", "uid": uid, "controller": True}
    metadata = {"name": f"job-train-{uid}", "namespace": "ns", "ownerReferences": [owner],
                "creationTimestamp": "2025-12-31T23:30:00Z"}  # fmt: skip
    finished = {"type": "Finished", "status": "True", "reason": "Succeeded"}
    return {"metadata": metadata, "spec": {"podSets": []}, "status": {"conditions": [finished]}}


def running(name: str) -> Json:
    owner = {"kind": "Job", "apiVersion": "batch/v1", "name": name, "uid": name}
    conditions = [{"type": each, "status": "True", "lastTransitionTime": "2025-12-31T23:40:00Z"}
                  for each in ("QuotaReserved", "Admitted")]  # fmt: skip
    metadata = {"name": f"w-{name}", "namespace": "ns", "ownerReferences": [owner]}
    return {"metadata": metadata, "spec": {"podSets": []}, "status": {"conditions": conditions}}


def test_the_end_of_a_blocker_is_that_of_the_read_api() -> None:
    """Its LocalQueue may declare a walltime for it (zonewise.dev/default-run-seconds)."""
    waiting = workload("2")
    waiting["status"] = {}
    known = {"walltimeSeconds": 3600.0, "deadline": "2026-01-01T00:40:00Z"}
    rows = {"job-train-2": {"state": "Pending"}, "w-a": known, "w-b": {}}
    api = _Rows({"waitsFor": ["ns/w-a", "ns/w-b"]}, rows)
    session = _Listed({WORKLOADS: [waiting, running("a"), running("b")]}, read_api=api)
    description = explain(cast("Session", session), "train")
    assert description is not None
    [blockers] = [table for table in description.tables if table.columns[0].header == "MUST END FIRST"]
    ends = [str(row[3]) for row in blockers.rows]
    assert ("00:40 UTC" in ends[0], "it declares no walltime" in ends[1]) == (True, True)


def test_the_pods_of_a_node_end_by_the_deadlines_of_the_read_api() -> None:
    def pod(name: str, workload: str) -> Json:
        metadata = {"name": name, "namespace": "ns", "annotations": {"kueue.x-k8s.io/workload": workload}}
        return {"metadata": metadata, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}}

    objects = {
        NODES: [{"metadata": {"name": "n"}}],
        PODS: [pod("a-0", "w-a"), pod("gone-0", "w-gone")],
        WORKLOADS: [running("a")],
    }
    api = _Rows({}, {"w-a": {"deadline": "2026-01-01T00:40:00Z"}})
    description = explain(cast("Session", _Listed(objects, read_api=api)), "node/n")
    assert description is not None
    assert [(each["name"], each["deadline"]) for each in description.document["pods"]] == [
        ("a-0", "2026-01-01T00:40:00Z"), ("gone-0", None),
    ]  # fmt: skip


def labelled(uid: str, name: str, **status: Any) -> Json:
    obj = workload(uid) | {"status": status}
    obj["metadata"] |= {"name": name, "labels": {"kueue.x-k8s.io/job-uid": uid}}
    return obj


def test_the_workload_of_an_unfinished_job_is_selected_by_the_server() -> None:
    """A cluster may have thousands of Workloads, and each of their users asks about one."""
    job = {"metadata": {"name": "train", "namespace": "ns", "uid": "2"}, "spec": {}}
    listed: list[Resource] = []

    class Recording(_Listed):
        def read(self, resource: Resource, read: Callable[[Json], object], *, scope: str) -> list[object]:
            listed.append(resource)
            return super().read(resource, read, scope=scope)

    objects = {JOBS: [job], WORKLOADS: [labelled("1", "earlier"), labelled("2", "w-2")]}
    session = Recording(objects, read_api=_Rows({}, {"w-2": {}}))
    description = explain(cast("Session", session), "job/train")
    assert description is not None
    assert (description.document["workload"], WORKLOADS in listed) == ("w-2", False)


def test_a_workload_that_has_finished_or_has_no_label_is_searched_among_all() -> None:
    job = {"metadata": {"name": "train", "namespace": "ns", "uid": "2"}, "spec": {}}
    finished = labelled("2", "w-2", conditions=[{"type": "Finished", "status": "True"}])
    plain = labelled("2", "w-2")
    plain["metadata"]["labels"] = {}
    for obj in (finished, plain):
        session = _Listed({JOBS: [job], WORKLOADS: [obj]}, read_api=_Rows({}, {"w-2": {}}))
        description = explain(cast("Session", session), "train")
        assert description is not None
        assert description.document["workload"] == "w-2"


def event(message: str, at: str = "2025-12-31T23:59:00Z", **involved: str) -> Json:
    return {"reason": "Admitted", "message": message, "lastTimestamp": at,
            "involvedObject": {"name": "train", **involved}}  # fmt: skip


def explained(*events: Json) -> str:
    """Return the rows of the table with the Events of the job."""
    description = explain(cast("Session", _Listed({WORKLOADS: [workload("2")], EVENTS: list(events)})), "train")
    assert description is not None
    [rows] = [table.rows for table in description.tables if table.rows]
    return str(rows)


def test_events_of_an_earlier_job_with_the_same_name_are_left_out() -> None:
    text = explained(event("earlier", uid="1"), event("this", uid="2"), event("unknown"))
    assert ("this" in text, "unknown" in text, "earlier" in text) == (True, True, False)


def test_events_of_deleted_pods_are_shown_if_the_job_existed_then() -> None:
    text = explained(
        event("earlier", "2025-12-31T23:29:59Z", name="train-0-7x2bq"),
        event("this", "2025-12-31T23:30:00Z", name="train-0-7x2bq"),
        event("other", name="train-big-7x2bq"),
    )
    assert ("this" in text, "earlier" in text, "other" in text) == (True, False, False)


def pod(name: str, job: str, uid: str, workload_name: str = "") -> Json:
    return {
        "metadata": {
            "name": name, "namespace": "ns", "labels": {"batch.kubernetes.io/job-name": job},
            "annotations": {"kueue.x-k8s.io/workload": workload_name} if workload_name else {},
            "ownerReferences": [{"kind": "Job", "name": job, "uid": uid}],
        },
        "status": {"phase": "Failed"},
    }  # fmt: skip


def test_limits_without_requests_are_requests() -> None:
    """The API server adds such requests to pods, but not to templates of Jobs and Workloads (core/v1 defaults.go)."""
    resources = {"limits": {"nvidia.com/gpu": "2", "cpu": "4"}, "requests": {"cpu": "1"}}
    waiting = workload("2") | {
        "spec": {"podSets": [{"template": {"spec": {"containers": [{"resources": resources}]}}}]}
    }
    assert read_job(waiting).requests == (("main", 1, {"nvidia.com/gpu": 2, "cpu": 1000}),)


@pytest.mark.parametrize("kind", ["Pod", "PODS", "Node", "no"])
def test_kinds_are_case_insensitive(kind: str) -> None:
    """The same applies to kubectl."""
    session = _Listed({PODS: [pod("a", "train", "1")], NODES: [{"metadata": {"name": "a"}}]})
    description = explain(cast("Session", session), f"{kind}/a")
    assert description is not None
    assert description.name == f"{'pod' if kind in {'Pod', 'PODS'} else 'node'}/a"


def test_pods_of_an_earlier_job_with_the_same_name_are_left_out() -> None:
    pods = [pod("train-7x2bq", "train", "1"), pod("train-9z4lk", "train", "2"), pod("x", "train", "3", "job-train-2")]
    description = explain(cast("Session", _Listed({WORKLOADS: [workload("2")], PODS: pods})), "train")
    assert description is not None
    assert [each["name"] for each in description.document["pods"]] == ["train-9z4lk", "x"]


def test_events_of_pods_of_another_job_with_a_similar_name_are_left_out() -> None:
    """The name of a pod of the Job train-2 could also be that of a pod of the Job train."""
    pods = [pod("train-2-7x2bq", "train-2", "8")]
    events = [event("other", name="train-2-7x2bq"), event("this", uid="2")]
    session = cast("Session", _Listed({WORKLOADS: [workload("2")], EVENTS: events, PODS: pods}))
    description = explain(session, "train")
    assert description is not None
    [rows] = [table.rows for table in description.tables if table.rows and table.columns[0].header == "AGE"]
    assert ("this" in str(rows), "other" in str(rows)) == (True, False)


def test_events_of_many_deleted_pods_take_no_request_for_each() -> None:
    """One list shows that 29 of the 30 pods were deleted, and that the other one is a pod of the Job train-1."""
    names = [f"train-{i}-7x2bq" for i in range(30)]
    events = [event(f"about {name}.", name=name) for name in names]
    objects = {WORKLOADS: [workload("2")], EVENTS: events, PODS: [pod(names[1], "train-1", "8")]}
    session = _Listed(objects, finds=[])
    description = explain(cast("Session", session), "train")
    assert description is not None
    shown = str([table.rows for table in description.tables if table.rows])
    assert session.finds is not None
    assert (session.finds.count(PODS), "about train-29-" in shown, names[1] in shown) == (0, True, False)


def why_without_workload(*events: Json) -> str:
    """Return the reason why a Job with a LocalQueue has no Workload."""
    metadata = {"name": "train", "namespace": "ns", "uid": "2", "labels": {"kueue.x-k8s.io/queue-name": "lq"}}
    listed = {JOBS: [{"metadata": metadata, "spec": {"suspend": True}}], EVENTS: list(events)}
    description = explain(cast("Session", _Listed(listed)), "train")
    assert description is not None
    return description.document["message"]


def test_the_reason_for_a_job_that_the_controller_rejects() -> None:
    """The controller runs, but creates no Workload for such a Job."""
    old, new = (
        event(f"metadata.labels.kueue.x-k8s.io/priority-class: there is no such class: {name!r}", at, uid="2")
        | {"reason": "InvalidJob"}
        for name, at in (("a", "2025-12-31T23:50:00Z"), ("b", "2025-12-31T23:51:00Z"))
    )
    label = "metadata.labels.kueue.x-k8s.io/priority-class"
    assert why_without_workload(new, old, event("later", uid="2")) == (
        f"the controller does not queue it: {label}: there is no such class: 'b'"
    )
    assert "does `zonewise controller` run?" in why_without_workload(event("other", uid="2"))
