"""Cancel, hold and release: the changes they make, and concurrent changes by others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from zonewise_common.kube.errors import Conflict, NotFound
from zonewise_common.kube.resources import JOB_SETS, JOBS, PODS, WORKLOADS, Resource
from zonewise_scheduler.client.jobs.job_actions import cancel, hold, owner_resource, release
from zonewise_scheduler.client.jobs.job_facts import read_job
from zonewise_scheduler.client.jobs.job_reading import NamedJobs

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_scheduler.client.cluster.session import Session

Json = dict[str, Any]


def workload(
    name: str, *true: str, kind: str = "Job", version: str = "batch/v1", owners: int = 1, active: bool = True
) -> Json:
    references = [
        {"apiVersion": version, "kind": kind, "name": name if owners == 1 else f"{name}-{i}", "uid": "u"}
        for i in range(owners)
    ]
    metadata = {"namespace": "ns", "name": f"w-{name}", "ownerReferences": references, "resourceVersion": "7"}
    conditions = [{"type": each, "status": "True"} for each in true]
    return {"metadata": metadata, "spec": {"active": active}, "status": {"conditions": conditions}}


class FakeCluster:
    """A client and a session with Workloads; the first `conflicts` patches fail with a conflict."""

    def __init__(
        self, *workloads: Json, jobs: tuple[str, ...] = (), ended: tuple[str, ...] = (), conflicts: int = 0
    ) -> None:
        self.workloads = workloads
        self.jobs = jobs
        self.ended = ended
        self.conflicts = conflicts
        self.patches: list[tuple[str, Json]] = []
        self.deleted: list[tuple[str, str, str]] = []
        self.lists = 0
        self.namespace = "ns"
        self.client = self

    def read(self, resource: Resource, read: Callable[[Json], object], *, scope: str | None) -> list[object]:
        assert (resource, scope) == (WORKLOADS, "ns")
        self.lists += 1
        return [*map(read, self.workloads)]

    def find(self, resource: Resource, name: str, *, namespace: str) -> Json | None:
        assert resource == JOBS
        conditions = [{"type": "Complete", "status": "True"}] if name in self.ended else []
        known = name in {*self.jobs, *self.ended}
        metadata = {"name": name, "namespace": namespace, "uid": "u"}
        return {"metadata": metadata, "status": {"conditions": conditions}} if known else None

    def patch(self, resource: Resource, name: str, patch: Json, *, kind: object, namespace: str) -> None:
        if self.conflicts:
            self.conflicts -= 1
            raise Conflict(409, "Conflict", "the object has been modified")
        self.patches.append((name, patch))

    def delete(
        self, resource: Resource, name: str, *, namespace: str, uid: str | None = None, propagation: str = ""
    ) -> None:
        assert uid == (None if resource == PODS else "u")
        if name.startswith("gone"):
            raise NotFound(404, "NotFound", "jobs not found", details={"name": name, "kind": resource.plural})
        if resource.plural == "studys":
            raise NotFound(404, "", "404 page not found")
        if name == "again":
            raise Conflict(409, "Conflict", "the UID in the precondition does not match")
        self.deleted.append((resource.plural, name, propagation))

    @property
    def named(self) -> NamedJobs:
        return NamedJobs(cast("Session", self))


def test_hold_patches_the_version_that_was_read() -> None:
    cluster = FakeCluster(workload("a"))
    assert hold(cluster.named, "a").message == "Job ns/a is held"
    assert cluster.patches == [("w-a", {"metadata": {"resourceVersion": "7"}, "spec": {"active": False}})]


def test_jobs_are_listed_once_for_many_names() -> None:
    cluster = FakeCluster(*(workload(name) for name in "abc"))
    jobs = cluster.named
    assert all(cancel(jobs, name).done for name in "abc")
    assert cluster.lists == 1


def test_a_concurrent_change_causes_a_retry() -> None:
    cluster = FakeCluster(workload("a"), conflicts=2)
    assert hold(cluster.named, "a").done
    assert (len(cluster.patches), cluster.lists) == (1, 3)
    assert hold(FakeCluster(workload("a"), conflicts=99).named, "a").message == "a keeps changing: try again"


@pytest.mark.parametrize(
    ("conditions", "active", "requeue", "done", "message"),
    [
        (("QuotaReserved", "Admitted"), True, False, False, "Job ns/a is Admitted: --requeue stops and holds it"),
        (("QuotaReserved", "Admitted"), True, True, True, "Job ns/a is held"),
        (("QuotaReserved",), True, False, False, "Job ns/a is Reserved: --requeue stops and holds it"),
        (("Finished",), True, True, False, "Job ns/a has finished"),
        ((), False, False, True, "Job ns/a is already held"),
        (("QuotaReserved", "Admitted"), False, False, True, "Job ns/a is already held"),
        (("Finished",), False, True, False, "Job ns/a has finished"),
    ],
)
def test_hold(conditions: tuple[str, ...], active: bool, requeue: bool, done: bool, message: str) -> None:
    cluster = FakeCluster(workload("a", *conditions, active=active))
    result = hold(cluster.named, "a", requeue=requeue)
    assert (result.done, result.message) == (done, message)


def test_a_growing_job_is_held_by_the_workload_of_its_running_pods() -> None:
    """The newer one waits for more pods. Once it had started the job, that would not be held."""
    names = {"old": "2026-01-01T00:00:00Z", "new": "2026-01-02T00:00:00Z"}
    old, new = (workload("a", *conditions) for conditions in (("QuotaReserved", "Admitted"), ()))
    for obj, (name, created) in zip((old, new), names.items(), strict=True):
        obj["metadata"] |= {"name": name, "creationTimestamp": created}
    for workloads in ((old, new), (new, old)):
        cluster = FakeCluster(*workloads)
        assert hold(cluster.named, "a", requeue=True).done
        assert [name for name, _ in cluster.patches] == ["old"]


def test_release() -> None:
    cluster = FakeCluster(workload("a", active=False), workload("b"), workload("c", "Finished"))
    assert release(cluster.named, "a").message == "Job ns/a is released"
    assert cluster.patches == [("w-a", {"metadata": {"resourceVersion": "7"}, "spec": {"active": True}})]
    assert release(cluster.named, "b") == (True, "Job ns/b is not held: it is Pending", "job.batch/b")
    assert not release(cluster.named, "c").done


@pytest.mark.parametrize("conditions", [("Admitted",), ("Admitted", "Evicted")])
def test_a_stopping_job_can_be_released(conditions: tuple[str, ...]) -> None:
    """`hold --requeue` leaves a job in this state while its pods are ending."""
    cluster = FakeCluster(workload("a", "QuotaReserved", *conditions, active=False))
    assert release(cluster.named, "a").message == "Job ns/a is released"
    assert [patch["spec"] for _, patch in cluster.patches] == [{"active": True}]


def test_a_finished_job_is_not_released() -> None:
    cluster = FakeCluster(workload("a", "Finished", active=False))
    assert release(cluster.named, "a") == (False, "Job ns/a is not held: it is Finished", "job.batch/a")
    assert cluster.patches == []


def test_cancel_deletes_the_owner_of_each_kind() -> None:
    cluster = FakeCluster(
        workload("a"), workload("s", kind="JobSet", version="jobset.x-k8s.io/v1alpha2"),
        workload("g", kind="Pod", version="v1", owners=2), jobs=("plain",),
    )  # fmt: skip
    for name in ("a", "jobset/s", "workload/w-g", "plain"):
        assert cancel(cluster.named, name).done
    assert cluster.deleted == [
        ("jobs", "a", "Background"), ("jobsets", "s", "Background"), ("pods", "g-0", ""), ("pods", "g-1", ""),
        ("jobs", "plain", "Background"),
    ]  # fmt: skip


def test_a_group_is_cancelled_even_if_one_of_its_pods_is_gone() -> None:
    group = workload("g", kind="Pod", version="v1", owners=3)
    group["metadata"]["ownerReferences"][1]["name"] = "gone-1"
    cluster = FakeCluster(group)
    assert cancel(cluster.named, "g-0").done
    assert cluster.deleted == [("pods", "g-0", ""), ("pods", "g-2", "")]


@pytest.mark.parametrize("name", ["jobs/a", "Job/a", "JOB.BATCH/a", "Workloads/w-a"])
def test_kinds_have_the_names_of_kubectl(name: str) -> None:
    """A queued Job that is given as jobs/NAME must not be treated like one without a Workload."""
    cluster = FakeCluster(workload("a", "Finished"), jobs=("a",))
    assert "has finished" in cancel(cluster.named, name).message
    assert cluster.deleted == []


def test_jobs_that_cannot_be_cancelled() -> None:
    cluster = FakeCluster(workload("gone"), workload("done", "Finished"))
    assert cancel(cluster.named, "gone").message == "Job ns/gone no longer exists"
    assert "has finished" in cancel(cluster.named, "done").message
    assert "has finished" in cancel(FakeCluster(ended=("done",)).named, "done").message
    assert "no longer exists" in cancel(FakeCluster(workload("again")).named, "again").message
    assert "no longer exists" in cancel(FakeCluster(jobs=("gone",)).named, "gone").message
    assert "there is no job none in namespace ns" in cancel(cluster.named, "none").message
    assert "there is no job jobset/gone" in cancel(cluster.named, "jobset/gone").message


def test_a_kind_with_another_plural_is_left_to_kubectl() -> None:
    """Kinds in the setting `jobKinds` may have any plural."""
    result = cancel(FakeCluster(workload("a", kind="Study", version="example.com/v1")).named, "a")
    assert not result.done
    assert (
        result.message
        == "Study ns/a cannot be deleted by this command: use `kubectl delete study.v1.example.com -n ns a`"
    )


def test_a_dry_run_changes_nothing() -> None:
    cluster = FakeCluster(workload("a"), workload("b", active=False))
    results = [cancel(cluster.named, "a", dry_run=True), hold(cluster.named, "a", dry_run=True)]
    results.append(release(cluster.named, "b", dry_run=True))
    assert all(result.done and result.message.endswith(" (dry run)") for result in results)
    assert cluster.patches == cluster.deleted == []


def test_a_job_that_waits_for_others_cannot_be_held() -> None:
    assert "has no Workload" in hold(FakeCluster(jobs=("a",)).named, "a").message


@pytest.mark.parametrize("resource", [JOBS, JOB_SETS, PODS])
def test_the_resource_of_an_owner(resource: Resource) -> None:
    job = read_job(workload("a", kind=resource.kind, version=resource.api_version))
    assert owner_resource(job) == resource
