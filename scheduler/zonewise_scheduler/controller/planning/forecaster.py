"""Starts are sampled in a thread of their own, from copies of the planner's state and of what forecasts learn from.

The planner is played forward, which takes from milliseconds to seconds. So only the first workloads of each queue have
a forecast, the passes of a play are bounded, and the thread rests for most of the time. The samples go back to
the controller's thread, which has the ForecastHistory and makes forecasts of them.
"""

from __future__ import annotations

import logging
import threading
import time
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
WORKLOADS_PER_QUEUE = 10
MAX_WORKLOADS = 200
_STOP_TIMEOUT = 0.5


class ForecastBasis(NamedTuple):
    """What a forecast is made from; it is the forecaster's own."""

    state: PlannerState
    inputs: ForecastInputs[SubmittedWorkload]
    now: float


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
        ask: Callable[[], ForecastBasis | None],
        publish: Callable[[SampledForecast], object],
        *,
        period: float = PERIOD,
    ) -> None:
        """`ask` returns a basis; None: this replica does not lead. Both `ask` and `publish` may raise TimeoutError."""
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
                self._publish(NO_SAMPLES if basis is None else sample_first(basis))
            except TimeoutError as error:
                log.warning("no forecast: %s", error)
            except Exception:  # a bug must not end the loop; without forecasts the queue works as well
                log.exception("the forecast failed")
            rest = (time.monotonic() - begin) * REST_RATIO
