"""The next write of each Workload that has changed, has a new decision, or has reached its time limit."""

from __future__ import annotations

import logging
from math import inf
from typing import TYPE_CHECKING

from zonewise_scheduler.controller.cluster_cache import uid_of
from zonewise_scheduler.controller.planning.class_values import ClassValues
from zonewise_scheduler.controller.planning.pending_checks import checks_required
from zonewise_scheduler.controller.planning.restarted_queues import is_queue_open
from zonewise_scheduler.controller.planning.timers import Timers
from zonewise_scheduler.controller.reconcile.workload import WorkloadState, next_workload_write, workload_key
from zonewise_scheduler.controller.types import Verb, Write
from zonewise_scheduler.controller.workloads.conditions import condition_time, is_true
from zonewise_scheduler.controller.workloads.time_limits import ReadinessLimits, next_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from zonewise_scheduler.controller.planning.workload_planner import WorkloadPlanner
    from zonewise_scheduler.controller.pods.pod_rejections import PodRejections
    from zonewise_scheduler.controller.types import Json, ObjectKey

log = logging.getLogger(__name__)


class WorkloadReconciler:
    """Keeps the Workloads to check, and yields their next writes."""

    def __init__(
        self,
        workloads: Mapping[str, Json],
        planner: WorkloadPlanner,
        rejections: PodRejections,
        limits: ReadinessLimits,
        is_in_flight: Callable[[ObjectKey], bool],
        is_active: Callable[[str], bool],
        retention: float,
    ) -> None:
        """Set the observed Workloads by key.

        `is_in_flight` returns whether a write of an object is pending; `is_active` returns whether pods of a Workload
        may run. `retention`: seconds after which a finished Workload is deleted; 0: it is kept.
        """
        self._workloads = workloads
        self._planner = planner
        self._rejections = rejections
        self._limits = limits
        self._is_in_flight = is_in_flight
        self._is_active = is_active
        self._retention = retention
        self._dirty: dict[str, None] = {}
        self._limits_due = Timers()
        """When admitted Workloads reach a time limit, and when finished ones are deleted."""
        self._unhealthy: dict[str, tuple[str, ...]] = {}
        """The required status.unhealthyNodes, by key of each Workload that does not show them yet."""
        self._class_values = ClassValues()

    @property
    def limit_at(self) -> float:
        """Return when the next Workload reaches a time limit or is deleted; infinite: none is."""
        return self._limits_due.next_at

    def mark(self, keys: Iterable[str]) -> None:
        """Check Workloads for their next writes, by key."""
        self._dirty.update(dict.fromkeys(keys))

    def forget_marks(self) -> None:
        """Drop pending checks, because this replica does not lead."""
        self._dirty.clear()

    def set_unhealthy_nodes(self, nodes: Mapping[str, tuple[str, ...]]) -> None:
        """Set the new lists of failed nodes, by key of the Workload."""
        self._unhealthy.update(nodes)
        self.mark(nodes)

    def set_class_values(self, values: Mapping[str, int]) -> None:
        """Set the values of the WorkloadPriorityClasses by name; each change replaces the mapping."""
        self.mark(self._class_values.update(values, self._workloads))

    def writes(self, now: float) -> Iterator[Write]:
        """Yield the next write of each Workload that is marked or has reached its time limit."""
        self.mark(self._limits_due.pop_due(now))
        dirty, self._dirty = self._dirty, {}
        for key in dirty:
            try:
                write = self._next_write(key, now)
            except Exception:  # a defect that one Workload reveals must not block the writes of others
                log.exception("workload=%s the next write cannot be computed", key)
                continue
            if write is not None:
                yield write

    def _next_write(self, key: str, now: float) -> Write | None:
        obj = self._workloads.get(key)
        limit = None if obj is None else next_limit(obj, self._limits)
        expires_at = inf if obj is None else self._expires_at(obj)
        due_at = expires_at if limit is None else limit.at
        self._limits_due.set(key, due_at if now < due_at < inf else None)
        if obj is None or not is_true(obj, "QuotaReserved"):
            self._rejections.end_admission(key)
        if obj is None:
            self._class_values.forget(key)
            return None
        if expires_at <= now:
            return Write(Verb.DELETE, workload_key(key), "delete a finished Workload", uid=uid_of(obj), workload=key)
        state = WorkloadState(
            key, obj, self._planner.intent(key), self._unhealthy.get(key), limit,
            self._rejections.decisive(key), checks_required(self._planner.feed.state, key),
            is_queue_open(self._planner.feed.state, key), self._class_values.new_priority(key, obj),
            self._is_active(key),
        )  # fmt: skip
        write = next_workload_write(state, self._limits, now)
        if write is None and not self._is_in_flight(workload_key(key)):
            self._forget_decisions(key, obj)
        return write

    def _expires_at(self, obj: Json) -> float:
        """Return when a finished Workload is deleted; infinite: never."""
        finished_at = condition_time(obj, "Finished") if self._retention and is_true(obj, "Finished") else None
        return inf if finished_at is None else finished_at + self._retention

    def _forget_decisions(self, key: str, obj: Json) -> None:
        """Drop the decisions that an object already shows."""
        self._unhealthy.pop(key, None)
        self._class_values.forget(key)
        self._planner.end_intent(key, obj)
