"""Stops of batch/v1 Jobs: from any state and after any interruption, a stop restores the Job as it was submitted."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.controller_jobs import batch_jobs, pod_set_infos
from support.job_api import JobApi, pruned_template
from zonewise_scheduler.controller.jobs.batch_job import ADAPTER, STOPPING_ANNOTATION

Json = dict[str, Any]

MAX_STEPS = 30


def stop(api: JobApi, original: Any) -> list[str]:
    """Write and synchronize until nothing changes; return the purposes of the writes."""
    purposes: list[str] = []
    for _ in range(MAX_STEPS):
        patch = ADAPTER.next_stop(api.job, original)
        if patch is not None:
            purposes.append(patch.purpose)
            api.patch(patch.body, patch.subresource)
        if not api.sync() and patch is None:
            return purposes
    raise AssertionError(f"the stop does not end: {purposes}")


@given(batch_jobs(), st.data(), st.booleans())
def test_a_stop_restores_the_job_from_any_state_and_after_any_interruption(
    job: Json, data: st.DataObject, clears_start_time: bool
) -> None:
    original = ADAPTER.pod_sets(job)
    api = JobApi(job, clears_start_time=clears_start_time)
    for _ in range(data.draw(st.integers(0, 3), label="synchronized before the start")):
        api.sync()
    pods = data.draw(st.integers(1, original[0].pods)) if original[0].min_count else original[0].pods
    api.patch(ADAPTER.start(api.job, [data.draw(pod_set_infos(pods))]).body)
    # the Job controller, and a controller that is killed after each of its writes, act in any order and any number of
    # times
    for step in data.draw(st.lists(st.sampled_from(["sync", "write", "user suspends"]), max_size=8)):
        if step == "sync":
            api.sync()
        elif step == "user suspends":
            api.patch({"spec": {"suspend": True}})
        elif (patch := ADAPTER.next_stop(api.job, original)) is not None:
            api.patch(patch.body, patch.subresource)
    stop(api, original)
    assert pruned_template(api.job) == pruned_template(job)
    assert [pod_set.pods for pod_set in ADAPTER.pod_sets(api.job)] == [original[0].pods]
    assert api.is_template_mutable
    assert STOPPING_ANNOTATION not in api.job["metadata"]["annotations"]
    assert ADAPTER.is_suspended(api.job)
    assert not ADAPTER.is_active(api.job)


@given(batch_jobs(), st.data(), st.booleans(), st.lists(st.booleans(), max_size=12))
def test_a_job_is_neither_suspended_nor_inactive_until_its_stop_is_complete(
    job: Json, data: st.DataObject, clears_start_time: bool, syncs: list[bool]
) -> None:
    original = ADAPTER.pod_sets(job)
    api = JobApi(job, clears_start_time=clears_start_time)
    api.patch(ADAPTER.start(api.job, [data.draw(pod_set_infos(original[0].pods))]).body)
    api.sync()
    for sync in syncs:
        patch = ADAPTER.next_stop(api.job, original)
        if patch is None and not ADAPTER.is_active(api.job):
            assert ADAPTER.is_suspended(api.job)
            assert pruned_template(api.job) == pruned_template(job)
        else:
            assert not ADAPTER.is_suspended(api.job) or ADAPTER.is_active(api.job)
        if sync:
            api.sync()
        elif patch is not None:
            api.patch(patch.body, patch.subresource)


@pytest.mark.parametrize(
    ("clears_start_time", "purposes"),
    [
        (True, ["stop: suspend", "stop: restore the template"]),
        (False, ["stop: suspend", "stop: reset the start time", "stop: restore the template"]),
    ],
)
def test_the_start_time_is_reset_if_the_job_controller_does_not_clear_it(
    clears_start_time: bool, purposes: list[str]
) -> None:
    job: Json = {"metadata": {}, "spec": {"suspend": False, "template": {"spec": {"nodeSelector": {"a": "b"}}}}}
    api = JobApi(job, clears_start_time=clears_start_time)
    api.sync()
    assert stop(api, ADAPTER.pod_sets(job)) == purposes


@given(batch_jobs(), st.data(), st.booleans())
def test_a_job_that_ran_and_was_suspended_by_its_user_starts(
    job: Json, data: st.DataObject, clears_start_time: bool
) -> None:
    api = JobApi(job, clears_start_time=clears_start_time)
    api.patch({"spec": {"suspend": False}})
    api.sync()
    api.patch({"spec": {"suspend": True}})
    info = data.draw(pod_set_infos(ADAPTER.pod_sets(job)[0].pods))
    purposes: list[str] = []
    while ADAPTER.is_suspended(api.job):
        patch = ADAPTER.before_start(api.job)
        if patch is None and not ADAPTER.is_active(api.job):
            patch = ADAPTER.start(api.job, [info])
        if patch is not None:
            purposes.append(patch.purpose)
            api.patch(patch.body, patch.subresource)
        elif not api.sync():
            raise AssertionError("it does not start")
    assert purposes == (["start"] if clears_start_time else ["start: reset the start time", "start"])


def test_a_stop_waits_until_the_job_controller_confirms_the_suspension() -> None:
    job: Json = {"metadata": {}, "spec": {"suspend": False, "template": {"spec": {}}}}
    original = ADAPTER.pod_sets(job)
    api = JobApi(job, clears_start_time=False)
    api.sync()
    suspend = ADAPTER.next_stop(api.job, original)
    assert suspend is not None
    api.patch(suspend.body)
    api.job["status"]["active"] = 0
    assert ADAPTER.next_stop(api.job, original) is None
    assert ADAPTER.is_active(api.job)


def test_a_job_that_has_ended_is_not_stopped() -> None:
    job: Json = {"metadata": {}, "spec": {"suspend": False, "template": {"spec": {}}}}
    original = ADAPTER.pod_sets(job)
    ended = copy.deepcopy(job) | {"status": {"conditions": [{"type": "Failed", "status": "True", "message": "m"}]}}
    assert ADAPTER.next_stop(ended, original) is None


@pytest.mark.parametrize("start_time", [None, "2026-01-01T00:00:00Z"])
def test_no_template_is_restored_while_pods_are_active(start_time: str | None) -> None:
    """The API server of Kubernetes 1.36 rejects such a change."""
    job: Json = {"metadata": {}, "spec": {"suspend": True, "template": {"spec": {}}}}
    api = JobApi(job, clears_start_time=True)
    api.patch({"metadata": {"annotations": {STOPPING_ANNOTATION: "true"}}})
    api.job["status"] = {
        "active": 1,
        "startTime": start_time,
        "conditions": [{"type": "Suspended", "status": "True", "message": ""}],
    }
    assert not api.is_template_mutable
    assert ADAPTER.next_stop(api.job, ADAPTER.pod_sets(job)) is None
    assert ADAPTER.is_active(api.job)
