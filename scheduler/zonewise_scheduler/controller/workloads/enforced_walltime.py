"""Walltimes that a queue enforces: a batch Job may not run longer than it declares, or than its queue assumes.

The annotation `zonewise.dev/enforce-walltime: "true"` of a queue requests this (queue_annotations.py). A start then
sets the Job's activeDeadlineSeconds, which the Job controller enforces.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import FieldReader
from zonewise_scheduler.controller.workloads.queue_annotations import is_requested
from zonewise_scheduler.quota.api.declared_walltime import read_default_walltime, workload_walltime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.controller.types import Json

ENFORCE_ANNOTATION = "zonewise.dev/enforce-walltime"


def enforced_walltime(workload: Json, queues: Sequence[Json]) -> float:
    """Return the walltime of an admitted Workload in seconds; infinite if there is none, or no queue enforces it.

    `queues`: its LocalQueue and its ClusterQueue.
    """
    if not is_requested(queues, ENFORCE_ANNOTATION):
        return inf
    reader = FieldReader(workload, "", [])
    declared = workload_walltime(reader.child("metadata"), reader.child("spec"), reader.child("status"))
    defaults = (read_default_walltime(queue, []) for queue in queues)
    return declared if declared < inf else next((seconds for seconds in defaults if seconds < inf), inf)
