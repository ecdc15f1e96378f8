"""Admission checks that another controller decides: according to them, a workload waits, starts, is retried or ends.

Each scenario must complete at whatever write the queue's controller is killed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.controller_stories import QUEUE, ControllerStory, annotate_first, kills
from support.model_cluster import NAMESPACE, ModelCluster
from zonewise_common.kube.resources import WORKLOADS
from zonewise_scheduler.controller.types import ObjectKey
from zonewise_scheduler.controller.workloads.conditions import api_time, find_condition, is_true

if TYPE_CHECKING:
    from collections.abc import Callable

Json = dict[str, Any]

RULES = [{"name": "licence"}, {"name": "f-only", "onFlavors": ["f"]}, {"name": "g-only", "onFlavors": ["g"]}]


def cluster() -> ModelCluster:
    """Return a cluster whose queue requires the checks."""
    made = ModelCluster(admissionChecksStrategy={"admissionChecks": RULES})
    for name in ("licence", "f-only", "g-only", "new"):
        made.add_check(name)
    return made


def workload(story: ControllerStory) -> Json:
    """Return the only Workload."""
    (obj,) = story.cluster.workloads()
    return obj


def states(story: ControllerStory) -> dict[str, str]:
    """Return the states of its checks."""
    return {check["name"]: check["state"] for check in workload(story)["status"]["admissionChecks"]}


def decide(story: ControllerStory, name: str, state: str, **fields: object) -> None:
    """Set the state of a check, as the check's controller does, then let the queue settle."""
    key = ObjectKey(WORKLOADS, NAMESPACE, workload(story)["metadata"]["name"])
    change = {"state": state, "lastTransitionTime": api_time(story.now), **fields}
    checks = [
        {**check, **(change if check["name"] == name else {})} for check in workload(story)["status"]["admissionChecks"]
    ]
    story.cluster.change(key, {"status": {"admissionChecks": checks}})
    story.settle()


def all_pass(story: ControllerStory) -> None:
    """The Job starts once the last check has passed, with what the checks add to its pods."""
    job = story.cluster.submit("j", 4)
    story.settle()
    assert is_true(workload(story), "QuotaReserved")
    assert states(story) == {"licence": "Pending", "f-only": "Pending"}
    decide(story, "f-only", "Ready")
    assert story.cluster.get(job)["spec"]["suspend"]
    update = {"name": "main", "nodeSelector": {"rack": "r1"}, "annotations": {"licence": "7"}}
    decide(story, "licence", "Ready", podSetUpdates=[update])
    assert is_true(workload(story), "Admitted")
    template = story.cluster.get(job)["spec"]["template"]
    assert template["spec"]["nodeSelector"] == {"flavor": "f", "rack": "r1"}
    assert template["metadata"]["annotations"]["licence"] == "7"
    decide(story, "licence", "Pending")
    assert not story.cluster.get(job)["spec"]["suspend"]
    story.cluster.complete(job)
    story.settle()
    assert is_true(workload(story), "Finished")
    assert story.cluster.starts == {"j": 1}


def one_is_tried_again(story: ControllerStory) -> None:
    """Its quota is free until the time of the retry; then the checks start again."""
    job = story.cluster.submit("j", 4)
    story.settle()
    decide(story, "f-only", "Ready")
    failed_at = story.now
    decide(story, "licence", "Retry", requeueAfterSeconds=500, message="all in use")
    assert not is_true(workload(story), "QuotaReserved")
    evicted = find_condition(workload(story), "Evicted") or {}
    assert (evicted["reason"], evicted["message"]) == (
        "AdmissionCheck",
        "admission check licence is Retry: all in use",
    )
    story.settle_until(lambda: is_true(workload(story), "QuotaReserved"))
    assert story.now >= failed_at + 500
    assert (find_condition(workload(story), "Requeued") or {})["reason"] == "BackoffFinished"
    assert states(story) == {"licence": "Pending", "f-only": "Pending"}
    for name in ("licence", "f-only"):
        decide(story, name, "Ready")
    assert not story.cluster.get(job)["spec"]["suspend"]
    decide(story, "licence", "Retry")
    assert story.cluster.get(job)["spec"]["suspend"]
    assert states(story) == {"licence": "Pending", "f-only": "Pending"}
    assert [check.get("retryCount") for check in workload(story)["status"]["admissionChecks"]] == [2, None]


