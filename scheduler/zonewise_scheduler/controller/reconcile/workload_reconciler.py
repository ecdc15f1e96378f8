"""The next write of each Workload that has changed, has a new decision, or has reached its time limit."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from zonewise_scheduler.controller.planning.class_values import ClassValues
from zonewise_scheduler.controller.planning.pending_checks import checks_required
from zonewise_scheduler.controller.planning.restarted_queues import is_queue_open
from zonewise_scheduler.controller.planning.timers import Timers
from zonewise_scheduler.controller.reconcile.workload import WorkloadState, next_workload_write, workload_key
from zonewise_scheduler.controller.workloads.conditions import is_true
from zonewise_scheduler.controller.workloads.time_limits import ReadinessLimits, next_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from zonewise_scheduler.controller.planning.workload_planner import WorkloadPlanner
    from zonewise_scheduler.controller.pods.pod_rejections import PodRejections
    from zonewise_scheduler.controller.types import Json, ObjectKey, Write

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
        active_pods: Callable[[str], int],
    ) -> None:
        """Set the observed Workloads by key.

        `is_in_flight` returns whether a write of an object is pending; `active_pods` returns the number of active pods
        of a Workload.
        """
        self._workloads = workloads
        self._planner = planner
        self._rejections = rejections
        self._limits = limits
        self._is_in_flight = is_in_flight
        self._active_pods = active_pods
        self._dirty: dict[str, None] = {}
        self._limits_due = Timers()
        """When admitted Workloads reach a time limit."""
        self._unhealthy: dict[str, tuple[str, ...]] = {}
        """The required status.unhealthyNodes, by key of each Workload that does not show them yet."""
        self._class_values = ClassValues()

    @property
    def limit_at(self) -> float:
        """Return when the next Workload reaches a time limit; infinite: none does."""
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
                log.exception("workload=%s has no next write", key)
                continue
            if write is not None:
                yield write

    def _next_write(self, key: str, now: float) -> Write | None:
        obj = self._workloads.get(key)
        limit = None if obj is None else next_limit(obj, self._limits)
        self._limits_due.set(key, None if limit is None or limit.at <= now else limit.at)
        if obj is None or not is_true(obj, "QuotaReserved"):
            self._rejections.end_admission(key)
        if obj is None:
            self._class_values.forget(key)
            return None
        state = WorkloadState(
            key, obj, self._planner.intent(key), self._unhealthy.get(key), limit,
            self._rejections.decisive(key), checks_required(self._planner.feed.state, key),
            is_queue_open(self._planner.feed.state, key), self._class_values.new_priority(key, obj),
            self._active_pods(key),
        )  # fmt: skip
        write = next_workload_write(state, self._limits, now)
        if write is None and not self._is_in_flight(workload_key(key)):
            self._forget_decisions(key, obj)
        return write

    def _forget_decisions(self, key: str, obj: Json) -> None:
        """Drop the decisions that an object already shows."""
        self._unhealthy.pop(key, None)
        self._class_values.forget(key)
        self._planner.end_intent(key, obj)
