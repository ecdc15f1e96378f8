"""Starts are sampled in a thread of their own, from copies of the planner's state and of what forecasts learn from.

The planner is played forward, which takes from milliseconds to seconds. So only the first workloads of each queue have
a forecast, the passes of a play are bounded, and the thread rests for most of the time. The samples go back to
the controller's thread, which has the ForecastHistory and makes forecasts of them.

What it costs, at most: one part in 21 of a CPU, since the thread rests for 20 times as long as it has worked; and
nothing until the planner is told of a change, but for one sampling in five minutes.
"""

from __future__ import annotations

import logging
import threading
import time
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.backfill.forecast import BOUNDED, MAX_RESERVATION_DEPTH, sample_starts

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

PERIOD = 30.0
"""Seconds between two forecasts,"""
REST_RATIO = 20.0
"""or this many times as long as the last one took, whichever is more."""
UNCHANGED_PERIOD = 300.0
"""Seconds between two forecasts while nothing changes: running workloads that have not ended by then end later."""
WORKLOADS_PER_QUEUE = 10
MAX_WORKLOADS = 200
_STOP_TIMEOUT = 0.5


class ForecastBasis(NamedTuple):
    """What a forecast is made from; it is the forecaster's own."""

    state: PlannerState
    inputs: ForecastInputs[SubmittedWorkload]
    now: float


class NoBasis(Enum):
    """Why there is no basis."""

    NOT_LEADING = auto()
    UNCHANGED = auto()
    """The last forecast still holds."""


class SampledForecast(NamedTuple):
    """The samples of a basis."""

    now: float
    """The time of the basis."""
    samples: Mapping[str, StartSamples]
    """By key of the workload."""


NO_SAMPLES = SampledForecast(0.0, {})


def copy_basis(state: PlannerState, history: ForecastHistory, now: float) -> ForecastBasis:
    """Return copies that the forecaster's thread may use, for a question to the controller."""
    copied = state.copy(MAX_RESERVATION_DEPTH)
    copied.snapshot.tas_snapshot = copied.snapshot.tas_snapshot.copy_for_thread()
    return ForecastBasis(copied, history.copied_inputs(), now)


class BasisCopier:
    """Copies what a forecast is made from, unless nothing has changed since the last copy."""

    def __init__(self, unchanged_period: float = UNCHANGED_PERIOD) -> None:
        self._unchanged_period = unchanged_period
        self._applied = -1
        """Entries of the feed at the last copy; -1: there was none since this replica leads."""
        self._copied_at = 0.0

    def copy(self, feed: PlannerFeed, history: ForecastHistory, now: float, *, leads: bool) -> ForecastBasis | NoBasis:
        """Return the basis of a forecast at this time, in seconds."""
        if not leads:
            self._applied = -1
            return NoBasis.NOT_LEADING
        if feed.applied == self._applied and now - self._copied_at < self._unchanged_period:
            return NoBasis.UNCHANGED
        self._applied, self._copied_at = feed.applied, now
        return copy_basis(feed.state, history, now)


def sample_first(basis: ForecastBasis) -> SampledForecast:
    """Return the sampled starts of the first workloads of each queue."""
    state = basis.state
    keys: list[str] = []
    for name, queue in state.pending_queues.items():
        if name not in state.snapshot.inactive:
            keys += queue.heap.sorted_keys(state.snapshot.local_queue_usage)[:WORKLOADS_PER_QUEUE]
    samples = sample_starts(state, basis.now, basis.inputs, keys[:MAX_WORKLOADS], BOUNDED) if keys else {}
    return SampledForecast(basis.now, samples)


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
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="forecasts", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(_STOP_TIMEOUT)

    def _run(self) -> None:
        rest = 0.0
        while not self._stopping.wait(max(self._period, rest)):
            begin = time.monotonic()
            try:
                basis = self._ask()
                if basis is not NoBasis.UNCHANGED:
                    self._publish(NO_SAMPLES if basis is NoBasis.NOT_LEADING else sample_first(basis))
            except TimeoutError as error:
                log.warning("no forecast: %s", error)
            except Exception:  # a bug must not end the loop; without forecasts the queue works as well
                log.exception("the forecast failed")
            rest = (time.monotonic() - begin) * REST_RATIO
