"""The consequences of a Job's pods: each is counted once, wherever the controller stops between writes."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from zonewise_sandbox.jobcontroller.backoff import BackoffRecord, format_time
from zonewise_sandbox.jobcontroller.sync import JobSync, sync_job
from zonewise_sandbox.jobcontroller.types import FINALIZER, Job, JobPod

NOW = 1_800_000_000.0


def job(status: dict[str, Any] | None = None, **spec: Any) -> Job:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main"}]}}
    metadata = {"name": "one", "namespace": "default", "uid": "job"}
    body = {"metadata": metadata, "spec": {"template": template, **spec}, "status": status or {}}
    return msgspec.convert(body, Job)


def pod(name: str, phase: str = "Running", *, tracked: bool = True, **metadata: Any) -> JobPod:
    owner = {"kind": "Job", "name": "one", "uid": "job", "controller": True}
    body = {"name": name, "namespace": "default", "uid": name, "creationTimestamp": format_time(NOW - 60)}
    body |= {"finalizers": [FINALIZER] if tracked else [], "ownerReferences": [owner], **metadata}
    return msgspec.convert({"metadata": body, "status": {"phase": phase}}, JobPod)


def sync(a_job: Job, *pods: JobPod, record: BackoffRecord = BackoffRecord()) -> JobSync:  # noqa: B008 -- immutable
    return sync_job(a_job, pods, record, NOW)


STARTED = {"startTime": format_time(NOW - 100)}


def test_an_ended_pod_is_named_before_it_is_released_and_counted_after() -> None:
    made = sync(job(STARTED, parallelism=2, completions=2), pod("a", "Succeeded"), pod("b"))
    assert made.interim is not None
    assert made.interim["uncountedTerminatedPods"] == {"succeeded": ["a"]}
    assert "succeeded" not in made.interim
    assert [one.metadata.name for one in made.release] == ["a"]
    assert made.final is not None
    assert (made.final["uncountedTerminatedPods"], made.final["succeeded"]) == ({}, 1)


def test_a_failed_pod_is_replaced_after_its_backoff() -> None:
    failed = pod("a", "Failed", creationTimestamp=format_time(NOW - 4))  # the creation counts as the end
    first = sync(job(STARTED, parallelism=1, completions=1), failed)
    assert not first.create
    assert first.again_in == 6
    later = sync(job(STARTED, parallelism=1, completions=1), record=BackoffRecord(1, NOW - 10.5))
    assert len(later.create) == 1


def test_a_deadline_is_waited_for() -> None:
    waiting = sync(job(STARTED, activeDeadlineSeconds=150), pod("a"))
    assert waiting.again_in == 50
    over = sync(job(STARTED, activeDeadlineSeconds=100), pod("a"))
    assert over.interim is not None
    assert [item["reason"] for item in over.interim["conditions"]] == ["DeadlineExceeded"]
    assert over.delete


def test_the_least_advanced_pods_go_first() -> None:
    on_node = msgspec.structs.replace(pod("b"), spec=msgspec.convert({"nodeName": "n"}, type(pod("b").spec)))
    made = sync(job(STARTED, parallelism=1, completions=5), on_node, pod("a"))
    assert [one.metadata.name for one in made.delete] == ["a"]
    assert made.uncount


ENDS = st.lists(st.sampled_from(["Running", "Succeeded", "Failed"]), min_size=1, max_size=6)


@given(ENDS, st.integers(0, 40))
def test_pods_are_counted_once_wherever_the_controller_ends(phases: list[str], seed: int) -> None:
    """The controller stops after a number of writes, and starts again with the API server's objects."""
    pods = {f"p{number}": pod(f"p{number}", phase) for number, phase in enumerate(phases)}
    current = job(STARTED, parallelism=1, completions=50, backoffLimit=100)
    writes_until_end = seed
    for _ in range(6):
        made = sync(current, *pods.values())
        for change in _writes(made):
            if not writes_until_end:
                break
            writes_until_end -= 1
            if isinstance(change, JobPod):
                pods[change.metadata.name] = pod(change.metadata.name, change.status.phase, tracked=False)
            else:
                current = msgspec.structs.replace(current, status=change)
        writes_until_end = 100
    assert current.status.get("succeeded", 0) == phases.count("Succeeded")
    assert current.status.get("failed", 0) == phases.count("Failed")
    assert current.status["uncountedTerminatedPods"] == {}


def _writes(made: JobSync) -> list[Any]:
    return [change for change in (made.interim, *made.release, made.final) if change is not None]