def one_rejects(story: ControllerStory) -> None:
    """The Workload is deactivated, and it is checked again once its user activates it."""
    job = story.cluster.submit("j", 4)
    story.settle()
    decide(story, "f-only", "Ready")
    decide(story, "licence", "Rejected", message="expired")
    obj = workload(story)
    assert obj["spec"]["active"] is False
    assert not is_true(obj, "QuotaReserved")
    evicted = find_condition(obj, "Evicted") or {}
    assert evicted["reason"] == "DeactivatedDueToAdmissionCheck"
    assert evicted["message"].endswith("admission check licence is Rejected: expired")
    assert find_condition(obj, "DeactivationTarget") is None
    story.cluster.change(ObjectKey(WORKLOADS, NAMESPACE, obj["metadata"]["name"]), {"spec": {"active": True}})
    story.settle()
    assert states(story) == {"licence": "Pending", "f-only": "Pending"}
    for name in ("licence", "f-only"):
        decide(story, name, "Ready")
    assert not story.cluster.get(job)["spec"]["suspend"]
    decide(story, "licence", "Rejected")
    assert story.cluster.get(job)["spec"]["suspend"]
    assert workload(story)["spec"]["active"] is False


def the_queue_requires_others(story: ControllerStory) -> None:
    """A check that the queue no longer requires does not delay the Workload, but a new check does."""
    job = story.cluster.submit("j", 4)
    story.settle()
    decide(story, "f-only", "Ready")
    rules = [{"name": "f-only"}, {"name": "new"}]
    story.cluster.change(QUEUE, {"spec": {"admissionChecksStrategy": {"admissionChecks": rules}}})
    story.settle()
    assert states(story) == {"f-only": "Ready", "new": "Pending"}
    assert story.cluster.get(job)["spec"]["suspend"]
    story.cluster.change(QUEUE, {"spec": {"admissionChecksStrategy": None}})
    story.settle()
    assert not story.cluster.get(job)["spec"]["suspend"]
    assert not workload(story)["status"].get("admissionChecks")


def the_queue_is_on_hold(story: ControllerStory) -> None:
    """A Workload whose checks are pending loses its quota, so that no check can start it; a running one continues."""
    running = story.cluster.submit("runs", 2)
    story.settle()
    for name in ("f-only", "licence"):
        decide(story, name, "Ready")
    held = story.cluster.submit("waits", 4)
    story.settle()
    story.cluster.change(QUEUE, {"spec": {"stopPolicy": "Hold"}})
    story.settle()
    (waiting,) = (obj for obj in story.cluster.workloads() if obj["metadata"]["name"].startswith("job-waits"))
    assert not is_true(waiting, "QuotaReserved")
    assert story.cluster.get(held)["spec"]["suspend"]
    assert not story.cluster.get(running)["spec"]["suspend"]


STORIES: dict[str, Callable[[ControllerStory], None]] = {
    "all pass": all_pass,
    "one is tried again": one_is_tried_again,
    "one rejects": one_rejects,
    "the queue is on hold": the_queue_is_on_hold,
    "the queue requires others": the_queue_requires_others,
}


@pytest.mark.parametrize("name", STORIES)
def test_a_scenario_completes_wherever_the_controller_is_killed(name: str) -> None:
    for writes in kills(STORIES[name], cluster):
        STORIES[name](ControllerStory(cluster(), writes))


@pytest.mark.parametrize("name", STORIES)
def test_two_leaders_do_no_harm(name: str) -> None:
    STORIES[name](ControllerStory(cluster(), None, leaders=2))


@pytest.mark.parametrize("name", STORIES)
def test_user_edits_before_each_write_only_delay_a_scenario(name: str) -> None:
    STORIES[name](ControllerStory(cluster(), before_write=annotate_first()))
