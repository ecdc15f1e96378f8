"""The job of a Workload, as commands show it."""

from __future__ import annotations

from typing import Any

import pytest

from zonewise_scheduler.client.jobs.job_facts import read_job

Json = dict[str, Any]

POD: Json = {"apiVersion": "v1", "kind": "Pod", "name": "web-0", "uid": "u-1"}
SECOND_POD: Json = {**POD, "name": "web-1", "uid": "u-2"}
STATEFUL_SET: Json = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "u-3"}
JOB: Json = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u-4", "controller": True}


@pytest.mark.parametrize(
    ("owners", "kind", "name", "pods"),
    [
        ([], "Workload", "w", ()),
        ([JOB], "Job", "train", ()),
        ([POD], "Pod", "web-0", ("web-0",)),
        ([POD, SECOND_POD], "Pod", "w", ("web-0", "web-1")),
        ([POD, STATEFUL_SET, SECOND_POD], "StatefulSet", "web", ()),
    ],
)
def test_the_job_is_the_owner_that_is_no_pod_or_else_consists_of_pods(
    owners: list[Json], kind: str, name: str, pods: tuple[str, ...]
) -> None:
    job = read_job({"metadata": {"namespace": "ns", "name": "w", "uid": "u", "ownerReferences": owners}})
    assert (job.kind, job.name, job.pod_names) == (kind, name, pods)
