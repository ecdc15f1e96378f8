"""The objects of a submitted job: either all of them are created, or none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from zonewise_common.cli.command import CommandError
from zonewise_common.kube.errors import AlreadyExists, Forbidden, TransportError
from zonewise_scheduler.client.submit.job_request import JobRequest
from zonewise_scheduler.client.submit.submission import submit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.client.cluster.session import Session

Json = dict[str, Any]
REQUEST = JobRequest("train", "image", "gpu")
NO_ERRORS: Mapping[str, BaseException] = {}


class FakeCluster:
    """A client and a session with objects by kind and name; some requests fail, by kind or for "delete"."""

    def __init__(self, *present: tuple[str, str], failing: Mapping[str, BaseException] = NO_ERRORS) -> None:
        self.objects = dict.fromkeys(present, "")
        """UIDs of the owners by kind and name."""
        self.failing = failing
        self.namespace = "ns"
        self.client = self

    def find(self, resource: Resource, name: str, *, namespace: str | None = None) -> Json | None:
        if resource.kind == "WorkloadPriorityClass" and resource.kind in self.failing:
            raise self.failing[resource.kind]
        return {} if (resource.kind, name) in {("LocalQueue", "gpu"), ("WorkloadPriorityClass", "high")} else None

    def create(self, resource: Resource, obj: Json, *, namespace: str) -> Json:
        key = resource.kind, obj["metadata"]["name"]
        if key in self.objects:
            raise AlreadyExists(409, "AlreadyExists", f"{key} exists")
        if resource.kind in self.failing:
            raise self.failing[resource.kind]
        self.objects[key] = obj["metadata"].get("ownerReferences", [{"uid": ""}])[0]["uid"]
        return {**obj, "metadata": {**obj["metadata"], "uid": f"u-{key[1]}"}}

    def delete(self, resource: Resource, name: str, *, namespace: str, uid: str, propagation: str) -> None:
        assert (uid, propagation) == (f"u-{name}", "Background")
        if "delete" in self.failing:
            raise self.failing["delete"]
        del self.objects[resource.kind, name]
        self.objects = {key: owner for key, owner in self.objects.items() if owner != uid}

    def submit(self, request: JobRequest = REQUEST) -> tuple[str, list[Json]]:
        submitted, created = submit(cast("Session", self), request, "#!/bin/sh\n", print)
        return submitted.name, created


def test_the_job_owns_the_other_objects() -> None:
    name, created = FakeCluster().submit(REQUEST._replace(pods=2))
    assert [obj["kind"] for obj in created] == ["ConfigMap", "Service", "Job"]
    owners = [obj["metadata"]["ownerReferences"] for obj in created[:-1]]
    assert [(owner["name"], owner["uid"]) for [owner] in owners] == [(name, "u-train")] * 2


@pytest.mark.parametrize("kind", ["Job", "ConfigMap", "Service"])
def test_a_name_that_exists_gets_a_number(kind: str) -> None:
    """The ConfigMap of a recently cancelled Job may still exist."""
    cluster = FakeCluster((kind, "train"), (kind, "train-2"))
    name, created = cluster.submit(REQUEST._replace(pods=2))
    assert name == "train-3"
    assert {obj["metadata"]["name"] for obj in created} == {"train-3"}
    present = {(kind, "train"), (kind, "train-2")}
    assert cluster.objects.keys() == present | {(obj["kind"], name) for obj in created}


def test_no_job_is_left_if_another_object_cannot_be_created() -> None:
    cluster = FakeCluster(failing={"ConfigMap": Forbidden(403, "Forbidden", "no right")})
    with pytest.raises(Forbidden):
        cluster.submit()
    assert cluster.objects == {}


def test_an_interrupt_leaves_no_job() -> None:
    """A Job without its ConfigMap would be queued, and its pods would wait for the script."""
    cluster = FakeCluster(failing={"ConfigMap": KeyboardInterrupt()})
    with pytest.raises(KeyboardInterrupt):
        cluster.submit()
    assert cluster.objects == {}


def test_the_error_names_a_job_that_cannot_be_deleted_again() -> None:
    outage = TransportError("no route to host")
    cluster = FakeCluster(failing={"ConfigMap": outage, "delete": outage})
    with pytest.raises(CommandError, match=r"Job train is incomplete: .*; `zonewise cancel train` removes it"):
        cluster.submit()


def test_a_queue_that_does_not_exist() -> None:
    with pytest.raises(CommandError, match="there is no LocalQueue none in namespace ns"):
        FakeCluster().submit(REQUEST._replace(queue="none"))


def test_a_priority_class_that_does_not_exist() -> None:
    """The controller would not queue such a job. The name is accepted from users who may not read priority classes."""
    cluster = FakeCluster()
    with pytest.raises(CommandError, match="there is no WorkloadPriorityClass hihg: name one by --priority-class"):
        cluster.submit(REQUEST._replace(priority_class="hihg"))
    assert cluster.objects == {}
    assert cluster.submit(REQUEST._replace(priority_class="high"))[0] == "train"
    hidden = FakeCluster(failing={"WorkloadPriorityClass": Forbidden(403, "Forbidden", "may not")})
    assert hidden.submit(REQUEST._replace(priority_class="hihg"))[0] == "train"
