"""Whether a Workload still matches its job, through starts, stops and changes by users."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from support.admissions import TIMES
from support.controller_jobs import batch_jobs, pod_set_infos
from support.job_api import JobApi
from zonewise_sandbox.apiserver.patches.merge_patch import merge_patch as apply_merge_patch
from zonewise_scheduler.controller.jobs.batch_job import ADAPTER
from zonewise_scheduler.controller.workloads.equivalence import matches
from zonewise_scheduler.controller.workloads.manifest import ManifestOptions, build_workload
from zonewise_scheduler.controller.workloads.status import EvictionCause, evict, release_quota, reserve_quota
from zonewise_scheduler.quota.api.declared_walltime import MAX_EXEC_TIME_LABEL
from zonewise_scheduler.quota.api.workload_types import Admission, PodSetAdmission

Json = dict[str, Any]

NOW = 1_700_000_000.0


def patched(obj: Json, patch: Json | None) -> Json:
    result: Any = obj if patch is None else apply_merge_patch(copy.deepcopy(obj), patch)
    return result


def workload_of(job: Json) -> Json:
    return build_workload(job, ADAPTER.resource, ADAPTER.pod_sets(job), ManifestOptions())


def admitted(workload: Json, pods: int, checks: tuple[str, ...] = ()) -> Json:
    pod_set = PodSetAdmission("main", {}, {}, pods)
    return patched(workload, reserve_quota(workload, Admission("cq", (pod_set,), NOW, checks)))


@given(batch_jobs(), st.data(), st.booleans(), TIMES)
def test_a_job_keeps_its_workload_through_a_start_and_each_write_of_a_stop(
    job: Json, data: st.DataObject, clears_start_time: bool, now: float
) -> None:
    workload = workload_of(job)
    assert matches(workload, ADAPTER, job)
    original = ADAPTER.pod_sets(job)
    pods = data.draw(st.integers(1, original[0].pods)) if original[0].min_count else original[0].pods
    workload = admitted(workload, pods)
    assert matches(workload, ADAPTER, job)
    api = JobApi(job, clears_start_time=clears_start_time)
    api.patch(ADAPTER.start(api.job, [data.draw(pod_set_infos(pods))]).body)
    assert matches(workload, ADAPTER, api.job)
    api.sync()
    workload = patched(workload, evict(workload, EvictionCause("Preempted", "m"), now))
    while (patch := ADAPTER.next_stop(api.job, original)) is not None or ADAPTER.is_active(api.job):
        assert matches(workload, ADAPTER, api.job)
        if patch is not None:
            api.patch(patch.body, patch.subresource)
        assert matches(workload, ADAPTER, api.job)
        api.sync()
    workload = patched(workload, release_quota(workload, now))
    assert matches(workload, ADAPTER, api.job)


@given(batch_jobs(), st.data(), st.sampled_from(["pending", "admitted", "running"]))
def test_a_change_of_requests_or_of_the_number_of_pods_ends_the_match(
    job: Json, data: st.DataObject, state: str
) -> None:
    [pod_set] = ADAPTER.pod_sets(job)
    workload = workload_of(job)
    if state != "pending":
        workload = admitted(workload, pod_set.pods)
    if state == "running":
        job = patched(job, ADAPTER.start(job, [data.draw(pod_set_infos(pod_set.pods))]).body)
    changed = copy.deepcopy(job)
    changed["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2001m"
    assert not matches(workload, ADAPTER, changed)
    pods = data.draw(st.integers(pod_set.min_count or 1, 9))
    assume(pods != pod_set.pods)
    assert not matches(workload, ADAPTER, patched(job, {"spec": {"parallelism": pods, "completions": 9}}))


@given(batch_jobs())
def test_quantities_are_compared_by_value(job: Json) -> None:
    workload = workload_of(job)
    changed = copy.deepcopy(job)
    changed["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "2000m", "memory": "1024Mi"}
    changed["spec"]["template"]["spec"]["containers"][0]["env"] = []
    assert matches(workload, ADAPTER, changed)


@pytest.mark.parametrize(
    "directives",
    [
        {"tolerations": [{"operator": "Exists"}]},
        {"nodeSelector": {"zone": "b"}},
        {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}},
    ],
)
def test_directives_count_while_a_job_is_held_without_quota(directives: Json) -> None:
    template = {"spec": {"containers": [{"name": "c"}], "affinity": {"nodeAffinity": {"a": "b"}}}}
    job: Json = {"metadata": {"name": "j", "uid": "u"}, "spec": {"suspend": True, "template": template}}
    workload = workload_of(job)
    changed = patched(job, {"spec": {"template": {"spec": directives}}})
    assert not matches(workload, ADAPTER, changed)
    assert matches(admitted(workload, 1, ("check",)), ADAPTER, changed)


def test_a_workload_of_an_earlier_job_of_the_name_does_not_match() -> None:
    job: Json = {"metadata": {"name": "j", "uid": "u"}, "spec": {"suspend": True, "template": {"spec": {}}}}
    workload = workload_of(job)
    assert matches(workload, ADAPTER, job)
    assert not matches(workload, ADAPTER, patched(job, {"metadata": {"uid": "v"}}))


def test_another_maximum_execution_time_ends_the_match() -> None:
    labels = {MAX_EXEC_TIME_LABEL: "60"}
    metadata = {"name": "j", "uid": "u", "labels": labels}
    job: Json = {"metadata": metadata, "spec": {"suspend": True, "template": {"spec": {}}}}
    workload = workload_of(job)
    assert matches(workload, ADAPTER, job)
    assert not matches(workload, ADAPTER, patched(job, {"metadata": {"labels": {MAX_EXEC_TIME_LABEL: "61"}}}))
    assert not matches(workload, ADAPTER, patched(job, {"metadata": {"labels": None}}))


def test_a_job_that_its_user_suspends_keeps_its_workload() -> None:
    annotations = {"kueue.x-k8s.io/job-min-parallelism": "1"}
    metadata = {"name": "j", "uid": "u", "annotations": annotations}
    job: Json = {"metadata": metadata, "spec": {"suspend": True, "parallelism": 4, "template": {"spec": {}}}}
    workload = admitted(workload_of(job), 2)
    for parallelism, is_match in ((2, True), (4, True), (3, False)):
        assert matches(workload, ADAPTER, patched(job, {"spec": {"parallelism": parallelism}})) is is_match
    assert not matches(workload, ADAPTER, patched(job, {"spec": {"suspend": False}}))
