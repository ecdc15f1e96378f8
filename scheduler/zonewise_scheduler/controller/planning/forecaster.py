"""Starts are sampled in a thread of their own, from copies of the planner's state and of what forecasts learn from.

The planner is played forward, which takes from milliseconds to a second. So the workloads with a forecast and the
passes of a play are bounded, and the thread rests for most of the time. An increment is a few new plays, one where many
workloads are pending or run. They replace the oldest of the last 16 plays (forecast_window.py). All forecasts are then
made anew from these 16. So a change is in the newest play after one increment, and in all plays after 16 plays.

The samples go back to the controller's thread, which has the ForecastHistory and makes forecasts of them.

The thread costs one part in eleven of a CPU at most, since it rests for ten times as long as an increment has taken.
Once all plays are newer than the last change, it costs nothing but another 16 plays in five minutes.
"""

from __future__ import annotations

import logging
import threading
import time
from enum import Enum, auto
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.backfill.forecast import BOUNDED, MAX_RESERVATION_DEPTH, sample_starts
from zonewise_scheduler.backfill.forecast_window import RecentStarts
from zonewise_scheduler.backfill.run_time_samples import SAMPLES, number_of_plays

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

    from zonewise_scheduler.backfill.forecast import StartSamples, SubmittedWorkload
    from zonewise_scheduler.backfill.forecast_history import ForecastHistory
    from zonewise_scheduler.backfill.forecast_inputs import ForecastInputs
    from zonewise_scheduler.backfill.planner_feed import PlannerFeed
    from zonewise_scheduler.backfill.planner_state import PlannerState
    from zonewise_scheduler.backfill.types import Plan

log = logging.getLogger(__name__)

PERIOD = 2.0
"""Seconds between two increments,"""
REST_RATIO = 10.0
"""or this many times as long as the last one took, whichever is more."""
UNCHANGED_PERIOD = 300.0
"""Seconds until the plays are made anew while nothing changes: workloads that have not ended by then end later."""
MAX_WORKLOADS = 1000
"""Workloads with a forecast: the first of each queue, then the second of each, and so on."""
MAX_WORKLOADS_PLAYED = 250
"""The workloads of an increment, pending and running, where it has more than one play."""
_STOP_TIMEOUT = 0.5


class ForecastBasis(NamedTuple):
    """What a forecast is made from; it is the forecaster's own."""

    state: PlannerState
    inputs: ForecastInputs[SubmittedWorkload]
    now: float
    plays: range = range(SAMPLES)
    """The numbers of the plays."""


class NoBasis(Enum):
    """Why there is no basis."""

    NOT_LEADING = auto()
    UNCHANGED = auto()
    """The last plays still hold."""


class SampledForecast(NamedTuple):
    """The samples of all workloads with a forecast."""

    now: float
    """The time of the last play."""
    samples: Mapping[str, StartSamples]
    """By key of the workload."""


NO_SAMPLES = SampledForecast(0.0, {})


def copy_basis(state: PlannerState, history: ForecastHistory, now: float) -> ForecastBasis:
    """Return copies that the forecaster's thread may use, for a question to the controller."""
    copied = state.copy(MAX_RESERVATION_DEPTH)
    copied.snapshot.tas_snapshot = copied.snapshot.tas_snapshot.copy_for_thread()
    return ForecastBasis(copied, history.copied_inputs(), now)


class BasisCopier:
    """Copies what an increment is made from, unless all plays are newer than the last change."""

    def __init__(self, unchanged_period: float = UNCHANGED_PERIOD) -> None:
        self._unchanged_period = unchanged_period
        self._applied = -1
        """Entries of the feed at the last copy; -1: there was none since this replica leads."""
        self._copied_at = 0.0
        self._missing = 0
        """How many plays are older than the last change."""
        self._next = 0
        """The number of the next play."""

    def copy(self, feed: PlannerFeed, history: ForecastHistory, now: float, *, leads: bool) -> ForecastBasis | NoBasis:
        """Return the basis of an increment at this time, in seconds."""
        if not leads:
            self._applied = -1
            return NoBasis.NOT_LEADING
        if feed.applied != self._applied or now - self._copied_at >= self._unchanged_period:
            self._missing = SAMPLES
        if not self._missing:
            return NoBasis.UNCHANGED
        count = min(self._missing, number_of_increment_plays(len(feed.state.pending) + len(feed.state.running)))
        plays = range(self._next, self._next + count)
        self._applied, self._copied_at = feed.applied, now
        self._next, self._missing = plays.stop, self._missing - count
        return copy_basis(feed.state, history, now)._replace(plays=plays)


def number_of_increment_plays(workloads: int) -> int:
    """Return how many plays an increment has with so many pending and running workloads."""
    return number_of_plays(workloads, MAX_WORKLOADS_PLAYED, least=1)


def play_basis(basis: ForecastBasis) -> dict[str, StartSamples]:
    """Return the starts of the first pending workloads in the plays of a basis, by key."""
    keys = first_workloads(basis.state, MAX_WORKLOADS)
    return sample_starts(basis.state, basis.now, basis.inputs, keys, BOUNDED, basis.plays) if keys else {}


def first_workloads(state: PlannerState, count: int) -> list[str]:
    """Return the first pending workloads: the first of each active queue, the second of each; at most `count` keys."""
    usage = state.snapshot.local_queue_usage
    active = [queue for name, queue in state.pending_queues.items() if name not in state.snapshot.inactive]
    orders = [queue.heap.sorted_keys(usage)[:count] for queue in active]
    in_turn = (key for rank in zip_longest(*orders) for key in rank if key is not None)
    return list(islice(in_turn, count))


def learning_pass(
    run_pass: Callable[[PlannerFeed, float, int], Plan], history: Callable[[], ForecastHistory]
) -> Callable[[PlannerFeed, float, int], Plan]:
    """Return a scheduling pass that decides as `run_pass` does, and that a history learns from."""

    def run(feed: PlannerFeed, at: float, max_admissions: int) -> Plan:
        plan = run_pass(feed, at, max_admissions)
        history().admitted(plan.admitted, at)
        return plan

    return run


class Forecaster:
    """See the module. Works while the context is entered."""

    def __init__(
        self,
        ask: Callable[[], ForecastBasis | NoBasis],
        publish: Callable[[SampledForecast], object],
        *,
        period: float = PERIOD,
    ) -> None:
        """Both `ask` and `publish` may raise TimeoutError."""
        self._ask = ask
        self._publish = publish
        self._period = period
        self._recent = RecentStarts()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="forecasts", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(_STOP_TIMEOUT)

    def _run(self) -> None:
        """Make an increment, and rest."""
        delay = self._period
        while not self._stopping.wait(delay):
            begin = time.monotonic()
            self._make_increment()
            delay = max(self._period, (time.monotonic() - begin) * REST_RATIO)

    def _make_increment(self) -> None:
        try:
            basis = self._ask()
            if isinstance(basis, ForecastBasis):
                self._recent.add(play_basis(basis))
                self._publish(SampledForecast(basis.now, self._recent.samples(basis.now)))
            elif basis is NoBasis.NOT_LEADING:
                self._recent = RecentStarts()
                self._publish(NO_SAMPLES)
        except TimeoutError as error:
            log.warning("no forecast: %s", error)
        except Exception:  # a bug must not end the loop; without forecasts the queue works as well
            log.exception("the forecast failed")
