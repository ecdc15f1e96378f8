"""How a failed admission check affects a Workload with quota."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from support.admissions import pending_workload
from zonewise_sandbox.apiserver.patches.merge_patch import merge_patch as apply_merge_patch
from zonewise_scheduler.controller.workloads.conditions import find_condition, is_true
from zonewise_scheduler.controller.workloads.failed_checks import reject, retry
from zonewise_scheduler.controller.workloads.status import (
    RequeueState,
    requeue_time,
    require_checks,
    reserve_quota,
    set_admission_check,
)
from zonewise_scheduler.quota.api.workload_types import Admission

Json = dict[str, Any]

NOW = 1_700_000_000.0


def patched(workload: Json, patch: Json | None) -> Json:
    assert patch is not None
    result: Any = apply_merge_patch(copy.deepcopy(workload), copy.deepcopy(patch))
    return result


def reserved(*names: str) -> Json:
    """Return a Workload with quota and pending checks."""
    return patched(pending_workload(), reserve_quota(pending_workload(), Admission("cq", (), NOW, names)))


def with_state(workload: Json, name: str, state: str, at: float = NOW, **fields: object) -> Json:
    return patched(workload, set_admission_check(workload, {"name": name, "state": state, **fields}, at))


@pytest.mark.parametrize("state", ["Pending", "Ready"])
def test_a_check_that_has_not_failed_changes_nothing(state: str) -> None:
    workload = with_state(reserved("a"), "a", state, message="m")
    assert reject(workload, NOW) is None
    assert retry(workload, NOW) is None


def test_a_rejection_sets_the_deactivation_target() -> None:
    workload = reserved("b", "a", "c")
    for name, message in (("b", "no nodes"), ("a", "")):
        workload = with_state(workload, name, "Rejected", message=message)
    workload = patched(workload, reject(workload, NOW))
    target = find_condition(workload, "DeactivationTarget") or {}
    assert (target["status"], target["reason"]) == ("True", "AdmissionCheck")
    assert target["message"] == "admission check a is Rejected; admission check b is Rejected: no nodes"
    assert reject(workload, NOW) is None


def test_a_retry_evicts_and_waits_for_the_longest_delay() -> None:
    workload = with_state(reserved("a", "b", "c"), "a", "Retry", NOW - 50, requeueAfterSeconds=60)
    workload = with_state(workload, "b", "Retry", NOW - 10, requeueAfterSeconds=40)
    workload = patched(workload, retry(workload, NOW))
    assert (find_condition(workload, "Evicted") or {})["reason"] == "AdmissionCheck"
    assert is_true(workload, "QuotaReserved")
    assert requeue_time(workload) == NOW + 30
    checks = [(item["name"], item["state"], item.get("retryCount")) for item in workload["status"]["admissionChecks"]]
    assert checks == [("a", "Pending", 1), ("b", "Pending", 1), ("c", "Pending", None)]


def test_a_retry_without_a_delay_does_not_wait() -> None:
    workload = patched(reserved("a"), retry(with_state(reserved("a"), "a", "Retry"), NOW))
    assert "requeueState" not in workload["status"]


def test_a_later_requeue_time_and_the_number_of_requeues_are_kept() -> None:
    workload = with_state(reserved("a"), "a", "Retry", requeueAfterSeconds=10)
    state = RequeueState(3, NOW + 100)
    workload["status"]["requeueState"] = {"count": state.requeues, "requeueAt": "2023-11-14T22:15:00Z"}
    workload = patched(workload, retry(workload, NOW))
    assert requeue_time(workload) == state.requeue_at
    assert workload["status"]["requeueState"]["count"] == state.requeues


def test_the_checks_in_the_status_follow_those_that_the_queue_requires() -> None:
    workload = with_state(reserved("a", "b"), "b", "Ready", message="m")
    before = {check["name"]: check for check in workload["status"]["admissionChecks"]}
    workload = patched(workload, require_checks(workload, ("c", "b"), NOW + 5))
    first, second = workload["status"]["admissionChecks"]
    assert first == before["b"]
    assert (second["name"], second["state"]) == ("c", "Pending")
    assert require_checks(workload, ("b", "c"), NOW + 9) is None
