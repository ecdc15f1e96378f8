"""Stories of a live queue on a model cluster: actions of users, and the outcome that must follow despite disturbances.

Each story uses a queue of 8 CPUs. Tests run it with crashes, edits, outages or skewed clocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.controller_stories import LIMITS, MAX_ROUNDS, QUEUE, owners
from support.model_cluster import NAMESPACE, QUEUE_LABEL
from zonewise_common.kube.resources import WORKLOADS
from zonewise_scheduler.controller.jobs.job_deadline import SUBMITTED_DEADLINE_ANNOTATION
from zonewise_scheduler.controller.types import ObjectKey
from zonewise_scheduler.controller.workloads.conditions import find_condition, is_true
from zonewise_scheduler.controller.workloads.enforced_walltime import ENFORCE_ANNOTATION
from zonewise_scheduler.quota.api.declared_walltime import (
    DEFAULT_RUN_ANNOTATION,
    MAX_EXEC_TIME_LABEL,
    MAX_RUN_ANNOTATION,
)
from zonewise_scheduler.quota.api.job_priority import PRIORITY_CLASS_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.controller_stories import ControllerStory

Json = dict[str, Any]

PREEMPTING: Json = {"preemption": {"withinClusterQueue": "LowerPriority"}}


def end(story: ControllerStory, job: ObjectKey) -> None:
    """End the run of a Job, and settle."""
    story.cluster.complete(job)
    story.settle()


def assert_all_finished(story: ControllerStory) -> None:
    """Check that each Workload has finished."""
    assert all(is_true(obj, "Finished") for obj in story.cluster.workloads())


def run_and_end(story: ControllerStory) -> None:
    """Two Jobs fit, one waits, and all end."""
    jobs = [story.cluster.submit(f"j{i}", 4, at=i) for i in range(3)]
    story.settle()
    for job in (*jobs, jobs[2]):
        if not story.cluster.get(job)["spec"]["suspend"]:
            story.cluster.complete(job)
        story.settle()
    assert story.cluster.starts == {"j0": 1, "j1": 1, "j2": 1}
    assert all(is_true(obj, "Finished") for obj in story.cluster.workloads())


def preempt_and_resume(story: ControllerStory) -> None:
    """A Job of high priority stops one of low priority, which starts again afterwards."""
    low = story.cluster.submit("low", 6, priority="low")
    story.settle()
    high = story.cluster.submit("high", 6, priority="high", at=5)
    story.settle()
    assert story.cluster.get(low)["spec"]["suspend"]
    assert "nodeSelector" not in story.cluster.get(low)["spec"]["template"]["spec"]
    assert not story.cluster.get(high)["spec"]["suspend"]
    (workload,) = (obj for obj in story.cluster.workloads() if "low" in owners(obj))
    assert (find_condition(workload, "PodsReady") or {})["status"] == "False"
    end(story, high)
    assert not story.cluster.get(low)["spec"]["suspend"]
    assert story.cluster.starts == {"low": 2, "high": 1}
    end(story, low)
    assert_all_finished(story)


def hold_drain_and_release(story: ControllerStory) -> None:
    """A ClusterQueue is drained and then admits again; Requeued shows both."""
    job = story.cluster.submit("j", 4)
    story.settle()
    story.cluster.change(QUEUE, {"spec": {"stopPolicy": "HoldAndDrain"}})
    story.settle()
    assert story.cluster.get(job)["spec"]["suspend"]
    (stopped,) = story.cluster.workloads()
    assert not is_true(stopped, "QuotaReserved")
    assert not is_true(stopped, "Requeued")
    story.cluster.change(QUEUE, {"spec": {"stopPolicy": "None"}})
    story.settle()
    assert not story.cluster.get(job)["spec"]["suspend"]
    (restarted,) = story.cluster.workloads()
    assert is_true(restarted, "Requeued")
    assert (find_condition(restarted, "Requeued") or {})["reason"] == "ClusterQueueRestarted"


def change_while_held(story: ControllerStory) -> None:
    """The user of a pending Job lowers its request; the Job gets another Workload and starts."""
    running = story.cluster.submit("running", 6)
    story.settle()
    job = story.cluster.submit("j", 4, at=3)
    story.settle()
    container = {"name": "c", "resources": {"requests": {"cpu": "2"}}}
    story.cluster.change(job, {"spec": {"template": {"spec": {"containers": [container]}}}})
    story.settle()
    assert not story.cluster.get(job)["spec"]["suspend"]
    assert not story.cluster.get(running)["spec"]["suspend"]


def delete_while_running(story: ControllerStory) -> None:
    """A running Job is deleted; the next Job gets its quota."""
    first = story.cluster.submit("first", 6)
    story.settle()
    second = story.cluster.submit("second", 6, at=3)
    story.settle()
    assert story.cluster.get(second)["spec"]["suspend"]
    story.cluster.delete(first)
    story.settle()
    assert not story.cluster.get(second)["spec"]["suspend"]


def pods_not_ready_in_time(story: ControllerStory) -> None:
    """A Job whose pods do not become ready lets another Job run, is requeued once, and is then deactivated."""
    job = story.cluster.submit("j", 6)
    story.cluster.jobs[job].has_ready_pods = False
    story.settle()
    admitted_at = story.now
    other = story.cluster.submit("other", 6, at=5)
    story.settle()
    assert story.cluster.get(other)["spec"]["suspend"]
    story.settle_until(lambda: not story.cluster.get(other)["spec"]["suspend"])
    assert LIMITS.timeout - MAX_ROUNDS < story.now - admitted_at < LIMITS.timeout + MAX_ROUNDS
    (workload,) = (obj for obj in story.cluster.workloads() if "j" in owners(obj))
    assert workload["status"]["requeueState"]["count"] == 1
    assert (find_condition(workload, "PodsReady") or {})["status"] == "False"
    story.cluster.complete(other)
    story.settle_until(lambda: story.cluster.starts.get("j") == 2)
    story.settle_until(lambda: bool(story.cluster.get(job)["spec"]["suspend"]))
    (workload,) = (obj for obj in story.cluster.workloads() if "j" in owners(obj))
    assert workload["spec"]["active"] is False
    assert (find_condition(workload, "Evicted") or {})["reason"] == "DeactivatedDueToRequeuingLimitExceeded"
    assert find_condition(workload, "DeactivationTarget") is None
    assert not is_true(workload, "QuotaReserved")
    assert story.cluster.starts == {"j": 2, "other": 1}


def pods_do_not_recover(story: ControllerStory) -> None:
    """A Job with a failed pod that does not recover is stopped and starts again."""
    job = story.cluster.submit("j", 6)
    story.settle()
    (workload,) = story.cluster.workloads()
    assert is_true(workload, "PodsReady")
    story.cluster.jobs[job].has_ready_pods = False
    story.settle_until(lambda: bool(story.cluster.workloads()[0]["status"].get("requeueState")))
    story.settle_until(lambda: story.cluster.starts["j"] == 2)
    story.cluster.jobs[job].has_ready_pods = True
    story.settle()
    (workload,) = story.cluster.workloads()
    assert is_true(workload, "PodsReady")
    assert (find_condition(workload, "Requeued") or {})["reason"] == "BackoffFinished"


def execution_time_is_exceeded(story: ControllerStory) -> None:
    """A Job that exceeds its maximum execution time is stopped, and starts again only after its user activates it."""
    job = story.cluster.submit("j", 6)
    story.cluster.change(job, {"metadata": {"labels": {MAX_EXEC_TIME_LABEL: "500"}}})
    story.settle()
    started_at = story.now
    story.settle_until(lambda: bool(story.cluster.get(job)["spec"]["suspend"]))
    assert story.now - started_at > 500 - MAX_ROUNDS
    (workload,) = story.cluster.workloads()
    assert workload["spec"]["active"] is False
    reason = (find_condition(workload, "Evicted") or {})["reason"]
    assert reason == "DeactivatedDueToMaximumExecutionTimeExceeded"
    story.cluster.change(ObjectKey(WORKLOADS, NAMESPACE, workload["metadata"]["name"]), {"spec": {"active": True}})
    story.settle()
    assert not story.cluster.get(job)["spec"]["suspend"]
    (workload,) = story.cluster.workloads()
    assert (find_condition(workload, "Requeued") or {})["reason"] == "Reactivated"


def queued_after_a_run(story: ControllerStory) -> None:
    """A Job runs outside the queue. Its user suspends and queues it, and the queue starts it within its quota."""
    job = story.cluster.submit("j", 6)
    story.cluster.change(job, {"metadata": {"labels": {QUEUE_LABEL: None}}, "spec": {"suspend": False}})
    story.cluster.sync_jobs()
    story.cluster.change(job, {"metadata": {"labels": {QUEUE_LABEL: "l"}}, "spec": {"suspend": True}})
    story.settle()
    spec = story.cluster.get(job)["spec"]
    assert not spec["suspend"]
    assert spec["template"]["spec"]["nodeSelector"] == {"flavor": "f"}


def lose_the_workload(story: ControllerStory) -> None:
    """The Workload of a running Job is deleted. The Job stops as it was submitted and starts with a new Workload."""
    job = story.cluster.submit("j", 6)
    template = story.cluster.get(job)["spec"]["template"]
    story.settle()
    assert story.cluster.get(job)["spec"]["template"] != template
    other = story.cluster.submit("other", 6, at=5)
    (workload,) = story.cluster.workloads()
    story.cluster.delete(ObjectKey(WORKLOADS, NAMESPACE, workload["metadata"]["name"]))
    story.settle()
    assert len(story.cluster.workloads()) == 2
    for obj in story.cluster.workloads():
        assert "nodeSelector" not in obj["spec"]["podSets"][0]["template"]["spec"]
        assert not obj["spec"]["podSets"][0]["template"]["metadata"].get("labels")
    for _ in range(2):
        runs = [key for key in (job, other) if not story.cluster.get(key)["spec"]["suspend"]]
        for key in runs:
            story.cluster.complete(key)
        story.settle()
    assert_all_finished(story)


def declare_otherwise(story: ControllerStory) -> None:
    """Users change the priority and walltime of pending Jobs; the same Workloads follow and keep their order."""
    running = story.cluster.submit("running", 6, priority="high")
    story.settle()
    jobs = [story.cluster.submit(f"j{i}", 6, priority="low", at=3 + i) for i in range(2)]
    story.settle()
    uids = {owners(obj)[0]: obj["metadata"]["uid"] for obj in story.cluster.workloads()}
    story.cluster.change(jobs[0], {"spec": {"activeDeadlineSeconds": 600}})
    story.cluster.change(jobs[1], {"metadata": {"labels": {PRIORITY_CLASS_LABEL: "high"}}})
    story.settle()
    workloads = {owners(obj)[0]: obj for obj in story.cluster.workloads()}
    assert {name: obj["metadata"]["uid"] for name, obj in workloads.items()} == uids
    assert workloads["j0"]["metadata"]["annotations"][MAX_RUN_ANNOTATION] == "600"
    assert workloads["j1"]["spec"]["priority"] == 9
    story.cluster.change(running, {"metadata": {"labels": {PRIORITY_CLASS_LABEL: "low"}}})
    story.settle()
    assert {owners(obj)[0]: obj["spec"]["priority"] for obj in story.cluster.workloads()}["running"] == 1
    end(story, running)
    (first,) = (job for job in jobs if not story.cluster.get(job)["spec"]["suspend"])
    end(story, first)
    assert story.cluster.starts == {"running": 1, "j0": 1, "j1": 1}


def enforce_walltimes(story: ControllerStory) -> None:
    """The queue ends Jobs at their walltimes. A preempted Job gets its own deadline back."""
    enforced = {ENFORCE_ANNOTATION: "true", DEFAULT_RUN_ANNOTATION: "10m"}
    story.cluster.change(QUEUE, {"metadata": {"annotations": enforced}})
    low = story.cluster.submit("low", 6, priority="low")
    story.settle()
    assert story.cluster.get(low)["spec"]["activeDeadlineSeconds"] == 600
    high = story.cluster.submit("high", 6, priority="high", at=5)
    story.cluster.change(high, {"metadata": {"annotations": {MAX_RUN_ANNOTATION: "50"}}})
    story.cluster.change(high, {"spec": {"activeDeadlineSeconds": 60}})
    story.settle()
    assert story.cluster.get(low)["spec"]["suspend"]
    assert story.cluster.get(low)["spec"].get("activeDeadlineSeconds") is None
    assert SUBMITTED_DEADLINE_ANNOTATION not in story.cluster.get(low)["metadata"]["annotations"]
    assert story.cluster.get(high)["spec"]["activeDeadlineSeconds"] == 50
    assert all(len(obj["metadata"]["ownerReferences"]) == 1 for obj in story.cluster.workloads())
    end(story, high)
    assert story.cluster.get(low)["spec"]["activeDeadlineSeconds"] == 600
    assert story.cluster.starts == {"low": 2, "high": 1}


STORIES: dict[str, tuple[Callable[[ControllerStory], None], Json]] = {
    "run and end": (run_and_end, {}),
    "preempt and resume": (preempt_and_resume, PREEMPTING),
    "hold, drain and release": (hold_drain_and_release, {}),
    "change while held": (change_while_held, {}),
    "delete while running": (delete_while_running, {}),
    "declare otherwise": (declare_otherwise, {}),
    "enforce walltimes": (enforce_walltimes, PREEMPTING),
    "lose the Workload": (lose_the_workload, {}),
    "lose the Workload of pods that end slowly": (lose_the_workload, {"stop_steps": 6}),
    "queued after a run": (queued_after_a_run, {}),
    "pods not ready in time": (pods_not_ready_in_time, {}),
    "pods do not recover": (pods_do_not_recover, {}),
    "execution time is exceeded": (execution_time_is_exceeded, {}),
}
