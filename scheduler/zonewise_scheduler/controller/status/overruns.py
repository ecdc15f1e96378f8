"""Jobs that run longer than they declare. They get one Event, and so do the workloads that wait for them.

The planner extends the deadline of such a workload (policies.py extended_deadline), so starts that depend on it move.
The notes of pending workloads name the workloads for which they wait (pending_notes.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.backfill.explanation.message import format_duration
from zonewise_scheduler.controller.status.job_events import JobEvent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zonewise_scheduler.backfill.state.planner_state import PlannerState
    from zonewise_scheduler.controller.status.pending_note import PendingNote

GRACE = 30.0
"""Seconds beyond the declared run time before the Event: a Job at its activeDeadlineSeconds still ends its pods."""
MAX_WAITING = 20
"""Maximum number of waiting workloads with an Event for one overrun. Notes inform the others of their new start."""


class Overruns:
    """Remembers the reported overruns while their workloads run."""

    def __init__(self) -> None:
        self._reported: dict[str, float] = {}
        """Start times of the runs whose overrun was reported, by key."""

    def due(self, state: PlannerState, notes: Mapping[str, PendingNote], now: float) -> Iterator[tuple[str, JobEvent]]:
        """Yield Events for overruns that were not reported yet, with the keys of their workloads.

        `notes`: the last note of each pending workload that has one.
        """
        self._reported = {key: start for key, start in self._reported.items() if _start(state, key) == start}
        running = state.running_workloads
        for key in sorted(running.overrun | running.ending_by(now)):  # if nothing waits, no pass extends a deadline
            workload, start = state.running[key].workload, _start(state, key)
            if start is None or key in self._reported or now < start + workload.max_duration + GRACE:
                continue
            self._reported[key] = start
            declared = format_duration(workload.max_duration)
            waiting = [other for other, note in notes.items() if key in note.waits_for]
            yield key, JobEvent("RunTimeExceeded", _overrun_message(declared, len(waiting)), True)
            for other in waiting[:MAX_WAITING]:
                message = f"starts later than predicted: {key} runs longer than the {declared} that it declares"
                yield other, JobEvent("StartDelayed", message)


def _start(state: PlannerState, key: str) -> float | None:
    run = state.running.get(key)
    admission = None if run is None else run.workload.admission
    return None if admission is None else admission.started_at


def _overrun_message(declared: str, waiting: int) -> str:
    message = f"runs longer than the {declared} that it declares"
    if not waiting:
        return message
    return f"{message}; {waiting} workload{' waits' if waiting == 1 else 's wait'} for it"
