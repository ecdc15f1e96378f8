"""Admissions of the planner in the status of a Workload: written, read back, evicted and released."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from support.admissions import TIMES, admissions, pending_workload
from zonewise_sandbox.apiserver.patches.merge_patch import merge_patch as apply_merge_patch
from zonewise_scheduler.controller.workloads.conditions import find_condition, is_true
from zonewise_scheduler.controller.workloads.status import (
    ADMITTED,
    EVICTED,
    PREEMPTED,
    QUOTA_RESERVED,
    REQUEUED,
    EvictionCause,
    RequeueState,
    admit,
    evict,
    explain_pending,
    release_quota,
    reserve_quota,
    set_admission_check,
)
from zonewise_scheduler.quota.api.workload_reader import read_workload
from zonewise_scheduler.quota.api.workload_types import Admission, Eviction, PodSetAdmission, Workload
from zonewise_scheduler.quota.topology.types import HOSTNAME, TopologyAssignment, TopologyDomainAssignment

Json = dict[str, Any]

NAMES = ("leader", "workers")
PREEMPTION = EvictionCause("Preempted", "Preempted to accommodate w2", "", "InClusterQueue")


def patched(workload: Json, patch: Json | None) -> Json:
    """Return the Workload after a patch, if there is one."""
    before = copy.deepcopy(workload)
    result: Any = workload if patch is None else apply_merge_patch(copy.deepcopy(workload), patch)
    assert workload == before
    return result


def read(workload: Json) -> Workload:
    result = read_workload(workload)
    assert result.problems == ()
    assert result.workload is not None
    return result.workload


def is_admitted_at_once(admission: Admission) -> bool:
    awaits_topology = any(pod_set.delayed_topology_request == "Pending" for pod_set in admission.pod_sets)
    return not admission.pending_checks and not awaits_topology


@given(admissions(NAMES), admissions(NAMES))
def test_the_planner_reads_an_admission_as_it_was_written(first: Admission, second: Admission) -> None:
    workload = patched(pending_workload(NAMES), reserve_quota(pending_workload(NAMES), first))
    released = patched(workload, release_quota(patched(workload, evict(workload, PREEMPTION, 1.8e9)), 1.8e9))
    for before, admission in ((pending_workload(NAMES), first), (released, second)):
        obj = patched(before, reserve_quota(before, admission))
        admitted_at = admission.reserved_at if is_admitted_at_once(admission) else None
        assert read(obj).admission == admission._replace(admitted_at=admitted_at)
        assert read(obj).eviction is None
        assert reserve_quota(obj, admission) is None


@given(admissions(), TIMES, st.data())
def test_a_workload_is_admitted_once_each_check_has_passed(
    admission: Admission, now: float, data: st.DataObject
) -> None:
    workload = patched(pending_workload(), reserve_quota(pending_workload(), admission))
    for name in data.draw(st.permutations(admission.pending_checks)):
        assert not is_true(patched(workload, admit(workload, now)), ADMITTED)
        workload = patched(workload, set_admission_check(workload, {"name": name, "state": "Ready"}, now))
    workload = patched(workload, admit(workload, now))
    assert is_true(workload, ADMITTED) == is_admitted_at_once(admission._replace(pending_checks=()))
    read(workload)


def test_a_workload_without_an_admission_states_that() -> None:
    """`kubectl get workloads` shows the status of this condition."""
    workload = pending_workload()
    waiting = patched(workload, explain_pending(workload, "WaitingForQuota", "needs 4 GPUs", 1.6e9))
    assert reason_of(waiting) == ("False", "NoReservation")
    checked = patched(waiting, reserve_quota(waiting, Admission("cq", (), 1.7e9, pending_checks=("licence",))))
    assert reason_of(checked) == ("False", "UnsatisfiedAdmissionChecks")
    assert reason_of(patched(waiting, reserve_quota(waiting, Admission("cq", (), 1.7e9)))) == ("True", "Admitted")


def reason_of(workload: Json) -> tuple[str, str]:
    """Return the status and the reason of the condition Admitted."""
    condition = find_condition(workload, ADMITTED) or {}
    return condition["status"], condition["reason"]


def test_a_requeued_workload_that_waits_for_checks_is_not_admitted() -> None:
    """The reason is that of the API (apis/kueue/v1beta2/workload_types.go)."""
    workload = patched(pending_workload(), reserve_quota(pending_workload(), Admission("cq", (), 1.7e9)))
    workload = patched(workload, release_quota(patched(workload, evict(workload, PREEMPTION, 1.7e9)), 1.7e9))
    again = Admission("cq", (), 1.7e9, pending_checks=("licence",))
    admitted = find_condition(patched(workload, reserve_quota(workload, again)), ADMITTED)
    assert admitted is not None
    assert (admitted["status"], admitted["reason"]) == ("False", "UnsatisfiedAdmissionChecks")


@given(admissions(), TIMES)
def test_quota_is_held_until_it_is_released(admission: Admission, now: float) -> None:
    workload = patched(pending_workload(), reserve_quota(pending_workload(), admission))
    evicted = patched(workload, evict(workload, PREEMPTION, now))
    assert read(evicted).eviction == Eviction("Preempted", now)
    assert read(evicted).admission is not None
    assert is_true(evicted, PREEMPTED)
    assert evict(evicted, PREEMPTION, now + 5) is None
    released = patched(evicted, release_quota(evicted, now + 10))
    assert read(released).admission is None
    assert "admission" not in released["status"]
    assert [is_true(released, item) for item in (QUOTA_RESERVED, ADMITTED, REQUEUED, EVICTED)] == [
        False,
        False,
        True,
        True,
    ]
    reasons = {item: (find_condition(released, item) or {}).get("reason") for item in (QUOTA_RESERVED, ADMITTED)}
    assert reasons == {QUOTA_RESERVED: "PendingEvaluation", ADMITTED: "NoReservation"}
    assert release_quota(released, now + 20) is None


def test_the_time_of_all_admissions_is_counted() -> None:
    admission = Admission("cq", (), 1_700_000_000.0)
    workload = patched(pending_workload(), reserve_quota(pending_workload(), admission))
    workload = patched(workload, release_quota(workload, 1_700_000_060.0))
    assert workload["status"]["accumulatedPastExecutionTimeSeconds"] == 60
    workload = patched(workload, reserve_quota(workload, admission._replace(reserved_at=1_700_000_100.0)))
    workload = patched(workload, release_quota(workload, 1_700_000_105.9))
    assert workload["status"]["accumulatedPastExecutionTimeSeconds"] == 65


def test_an_eviction_is_counted_by_its_reason_and_resets_checks() -> None:
    admission = Admission("cq", (), 1_700_000_000.0, ("a", "b"))
    workload = patched(pending_workload(), reserve_quota(pending_workload(), admission))
    for name, state in (("a", "Ready"), ("b", "Retry")):
        check = {"name": name, "state": state, "message": "m"}
        workload = patched(workload, set_admission_check(workload, check, 1_700_000_010.0))
    cause = EvictionCause("PodsReadyTimeout", "too slow")
    workload = patched(workload, evict(workload, cause, 1_700_000_020.0, RequeueState(1, 1_700_000_080.0)))
    assert workload["status"]["schedulingStats"] == {
        "evictions": [{"reason": "PodsReadyTimeout", "underlyingCause": "", "count": 1}]
    }
    assert workload["status"]["requeueState"] == {"count": 1, "requeueAt": "2023-11-14T22:14:40Z"}
    assert workload["status"]["admissionChecks"] == [
        {
            "name": "a", "state": "Pending", "message": "Reset to Pending after eviction. Previously: Ready",
            "lastTransitionTime": "2023-11-14T22:13:40Z",
        },
        {
            "name": "b", "state": "Pending", "message": "Reset to Pending after eviction. Previously: Retry",
            "lastTransitionTime": "2023-11-14T22:13:40Z", "retryCount": 1,
        },
    ]  # fmt: skip
    workload = patched(workload, release_quota(workload, 1_700_000_030.0))
    requeued = find_condition(workload, REQUEUED)
    assert requeued is not None
    assert (requeued["status"], requeued["reason"]) == ("False", "PodsReadyTimeout")
    workload = patched(workload, reserve_quota(workload, admission))
    workload = patched(workload, evict(workload, EvictionCause("Deactivated", "m", "RequeuingLimitExceeded"), 1.8e9))
    assert read(workload).eviction == Eviction("DeactivatedDueToRequeuingLimitExceeded", 1.8e9)
    assert [item["count"] for item in workload["status"]["schedulingStats"]["evictions"]] == [1, 1]


def test_passed_checks_are_kept_when_the_topology_is_assigned_later() -> None:
    pod_set = PodSetAdmission("main", {}, {}, 1, None, "Pending")
    admission = Admission("cq", (pod_set,), 1_700_000_000.0, ("a",))
    workload = patched(pending_workload(), reserve_quota(pending_workload(), admission))
    ready = {"name": "a", "state": "Ready", "podSetUpdates": [{"name": "main", "nodeSelector": {"pool": "new"}}]}
    workload = patched(workload, set_admission_check(workload, ready, 1_700_000_010.0))
    assert not is_true(patched(workload, admit(workload, 1_700_000_020.0)), ADMITTED)
    topology = TopologyAssignment((HOSTNAME,), (TopologyDomainAssignment(("node-1",), 1),))
    placed = pod_set._replace(topology_assignment=topology, delayed_topology_request="Ready")
    second = admission._replace(pod_sets=(placed,), pending_checks=(), reserved_at=1_700_000_030.0)
    workload = patched(workload, reserve_quota(workload, second))
    assert [(item["name"], item["state"]) for item in workload["status"]["admissionChecks"]] == [("a", "Ready")]
    written = read(workload).admission
    assert written is not None
    assert (written.reserved_at, written.admitted_at) == (1_700_000_000.0, 1_700_000_030.0)
    assert written.pod_sets == (placed,)
