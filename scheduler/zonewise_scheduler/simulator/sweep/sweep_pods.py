"""Reads what the pods of a sweep have left behind: results by index, and the last lines of failed pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_scheduler.simulator.sweep.indexed_job import INDEX_ANNOTATION
from zonewise_scheduler.simulator.sweep.part_document import read_part

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zonewise_scheduler.simulator.sweep.sweep_runs import RunResult, SweepRun

Object = dict[str, Any]

_IMAGE_PROBLEMS = frozenset({"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"})
"""Reasons of a waiting container (pkg/kubelet/images/types.go). The kubelet tries most of them again."""


class PodResults(NamedTuple):
    """The outcomes of the pods that have ended, by index."""

    results: dict[int, RunResult]
    failures: dict[int, str]
    """Last lines of the failed pods."""


def read_pods(pods: Iterable[Object], runs: Sequence[SweepRun]) -> PodResults:
    """Return the outcomes of a Job's pods; a pod without a valid index is ignored. Raises PartError."""
    done = PodResults({}, {})
    for pod in pods:
        index = _index(pod)
        phase = pod.get("status", {}).get("phase")
        if not 0 <= index < len(runs):
            continue
        if phase == "Succeeded":
            done.results[index] = read_part(_message(pod), runs[index])
        elif phase == "Failed":
            lines = _message(pod).strip().splitlines()
            done.failures[index] = lines[-1] if lines else "its pod failed without a message"
    return done


def image_problem(pods: Iterable[Object]) -> str:
    """Return why the first pod without its image waits, with its name; "": there is no such pod."""
    for pod in pods:
        for container in pod.get("status", {}).get("containerStatuses") or ():
            waiting: Object = container.get("state", {}).get("waiting") or {}
            if waiting.get("reason") in _IMAGE_PROBLEMS:
                words = [f"pod {pod['metadata']['name']}", waiting["reason"], waiting.get("message")]
                return ": ".join(word for word in words if word)
    return ""


def _index(pod: Object) -> int:
    annotations: Object = pod["metadata"].get("annotations") or {}
    text = str(annotations.get(INDEX_ANNOTATION, ""))
    return int(text) if text.isascii() and text.isdecimal() else -1


def _message(pod: Object) -> str:
    """Return the termination message of the pod's only container, or why the whole pod ended."""
    status = pod["status"]
    for container in status.get("containerStatuses") or ():
        if message := container.get("state", {}).get("terminated", {}).get("message"):
            return str(message)
    return str(status.get("message") or status.get("reason") or "")
