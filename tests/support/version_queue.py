"""A queue as a version of zonewise has left it: its objects, its checkpoint, and what the planner knew.

`python -m support.version_queue VERSION` (in tests/) records the queue of the current code. See
tests/contract/test_version_queues.py.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from support.model_cluster import NAMESPACE, ModelCluster
from support.reported_queue import ReportedQueue
from zonewise_common.kube.resources import JOBS, WORKLOADS, Resource
from zonewise_scheduler.backfill.state.checkpoint import make_checkpoint
from zonewise_scheduler.controller.planning.checkpoint_object import (
    encode_checkpoint,
    encode_forecasts,
    write_config_map,
)
from zonewise_scheduler.controller.types import ObjectKey

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.backfill.state.planner_state import PlannerState

Json = dict[str, Any]

DIRECTORY = Path(__file__).parents[1] / "fixtures" / "version_queues"
START = 1_800_000_000.0


class VersionQueue(NamedTuple):
    """The contents of a recording."""

    now: float
    """When the last leader stopped, in seconds since 1970."""
    objects: dict[ObjectKey, Json]
    checkpoint: Json
    """The ConfigMap of the checkpoint."""
    summary: Json
    """See summary_of()."""


def summary_of(state: PlannerState) -> Json:
    """Return what a successor must know: flavors by running workload, queues of pending ones, reserved starts."""
    return {
        "running": {
            run.workload.key: [pod_set.flavors for pod_set in run.workload.admission.pod_sets]
            for run in state.running.values()
            if run.workload.admission is not None
        },
        "pending": dict(state.pending),
        "inadmissible": {key: entry.message for key, entry in state.inadmissible.items()},
        "reservations": {key: entry.start for key, entry in state.reservations.by_key.items()},
    }


def play_story() -> VersionQueue:
    """Play a story after which workloads run, wait with and without a reservation, were preempted, and have ended."""
    cluster = ModelCluster(preemption={"withinClusterQueue": "LowerPriority"})
    queue = ReportedQueue(cluster, START)
    done = cluster.submit("done", 2)
    cluster.submit("low", 6, priority="low")
    queue.tick(30)
    cluster.complete(done)
    queue.tick(30)
    high = cluster.submit("high", 7, priority="high")
    cluster.change(high, {"spec": {"activeDeadlineSeconds": 3600}})
    queue.tick(30)
    wide = cluster.submit("wide", 8, priority="high")
    cluster.change(wide, {"spec": {"activeDeadlineSeconds": 600}})
    cluster.submit("beyond", 9)
    off = cluster.submit("off", 1)
    queue.tick(30)
    [workload] = [key for key, obj in cluster.objects.items() if key.resource == WORKLOADS and _job(obj) == off.name]
    cluster.change(workload, {"spec": {"active": False}})
    for _ in range(4):
        queue.tick(30)
    state = queue.controller.feed.state
    checkpoint = write_config_map(
        NAMESPACE, encode_checkpoint(make_checkpoint(state)), encode_forecasts(queue.reporter.history)
    )
    return VersionQueue(queue.now, dict(cluster.objects), checkpoint, summary_of(state))


def _job(workload: Json) -> str:
    return str(workload["metadata"]["ownerReferences"][0]["name"])


def encode(recorded: VersionQueue) -> str:
    """Return a recording as JSON."""
    objects = [{"key": key, "object": obj} for key, obj in recorded.objects.items()]
    document = {**recorded._asdict(), "objects": objects}
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def decode(text: str) -> VersionQueue:
    """Return the recording in a JSON text."""
    document = json.loads(text)
    objects = {_key(entry["key"]): entry["object"] for entry in document.pop("objects")}
    return VersionQueue(objects=objects, **document)


def _key(values: list[Any]) -> ObjectKey:
    resource, namespace, name = values
    return ObjectKey(Resource(*resource), namespace, name)


def written_fields(recorded: VersionQueue) -> set[str]:
    """Return the paths of all fields that the controller has written, with the keys of annotations and labels."""
    workloads = [obj for key, obj in recorded.objects.items() if key.resource == WORKLOADS]
    jobs = [obj["spec"]["template"] for key, obj in recorded.objects.items() if key.resource == JOBS]
    trees = {"workload": workloads, "template": jobs, "checkpoint": [recorded.checkpoint]}
    return {path for name, objects in trees.items() for obj in objects for path in _paths(name, obj)}


def _paths(path: str, value: Any) -> set[str]:
    inner: Iterable[tuple[str, Any]]
    if isinstance(value, dict):
        inner = ((f"{path}.{name}", each) for name, each in cast("Json", value).items())
    elif isinstance(value, list):
        inner = ((f"{path}[]", each) for each in cast("list[Any]", value))
    else:
        return {path}
    return {found for name, each in inner for found in _paths(name, each)}


if __name__ == "__main__":
    (DIRECTORY / f"{sys.argv[1]}.json").write_text(encode(play_story()))
