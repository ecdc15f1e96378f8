"""The workloads of the page. Each has one row with all values that a list, a search and a Gantt chart show.

Times are whole seconds since 1970. An unknown or absent time is null.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from zonewise_common.k8s.dates import LAST_TIME
from zonewise_scheduler.controller.workloads.workload_owner import owner_of, user_of
from zonewise_scheduler.quota.api.gpu_resource import is_gpu

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_scheduler.controller.readapi.node_rows import Row
    from zonewise_scheduler.controller.readapi.views import WorkloadRow
    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.quota.api.workload_types import Workload

WORKLOAD_COLUMNS = (
    "job", "kind", "localQueue", "priority", "createdAt", "walltime", "pods", "cpus", "memory", "gpus",
    "user", "state", "clusterQueue", "position", "reason", "reservedStart", "earliest", "likely", "latest", "startedAt",
    "deadline",
)  # fmt: skip
_FIXED = WORKLOAD_COLUMNS.index("state")
"""Number of leading columns that depend only on the Workload."""
MAX_POSITION = 20
"""Larger positions are shown as 0. Otherwise each start would change the rows of all workloads behind it."""


class WorkloadTable:
    """Builds rows, and rebuilds only those that have changed."""

    def __init__(self) -> None:
        self._sources: dict[str, WorkloadRow] = {}
        """The workloads from which the rows of the last table were built."""
        self._table: dict[str, Row] = {}

    def rows(self, rows: Iterable[WorkloadRow], objects: Mapping[str, Json]) -> dict[str, Row]:
        """Return the values of WORKLOAD_COLUMNS by key; `objects`: the Workloads by key."""
        sources: dict[str, WorkloadRow] = {}
        table: dict[str, Row] = {}
        for row in rows:
            key = row.workload.key
            source = self._sources.get(key)
            sources[key] = row
            if source is None or source.workload is not row.workload:
                table[key] = (*_fixed_part(row.workload, objects.get(key)), *_changing_part(row))
            elif _is_same(source, row):
                table[key] = self._table[key]
            else:
                table[key] = (*self._table[key][:_FIXED], *_changing_part(row))
        self._sources, self._table = sources, table
        return table


def _is_same(a: WorkloadRow, b: WorkloadRow) -> bool:
    """Return whether two states of a workload lead to the same row. Most do, so this function must be fast."""
    return (
        a.forecast is b.forecast
        and (a.position == b.position or (a.position > MAX_POSITION < b.position))
        and a.reservation == b.reservation
        and a.reason == b.reason
        and a.state == b.state
        and a.deadline == b.deadline
        and a.cluster_queue == b.cluster_queue
    )


def _fixed_part(workload: Workload, obj: Json | None) -> Row:
    kind, name = owner_of(obj)
    requests = workload.requests_by_resource
    return (
        name or workload.name,
        kind,
        workload.queue_name,
        workload.priority,
        _seconds(workload.created_at),
        _seconds(workload.walltime),
        sum(pod_set.pods for pod_set in workload.total_requests),
        requests.get("cpu", 0),
        requests.get("memory", 0),
        sum(amount for resource, amount in requests.items() if is_gpu(resource)),
        user_of(obj),
    )


def _changing_part(row: WorkloadRow) -> Row:
    forecast = (None, None, None) if row.forecast is None else tuple(map(_seconds, row.forecast))
    admission = row.workload.admission
    return (
        row.state,
        row.cluster_queue,
        row.position if row.position <= MAX_POSITION else 0,
        row.reason,
        _seconds(row.reservation),
        *forecast,
        None if admission is None else _seconds(admission.started_at),
        None if admission is None else _seconds(row.deadline),
    )


def _seconds(time: float) -> int | None:
    """Return a time that browsers can represent as a date; None: there is none. Jobs may declare extreme walltimes."""
    return None if time == inf else int(min(time, LAST_TIME))
