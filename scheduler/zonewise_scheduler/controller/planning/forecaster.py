"""Sample starts in a separate thread, from copies of the planner's state and of the forecast inputs.

A sample path runs the planner forward, which takes from milliseconds to a second. So the number of workloads with a
forecast and the passes of a sample path are bounded, and the thread rests most of the time. An increment consists of a
few new sample paths, or only one if many workloads are pending or running. They replace the oldest of the last 16
sample paths (window.py). Then all forecasts are computed again from these 16. So a change affects the newest
sample path after one increment, and all of them after 16 sample paths.

The samples return to the controller's thread, which holds the ForecastHistory and computes forecasts from them.

The thread uses at most one eleventh of a CPU, since it rests for ten times as long as an increment has taken. Once all
sample paths are newer than the last change, it only makes another 16 sample paths every five minutes.
"""

from __future__ import annotations

import logging
import threading
import time
from enum import Enum, auto
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.backfill.forecast.run_time_samples import SAMPLES, number_of_sample_paths
from zonewise_scheduler.backfill.forecast.sample_paths import MAX_RESERVATION_DEPTH, bounded_options, sample_starts
from zonewise_scheduler.backfill.forecast.window import RecentStarts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

    from zonewise_scheduler.backfill.forecast.history import ForecastHistory
    from zonewise_scheduler.backfill.forecast.inputs import ForecastInputs
    from zonewise_scheduler.backfill.forecast.sample_paths import SamplePathOptions, StartSamples, SubmittedWorkload
    from zonewise_scheduler.backfill.recording.planner_feed import PlannerFeed
    from zonewise_scheduler.backfill.state.planner_state import PlannerState
    from zonewise_scheduler.backfill.types import Plan

log = logging.getLogger(__name__)

PERIOD = 2.0
"""Minimum pause in seconds between two increments."""
REST_RATIO = 10.0
"""Minimum pause as a multiple of the last increment's duration. The longer of the two pauses applies."""
UNCHANGED_PERIOD = 300.0
"""Seconds until unchanged sample paths are repeated: workloads that have not ended by then will end later."""
MAX_WORKLOADS = 1000
"""Maximum number of workloads with a forecast: the first of each queue, then the second of each, and so on."""
MAX_WORKLOADS_SAMPLED = 250
"""Maximum number of workloads, pending and running, in all sample paths of an increment, unless it has only one."""
MAX_CPU_SECONDS = 10.0
"""Maximum CPU time of an increment. Preemption in cohorts with topologies can make one decision of a sample path take
seconds. The interpreter runs one thread at a time, so such a sample path would halve the speed of the controller's
thread for hours."""
_STOP_TIMEOUT = 0.5


class ForecastBasis(NamedTuple):
    """The inputs of a forecast. The forecaster owns them."""

    state: PlannerState
    inputs: ForecastInputs[SubmittedWorkload]
    now: float
    numbers: range = range(SAMPLES)
    """The numbers of the sample paths."""


class NoBasis(Enum):
    """Why no basis is available."""

    NOT_LEADING = auto()
    UNCHANGED = auto()
    """The last sample paths are still valid."""


class SampledForecast(NamedTuple):
    """The samples of all workloads with a forecast."""

    now: float
    """Time of the last sample path."""
    samples: Mapping[str, StartSamples]
    """Samples by key of the workload."""


NO_SAMPLES = SampledForecast(0.0, {})


def copy_basis(state: PlannerState, history: ForecastHistory, now: float) -> ForecastBasis:
    """Return copies of the state and the inputs that another thread may use. Call it in the controller's thread."""
    copied = state.copy(MAX_RESERVATION_DEPTH)
    copied.snapshot.tas_snapshot = copied.snapshot.tas_snapshot.copy_for_thread()
    return ForecastBasis(copied, history.copied_inputs(), now)


