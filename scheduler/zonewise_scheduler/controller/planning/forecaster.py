"""Forecasts of starts, made in a thread of their own from a copy of the planner's state.

A forecast plays the planner forward, which takes from milliseconds to seconds. So only the first workloads of each
queue have one, a play ends after MAX_DECISIONS passes, and the thread rests for most of the time.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.backfill.forecast import MAX_RESERVATION_DEPTH, forecast_starts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

    from zonewise_scheduler.backfill.planner_state import PlannerState
    from zonewise_scheduler.backfill.run_time_history import RunTimeHistory
    from zonewise_scheduler.backfill.types import Forecast

log = logging.getLogger(__name__)

PERIOD = 30.0
"""Seconds between two forecasts,"""
REST_RATIO = 20.0
"""or this many times as long as the last one took, whichever is more."""
MAX_DECISIONS = 300
TIME_GRAIN = 0.1
"""Ends of workloads that are within a tenth of the time until then are merged."""
WORKLOADS_PER_QUEUE = 10
MAX_WORKLOADS = 200
_STOP_TIMEOUT = 0.5


class ForecastBasis(NamedTuple):
    """What a forecast is made from; it is the forecaster's own."""

    state: PlannerState
    history: RunTimeHistory
    now: float


def copy_basis(state: PlannerState, history: RunTimeHistory, now: float) -> ForecastBasis:
    """Return copies that the forecaster's thread may use, for a question to the controller."""
    copied = state.copy(MAX_RESERVATION_DEPTH)
    copied.snapshot.tas_snapshot = copied.snapshot.tas_snapshot.copy_for_thread()
    return ForecastBasis(copied, history.copy(), now)


def forecast_first(basis: ForecastBasis) -> Mapping[str, Forecast]:
    """Return the forecasts of the first workloads of each queue."""
    state = basis.state
    keys: list[str] = []
    for name, queue in state.pending_queues.items():
        if name not in state.snapshot.inactive:
            keys += queue.heap.sorted_keys(state.snapshot.local_queue_usage)[:WORKLOADS_PER_QUEUE]
    return forecast_starts(state, basis.now, basis.history, keys[:MAX_WORKLOADS], time_grain=TIME_GRAIN,
                           max_decisions=MAX_DECISIONS) if keys else {}  # fmt: skip


class Forecaster:
    """See the module. Works while the context is entered."""

    def __init__(
        self,
        ask: Callable[[], ForecastBasis | None],
        publish: Callable[[Mapping[str, Forecast]], object],
        *,
        period: float = PERIOD,
    ) -> None:
        """`ask` returns a basis, or raises TimeoutError; None: this replica does not lead."""
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
                self._publish({} if basis is None else forecast_first(basis))
            except TimeoutError as error:
                log.warning("no forecast: %s", error)
            except Exception:  # a bug must not end the loop; without forecasts the queue works as well
                log.exception("the forecast failed")
            rest = (time.monotonic() - begin) * REST_RATIO
