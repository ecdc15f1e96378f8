"""Starts are sampled in a thread of their own, from copies of the planner's state and of what forecasts learn from.

The planner is played forward, which takes from milliseconds to seconds. So the workloads with a forecast and the passes
of a play are bounded, and the thread rests for most of the time. The samples go back to the controller's thread, which
has the ForecastHistory and makes forecasts of them.

    a sampling                of                                       at most
    whole                     the first workloads of all queues        once in WHOLE_PERIOD
    of what was submitted     workloads submitted since the last one   once in SUBMITTED_PERIOD

What it costs, at most: two parts in 21 of a CPU, since the thread rests for 20 times as long as a sampling has taken
before the next one of that kind; and nothing until the planner is told of a change, but for one whole sampling in five
minutes.
"""

from __future__ import annotations

import logging
import threading
import time
from enum import Enum, auto
from itertools import islice, zip_longest
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

WHOLE_PERIOD, SUBMITTED_PERIOD = 10.0, 2.0
"""Seconds between two samplings of a kind,"""
REST_RATIO = 20.0
"""or this many times as long as the last one took, whichever is more."""
UNCHANGED_PERIOD = 300.0
"""Seconds between two whole samplings while nothing changes: workloads that have not ended by then end later."""
MAX_WORKLOADS = 1000
"""Workloads of a whole sampling: the first of each queue, then the second of each, and so on."""
MAX_SUBMITTED = 100
"""Workloads of another sampling, those submitted first."""
_STOP_TIMEOUT = 0.5


class ForecastBasis(NamedTuple):
    """What a forecast is made from; it is the forecaster's own."""

    state: PlannerState
    inputs: ForecastInputs[SubmittedWorkload]
    now: float
    submitted: tuple[str, ...] | None = None
    """Keys of the pending workloads to sample; None: a whole sampling."""


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
    whole: bool
    """Workloads without samples have no forecast any more."""


NO_SAMPLES = SampledForecast(0.0, {}, whole=True)


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
        """Entries of the feed at the last copy for a whole sampling; -1: there was none since this replica leads."""
        self._copied_at = 0.0
        self._pending: frozenset[str] = frozenset()
        """The workloads that were pending at the last copy."""

    def copy(
        self, feed: PlannerFeed, history: ForecastHistory, now: float, *, leads: bool, whole: bool = True
    ) -> ForecastBasis | NoBasis:
        """Return the basis of a sampling at this time, in seconds: of a `whole` one, or of what was submitted."""
        if not leads:
            self._applied = -1
            return NoBasis.NOT_LEADING
        submitted = None if whole else self._submitted(feed.state)
        if submitted == () or (whole and self._is_current(feed, now)):
            return NoBasis.UNCHANGED
        if whole:
            self._applied, self._copied_at = feed.applied, now
        self._pending = frozenset(feed.state.pending)
        return copy_basis(feed.state, history, now)._replace(submitted=submitted)

    def _is_current(self, feed: PlannerFeed, now: float) -> bool:
        return feed.applied == self._applied and now - self._copied_at < self._unchanged_period

    def _submitted(self, state: PlannerState) -> tuple[str, ...]:
        inactive = state.snapshot.inactive
        submitted = (key for key, queue in state.pending.items() if key not in self._pending and queue not in inactive)
        return tuple(islice(submitted, MAX_SUBMITTED))


def sample_basis(basis: ForecastBasis) -> SampledForecast:
    """Return the sampled starts of the workloads of a basis."""
    state = basis.state
    keys = first_workloads(state, MAX_WORKLOADS) if basis.submitted is None else basis.submitted
    samples = sample_starts(state, basis.now, basis.inputs, keys, BOUNDED) if keys else {}
    return SampledForecast(basis.now, samples, whole=basis.submitted is None)


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
        ask: Callable[[bool], ForecastBasis | NoBasis],
        publish: Callable[[SampledForecast], object],
        *,
        whole_period: float = WHOLE_PERIOD,
        submitted_period: float = SUBMITTED_PERIOD,
    ) -> None:
        """`ask` is told whether the sampling is whole. Both `ask` and `publish` may raise TimeoutError."""
        self._ask = ask
        self._publish = publish
        self._whole_period = whole_period
        self._submitted_period = submitted_period
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="forecasts", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(_STOP_TIMEOUT)

    def _run(self) -> None:
        """Sample what is due, and rest. A whole sampling is due first."""
        whole_at, delay = 0.0, self._submitted_period
        while not self._stopping.wait(delay):
            begin = time.monotonic()
            whole = begin >= whole_at
            self._sample(whole)
            end = time.monotonic()
            rest = (end - begin) * REST_RATIO
            if whole:
                whole_at, submitted_at = end + max(self._whole_period, rest), end + self._submitted_period
            else:
                submitted_at = end + max(self._submitted_period, rest)
            delay = max(min(whole_at, submitted_at) - end, 0.0)

    def _sample(self, whole: bool) -> None:
        try:
            basis = self._ask(whole)
            if isinstance(basis, ForecastBasis):
                self._publish(sample_basis(basis))
            elif basis is NoBasis.NOT_LEADING and whole:
                self._publish(NO_SAMPLES)
        except TimeoutError as error:
            log.warning("no forecast: %s", error)
        except Exception:  # a bug must not end the loop; without forecasts the queue works as well
            log.exception("the forecast failed")
