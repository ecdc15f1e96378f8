"""Report on the queue after each step of the controller, in the controller's thread.

- At most once a second, it takes a snapshot for metrics and the read API. The snapshot is immutable, so other threads
  may read it.
- It writes statuses of queues and notes for pending workloads, within the bounds of their modules. While many writes of
  decisions are pending, notes wait.
- It emits Events, which a separate writer sends.
- It passes on the records of ended runs, which a separate writer stores.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Protocol

from zonewise_common.k8s.fields import FieldReader
from zonewise_common.kube.resources import PODS, WORKLOADS
from zonewise_scheduler.backfill.forecast.history import ForecastHistory
from zonewise_scheduler.controller.reconcile.workload import patch_status, workload_key
from zonewise_scheduler.controller.status.job_events import (
    EXPLAIN_PURPOSE,
    EventLog,
    JobEvent,
    creation_event,
    failed_change_event,
    involved_object,
    workload_event,
)
from zonewise_scheduler.controller.status.overruns import Overruns
from zonewise_scheduler.controller.status.pending_notes import PendingNotes
from zonewise_scheduler.controller.status.queue_status import PURPOSE as QUEUE_STATUS_PURPOSE
from zonewise_scheduler.controller.status.queue_status import QueueStatuses
from zonewise_scheduler.controller.status.queue_summaries import QueueSummaries, summarize_queues
from zonewise_scheduler.controller.types import ObjectKey
from zonewise_scheduler.controller.workloads.conditions import is_true
from zonewise_scheduler.controller.workloads.status import explain_pending
from zonewise_scheduler.quota.api.workload_reader import read_workload

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zonewise_scheduler.accounting.run_record import RunRecord
    from zonewise_scheduler.backfill.state.planner_state import PlannerState
    from zonewise_scheduler.backfill.types import Forecast
    from zonewise_scheduler.controller.controller import QueueController
    from zonewise_scheduler.controller.planning.forecaster import SampledForecast
    from zonewise_scheduler.controller.status.pending_note import PendingNote
    from zonewise_scheduler.controller.types import Json, Write
    from zonewise_scheduler.controller.writing.outcome import Outcome

PERIOD = 1.0
"""Minimum time in seconds between two snapshots."""
BUDGET = 0.05
"""Maximum fraction of time that snapshots may take. If necessary, the time between two snapshots is longer."""
MAX_IN_FLIGHT = 20
"""Number of pending writes beyond which no notes, and fewer statuses of queues, are written. Delayed writes do not
count."""
MAX_RECENT_EVENTS = 5000
"""Maximum number of Events, of all jobs together, that the read API can show."""
REJECTED_PAUSE = 60.0
"""Seconds before a status that the server rejected is tried again."""
UNQUEUED_REPEAT = 1800.0
"""Seconds before the Event about an object without a Workload is repeated. An API server keeps Events for an hour by
default (kube-apiserver --event-ttl)."""


class ControllerSnapshot(NamedTuple):
    """The state of the queue at one time."""

    at: float = 0.0
    """Time of the snapshot, seconds since 1970; 0: there is none yet."""
    leads: bool = False
    queues: QueueSummaries = QueueSummaries()
    pending: int = 0
    inadmissible: int = 0
    running: int = 0
    reservations: int = 0
    assumed: int = 0
    in_flight: int = 0
    invalid: Mapping[str, str] = {}
    """Jobs and Workloads that cannot be read, each with the reason."""
    pods_left: Mapping[str, int] = {}
    """Number of pods that were left to kube-scheduler although their queues request binding, by reason."""


class RecentEvent(NamedTuple):
    """An Event that was written for a job."""

    at: float
    """Time of the Event, seconds since 1970."""
    kind: str
    namespace: str
    name: str
    event: JobEvent


class WriteObserver(Protocol):
    """Counts writes, rejections and reservations."""

    def observe_write(self, controller: QueueController, write: Write, outcome: Outcome) -> None:
        """Record the final outcome of a write, before the controller does."""
        ...

    def observe_rejection(self, reason: str) -> None:
        """Count a pod that its kubelet has rejected; `reason`: its status.reason."""
        ...

    def observe_reservations(self, controller: QueueController, forecasts: Mapping[str, Forecast]) -> None:
        """Record the current reservations and forecasts."""
        ...

    def forget_deleted_queues(self, state: PlannerState) -> None:
        """Forget the counts of deleted ClusterQueues."""
        ...


class StatusReporter:
    """Reports what is due after each step. See the module docstring."""

    def __init__(
        self,
        controller: QueueController,
        submit: Callable[[Write], object],
        emit: Callable[[Write], object],
        observer: WriteObserver,
        timer: Callable[[], float] = time.thread_time,
        *,
        fair_sharing: bool = False,
        record: Callable[[RunRecord], object] = lambda _: None,
    ) -> None:
        """Set the functions: `submit` takes writes of statuses, `emit` writes of Events, `record` ended runs.

        `timer`: the clock of the bounds, in seconds. It measures CPU time, so that a stall of the machine does not
        count.
        """
        self.snapshot = ControllerSnapshot()
        self.forecasts: Mapping[str, Forecast] = {}
        """The last forecasts. The mapping is replaced and never changed, so that another thread may read it."""
        self.history = ForecastHistory()
        """The history from which forecasts are computed. Only the controller's thread may use it."""
        self.recent_events: deque[RecentEvent] = deque(maxlen=MAX_RECENT_EVENTS)
        """The last Events, oldest first. Only the controller's thread may use it."""
        self._controller = controller
        self._submit = submit
        self._emit = emit
        self._observer = observer
        self._record = record
        self._timer = timer
        self._statuses = QueueStatuses(fair_sharing=fair_sharing)
        self._notes = PendingNotes(timer)
        self._events = EventLog()
        self._overruns = Overruns()
        self._next_at = 0.0
        self._in_flight: set[ObjectKey] = set()
        """Queues whose status is being written."""
        self._delayed: set[ObjectKey] = set()
        """Objects with a delayed write."""
        self._paused: dict[ObjectKey, float] = {}
        self._unqueued: dict[ObjectKey, tuple[JobEvent, float]] = {}
        """Last Event, and its time, about each object that is invalid or not queued yet."""

    @property
    def notes(self) -> Mapping[str, PendingNote]:
        """Return the last note of each pending workload that has one. Only the controller's thread may use it."""
        return self._notes.last

    def step(self, now: float) -> None:
        """Report what is due."""
        self._report_rejections(now)
        for run in self._controller.take_ended_runs():
            self._record(run)
        if now >= self._next_at:
            begin = self._timer()
            self._publish(now)
            if self._controller.leads:
                self._write_statuses(now)
                self._report_unqueued(now)
                self._report_overruns(now)
                self._observer.observe_reservations(self._controller, self.forecasts)
            self._observer.forget_deleted_queues(self._controller.feed.state)
            self._next_at = now + max(PERIOD, (self._timer() - begin) / BUDGET)
        if self._controller.leads and not self._is_busy:
            self._write_notes(now)

    @property
    def _is_busy(self) -> bool:
        return self._controller.in_flight - len(self._delayed) >= MAX_IN_FLIGHT

    def end_write(self, write: Write, outcome: Outcome, now: float) -> bool:
        """Record the outcome of any write. Return whether it reported a status, which the controller can ignore."""
        self._delayed.discard(write.key)
        self._observer.observe_write(self._controller, write, outcome)
        if write.purpose == "finish" and outcome.result == "done" and outcome.obj is not None:
            self._learn_run_time(outcome.obj, now)
        event = workload_event(write, outcome)
        if event is not None and outcome.obj is not None:
            self._emit_event(involved_object(write.key, outcome.obj), event, now)
        self._report_write(write, outcome, now)
        if write.purpose == QUEUE_STATUS_PURPOSE:
            self._in_flight.discard(write.key)
            if outcome.result == "done" and outcome.obj is not None:
                self._controller.configuration.written(write.key, outcome.obj)
            elif outcome.result == "rejected":
                self._paused[write.key] = now + REJECTED_PAUSE
            return True
        if write.purpose == EXPLAIN_PURPOSE and outcome.result != "done":
            self._notes.note_failure(write.workload)
            self._controller.abandon(write)
            return True
        return False

    def delay_write(self, write: Write, outcome: Outcome, now: float) -> None:
        """Report that a write is delayed, with the outcome of its last attempt."""
        self._delayed.add(write.key)
        self._report_write(write, outcome, now)

    def _report_write(self, write: Write, outcome: Outcome, now: float) -> None:
        """Emit an Event about a creation, or about a change that has failed."""
        if (event := creation_event(write, outcome)) is not None:
            if write.key.resource == WORKLOADS and isinstance(write.body, dict):
                self._emit_event(involved_object(write.key, write.body), event, now)
            else:
                self._emit_workload_event(write.workload, event, now)
        if (event := failed_change_event(write, outcome)) is not None:
            obj = self._controller.object(write.key)
            if obj is not None:
                self._emit_event(involved_object(write.key, obj), event, now)
            else:
                self._emit_workload_event(write.workload, event, now)

    def publish_forecasts(self, sampled: SampledForecast) -> None:
        """Replace all forecasts by new ones from sampled starts."""
        self.forecasts = self.history.forecasts(sampled.now, sampled.samples, self._controller.feed.state.pending)

    def _learn_run_time(self, obj: Json, now: float) -> None:
        """Learn from a Workload that has ended without a stop. The planner forgets it once its last pod has ended."""
        workload = read_workload(obj).workload
        admission = None if workload is None else workload.admission
        if workload is None or admission is None or workload.eviction is not None or self._is_deleted(obj):
            return
        state = self._controller.feed.state
        queue = state.snapshot.cluster_queues.get(admission.cluster_queue)
        workload = state.router.with_default_walltime(workload, None if queue is None else queue.spec)
        self.history.ended(workload, now - admission.started_at)

    def _is_deleted(self, obj: Json) -> bool:
        """Return whether a user has deleted a pod that owns the Workload. Other deleted jobs never end."""
        metadata = FieldReader(obj, "", []).child("metadata")
        owners = [owner.text("name") for owner in metadata.children("ownerReferences") if owner.text("kind") == "Pod"]
        pods = (self._controller.object(ObjectKey(PODS, metadata.text("namespace"), name)) for name in owners)
        return any(pod is not None and pod["metadata"].get("deletionTimestamp") for pod in pods)

    def _publish(self, now: float) -> None:
        controller, state = self._controller, self._controller.feed.state
        self.snapshot = ControllerSnapshot(
            now,
            controller.leads,
            summarize_queues(state, controller.feed.problems),
            len(state.pending),
            len(state.inadmissible),
            len(state.running),
            len(state.reservations.by_key),
            controller.assumed,
            controller.in_flight,
            {str(key): message for key, message in controller.invalid.items()},
            controller.pods_left,
        )

    def _write_statuses(self, now: float) -> None:
        self._paused = {key: until for key, until in self._paused.items() if until > now}
        objects = self._controller.configuration.objects
        for write in self._statuses.due(self.snapshot.queues, objects, now, busy=self._is_busy):
            if write.key not in self._in_flight and write.key not in self._paused:
                self._in_flight.add(write.key)
                self._submit(write)

    def _write_notes(self, now: float) -> None:
        invalid = self._controller.invalid_workloads
        for key, note in self._notes.due(self._controller.feed.state, self.forecasts, now, invalid):
            workload = self._controller.workload(key)
            write = None if workload is None else _note_write(key, workload, note, now)
            if write is None:
                continue
            if self._controller.claim(write):
                self._submit(write)
            else:
                self._notes.note_failure(key)

    def _report_rejections(self, now: float) -> None:
        for rejection in self._controller.take_rejections():
            workload = self._controller.workload(rejection.workload)
            if not self._controller.leads or workload is None:
                continue
            self._observer.observe_rejection(rejection.reason)
            involved = involved_object(workload_key(rejection.workload), workload)
            self._emit_event(involved, JobEvent("PodRejected", rejection.text, True), now)

    def _report_unqueued(self, now: float) -> None:
        """Emit Events about invalid objects, and those that are not queued yet: no Workload states their problem."""
        waiting = {key: JobEvent("Pending", message) for key, message in self._controller.not_queued.items()}
        invalid = {
            key: JobEvent(f"Invalid{key.resource.kind}", message, True)
            for key, message in self._controller.invalid.items()
        }
        before, self._unqueued = self._unqueued, {}
        for key, event in {**waiting, **invalid}.items():
            last, at = before.get(key, (None, now))
            if event == last and now < at + UNQUEUED_REPEAT:
                self._unqueued[key] = (event, at)
            elif (obj := self._controller.object(key)) is not None:
                self._unqueued[key] = (event, now)
                self._emit_event(involved_object(key, obj), event, now)

    def _report_overruns(self, now: float) -> None:
        for key, event in self._overruns.due(self._controller.feed.state, self._notes.last, now):
            self._emit_workload_event(key, event, now)

    def _emit_workload_event(self, key: str, event: JobEvent, now: float) -> None:
        workload = self._controller.workload(key)
        if workload is not None:
            self._emit_event(involved_object(workload_key(key), workload), event, now)

    def _emit_event(self, involved: dict[str, str], event: JobEvent, now: float) -> None:
        write = self._events.write(involved, event, now)
        if write is not None:
            kind, namespace, name = (involved.get(field, "") for field in ("kind", "namespace", "name"))
            self.recent_events.append(RecentEvent(now, kind, namespace, name, event))
            self._emit(write)


def _note_write(key: str, workload: Json, note: PendingNote, now: float) -> Write | None:
    if is_true(workload, "QuotaReserved"):
        return None
    body = explain_pending(workload, note.reason, note.message, now)
    return patch_status(workload, key, EXPLAIN_PURPOSE, body)
