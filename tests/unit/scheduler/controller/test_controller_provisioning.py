"""Workloads that wait for nodes of a simulated cluster autoscaler; the controller is killed after any write.

A Workload never has more than one ProvisioningRequest, and none of its objects outlives it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.controller_stories import QUEUE, ControllerStory, annotate_first, kills, owners
from support.model_cluster import NAMESPACE, ModelCluster
from zonewise_common.kube.resources import (
    ADMISSION_CHECKS,
    LIMIT_RANGES,
    PROVISIONING_REQUEST_CONFIGS,
    RUNTIME_CLASSES,
    WORKLOADS,
)
from zonewise_scheduler.controller.admissionchecks.provisioning_request import (
    CLASS_ANNOTATION,
    POD_TEMPLATES,
    PROVISIONING_REQUESTS,
    REQUEST_ANNOTATION,
)
from zonewise_scheduler.controller.types import ObjectKey
from zonewise_scheduler.controller.workloads.conditions import find_condition, is_true
from zonewise_scheduler.quota.flavorassigner.tas_flavorassigner import PROVISIONING_REQUEST_CONTROLLER

if TYPE_CHECKING:
    from collections.abc import Callable

Json = dict[str, Any]

CONFIG: Json = {
    "provisioningClassName": "check-capacity",
    "retryStrategy": {"backoffLimitCount": 1, "backoffBaseSeconds": 500},
    "podSetUpdates": {"nodeSelector": [{"key": "pool", "valueFromProvisioningClassDetail": "Pool"}]},
}
CHECK = ObjectKey(ADMISSION_CHECKS, "", "capacity")
CONFIG_KEY = ObjectKey(PROVISIONING_REQUEST_CONFIGS, "", "c")


def cluster() -> ModelCluster:
    """Return a cluster whose queue requires capacity from an autoscaler."""
    rules = [{"name": "capacity"}]
    made = ModelCluster(
        admissionChecksStrategy={"admissionChecks": rules}, preemption={"withinClusterQueue": "LowerPriority"}
    )
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "c"}
    spec = {"controllerName": PROVISIONING_REQUEST_CONTROLLER, "parameters": parameters}
    made.create(ADMISSION_CHECKS, "", "capacity", spec=spec)
    made.create(PROVISIONING_REQUEST_CONFIGS, "", "c", spec=CONFIG)
    return made


class AutoscaledStory(ControllerStory):
    """A scenario with an autoscaler."""

    def check(self) -> None:
        """Check the invariants after each write: one request per Workload, and no object without its owner."""
        super().check()
        workloads = [obj["metadata"]["ownerReferences"][0]["uid"] for obj in self.requests().values()]
        assert len(workloads) == len(set(workloads))
        uids = {obj["metadata"]["uid"] for obj in self.cluster.objects.values()}
        for obj in (*self.requests().values(), *self.templates()):
            assert {owner["uid"] for owner in obj["metadata"]["ownerReferences"]} <= uids

    def requests(self) -> dict[ObjectKey, Json]:
        """Return all requests."""
        return {key: obj for key, obj in self.cluster.objects.items() if key.resource == PROVISIONING_REQUESTS}

    def templates(self) -> list[Json]:
        """Return all PodTemplates."""
        return [obj for key, obj in self.cluster.objects.items() if key.resource == POD_TEMPLATES]

    def request(self) -> Json:
        """Return the only request, which owns its PodTemplates."""
        (request,) = self.requests().values()
        names = {item["podTemplateRef"]["name"] for item in request["spec"]["podSets"]}
        assert {obj["metadata"]["name"] for obj in self.templates()} == names
        uid = request["metadata"]["uid"]
        assert {obj["metadata"]["ownerReferences"][0]["uid"] for obj in self.templates()} == {uid}
        return request

    def set_conditions(self, *conditions: str, **status: Any) -> None:
        """Let the autoscaler set conditions of the only request, then let the queue settle."""
        (key,) = self.requests()
        entries = [{"type": item, "status": "True", "message": f"{item} message"} for item in conditions]
        self.cluster.change(key, {"status": {"conditions": entries, **status}})
        self.settle()

    def workload(self, job: ObjectKey) -> Json:
        """Return the Workload of a Job."""
        (obj,) = (item for item in self.cluster.workloads() if owners(item) == [job.name])
        return obj

    def state(self, job: ObjectKey) -> tuple[str, str]:
        """Return state and message of the check of a Job's Workload."""
        (check,) = self.workload(job)["status"]["admissionChecks"]
        return check["state"], check.get("message", "")

    def is_held(self, job: ObjectKey) -> bool:
        """Return whether a Job is suspended."""
        return self.cluster.get(job)["spec"]["suspend"]


