"""Kinds with a field that suspends their jobs: one write starts a job, and one stops it and restores its templates."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.controller_jobs import pod_set_infos
from support.job_kinds import KINDS
from zonewise_sandbox.apiserver.patches.merge_patch import merge_patch as apply_merge_patch
from zonewise_scheduler.controller.jobs.interface import PodSetInfo, StartConflict
from zonewise_scheduler.controller.workloads.equivalence import matches
from zonewise_scheduler.controller.workloads.manifest import ManifestOptions, build_workload
from zonewise_scheduler.quota.api.workload_reader import read_workload

if TYPE_CHECKING:
    from zonewise_scheduler.controller.jobs.interface import JobAdapter

Json = dict[str, Any]


@st.composite
def held_jobs(draw: st.DrawFn) -> tuple[JobAdapter, Json]:
    adapter, jobs = KINDS[draw(st.sampled_from(sorted(KINDS)))]
    return adapter, draw(jobs())


def patched(job: Json, patch: Json) -> Json:
    result: Any = apply_merge_patch(copy.deepcopy(job), copy.deepcopy(patch))
    return result


def restored_parts(adapter: JobAdapter, job: Json) -> list[Json]:
    """Return the parts of each pod set that a start changes."""
    parts: list[Json] = []
    for pod_set in adapter.pod_sets(job):
        spec: Json = pod_set.template["spec"]
        fields = ("nodeSelector", "tolerations", "schedulingGates", "containers")
        parts.append(pod_set.template["metadata"] | {name: spec.get(name) or None for name in fields})
    return parts


@given(held_jobs(), st.data())
def test_a_stop_restores_what_a_start_changed(held: tuple[JobAdapter, Json], data: st.DataObject) -> None:
    adapter, job = held
    before = copy.deepcopy(job)
    original = adapter.pod_sets(job)
    infos = [data.draw(pod_set_infos(pod_set.pods, pod_set.name)) for pod_set in original]
    started = patched(job, adapter.start(job, infos).body)
    assert not adapter.is_suspended(started)
    for info, pod_set in zip(infos, adapter.pod_sets(started), strict=True):
        assert pod_set.template["spec"].get("nodeSelector", {}).items() >= info.node_selector.items()
        assert pod_set.template["metadata"].get("labels", {}).items() >= info.labels.items()
    stop = adapter.next_stop(started, original)
    assert stop is not None
    stopped = patched(started, stop.body)
    assert adapter.is_suspended(stopped)
    assert adapter.next_stop(stopped, original) is None
    assert restored_parts(adapter, stopped) == restored_parts(adapter, job)
    assert job == before


@given(held_jobs(), st.data())
def test_a_job_matches_its_workload_after_a_start_and_after_a_stop(
    held: tuple[JobAdapter, Json], data: st.DataObject
) -> None:
    adapter, job = held
    original = adapter.pod_sets(job)
    workload = build_workload(job, adapter.resource, original, ManifestOptions())
    assert matches(workload, adapter, job)
    infos = [data.draw(pod_set_infos(pod_set.pods, pod_set.name)) for pod_set in original]
    started = patched(job, adapter.start(job, infos).body)
    assert matches(workload, adapter, started)
    stop = adapter.next_stop(started, original)
    assert stop is not None
    assert matches(workload, adapter, patched(started, stop.body))


@given(held_jobs())
def test_the_planner_reads_the_workload_of_each_kind(held: tuple[JobAdapter, Json]) -> None:
    adapter, job = held
    pod_sets = adapter.pod_sets(job)
    result = read_workload(build_workload(job, adapter.resource, pod_sets, ManifestOptions()))
    assert result.problems == ()
    assert result.workload is not None
    assert [(item.name, item.pods) for item in result.workload.pod_sets] == [
        (pod_set.name, pod_set.pods) for pod_set in pod_sets
    ]


@given(held_jobs())
def test_a_job_that_was_never_started_is_suspended_and_inactive(held: tuple[JobAdapter, Json]) -> None:
    adapter, job = held
    assert adapter.is_suspended(job)
    assert not adapter.is_active(job)
    assert not adapter.pods_ready(job)
    assert adapter.finished(job) is None
    assert adapter.next_stop(job, adapter.pod_sets(job)) is None
    assert adapter.reclaimable_pods(job) == {}


@given(held_jobs())
def test_a_start_with_another_number_of_pod_sets_is_a_conflict(held: tuple[JobAdapter, Json]) -> None:
    adapter, job = held
    number = len(adapter.pod_sets(job)) + 1
    with pytest.raises(StartConflict, match=f"in the {adapter.resource.kind}, {number} in the admission"):
        adapter.start(job, [PodSetInfo(f"set-{i}", 1) for i in range(number)])
