"""How an observed Workload changes the planner: a test for each line of the module's table."""

from __future__ import annotations

from typing import Any

import pytest

from support.queue_objects import planner_objects
from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.backfill.recording.planner_feed import InvalidWorkload, PlannerFeed
from zonewise_scheduler.controller.planning.workload_sync import sync_workload
from zonewise_scheduler.controller.workloads.status import (
    EvictionCause,
    evict,
    finish_for,
    release_quota,
    reserve_quota,
    set_waiting_for_replacement,
)
from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS

Json = dict[str, Any]

NOW = 1_000_000.0
KEY = "ns/w"


def feed(*, cpus: int = 4) -> PlannerFeed:
    fed = PlannerFeed(BackfillPolicy(), DEFAULT_SETTINGS)
    fed.configure(planner_objects({"cpu": cpus}), {"ns": {}})
    return fed


def workload() -> Json:
    pod_spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}
    return {
        "metadata": {"namespace": "ns", "name": "w", "uid": "u", "creationTimestamp": "1970-01-10T00:00:00Z"},
        "spec": {"queueName": "l", "podSets": [{"name": "main", "count": 1, "template": {"spec": pod_spec}}]},
    }


def patched(obj: Json, patch: Json | None) -> Json:
    """Apply a patch of a status; null removes a field."""
    assert patch is not None
    status = {**obj.get("status", {}), **patch["status"]}
    return {**obj, "status": {name: value for name, value in status.items() if value is not None}}


def admitted() -> tuple[PlannerFeed, Json]:
    """Return a planner that has admitted the workload, and the object with that admission."""
    fed, obj = feed(), workload()
    sync_workload(fed, KEY, obj, NOW, assumed=False)
    (decided,) = fed.run_pass(NOW).admitted
    assert decided.admission is not None
    return fed, patched(obj, reserve_quota(obj, decided.admission))


def test_a_new_workload_is_pending_until_it_is_deleted() -> None:
    fed = feed()
    sync_workload(fed, KEY, workload(), NOW, assumed=False)
    assert list(fed.state.pending) == [KEY]
    sync_workload(fed, KEY, None, NOW, assumed=False)
    assert not fed.state.pending


def test_an_evicted_group_is_pending_again_once_its_pods_are_replaced() -> None:
    """Without its pods, it would hold quota for nothing, or block a StrictFIFO queue."""
    fed, obj = admitted()
    sync_workload(fed, KEY, obj, NOW, assumed=True)
    evicted = patched(obj, evict(obj, EvictionCause("Preempted", "preempted"), NOW))
    waits = patched(evicted, set_waiting_for_replacement(evicted, 1, NOW))
    released = patched(waits, release_quota(waits, NOW))
    sync_workload(fed, KEY, released, NOW, assumed=False)
    assert not fed.state.running
    assert not fed.state.pending
    replaced = patched(released, set_waiting_for_replacement(released, 0, NOW))
    sync_workload(fed, KEY, replaced, NOW, assumed=False)
    assert list(fed.state.pending) == [KEY]


def test_an_admission_is_confirmed_by_its_object() -> None:
    fed, obj = admitted()
    sync_workload(fed, KEY, obj, NOW, assumed=True)
    assert list(fed.state.running) == [KEY]


def test_an_older_observation_does_not_undo_an_assumed_admission() -> None:
    fed, _ = admitted()
    sync_workload(fed, KEY, workload(), NOW, assumed=True)
    assert list(fed.state.running) == [KEY]
    sync_workload(fed, KEY, workload(), NOW, assumed=False)
    assert list(fed.state.pending) == [KEY]


@pytest.mark.parametrize("known", [False, True])
def test_an_admission_of_an_earlier_leader_is_adopted(known: bool) -> None:
    _, obj = admitted()
    fed = feed()
    if known:
        sync_workload(fed, KEY, workload(), NOW, assumed=False)
    sync_workload(fed, KEY, obj, NOW, assumed=False)
    assert list(fed.state.running) == [KEY]
    assert not fed.state.pending


def test_an_evicted_workload_keeps_its_quota_until_it_is_released() -> None:
    fed, obj = admitted()
    evicted = patched(obj, evict(obj, EvictionCause("Preempted", "m", preemption_reason="InClusterQueue"), NOW))
    sync_workload(fed, KEY, evicted, NOW, assumed=False)
    assert fed.state.running_workloads.stopping == {KEY}
    released = patched(evicted, release_quota(evicted, NOW + 1))
    sync_workload(fed, KEY, released, NOW + 1, assumed=False)
    assert list(fed.state.pending) == [KEY]


