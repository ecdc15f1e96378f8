"""The walltimes that a queue enforces."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from zonewise_scheduler.controller.workloads.enforced_walltime import ENFORCE_ANNOTATION, enforced_walltime
from zonewise_scheduler.quota.api.declared_walltime import DEFAULT_RUN_ANNOTATION, MAX_RUN_ANNOTATION

Json = dict[str, Any]


def queue(enforce: str = "", default: str = "") -> Json:
    pairs = {ENFORCE_ANNOTATION: enforce, DEFAULT_RUN_ANNOTATION: default}
    return {"metadata": {"annotations": {name: text for name, text in pairs.items() if text}}}


def workload(declared: str = "", **spec: object) -> Json:
    annotations = {MAX_RUN_ANNOTATION: declared} if declared else {}
    return {"metadata": {"annotations": annotations}, "spec": spec}


@pytest.mark.parametrize(
    ("declared", "local", "cluster", "seconds"),
    [
        ("60", None, None, inf),
        ("60", queue(), queue(), inf),
        ("60", queue(), queue("true"), 60),
        ("60", queue("true"), None, 60),
        ("60", queue("false"), queue("true"), inf),
        ("", queue("true", "5m"), queue("", "1h"), 300),
        ("", queue("true"), queue("", "1h"), 3600),
        ("", queue("true"), queue(), inf),
    ],
)
def test_the_annotation_of_the_local_queue_takes_precedence(
    declared: str, local: Json | None, cluster: Json | None, seconds: float
) -> None:
    queues = [each for each in (local, cluster) if each is not None]
    assert enforced_walltime(workload(declared), queues) == seconds


def test_the_remaining_execution_time_counts() -> None:
    obj = workload("600", maximumExecutionTimeSeconds=500)
    obj["status"] = {"accumulatedPastExecutionTimeSeconds": 200}
    assert enforced_walltime(obj, [queue("true")]) == 300