def capacity_is_provisioned(story: AutoscaledStory) -> None:
    """The Job starts on the nodes that were provisioned for it."""
    job = story.cluster.submit("j", 2, pods=3)
    story.settle()
    assert is_true(story.cluster.get(CHECK), "Active")
    assert is_true(story.workload(job), "QuotaReserved")
    request = story.request()
    assert request["metadata"]["name"].endswith("-capacity-1")
    assert request["spec"]["podSets"][0]["count"] == 3
    (template,) = story.templates()
    assert template["template"]["spec"]["nodeSelector"] == {"flavor": "f"}
    story.set_conditions("Accepted")
    assert story.is_held(job)
    story.set_conditions("Accepted", "Provisioned", provisioningClassDetails={"Pool": "p1"})
    assert story.state(job) == ("Ready", "Provisioned message")
    assert not story.is_held(job)
    pods = story.cluster.get(job)["spec"]["template"]
    assert pods["spec"]["nodeSelector"] == {"flavor": "f", "pool": "p1"}
    assert pods["metadata"]["annotations"][REQUEST_ANNOTATION] == request["metadata"]["name"]
    assert pods["metadata"]["annotations"][CLASS_ANNOTATION] == "check-capacity"
    story.set_conditions("Accepted", "Provisioned", "BookingExpired")
    assert not story.is_held(job)
    story.cluster.complete(job)
    story.settle()
    assert not story.requests()
    assert not story.templates()
    assert story.cluster.starts == {"j": 1}


@pytest.mark.parametrize("condition", ["Failed", "BookingExpired"])
def test_the_failure_of_the_last_attempt_is_reported(condition: str) -> None:
    story = AutoscaledStory(cluster(), None)
    no_capacity_is_provisioned(story, condition)
    (workload,) = story.cluster.workloads()
    evicted = find_condition(workload, "Evicted") or {}
    assert evicted["message"].endswith(f"admission check capacity is Rejected: {condition} message")


def no_capacity_is_provisioned(story: AutoscaledStory, condition: str = "Failed") -> None:
    """After a backoff there is one more attempt, then the Workload is deactivated; a user's activation starts over."""
    job = story.cluster.submit("j", 4)
    story.settle()
    first = story.request()["metadata"]["name"]
    failed_at = story.now
    story.set_conditions(condition)
    assert not is_true(story.workload(job), "QuotaReserved")
    assert not story.requests()
    assert not story.templates()
    story.settle_until(lambda: bool(story.requests()))
    assert story.now >= failed_at + 500
    assert story.request()["metadata"]["name"] == f"{first[:-1]}2"
    story.set_conditions(condition)
    obj = story.workload(job)
    assert obj["spec"]["active"] is False
    assert (find_condition(obj, "Evicted") or {})["reason"] == "DeactivatedDueToAdmissionCheck"
    assert not story.requests()
    assert story.cluster.starts == {}
    story.cluster.change(ObjectKey(WORKLOADS, NAMESPACE, obj["metadata"]["name"]), {"spec": {"active": True}})
    story.settle()
    assert story.request()["metadata"]["name"] == first


def capacity_is_revoked(story: AutoscaledStory) -> None:
    """The Job stops, and its Workload is deactivated."""
    job = story.cluster.submit("j", 4)
    story.settle()
    story.set_conditions("Provisioned")
    assert not story.is_held(job)
    story.set_conditions("Provisioned", "CapacityRevoked")
    assert story.is_held(job)
    assert story.workload(job)["spec"]["active"] is False
    assert not story.requests()
    template = story.cluster.get(job)["spec"]["template"]
    assert REQUEST_ANNOTATION not in str(template)


def preempted_meanwhile(story: AutoscaledStory) -> None:
    """The request is deleted; another one is created once the Workload has quota again."""
    low = story.cluster.submit("low", 6, priority="low")
    story.settle()
    request = story.request()
    high = story.cluster.submit("high", 6, priority="high", at=5)
    story.settle()
    assert not is_true(story.workload(low), "QuotaReserved")
    assert story.request()["metadata"]["uid"] != request["metadata"]["uid"]
    story.set_conditions("Provisioned")
    assert not story.is_held(high)
    story.cluster.complete(high)
    story.settle()
    assert is_true(story.workload(low), "QuotaReserved")
    assert story.request()["metadata"]["ownerReferences"][0]["name"] == story.workload(low)["metadata"]["name"]
    story.set_conditions("Provisioned")
    assert not story.is_held(low)


