"""While a Job runs, its deadline is that of its walltime; otherwise it is the submitted one."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.controller_jobs import batch_jobs
from support.job_api import JobApi
from zonewise_scheduler.controller.jobs.batch_job import ADAPTER
from zonewise_scheduler.controller.jobs.interface import PodSetInfo
from zonewise_scheduler.controller.jobs.job_deadline import (
    SUBMITTED_DEADLINE_ANNOTATION,
    deadline_patch,
    submitted_deadline,
)

Json = dict[str, Any]

UNLIMITED = [2**31 - 1, 2**63 - 1]


@given(
    batch_jobs(),
    st.none() | st.integers(1, 100) | st.sampled_from(UNLIMITED),
    st.floats(0.5, 200),
    st.integers(0, 2),
    st.booleans(),
)
def test_a_stop_restores_the_submitted_deadline(
    job: Json, submitted: int | None, walltime: float, restarts: int, clears_start_time: bool
) -> None:
    if submitted is not None:
        job["spec"]["activeDeadlineSeconds"] = submitted
    original = ADAPTER.pod_sets(job)
    api = JobApi(copy.deepcopy(job), clears_start_time=clears_start_time)
    for _ in range(restarts + 1):
        patch = deadline_patch(api.job, walltime)
        if patch:
            api.patch(patch)
        assert submitted_deadline(api.job) == submitted
        assert api.job["spec"]["activeDeadlineSeconds"] < walltime + 1
    api.patch(ADAPTER.start(api.job, [PodSetInfo("main", original[0].pods)]).body)
    api.sync()
    while not ADAPTER.is_suspended(api.job) or ADAPTER.is_active(api.job):
        if (stop := ADAPTER.next_stop(api.job, original)) is not None:
            api.patch(stop.body, stop.subresource)
        else:
            api.sync()
    assert api.job["spec"].get("activeDeadlineSeconds") == submitted
    assert SUBMITTED_DEADLINE_ANNOTATION not in api.job["metadata"]["annotations"]


@pytest.mark.parametrize("text", ["soon", "-1", "1" * 30])
def test_a_damaged_annotation_counts_as_no_deadline(text: str) -> None:
    job: Json = {"metadata": {"annotations": {SUBMITTED_DEADLINE_ANNOTATION: text}}, "spec": {}}
    assert submitted_deadline(job) is None