def test_an_ended_workload_frees_its_quota() -> None:
    fed, obj = admitted()
    sync_workload(fed, KEY, patched(obj, finish_for(obj, "Succeeded", "", NOW)), NOW, assumed=False)
    assert not fed.state.running


def test_a_held_workload_is_pending_again_at_its_requeue_time() -> None:
    fed, obj = feed(), workload()
    held = {**obj, "status": {"requeueState": {"count": 1, "requeueAt": "1970-01-12T13:48:00Z"}}}
    hold = sync_workload(fed, KEY, held, NOW, assumed=False)
    assert not fed.state.pending
    assert hold is not None
    assert sync_workload(fed, KEY, held, hold, assumed=False) is None
    assert list(fed.state.pending) == [KEY]


def test_an_unreadable_workload_is_an_error() -> None:
    broken = workload()
    broken["spec"]["podSets"][0]["count"] = "x"
    with pytest.raises(InvalidWorkload, match="count"):
        sync_workload(feed(), KEY, broken, NOW, assumed=False)


def test_an_eviction_before_an_assumed_admission_does_not_stop_the_workload() -> None:
    fed, obj = admitted()
    evicted = patched(obj, evict(obj, EvictionCause("Preempted", "m"), NOW))
    released = patched(evicted, release_quota(evicted, NOW))
    sync_workload(fed, KEY, released, NOW, assumed=False)
    assert [workload.key for workload in fed.run_pass(NOW + 1).admitted] == [KEY]
    sync_workload(fed, KEY, released, NOW + 1, assumed=True)
    assert not fed.state.running_workloads.stopping
    sync_workload(fed, KEY, {**obj, "spec": {**obj["spec"], "active": False}}, NOW + 2, assumed=False)
    assert [order.reason for order in fed.run_pass(NOW + 2).stopped] == ["Deactivated"]


def with_checks(obj: Json, **states: str) -> Json:
    checks = [{"name": name, "state": state} for name, state in states.items()]
    return {**obj, "status": {**obj["status"], "admissionChecks": checks}}


def checked() -> tuple[PlannerFeed, Json]:
    """Return a planner whose queue requires two checks, and the Workload that it has admitted."""
    fed, obj = feed(), workload()
    objects = planner_objects({"cpu": 4})
    rules = [{"name": "a"}, {"name": "b"}]
    objects["clusterQueues"][0]["spec"]["admissionChecksStrategy"] = {"admissionChecks": rules}
    fed.configure(objects, {"ns": {}})
    sync_workload(fed, KEY, obj, NOW, assumed=False)
    (decided,) = fed.run_pass(NOW).admitted
    assert decided.admission is not None
    return fed, patched(obj, reserve_quota(obj, decided.admission))


@pytest.mark.parametrize("adopts", [False, True])
def test_checks_have_passed_once_each_required_one_is_ready(adopts: bool) -> None:
    fed, obj = checked()

    def pending() -> tuple[str, ...]:
        admission = fed.state.running[KEY].workload.admission
        assert admission is not None
        return admission.pending_checks

    if adopts:
        sync_workload(fed, KEY, None, NOW, assumed=False)
    not_all = [{"a": "Ready"}, {"a": "Ready", "b": "Pending"}, {"a": "Ready", "b": "Ready", "gone": "Pending"}]
    for states in not_all:
        sync_workload(fed, KEY, with_checks(obj, **states), NOW, assumed=False)
        assert pending()
        if adopts:
            sync_workload(fed, KEY, None, NOW, assumed=False)
    sync_workload(fed, KEY, with_checks(obj, a="Ready", b="Ready"), NOW + 5, assumed=False)
    assert not pending()


def test_the_walltime_counts_from_the_admission_that_follows_the_checks() -> None:
    fed, obj = checked()
    ready = with_checks(obj, a="Ready", b="Ready")
    sync_workload(fed, KEY, ready, NOW + 5, assumed=False)
    admitted_condition = {"type": "Admitted", "status": "True", "lastTransitionTime": "1970-01-12T13:48:00Z"}
    others = [entry for entry in ready["status"]["conditions"] if entry["type"] != "Admitted"]
    ready["status"]["conditions"] = [*others, admitted_condition]
    sync_workload(fed, KEY, ready, NOW + 500, assumed=False)
    admission = fed.state.running[KEY].workload.admission
    assert admission is not None
    assert admission.started_at == NOW + 80
