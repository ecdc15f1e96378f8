"""batch/v1 Jobs: pod sets, starts, readiness, ends and pods that are no longer needed."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.controller_jobs import CONTAINER, batch_jobs, pod_set_infos
from support.job_api import JobApi
from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.controller.jobs.batch_job import ADAPTER, COMPLETIONS_ANNOTATION, STOPPING_ANNOTATION
from zonewise_scheduler.controller.jobs.interface import FinishedJob, PodSetInfo, StartConflict
from zonewise_scheduler.quota.api.job_pod_sets import MIN_PARALLELISM_ANNOTATION

Json = dict[str, Any]


def job(status: Json | None = None, annotations: Json | None = None, **spec: object) -> Json:
    spec = {"suspend": True, "template": {"spec": {"containers": [CONTAINER]}}, **spec}
    return {"metadata": {"name": "j", "annotations": annotations or {}}, "spec": spec, "status": status or {}}


@given(batch_jobs(), st.data(), st.booleans())
def test_a_start_is_one_patch_that_the_api_server_accepts(
    submitted: Json, data: st.DataObject, clears_start_time: bool
) -> None:
    before = copy.deepcopy(submitted)
    [pod_set] = ADAPTER.pod_sets(submitted)
    patch = ADAPTER.start(submitted, [data.draw(pod_set_infos(pod_set.pods))])
    assert submitted == before
    api = JobApi(submitted, clears_start_time=clears_start_time)
    api.patch(patch.body, patch.subresource)
    assert api.job["spec"]["suspend"] is False
    assert api.job["spec"]["parallelism"] == submitted["spec"]["parallelism"]
    assert not ADAPTER.is_suspended(api.job)


def test_a_start_changes_nothing_else() -> None:
    info = PodSetInfo("main", 2, {"l": "1"}, {"n": "1"}, {"zone": "a"}, [{"operator": "Exists"}], ["gate"])
    patch = ADAPTER.start(job(parallelism=2, activeDeadlineSeconds=60), [info])
    assert (patch.purpose, patch.subresource) == ("start", "")
    assert patch.body == {
        "spec": {
            "suspend": False,
            "template": {
                "metadata": {"labels": {"l": "1"}, "annotations": {"n": "1"}},
                "spec": {
                    "nodeSelector": {"zone": "a"},
                    "tolerations": [{"operator": "Exists"}],
                    "schedulingGates": [{"name": "gate"}],
                },
            },
        }
    }


@pytest.mark.parametrize(
    ("follows", "change"),
    [("false", {"parallelism": 2}), ("true", {"parallelism": 2, "completions": 2}), ("maybe", {"parallelism": 2})],
)
def test_a_partial_admission_changes_the_parallelism(follows: str, change: Json) -> None:
    annotations = {MIN_PARALLELISM_ANNOTATION: "1", COMPLETIONS_ANNOTATION: follows}
    patch = ADAPTER.start(job(annotations=annotations, parallelism=4, completions=4), [PodSetInfo("main", 2)])
    assert patch.body == {"spec": {"suspend": False, **change}}


def test_a_start_with_other_pod_sets_is_a_conflict() -> None:
    with pytest.raises(StartConflict, match="pod sets: 1 in the Job, 2 in the admission"):
        ADAPTER.start(job(), [PodSetInfo("a", 1), PodSetInfo("b", 1)])


@pytest.mark.parametrize(
    ("spec", "pods"),
    [({}, 1), ({"parallelism": 3}, 3), ({"parallelism": 3, "completions": 2}, 2), ({"parallelism": 0}, 0)],
)
def test_a_pod_set_has_as_many_pods_as_run_at_the_same_time(spec: Json, pods: int) -> None:
    [pod_set] = ADAPTER.pod_sets(job(**spec))
    assert (pod_set.name, pod_set.pods, pod_set.min_count) == ("main", pods, None)


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        (job(parallelism="two"), "spec.parallelism: not a whole number: 'two'"),
        (job(parallelism=-1), "spec.parallelism: not between 0 and 67108864: -1"),
        (
            job(annotations={MIN_PARALLELISM_ANNOTATION: "0"}),
            f"metadata.annotations.{MIN_PARALLELISM_ANNOTATION}: not a number from 1 to 67108864: '0'",
        ),
        (
            job(annotations={MIN_PARALLELISM_ANNOTATION: "3"}, parallelism=2),
            f"metadata.annotations.{MIN_PARALLELISM_ANNOTATION}: more than the 2 pods of the job: 3",
        ),
        (job(template=3), "spec.template: not an object: 3"),
    ],
)
def test_an_invalid_job_is_an_error_that_names_the_field(damaged: Json, message: str) -> None:
    with pytest.raises(FieldError) as error:
        ADAPTER.pod_sets(damaged)
    assert str(error.value) == message


def test_a_job_is_not_suspended_until_its_stop_is_complete() -> None:
    assert ADAPTER.is_suspended(job())
    assert not ADAPTER.is_suspended(job(suspend=False))
    assert not ADAPTER.is_suspended(job(annotations={STOPPING_ANNOTATION: "true"}))


@pytest.mark.parametrize(
    ("status", "active"),
    [({}, False), ({"active": 1}, True), ({"active": 0, "terminating": 2}, True), ({"terminating": 0}, False)],
)
def test_terminating_pods_are_active(status: Json, active: bool) -> None:
    assert ADAPTER.is_active(job(status)) is active


@pytest.mark.parametrize(
    ("status", "ready"),
    [
        ({"ready": 2}, False),
        ({"ready": 3}, True),
        ({"ready": 1, "succeeded": 2}, True),
        ({"ready": 1, "succeeded": 1, "uncountedTerminatedPods": {"succeeded": ["u"]}}, True),
        ({"ready": 1, "uncountedTerminatedPods": {"failed": ["u", "v"]}}, False),
    ],
)
def test_pods_that_are_ready_or_have_succeeded_count_as_ready(status: Json, ready: bool) -> None:
    assert ADAPTER.pods_ready(job(status, parallelism=3)) is ready


def test_a_job_ends_with_complete_or_failed() -> None:
    def finished(condition_type: str, condition_status: str = "True") -> FinishedJob | None:
        condition = {"type": condition_type, "status": condition_status, "message": "m"}
        return ADAPTER.finished(job({"conditions": [{"type": "Suspended", "status": "False"}, condition]}))

    assert finished("Complete") == FinishedJob(succeeded=True, message="m")
    assert finished("Failed") == FinishedJob(succeeded=False, message="m")
    assert finished("Failed", "False") is None
    assert finished("SuccessCriteriaMet") is None


@pytest.mark.parametrize(
    ("spec", "status", "reclaimable"),
    [
        ({"parallelism": 3, "completions": 5}, {"succeeded": 1}, 0),
        ({"parallelism": 3, "completions": 5}, {"succeeded": 3}, 1),
        ({"parallelism": 3, "completions": 5}, {"succeeded": 9}, 3),
        ({"parallelism": 9, "completions": 4}, {"succeeded": 1}, 1),
        ({"parallelism": 3}, {"succeeded": 1}, 1),
        ({"parallelism": 3}, {}, 0),
        (
            {"parallelism": 4, "completions": 4, "completionMode": "Indexed"},
            {"completedIndexes": "0,2-3", "failedIndexes": "1"},
            4,
        ),
        (
            {"parallelism": 2, "completions": 2, "completionMode": "Indexed"},  # scaled down from 4
            {"completedIndexes": "1-3", "succeeded": 3},
            1,
        ),
    ],
)
def test_pods_without_a_remaining_completion_are_reclaimable(spec: Json, status: Json, reclaimable: int) -> None:
    assert ADAPTER.reclaimable_pods(job(status, **spec)) == ({"main": reclaimable} if reclaimable else {})
