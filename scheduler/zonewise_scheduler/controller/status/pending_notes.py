"""Keep Workloads informed of why they wait, within bounds.

| bound | value |
|---|---|
| a workload that has waited for less than MIN_WAIT, also for its begin time | no note |
| notes of one workload | one per REFRESH if it is new; sooner if its queue becomes active or inactive |
| explanations, and so notes | RATE per second, BURST after a rest |
| time for explanations | fraction BUDGET of all time, since an explanation is a what-if on the planner's state |
| time for listings of all pending workloads | fraction LISTING_BUDGET of all time |

Workloads without a note come first, and those whose queue has become active or inactive. All others follow in rotation.
Both begin with invalid workloads and those that no queue accepts, followed by the first workloads of each queue.
"""

from __future__ import annotations

from collections import deque
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.token_bucket import TokenBucket
from zonewise_scheduler.backfill.explanation.explain import explain
from zonewise_scheduler.controller.status.pending_note import PendingNote, invalid_note, pending_note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from zonewise_scheduler.backfill.state.planner_state import PlannerState
    from zonewise_scheduler.backfill.types import Forecast

MIN_WAIT = 10.0
"""Seconds for which a workload must have waited before its first note."""
REFRESH = 60.0
"""Minimum time in seconds between two notes of one workload."""
RATE, BURST = 15.0, 30
BUDGET = 0.05
CARRY = 1.0
"""Seconds of which the unused time for explanations carries over: if nothing changes, the controller makes only one
step per second."""
HEADS = 10
"""Number of workloads at the front of each queue that come before all others."""
NO_PROBLEMS: Mapping[str, str] = MappingProxyType({})
LISTING_BUDGET = 0.02
_ROTATION = 5.0
"""Minimum seconds between two listings of the pending workloads, which show those with news."""


class _NoteState(NamedTuple):
    at: float
    """When the last note was made."""
    obstacle: str
    """See _obstacle()."""


class PendingNotes:
    """Selects the workloads to explain, and remembers the last note of each."""

    def __init__(self, timer: Callable[[], float]) -> None:
        """Set the timer, which returns seconds, to measure how long explanations take."""
        self._timer = timer
        self._now = 0.0
        self._bucket = TokenBucket(RATE, BURST, lambda: self._now)
        self._news: deque[str] = deque()
        """Workloads without a current note."""
        self._others: deque[str] = deque()
        """Workloads whose note is to be made again."""
        self._rotates_at = 0.0
        self._explained_until = 0.0
        self._last: dict[str, PendingNote] = {}
        self._states: dict[str, _NoteState] = {}
        self._invalid: Mapping[str, str] = NO_PROBLEMS
        self._unwritten: set[str] = set()
        """Workloads whose last note could not be written."""

    @property
    def last(self) -> Mapping[str, PendingNote]:
        """Return the last note of each workload. The mapping changes with the next notes."""
        return self._last

    def due(
        self,
        state: PlannerState,
        forecasts: Mapping[str, Forecast],
        now: float,
        invalid: Mapping[str, str] = NO_PROBLEMS,
    ) -> Iterator[tuple[str, PendingNote]]:
        """Yield notes with the keys of their workloads, as far as the bounds allow now.

        `invalid`: problems of the workloads that the planner cannot contain, by key.
        """
        self._now, self._invalid = now, invalid
        if now >= self._rotates_at:
            begin = self._timer()
            self._rotate(state, now)
            self._rotates_at = now + max(_ROTATION, (self._timer() - begin) / LISTING_BUDGET)
        while (keys := self._news or self._others) and now >= self._explained_until:
            key = keys.popleft()
            if not self._is_due(state, key, now):
                continue
            if not self._bucket.try_acquire():
                keys.appendleft(key)
                return
            begin = self._timer()
            try:
                note = self._note(state, key, forecasts.get(key), now)
            except KeyError:  # it no longer waits
                continue
            finally:
                self._explained_until = max(self._explained_until, now - CARRY) + (self._timer() - begin) / BUDGET
            old = self._last.get(key)
            self._last[key], self._states[key] = note, _NoteState(now, _obstacle(state, key))
            if old is None or key in self._unwritten or note.differs_from(old, now):
                self._unwritten.discard(key)
                yield key, note

    def _note(self, state: PlannerState, key: str, forecast: Forecast | None, now: float) -> PendingNote:
        problem = self._invalid.get(key)
        return pending_note(explain(state, key, now), forecast) if problem is None else invalid_note(problem)

    def note_failure(self, key: str) -> None:
        """Make a note due again whose write has failed, even if nothing in it is new."""
        if key in self._last:
            self._unwritten.add(key)

    def _rotate(self, state: PlannerState, now: float) -> None:
        """List each pending workload that is due for a note; those without news only once their list is empty."""
        for key in [key for key in self._last if not self._waits(state, key)]:
            del self._last[key], self._states[key]
        self._unwritten &= self._last.keys()
        heads: list[str] = []
        rest: list[str] = []
        for queue in state.pending_queues.values():
            order = list(queue.heap.sorted_keys(state.snapshot.local_queue_usage))
            heads += order[:HEADS]
            rest += order[HEADS:]
        keys = [*self._invalid, *state.inadmissible, *heads, *rest]
        self._news = deque(key for key in keys if self._is_news(state, key) and self._is_due(state, key, now))
        if not self._others:
            self._others.extend(key for key in keys if not self._is_news(state, key) and self._is_due(state, key, now))

    def _waits(self, state: PlannerState, key: str) -> bool:
        return key in state.pending or key in state.inadmissible or key in self._invalid

    def _is_news(self, state: PlannerState, key: str) -> bool:
        """Return whether a workload has no note, or one that no longer applies."""
        last = self._states.get(key)
        return last is None or key in self._invalid or last.obstacle != _obstacle(state, key)

    def _is_due(self, state: PlannerState, key: str, now: float) -> bool:
        last = self._states.get(key)
        if (problem := self._invalid.get(key)) is not None:  # it does not change with other workloads
            return last is None or self._last[key].message != problem or key in self._unwritten
        if last is not None and now < last.at + REFRESH:
            return self._is_news(state, key)
        workload = state.inadmissible[key].workload if key in state.inadmissible else state.pending_workload(key)
        if workload is None:
            return False
        since = workload.created_at if workload.begin_at > now else workload.queue_order_timestamp()
        return now >= since + MIN_WAIT


def _obstacle(state: PlannerState, key: str) -> str:
    """Return why no queue accepts a workload, or why its ClusterQueue is inactive; "" if neither applies."""
    entry = state.inadmissible.get(key)
    return state.snapshot.inactive.get(state.pending.get(key, ""), "") if entry is None else entry.message
