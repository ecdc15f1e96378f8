"""Reads what the pods of a sweep have left behind: results by index, and the last lines of failed pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_scheduler.simulator.sweep.indexed_job import INDEX_ANNOTATION
from zonewise_scheduler.simulator.sweep.part_document import read_part

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zonewise_scheduler.simulator.sweep.sweep_runs import RunResult, SweepRun

Object = dict[str, Any]


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
