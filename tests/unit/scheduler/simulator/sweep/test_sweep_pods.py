"""What the pods of a sweep leave behind: results and failures."""

from __future__ import annotations

from typing import Any

import pytest

from zonewise_scheduler.simulator.sweep.indexed_job import INDEX_ANNOTATION
from zonewise_scheduler.simulator.sweep.part_document import PartError, part_text
from zonewise_scheduler.simulator.sweep.sweep_pods import PodResults, image_problem, read_pods
from zonewise_scheduler.simulator.sweep.sweep_runs import STATISTICS, RunResult, SweepRun

RUNS = [SweepRun("easy", None, seed) for seed in range(2)]
RESULT = RunResult(dict.fromkeys(STATISTICS, 1.5), {"cpu": 0.5})


def pod(index: object, phase: str, message: str | None = None, **status: object) -> dict[str, Any]:
    terminated = {"exitCode": 0} if message is None else {"exitCode": 0, "message": message}
    containers = [{"name": "simulate", "state": {"terminated": terminated}}]
    annotations = {} if index is None else {INDEX_ANNOTATION: str(index)}
    return {
        "metadata": {"annotations": annotations},
        "status": {"phase": phase, "containerStatuses": containers, **status},
    }


def test_results_are_by_index_and_running_pods_have_none() -> None:
    pods = [pod(1, "Succeeded", part_text(RUNS[1], RESULT)), pod(0, "Running")]
    assert read_pods(pods, RUNS) == PodResults({1: RESULT}, {})


def test_pods_without_a_run_are_ignored() -> None:
    pods = [pod(index, "Succeeded", "x") for index in (2, -1, "x", None, "")]
    assert read_pods([*pods, {"metadata": {}, "status": {}}], RUNS) == PodResults({}, {})


def test_the_failure_of_a_pod_has_its_last_message() -> None:
    """The message is that of its container or of the kubelet: an evicted pod has no container statuses."""
    words = "zonewise: note\nzonewise: error: nodes.yaml: cannot be read\n"
    evicted = pod(1, "Failed", message=None, reason="Evicted")
    assert read_pods([pod(0, "Failed", words), evicted], RUNS).failures == {
        0: "zonewise: error: nodes.yaml: cannot be read",
        1: "Evicted",
    }
    silent = {"metadata": evicted["metadata"], "status": {"phase": "Failed"}}
    assert read_pods([silent], RUNS).failures == {1: "its pod failed without a message"}


def test_a_pod_that_left_no_result_is_an_error() -> None:
    with pytest.raises(PartError, match="easy, seed 1: no result of a run: ''"):
        read_pods([pod(1, "Succeeded")], RUNS)


def test_a_pod_without_its_image_is_named() -> None:
    """Such a pod remains Pending, and --gather would wait for it without a message."""
    waiting = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "x"'}
    pods: list[dict[str, Any]] = [
        {"metadata": {"name": f"p-{number}"}, "status": {"phase": "Pending", "containerStatuses": [{"state": state}]}}
        for number, state in enumerate([{"waiting": {"reason": "ContainerCreating"}}, {"waiting": waiting}])
    ]
    assert image_problem(pods) == 'pod p-1: ImagePullBackOff: Back-off pulling image "x"'
    assert image_problem([pods[0], pod(0, "Running"), {"metadata": {}, "status": {}}]) == ""
