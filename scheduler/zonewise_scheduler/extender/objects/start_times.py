"""When a pod started, by the clock of the API server.

status.startTime comes from the node's clock, which may be an hour off. The API server stamps the creation of a pod and
its binding (the condition PodScheduled, set by registry/core/pod/storage/storage.go assignPod). In managedFields it
stamps the writes of the pod's status.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]


class StartTimes(NamedTuple):
    """Times in seconds since the epoch; None if the kubelet has not seen the pod yet or the stamp is missing."""

    started: float | None
    """When the kubelet admitted the pod: not before the binding, and not after the status was stored. If the node's
    clock is behind, this is the time of the binding."""
    confirmed: float | None
    """When a status with a start time was stored. The pod had started by then."""


def read_start_times(pod: Json) -> StartTimes:
    """Return the start times of a v1.Pod; damaged fields count as missing."""
    status, metadata = _object(pod.get("status")), _object(pod.get("metadata"))
    node_time = seconds(status.get("startTime"))
    if node_time is None:
        return StartTimes(None, None)
    bound = [seconds(metadata.get("creationTimestamp"))]
    bound += [
        seconds(condition.get("lastTransitionTime"))
        for condition in _objects(status.get("conditions"))
        if condition.get("type") == "PodScheduled" and condition.get("status") == "True"
    ]
    started = max((node_time, *(stamp for stamp in bound if stamp is not None)))
    confirmed = min((stamp for stamp in _status_writes(metadata) if stamp is not None), default=None)
    return StartTimes(started if confirmed is None else min(started, confirmed), confirmed)


def _status_writes(metadata: Json) -> Iterator[float | None]:
    """Yield the times of the last writes by the managers that set the start time: kubelets, under any name."""
    for entry in _objects(metadata.get("managedFields")):
        fields = _object(entry.get("fieldsV1"))
        if "f:startTime" in _object(fields.get("f:status")):
            yield seconds(entry.get("time"))


def seconds(value: object) -> float | None:
    """Return a metav1.Time as seconds since the epoch; None for anything else."""
    try:
        return datetime.fromisoformat(value).timestamp() if isinstance(value, str) else None
    except ValueError:
        return None


def _object(value: object) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}


def _objects(value: object) -> Iterator[Json]:
    if isinstance(value, list):
        yield from (cast("Json", item) for item in cast("list[object]", value) if isinstance(item, dict))
