"""JobSets: a pod set for each replicated job; one write starts a JobSet and one stops it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.controller_jobs import pod_set_infos, templates
from support.json_edits import without_absent_fields
from zonewise_common.k8s.fields import FieldError
from zonewise_sandbox.apiserver.patches.merge_patch import merge_patch as apply_merge_patch
from zonewise_scheduler.controller.jobs.injected import INJECTED_ANNOTATION
from zonewise_scheduler.controller.jobs.interface import FinishedJob, PodSetInfo, StartConflict
from zonewise_scheduler.controller.jobs.jobset import ADAPTER, JOB_INDEX_LABEL
from zonewise_scheduler.controller.workloads.manifest import ManifestOptions, build_workload
from zonewise_scheduler.quota.api.job_pod_sets import COMPLETION_INDEX, CONTROLLER_UID
from zonewise_scheduler.quota.api.workload_reader import read_workload

if TYPE_CHECKING:
    from collections.abc import Mapping

Json = dict[str, Any]


def replicated_job(name: str, template: Json | None = None, replicas: int = 1, **spec: object) -> Json:
    return {"name": name, "replicas": replicas, "template": {"spec": {"template": template or {"spec": {}}, **spec}}}


def jobset(*replicated: Json, status: Json | None = None, suspend: bool = True) -> Json:
    metadata = {"name": "js", "namespace": "ns", "uid": "u"}
    return {
        "metadata": metadata,
        "spec": {"suspend": suspend, "replicatedJobs": list(replicated)},
        "status": status or {},
    }


@st.composite
def jobsets(draw: st.DrawFn) -> Json:
    names = draw(st.lists(st.sampled_from(["leader", "workers", "ps"]), unique=True, min_size=1))
    return jobset(
        *(
            replicated_job(name, draw(templates()), draw(st.integers(1, 3)), parallelism=draw(st.integers(1, 3)))
            for name in names
        )
    )


def patched(job: Json, patch: Json) -> Json:
    result: Any = apply_merge_patch(copy.deepcopy(job), copy.deepcopy(patch))
    return result


def pruned(job: Json) -> list[Any]:
    return [
        without_absent_fields(item["template"]["spec"]["template"])
        | {"spec": without_absent_fields(item["template"]["spec"]["template"]["spec"])}
        for item in job["spec"]["replicatedJobs"]
    ]


@given(jobsets(), st.data())
def test_a_stop_restores_what_a_start_changed(job: Json, data: st.DataObject) -> None:
    before = copy.deepcopy(job)
    original = ADAPTER.pod_sets(job)
    start = ADAPTER.start(job, [data.draw(pod_set_infos(pod_set.pods)) for pod_set in original])
    assert set(start.body["spec"]) <= {"suspend", "replicatedJobs"}
    started = patched(job, start.body)
    assert not ADAPTER.is_suspended(started)
    if data.draw(st.booleans(), label="the user suspends it first"):
        started = patched(started, {"spec": {"suspend": True}})
    stop = ADAPTER.next_stop(started, original)
    stopped = started if stop is None else patched(started, stop.body)
    assert ADAPTER.is_suspended(stopped)
    assert ADAPTER.next_stop(stopped, original) is None
    assert pruned(stopped) == pruned(job)
    assert job == before


@given(jobsets())
def test_the_planner_reads_the_workload_of_any_jobset(job: Json) -> None:
    result = read_workload(build_workload(job, ADAPTER.resource, ADAPTER.pod_sets(job), ManifestOptions()))
    assert result.problems == ()
    assert result.workload is not None
    expected = [
        (item["name"], item["replicas"] * item["template"]["spec"]["parallelism"])
        for item in job["spec"]["replicatedJobs"]
    ]
    assert [(item.name, item.pods) for item in result.workload.pod_sets] == expected


def test_pods_of_a_replicated_job_are_numbered_by_job_and_index() -> None:
    [pod_set] = ADAPTER.pod_sets(jobset(replicated_job("a", None, 3, parallelism=4, completions=2)))
    assert pod_set.pods == 6
    assert pod_set.topology_request == {
        "podIndexLabel": "batch.kubernetes.io/job-completion-index",
        "subGroupIndexLabel": JOB_INDEX_LABEL,
        "subGroupCount": 3,
    }


def test_a_start_with_another_number_of_pod_sets_is_a_conflict() -> None:
    with pytest.raises(StartConflict, match="pod sets: 2 in the JobSet, 1 in the admission"):
        ADAPTER.start(jobset(replicated_job("a"), replicated_job("b")), [PodSetInfo("a", 1)])


def test_a_stop_of_a_jobset_with_other_replicated_jobs_suspends_it() -> None:
    job = jobset(replicated_job("a"), suspend=False)
    stop = ADAPTER.next_stop(job, ADAPTER.pod_sets(jobset(replicated_job("a"), replicated_job("b"))))
    assert stop is not None
    assert stop.body == {"spec": {"suspend": True}}


def test_the_state_of_a_jobset_follows_from_its_replicated_jobs() -> None:
    def statuses(**of_jobs: Json) -> Json:
        return {"replicatedJobsStatus": [{"name": name, **status} for name, status in of_jobs.items()]}

    replicated = replicated_job("a", None, 2, parallelism=3), replicated_job("b")
    job = jobset(*replicated, status=statuses(a={"ready": 1, "succeeded": 1, "active": 1}, b={}))
    assert ADAPTER.is_active(job)
    assert not ADAPTER.pods_ready(job)
    assert ADAPTER.reclaimable_pods(job) == {"a": 3}
    job = jobset(*replicated, status=statuses(a={"succeeded": 2}, b={"ready": 1}))
    assert not ADAPTER.is_active(job)
    assert ADAPTER.pods_ready(job)
    assert ADAPTER.reclaimable_pods(job) == {"a": 6}
    assert ADAPTER.reclaimable_pods(jobset(*replicated)) == {}


@pytest.mark.parametrize(("condition", "succeeded"), [("Completed", True), ("Failed", False)])
def test_a_jobset_ends_by_its_policies(condition: str, succeeded: bool) -> None:
    status = {"conditions": [{"type": condition, "status": "True", "message": "m"}]}
    job = jobset(replicated_job("a"), status=status, suspend=False)
    assert ADAPTER.finished(job) == FinishedJob(succeeded, "m")
    assert ADAPTER.next_stop(job, ADAPTER.pod_sets(job)) is None
    assert ADAPTER.finished(jobset(status={"conditions": [{"type": condition, "status": "False"}]})) is None


def test_an_invalid_jobset_is_an_error_that_names_the_field() -> None:
    job = jobset(replicated_job("a"))
    job["spec"]["replicatedJobs"][0]["replicas"] = "3"
    with pytest.raises(FieldError) as error:
        ADAPTER.pod_sets(job)
    assert str(error.value) == "spec.replicatedJobs[0].replicas: not a whole number: '3'"


def test_a_success_policy_ends_a_jobset_while_other_jobs_are_active() -> None:
    """The JobSet controller sets Completed once the policy is met; it deletes the Jobs that still run afterwards."""
    status = {"replicatedJobsStatus": [{"name": "driver", "succeeded": 1}, {"name": "workers", "active": 3}]}
    job = jobset(replicated_job("driver"), replicated_job("workers", replicas=3), status=status, suspend=False)
    job["spec"]["successPolicy"] = {"operator": "All", "targetReplicatedJobs": ["driver"]}
    assert ADAPTER.finished(job) is None
    assert ADAPTER.reclaimable_pods(job) == {"driver": 1}
    job["status"]["conditions"] = [{"type": "Completed", "status": "True", "message": "jobset completed successfully"}]
    assert ADAPTER.finished(job) == FinishedJob(True, "jobset completed successfully")
    assert ADAPTER.is_active(job), "its pods hold their quota until they have ended"


def test_the_annotation_of_a_start_is_kept_until_no_pod_is_active() -> None:
    """The annotation records the quota of the pods, even if the Workload is lost."""
    job = jobset(replicated_job("workers"), suspend=False, status={"replicatedJobsStatus": [{"active": 1}]})
    job["metadata"]["annotations"] = {INJECTED_ANNOTATION: "{}"}
    first = ADAPTER.next_stop(job, ADAPTER.pod_sets(job))
    assert first is not None
    job = patched(job, first.body)
    assert ADAPTER.is_suspended(job)
    assert INJECTED_ANNOTATION in job["metadata"]["annotations"]
    assert ADAPTER.next_stop(job, ADAPTER.pod_sets(job)) is None
    job["status"] = {}
    second = ADAPTER.next_stop(job, ADAPTER.pod_sets(job))
    assert second is not None
    assert INJECTED_ANNOTATION not in patched(job, second.body)["metadata"].get("annotations", {})


# --- the pods of a finished JobSet


def ended_pod(name: str, index: int, job: str, uid: str = "u", attempt: int = 0) -> dict[str, str]:
    return {
        "jobset.sigs.k8s.io/replicatedjob-name": name,
        "jobset.sigs.k8s.io/jobset-uid": uid,
        "jobset.sigs.k8s.io/restart-attempt": str(attempt),
        COMPLETION_INDEX: str(index),
        CONTROLLER_UID: job,
    }


TRAINING = (
    replicated_job("driver", completionMode="Indexed"),
    replicated_job("workers", replicas=2, parallelism=2, completions=2, completionMode="Indexed"),
)
ENDED = [ended_pod("driver", 0, "d"), *(ended_pod("workers", i, job) for job in ("w0", "w1") for i in (0, 1))]


def test_a_jobset_is_done_once_all_indexes_of_all_its_jobs_have_succeeded() -> None:
    assert ADAPTER.is_done(jobset(*TRAINING), ENDED)
    for i in range(len(ENDED)):
        assert not ADAPTER.is_done(jobset(*TRAINING), ENDED[:i] + ENDED[i + 1 :]), ENDED[i]
    assert not ADAPTER.is_done(jobset(*TRAINING), [])


@pytest.mark.parametrize(
    "last",
    [
        ended_pod("workers", 0, "w1"),
        ended_pod("workers", 1, "w0"),
        ended_pod("workers", 1, "w1", uid="earlier"),
        ended_pod("workers", 1, "w1", attempt=1),
        ended_pod("driver", 1, "w1"),
        ended_pod("workers", 1, "w1 of another attempt"),
    ],
)
def test_pods_that_do_not_finish_the_last_index(last: Mapping[str, str]) -> None:
    assert not ADAPTER.is_done(jobset(*TRAINING), [*ENDED[:-1], last])


def test_only_pods_of_the_attempt_in_the_status_count() -> None:
    restarted = jobset(*TRAINING, status={"restarts": 1})
    assert not ADAPTER.is_done(restarted, ENDED)
    again = [ended_pod("driver", 0, "d2", attempt=1)]
    again += [ended_pod("workers", i, job, attempt=1) for job in ("w2", "w3") for i in (0, 1)]
    assert ADAPTER.is_done(restarted, ENDED + again)
