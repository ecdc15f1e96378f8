"""Conditions and other parts of a Workload's status, except its admission."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.admissions import pending_workload
from support.json_edits import JSON_VALUES
from zonewise_sandbox.apiserver.patches.merge_patch import merge_patch as apply_merge_patch
from zonewise_scheduler.controller.jobs.interface import FinishedJob
from zonewise_scheduler.controller.workloads.conditions import MAX_MESSAGE, Condition, with_conditions
from zonewise_scheduler.controller.workloads.status import (
    EvictionCause,
    admit,
    evict,
    explain_pending,
    finish,
    finish_for,
    reactivate,
    release_quota,
    requeue,
    reserve_quota,
    set_pods_ready,
    set_reclaimable_pods,
)
from zonewise_scheduler.quota.api.workload_reader import read_workload
from zonewise_scheduler.quota.api.workload_types import Admission

Json = dict[str, Any]

NOW = 1_700_000_000.0
LATER = NOW + 60


def patched(workload: Json, patch: Json | None) -> Json:
    result: Any = workload if patch is None else apply_merge_patch(copy.deepcopy(workload), patch)
    return result


def admitted() -> Json:
    workload = pending_workload()
    return patched(workload, reserve_quota(workload, Admission("cq", (), NOW)))


def test_a_condition_keeps_its_time_unless_its_status_changes() -> None:
    workload = pending_workload()
    workload["status"] = {"conditions": with_conditions(workload, [Condition("A", holds=False, reason="R")], NOW)}
    workload["metadata"]["generation"] = 3
    [same] = with_conditions(workload, [Condition("A", holds=False, reason="S", message="m")], LATER)
    assert same == {
        "type": "A", "status": "False", "reason": "S", "message": "m", "observedGeneration": 3,
        "lastTransitionTime": "2023-11-14T22:13:20Z",
    }  # fmt: skip
    [other] = with_conditions(workload, [Condition("A", holds=True, reason="S")], LATER)
    assert (other["status"], other["lastTransitionTime"]) == ("True", "2023-11-14T22:14:20Z")
    [cut] = with_conditions(pending_workload(), [Condition("A", holds=True, reason="S", message="x" * 99_999)], NOW)
    assert len(cut["message"]) == MAX_MESSAGE


def test_pods_become_ready_fail_and_recover() -> None:
    workload = admitted()
    reasons: list[tuple[str, str]] = []
    for ready in (False, True, False, False, True, False):
        workload = patched(workload, set_pods_ready(workload, NOW, ready=ready))
        condition = workload["status"]["conditions"][-1]
        reasons.append((condition["status"], condition["reason"]))
    assert reasons == [
        ("False", "WaitForStart"), ("True", "Started"), ("False", "WaitForRecovery"), ("False", "WaitForRecovery"),
        ("True", "Recovered"), ("False", "WaitForRecovery"),
    ]  # fmt: skip
    workload = patched(workload, release_quota(workload, NOW))
    workload = patched(workload, set_pods_ready(workload, NOW, ready=True))
    [condition] = [item for item in workload["status"]["conditions"] if item["type"] == "PodsReady"]
    assert (condition["status"], condition["reason"]) == ("False", "WaitForStart")


@pytest.mark.parametrize(("succeeded", "reason"), [(True, "Succeeded"), (False, "Failed")])
def test_a_job_that_ends_finishes_its_workload(succeeded: bool, reason: str) -> None:
    workload = patched(admitted(), finish(admitted(), FinishedJob(succeeded, "m"), LATER))
    assert read_workload(workload).finished
    assert workload["status"]["conditions"][-1]["reason"] == reason
    assert patched(admitted(), finish_for(admitted(), "FailedToStart", "m", LATER)) is not None


def test_the_reason_of_a_wait_is_written_once() -> None:
    workload = pending_workload()
    waiting = patched(workload, explain_pending(workload, "WaitingForQuota", "needs 4 GPUs, 2 free", NOW))
    assert waiting["status"]["conditions"][0]["reason"] == "WaitingForQuota"
    assert explain_pending(waiting, "WaitingForQuota", "needs 4 GPUs, 2 free", LATER) is None
    assert explain_pending(waiting, "WaitingForQuota", "needs 4 GPUs, 3 free", LATER) is not None


def test_a_workload_is_requeued_after_a_wait_and_its_count_restarts_on_reactivation() -> None:
    workload = admitted() | {"spec": admitted()["spec"]}
    workload["status"]["requeueState"] = {"count": 4, "requeueAt": "2023-11-14T22:13:20Z"}
    requeued = patched(workload, requeue(workload, "BackoffFinished", "m", NOW))
    assert requeued["status"]["requeueState"]["count"] == 4
    assert "requeueState" not in patched(requeued, reactivate(requeued, NOW))["status"]


def test_reclaimable_pods_are_those_of_known_pod_sets_and_no_more_than_they_have() -> None:
    workload = pending_workload(("a", "b"))
    changed = patched(workload, set_reclaimable_pods(workload, {"a": 99, "b": 0, "c": 1}))
    assert changed["status"]["reclaimablePods"] == [{"name": "a", "count": 9}]
    assert set_reclaimable_pods(changed, {"a": 9}) is None
    assert "reclaimablePods" not in patched(changed, set_reclaimable_pods(changed, {}))["status"]


@given(JSON_VALUES, st.sampled_from(["conditions", "admissionChecks", "schedulingStats", "admission", "status"]))
def test_a_damaged_status_affects_no_other_field(damage: object, field: str) -> None:
    workload = admitted()
    if field == "status":
        workload["status"] = damage
    else:
        workload["status"][field] = damage
    for patch in (
        admit(workload, NOW),
        evict(workload, EvictionCause("Preempted", "m"), NOW),
        release_quota(workload, NOW),
        set_pods_ready(workload, NOW, ready=True),
        reserve_quota(workload, Admission("cq", (), NOW)),
    ):
        assert patch is None or set(patch) == {"status"}