class BasisCopier:
    """Copies the inputs of an increment, unless all sample paths are newer than the last change."""

    def __init__(self) -> None:
        self._applied = -1
        """Number of feed entries at the last copy; -1: none was made since this replica leads."""
        self._copied_at = 0.0
        self._missing = 0
        """Number of sample paths that are older than the last change."""
        self._next = 0
        """Number of the next sample path."""

    def copy(self, feed: PlannerFeed, history: ForecastHistory, now: float, *, leads: bool) -> ForecastBasis | NoBasis:
        """Return the basis of an increment; `now`: in seconds."""
        if not leads:
            self._applied = -1
            return NoBasis.NOT_LEADING
        if feed.applied != self._applied or now - self._copied_at >= UNCHANGED_PERIOD:
            self._missing = SAMPLES
        if not self._missing:
            return NoBasis.UNCHANGED
        count = min(self._missing, number_of_increment_sample_paths(len(feed.state.pending) + len(feed.state.running)))
        numbers = range(self._next, self._next + count)
        self._applied, self._copied_at = feed.applied, now
        self._next, self._missing = numbers.stop, self._missing - count
        return copy_basis(feed.state, history, now)._replace(numbers=numbers)


def number_of_increment_sample_paths(workloads: int) -> int:
    """Return how many sample paths an increment has for a number of pending and running workloads."""
    return number_of_sample_paths(workloads, MAX_WORKLOADS_SAMPLED, least=1)


def sample_basis(basis: ForecastBasis) -> dict[str, StartSamples]:
    """Return the starts of the first pending workloads in the sample paths of a basis, by key."""
    keys = first_workloads(basis.state, MAX_WORKLOADS)
    options = options_within(basis.state, MAX_CPU_SECONDS)
    return sample_starts(basis.state, basis.now, basis.inputs, keys, options, basis.numbers) if keys else {}


def options_within(state: PlannerState, seconds: float) -> SamplePathOptions:
    """Return the options of sample paths of a state that are over once this thread has used that much more CPU time."""
    until = time.thread_time() + seconds
    return bounded_options(state)._replace(is_over=lambda: time.thread_time() >= until)


def first_workloads(state: PlannerState, count: int) -> list[str]:
    """Return at most `count` keys of pending workloads: the first of each active queue, then the second of each, ..."""
    usage = state.snapshot.local_queue_usage
    active = [queue for name, queue in state.pending_queues.items() if name not in state.snapshot.inactive]
    orders = [islice(queue.heap.sorted_keys(usage), count) for queue in active]
    interleaved = (key for rank in zip_longest(*orders) for key in rank if key is not None)
    return list(islice(interleaved, count))


def learning_pass(
    run_pass: Callable[[PlannerFeed, float, int], Plan], history: Callable[[], ForecastHistory]
) -> Callable[[PlannerFeed, float, int], Plan]:
    """Return a scheduling pass that decides as `run_pass` does, and records its admissions in a history."""

    def run(feed: PlannerFeed, at: float, max_admissions: int) -> Plan:
        plan = run_pass(feed, at, max_admissions)
        history().admitted(plan.admitted, at)
        return plan

    return run


class Forecaster:
    """Runs the thread that samples starts. It works while the context is entered."""

    def __init__(
        self,
        get_basis: Callable[[], ForecastBasis | NoBasis],
        publish: Callable[[SampledForecast], object],
        *,
        period: float = PERIOD,
    ) -> None:
        """Set the controller's functions. Both `get_basis` and `publish` may raise TimeoutError."""
        self._get_basis = get_basis
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
        """Alternate between increments and rests."""
        delay = self._period
        while not self._stopping.wait(delay):
            begin = time.monotonic()
            self._make_increment()
            delay = max(self._period, (time.monotonic() - begin) * REST_RATIO)

    def _make_increment(self) -> None:
        try:
            basis = self._get_basis()
            if isinstance(basis, ForecastBasis):
                self._recent.add(sample_basis(basis))
                self._publish(SampledForecast(basis.now, self._recent.samples(basis.now)))
            elif basis is NoBasis.NOT_LEADING:
                self._recent = RecentStarts()
                self._publish(NO_SAMPLES)
        except TimeoutError as error:
            log.warning("no forecast: %s", error)
        except Exception:  # a bug must not end the loop; the queue works without forecasts too
            log.exception("the forecast failed")