def the_configuration_changes(story: AutoscaledStory) -> None:
    """Without a configuration the queue admits nothing; a request of another class is replaced."""
    job = story.cluster.submit("j", 4)
    story.settle()
    story.cluster.delete(CONFIG_KEY)
    story.settle()
    assert (find_condition(story.cluster.get(CHECK), "Active") or {})["status"] == "False"
    assert story.state(job) == ("Pending", "the check is not active")
    story.cluster.create(PROVISIONING_REQUEST_CONFIGS, "", "c", spec={**CONFIG, "provisioningClassName": "other"})
    story.settle()
    assert is_true(story.cluster.get(CHECK), "Active")
    assert story.request()["spec"]["provisioningClassName"] == "other"
    story.set_conditions("Provisioned")
    assert not story.is_held(job)


def the_workload_is_deleted(story: AutoscaledStory) -> None:
    """Deleting a Job deletes its request."""
    job = story.cluster.submit("j", 4)
    story.settle()
    assert story.request()
    story.cluster.delete(job)
    story.settle()
    assert not story.requests()
    assert not story.templates()
    other = story.cluster.submit("other", 8, at=3)
    story.settle()
    assert is_true(story.workload(other), "QuotaReserved")


STORIES: dict[str, Callable[[AutoscaledStory], None]] = {
    "capacity comes": capacity_is_provisioned,
    "no capacity comes": no_capacity_is_provisioned,
    "capacity is revoked": capacity_is_revoked,
    "preempted meanwhile": preempted_meanwhile,
    "the configuration changes": the_configuration_changes,
    "the Workload goes": the_workload_is_deleted,
}


@pytest.mark.parametrize("name", STORIES)
def test_a_scenario_completes_wherever_the_controller_is_killed(name: str) -> None:
    for writes in kills(STORIES[name], cluster, AutoscaledStory):
        STORIES[name](AutoscaledStory(cluster(), writes))


@pytest.mark.parametrize("name", STORIES)
def test_two_leaders_do_no_harm(name: str) -> None:
    STORIES[name](AutoscaledStory(cluster(), None, leaders=2))


@pytest.mark.parametrize("name", STORIES)
def test_user_edits_before_each_write_only_delay_a_scenario(name: str) -> None:
    STORIES[name](AutoscaledStory(cluster(), before_write=annotate_first()))


def test_a_scenario_has_no_more_writes_than_necessary() -> None:
    """Besides Workload and Job: two for the request, one for the template's owner, one for the check, one at last."""
    story = AutoscaledStory(cluster(), None)
    capacity_is_provisioned(story)
    counts = {purpose: story.purposes().count(purpose) for purpose in story.purposes()}
    assert counts.pop("delete the ProvisioningRequest [ProvisioningRequest]") == 1
    assert {purpose: count for purpose, count in counts.items() if "[Job]" not in purpose} == {
        "activate the check [AdmissionCheck]": 1,
        "create the Workload [Workload]": 1,
        "admit [Workload]": 1,
        "create the PodTemplate [PodTemplate]": 1,
        "create the ProvisioningRequest [ProvisioningRequest]": 1,
        "adopt the PodTemplate [PodTemplate]": 1,
        "update the check [Workload]": 1,
        "pass checks [Workload]": 1,
        "follow the pods [Workload]": counts["follow the pods [Workload]"],
        "finish [Workload]": 1,
    }


def test_a_request_that_cannot_be_created_is_reported_by_its_check() -> None:
    story = AutoscaledStory(cluster(), None, rejects=PROVISIONING_REQUESTS)
    job = story.cluster.submit("j", 4)
    story.settle()
    assert story.state(job) == ("Pending", "no ProvisioningRequest can be created: ProvisioningRequest: not served")
    story.rejects = None
    story.settle_until(lambda: bool(story.requests()))
    assert story.state(job) == ("Pending", "")


