"""When an admitted Workload must stop, and what is written then."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.admissions import pending_workload
from zonewise_sandbox.apiserver.patches.merge_patch import merge_patch as apply_merge_patch
from zonewise_scheduler.controller.workloads.conditions import find_condition
from zonewise_scheduler.controller.workloads.status import (
    EvictionCause,
    deactivate,
    evict,
    release_quota,
    requeue,
    requeue_time,
    reserve_quota,
    set_pods_ready,
)
from zonewise_scheduler.controller.workloads.time_limits import ReadinessLimits, TimeLimit, exceed, next_limit
from zonewise_scheduler.quota.api.workload_types import Admission

Json = dict[str, Any]

NOW = 1_700_000_000.0
LIMITS = ReadinessLimits(timeout=300, recovery_timeout=100, max_requeues=2)


def patched(workload: Json, patch: Json | None) -> Json:
    assert patch is not None
    result: Any = apply_merge_patch(copy.deepcopy(workload), patch)
    return result


def admitted(**spec: object) -> Json:
    workload = pending_workload()
    workload["spec"] |= spec
    return patched(workload, reserve_quota(workload, Admission("cq", (), NOW)))


def test_pods_have_time_to_become_ready_from_the_admission_on() -> None:
    workload = admitted()
    assert next_limit(workload, LIMITS) == TimeLimit(NOW + 300, "WaitForStart")
    waiting = patched(workload, set_pods_ready(workload, NOW + 200, ready=False))
    assert next_limit(waiting, LIMITS) == TimeLimit(NOW + 300, "WaitForStart")
    assert next_limit(workload, ReadinessLimits()) is None


def test_pods_have_time_to_recover_from_a_failure_on() -> None:
    ready = admitted()
    ready = patched(ready, set_pods_ready(ready, NOW + 10, ready=True))
    assert next_limit(ready, LIMITS) is None
    failed = patched(ready, set_pods_ready(ready, NOW + 1000, ready=False))
    assert next_limit(failed, LIMITS) == TimeLimit(NOW + 1100, "WaitForRecovery")
    assert next_limit(failed, ReadinessLimits(timeout=300)) is None


def test_the_execution_time_counts_earlier_admissions() -> None:
    workload = admitted(maximumExecutionTimeSeconds=500)
    assert next_limit(workload, ReadinessLimits()) == TimeLimit(NOW + 500, "MaximumExecutionTimeExceeded")
    workload["status"]["accumulatedPastExecutionTimeSeconds"] = 400
    assert next_limit(workload, LIMITS) == TimeLimit(NOW + 100, "MaximumExecutionTimeExceeded")


def test_a_workload_that_already_stops_has_no_limit() -> None:
    assert next_limit(pending_workload(), LIMITS) is None
    assert next_limit(admitted(active=False), LIMITS) is None
    workload = admitted()
    assert next_limit(patched(workload, evict(workload, EvictionCause("Preempted", "m"), NOW)), LIMITS) is None


def test_pods_that_are_not_ready_are_requeued_twice_and_then_deactivated() -> None:
    workload, times = admitted(), list[float]()
    for number in (1, 2):
        limit = next_limit(workload, LIMITS)
        assert limit is not None
        workload = patched(workload, exceed(workload, limit, LIMITS, limit.at))
        assert (find_condition(workload, "Evicted") or {})["reason"] == "PodsReadyTimeout"
        assert workload["status"]["requeueState"]["count"] == number
        times.append(requeue_time(workload) - limit.at)
        workload = patched(workload, release_quota(workload, limit.at))
        workload = patched(workload, requeue(workload, "BackoffFinished", "", requeue_time(workload)))
        assert workload["status"]["requeueState"] == {"count": number}
        workload = patched(workload, reserve_quota(workload, Admission("cq", (), limit.at + 10_000)))
    assert times == [60, 120]
    limit = next_limit(workload, LIMITS)
    assert limit is not None
    workload = patched(workload, exceed(workload, limit, LIMITS, limit.at))
    assert (find_condition(workload, "DeactivationTarget") or {})["reason"] == "RequeuingLimitExceeded"
    workload = patched(workload, deactivate(workload, limit.at))
    assert (find_condition(workload, "Evicted") or {})["reason"] == "DeactivatedDueToRequeuingLimitExceeded"
    assert find_condition(workload, "DeactivationTarget") is None
    assert "requeueState" not in workload["status"]


def test_an_exhausted_execution_time_restarts_after_the_deactivation() -> None:
    workload = admitted(maximumExecutionTimeSeconds=500)
    limit = next_limit(workload, LIMITS._replace(timeout=0))
    assert limit is not None
    workload = patched(workload, exceed(workload, limit, LIMITS, limit.at))
    workload = patched(workload, deactivate(workload, limit.at))
    workload = patched(workload, release_quota(workload, limit.at))
    assert "accumulatedPastExecutionTimeSeconds" not in workload["status"]


@pytest.mark.parametrize("reason", ["Preempted", "PodsReadyTimeout"])
def test_pods_are_no_longer_ready_once_the_quota_is_released(reason: str) -> None:
    workload = admitted()
    workload = patched(workload, set_pods_ready(workload, NOW, ready=True))
    workload = patched(workload, evict(workload, EvictionCause(reason, "m"), NOW + 1))
    workload = patched(workload, release_quota(workload, NOW + 2))
    ready = find_condition(workload, "PodsReady") or {}
    assert (ready["status"], ready["reason"]) == ("False", "WaitForStart")


@given(st.integers(1, 10**6), st.floats(0.1, 1e6), st.floats(0.1, 1e6))
def test_a_backoff_doubles_up_to_the_maximum(requeues: int, base: float, longest: float) -> None:
    limits = ReadinessLimits(backoff_base=base, backoff_max=longest)
    assert limits.backoff(1) == min(base, longest)
    assert limits.backoff(requeues + 1) in (limits.backoff(requeues) * 2, longest)
