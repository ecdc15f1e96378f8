"""Declared walltimes of Workloads, jobs and queues."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.quota.api.declared_walltime import (
    DEFAULT_RUN_ANNOTATION,
    MAX_EXEC_TIME_LABEL,
    MAX_RUN_ANNOTATION,
    parse_walltime,
    read_walltime,
    with_default_walltime,
)
from zonewise_scheduler.quota.api.queue_reader import read_cluster_queue, read_local_queue
from zonewise_scheduler.quota.api.submitted_by import SUBMITTED_BY_ANNOTATION
from zonewise_scheduler.quota.api.workload_reader import read_workload

if TYPE_CHECKING:
    from zonewise_scheduler.quota.api.queue_types import ClusterQueue, LocalQueue
    from zonewise_scheduler.quota.api.workload_types import Workload

Json = dict[str, Any]


def make_workload(
    metadata: Json | None = None, max_seconds: object = None, status: Json | None = None
) -> tuple[Workload, tuple[str, ...]]:
    """Return a Workload and the problems that its reader reports."""
    spec: Json = {"podSets": [{"count": 1, "template": {"spec": {}}}], "queueName": "lq"}
    if max_seconds is not None:
        spec["maximumExecutionTimeSeconds"] = max_seconds
    result = read_workload(
        {"metadata": {"name": "w", "namespace": "ns"} | (metadata or {}), "spec": spec, "status": status}
    )
    assert result.workload is not None
    return result.workload, result.problems


# --- durations


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("90m", 5400),
        ("24h", 86_400),
        ("1h30m", 5400),
        ("1d12h", 129_600),
        ("0h5m", 300),
        ("1", 1),
        (f"{2**53}", 2**53),
    ],
)
def test_seconds_and_durations(text: str, seconds: float) -> None:
    assert parse_walltime(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "soon", "-5", "1.5h", "1m1", "30m1h", "0", "0h", "9" * 17, "9999999999999999", f"{2**53 + 1}", "٣", " 5"],
)
def test_invalid_walltimes(text: str) -> None:
    with pytest.raises(ValueError, match=r"neither seconds|not above zero|too long"):
        parse_walltime(text)


@given(st.integers(1, 10**6))
def test_a_duration_is_the_sum_of_its_parts(total: int) -> None:
    minutes, seconds = divmod(total, 60)
    hours, minutes = divmod(minutes, 60)
    assert parse_walltime(f"{hours}h{minutes}m{seconds}s") == parse_walltime(str(total)) == total


# --- Workloads


@pytest.mark.parametrize("field", ["accumulatedPastExecutionTimeSeconds", "accumulatedPastExexcutionTimeSeconds"])
def test_past_execution_time_is_subtracted(field: str) -> None:
    assert make_workload(max_seconds=60, status={field: 25})[0].walltime == 35


def test_an_exhausted_walltime_is_not_zero() -> None:
    assert make_workload(max_seconds=60, status={"accumulatedPastExecutionTimeSeconds": 70})[0].walltime == 1


def test_the_smallest_of_several_walltimes_counts() -> None:
    metadata = {"annotations": {MAX_RUN_ANNOTATION: "1m"}}
    assert [make_workload(metadata, seconds)[0].walltime for seconds in (None, 50, 90)] == [60, 50, 60]


def test_an_undeclared_walltime_is_infinite() -> None:
    workload, problems = make_workload()
    assert (workload.walltime, problems) == (inf, ())


@pytest.mark.parametrize(
    ("metadata", "max_seconds", "problem"),
    [
        ({}, 0, "spec.maximumExecutionTimeSeconds: not above zero: 0"),
        ({}, -1, "spec.maximumExecutionTimeSeconds: negative: -1"),
        ({}, "60", "spec.maximumExecutionTimeSeconds: not a whole number: '60'"),
        (
            {"annotations": {MAX_RUN_ANNOTATION: "soon"}},
            None,
            f"metadata.annotations.{MAX_RUN_ANNOTATION}: neither seconds nor a duration such as 90m: 'soon'",
        ),
        (
            {"annotations": {MAX_RUN_ANNOTATION: "1" * 79 + "hm"}},
            None,
            f"metadata.annotations.{MAX_RUN_ANNOTATION}: neither seconds nor a duration such as 90m: '{'1' * 79}h'",
        ),
    ],
)
def test_an_invalid_walltime_is_reported_and_infinite(metadata: Json, max_seconds: object, problem: str) -> None:
    workload, problems = make_workload(metadata, max_seconds)
    assert (workload.walltime, problems) == (inf, (problem,))


# --- objects of other kinds


@pytest.mark.parametrize("kind", ["Job", "Pod", "RayJob"])
def test_deadlines(kind: str) -> None:
    assert read_walltime({"kind": kind, "spec": {"activeDeadlineSeconds": 900}}) == (900, ())


def test_deadlines_of_training_jobs() -> None:
    policy = {"runPolicy": {"activeDeadlineSeconds": 900}}
    assert read_walltime({"kind": "PyTorchJob", "spec": policy}) == (900, ())
    assert read_walltime({"kind": "Other", "spec": policy | {"activeDeadlineSeconds": 5}}) == (inf, ())


def test_annotation_and_label() -> None:
    """The annotation is valid for any kind."""
    metadata = {"annotations": {MAX_RUN_ANNOTATION: "2h"}, "labels": {MAX_EXEC_TIME_LABEL: "3600"}}
    assert read_walltime({"kind": "Anything", "metadata": metadata}) == (3600, ())
    metadata = {"labels": {MAX_EXEC_TIME_LABEL: "x"}}
    problem = f"metadata.labels.{MAX_EXEC_TIME_LABEL}: neither seconds nor a duration such as 90m: 'x'"
    assert read_walltime({"kind": "Job", "metadata": metadata, "spec": {"activeDeadlineSeconds": 7}}) == (7, (problem,))


# --- defaults of queues


def make_queues(local: str | None, cluster: str | None) -> tuple[LocalQueue, ClusterQueue]:
    """Return queues with default walltimes."""

    def queue_object(name: str, text: str | None) -> Json:
        return {
            "metadata": {"name": name, "annotations": {} if text is None else {DEFAULT_RUN_ANNOTATION: text}},
            "spec": {},
        }

    local_queue, problems = read_local_queue(queue_object("lq", local))
    cluster_queue, more = read_cluster_queue(queue_object("q", cluster))
    assert not problems + more
    return local_queue, cluster_queue


def test_the_default_of_the_nearest_queue_counts() -> None:
    """The default applies to workloads that declare no walltime."""
    plain, declared = make_workload()[0], make_workload(max_seconds=60)[0]
    assert with_default_walltime(plain, *make_queues("10m", "1h")).walltime == 600
    assert with_default_walltime(plain, *make_queues(None, "1h")).walltime == 3600
    local_queue, cluster_queue = make_queues(None, "1h")
    assert with_default_walltime(plain, None, cluster_queue).walltime == 3600
    infinite = local_queue._replace(default_walltime=float("inf"))
    assert with_default_walltime(plain, infinite, cluster_queue).walltime == 3600
    assert with_default_walltime(plain, *make_queues(None, None)) is plain
    assert with_default_walltime(declared, *make_queues("10m", "1h")) is declared


@pytest.mark.parametrize(("text", "walltime"), [("20m", 1200), (None, inf)])
def test_another_default_replaces_an_earlier_one(text: str | None, walltime: float) -> None:
    """The default is replaced each time it changes."""
    workload = with_default_walltime(make_workload()[0], *make_queues("10m", None))
    assert with_default_walltime(workload, *make_queues("10m", None)) is workload
    workload = with_default_walltime(workload, *make_queues(text, None))
    assert workload.walltime == walltime
    assert with_default_walltime(workload, *make_queues("5m", None)).walltime == 300


def test_an_invalid_default_is_reported_and_infinite() -> None:
    obj = {"metadata": {"name": "q", "annotations": {DEFAULT_RUN_ANNOTATION: "0"}}, "spec": {}}
    queue, problems = read_cluster_queue(obj)
    assert (queue.default_walltime, problems) == (
        inf,
        (f"metadata.annotations.{DEFAULT_RUN_ANNOTATION}: not above zero: '0'",),
    )


def test_a_problem_of_a_queue_is_reported_once() -> None:
    assert read_local_queue({"metadata": 3, "spec": {}})[1] == (
        "metadata: not an object: 3",
        "metadata.name: not a name: None",
    )


# --- history keys


@pytest.mark.parametrize(
    ("metadata", "template"),
    [
        ({"name": "job-train-7f3a1", "ownerReferences": [{"kind": "Job", "name": "train-28391040"}]}, "train"),
        ({"name": "train-x7k2p"}, "train"),
        ({"name": "nightly-28391040-x7k2p"}, "nightly"),
        ({"name": "train-model"}, "train-model"),
        ({"name": "b-x7k2p-3", "generateName": "sweep-"}, "sweep"),
        ({"name": "-12345"}, "-12345"),
        ({"name": "w", "ownerReferences": [3]}, "w"),
    ],
)
def test_history_keys_end_with_the_template(metadata: Json, template: str) -> None:
    assert make_workload(metadata)[0].history_keys == ("ns", "lq", template)
    known = {**metadata, "annotations": {SUBMITTED_BY_ANNOTATION: "ann"}}
    assert make_workload(known)[0].history_keys == ("ns", "user ann", "lq", template)