def test_a_request_is_created_as_soon_as_its_kind_is_installed() -> None:
    story = AutoscaledStory(cluster(), None, rejects=PROVISIONING_REQUESTS)
    job = story.cluster.submit("j", 4)
    story.settle()
    story.rejects = None
    story.settle()
    assert not story.requests()
    story.queue.controller.end_listing(PROVISIONING_REQUESTS, 1, story.now)
    story.settle()
    assert story.requests()
    assert story.state(job) == ("Pending", "")


def test_manually_removing_an_admission_does_not_block_writes_of_other_workloads() -> None:
    """The check waits, since no PodTemplate can be created."""
    story = AutoscaledStory(cluster(), None, rejects=POD_TEMPLATES)
    job = story.cluster.submit("j", 4)
    story.settle()
    key = ObjectKey(WORKLOADS, NAMESPACE, story.workload(job)["metadata"]["name"])
    story.cluster.change(key, {"status": {"admission": None}})
    other = story.cluster.submit("other", 8, at=5)
    story.now += 100
    story.settle()
    assert story.workload(other)
    assert "withdraw quota [Workload]" in story.queue.purposes


ACTS = ("submit", "complete", "delete", "hold", "release", "configure", "sleep")
CONDITIONS = ("Accepted", "Provisioned", "Failed", "BookingExpired", "CapacityRevoked")
STEPS = st.lists(st.sampled_from((*ACTS, *CONDITIONS)), max_size=12)


@given(STEPS, st.integers(0, 40))
def test_any_history_leaves_no_objects_or_usage_behind(steps: list[str], killed_after: int) -> None:
    """In the end all Jobs are deleted. Then no request or template exists, and all quota is free."""
    story = AutoscaledStory(cluster(), killed_after)
    jobs: list[ObjectKey] = []
    for i, step in enumerate(("submit", *steps)):
        if step == "submit":
            jobs.append(story.cluster.submit(f"j{i}", 3, at=i))
        else:
            play(story, step, jobs)
        story.settle()
        assert len(story.requests()) <= len(jobs)
    play(story, "release", jobs)
    while jobs:
        story.cluster.delete(jobs.pop())
    story.settle()
    assert not story.requests()
    assert not story.templates()
    last = story.cluster.submit("last", 8, at=60)
    story.settle()
    story.set_conditions("Provisioned")
    assert not story.is_held(last)


def play(story: AutoscaledStory, step: str, jobs: list[ObjectKey]) -> None:
    """Let a user, an administrator or the autoscaler take an action, if it is possible."""
    running = [job for job in jobs if not story.is_held(job) and not story.cluster.is_finished(job)]
    if step == "complete" and running:
        story.cluster.complete(running[0])
    elif step == "delete" and jobs:
        story.cluster.delete(jobs.pop(0))
    elif step in {"hold", "release"}:
        policy = "HoldAndDrain" if step == "hold" else "None"
        story.cluster.change(QUEUE, {"spec": {"stopPolicy": policy}})
    elif step == "configure":
        config = story.cluster.get(CONFIG_KEY)["spec"]
        other = "a" if config["provisioningClassName"] != "a" else "b"
        story.cluster.change(CONFIG_KEY, {"spec": {"provisioningClassName": other}})
    elif step == "sleep":
        story.now += 1000
    elif step in CONDITIONS and story.requests():
        key = min(story.requests())
        old = story.cluster.get(key).get("status", {}).get("conditions", [])
        entries = [*old, {"type": step, "status": "True", "message": f"{step} message"}]
        story.cluster.change(key, {"status": {"conditions": entries}})


def test_nodes_are_requested_for_pods_including_the_additions_of_the_api_server() -> None:
    story = AutoscaledStory(cluster(), None)
    limits = {"type": "Container", "default": {"cpu": "4"}}
    story.cluster.create(LIMIT_RANGES, NAMESPACE, "r", spec={"limits": [limits]})
    overhead, scheduling = {"cpu": "1"}, {"nodeSelector": {"pool": "kata"}}
    story.cluster.create(RUNTIME_CLASSES, "", "kata", overhead={"podFixed": overhead}, scheduling=scheduling)
    job = story.cluster.submit("j", 2, pods=2)
    story.cluster.change(job, {"spec": {"template": {"spec": {"runtimeClassName": "kata"}}}})
    story.settle()
    [template] = story.templates()
    spec = template["template"]["spec"]
    assert spec["containers"][0]["resources"] == {"requests": {"cpu": "2"}, "limits": {"cpu": "4"}}
    assert (spec["overhead"], spec["nodeSelector"]["pool"]) == (overhead, "kata")
