"""The slices of an elastic job follow its size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from zonewise_common.kube.resources import JOBS
from zonewise_scheduler.controller.jobs.batch_job import ADAPTER
from zonewise_scheduler.controller.reconcile.sliced_job import (
    SlicedJob,
    build_first_slice,
    is_growing,
    next_slice_write,
)
from zonewise_scheduler.controller.types import Verb
from zonewise_scheduler.controller.workloads.manifest import ManifestOptions
from zonewise_scheduler.controller.workloads.slices import find_slices
from zonewise_scheduler.controller.workloads.workload_names import slice_name

Json = dict[str, Any]
KUEUE_OBJECTS = json.loads((Path(__file__).parents[4] / "fixtures" / "kueue_slices.json").read_text())
NOW = 1_800_000_000.0


def of_kueue(*, without: int = 0, parallelism: int = 7) -> SlicedJob:
    """Return a Job that waits to grow from 5 to 7 pods; `without`: size of the slice to leave out."""
    job = KUEUE_OBJECTS["Job"][0]
    job = {**job, "spec": {**job["spec"], "parallelism": parallelism, "completions": parallelism}}
    owned = [each for each in KUEUE_OBJECTS["Workload"] if each["metadata"]["ownerReferences"][0]["name"] == "a"]
    kept = [each for each in owned if each["spec"]["podSets"][0]["count"] != without]
    workloads = {f"default/{each['metadata']['name']}": each for each in kept}
    return SlicedJob(job, JOBS, ADAPTER.pod_sets(job), workloads, find_slices(workloads))


def test_slices_have_the_names_that_kueue_gives_them() -> None:
    """The Job was created, started and twice resized. Kueue 0.20 named a slice for each of its sizes."""
    uid = KUEUE_OBJECTS["Job"][0]["metadata"]["uid"]
    names = {each["spec"]["podSets"][0]["count"]: each["metadata"]["name"] for each in KUEUE_OBJECTS["Workload"][:3]}
    generations = zip((1, 3, 4), (3, 5, 7), strict=True)
    assert {size: slice_name(JOBS, "a", uid, generation) for generation, size in generations} == names


def test_a_slice_is_created_as_by_kueue() -> None:
    """The template is that of the slice that it replaces, without what the start has added since."""
    state = of_kueue(without=7)
    assert is_growing(state)
    write = next_slice_write(state, ManifestOptions(), NOW)
    assert write is not None
    assert write.verb is Verb.CREATE
    made: Any = write.body
    [kueues] = [each for each in KUEUE_OBJECTS["Workload"] if each["spec"]["podSets"][0]["count"] == 7]
    for field in ("name", "namespace", "annotations", "labels", "ownerReferences"):
        assert made["metadata"][field] == kueues["metadata"][field]
    assert made["spec"] == kueues["spec"]


def test_a_pending_slice_follows_its_job_and_ends_if_that_does_not_grow() -> None:
    assert next_slice_write(of_kueue(), ManifestOptions(), NOW) is None
    for parallelism in (6, 8):
        write = next_slice_write(of_kueue(parallelism=parallelism), ManifestOptions(), NOW)
        assert write is not None
        body: Any = write.body
        assert [each["count"] for each in body["spec"]["podSets"]] == [parallelism]
    for parallelism in (5, 4):
        state = of_kueue(parallelism=parallelism)
        assert not is_growing(state)
        write = next_slice_write(state, ManifestOptions(), NOW)
        assert write is not None
        assert (write.purpose, write.subresource) == ("finish", "status")


def test_an_ended_slice_of_the_same_generation_is_deleted_first() -> None:
    state = of_kueue()
    [key] = [key for key, each in state.workloads.items() if each["spec"]["podSets"][0]["count"] == 7]
    ended = [{"type": "Finished", "status": "True", "reason": "OutOfSync"}]
    workloads = {**state.workloads, key: {**state.workloads[key], "status": {"conditions": ended}}}
    state = state._replace(workloads=workloads, slices=find_slices(workloads))
    write = next_slice_write(state, ManifestOptions(), NOW)
    assert write is not None
    assert (write.verb, write.key.namespaced_name) == (Verb.DELETE, key)


def test_the_first_slice_names_itself() -> None:
    state = of_kueue()
    made = build_first_slice(state.job, JOBS, state.pod_sets, ManifestOptions())
    annotations, name = made["metadata"]["annotations"], made["metadata"]["name"]
    assert annotations == {"kueue.x-k8s.io/elastic-job": "true", "kueue.x-k8s.io/workload-slice-name": name}
