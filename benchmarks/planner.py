"""The planner of Kueue's queues with 100,000 waiting jobs: how long a decision takes after a running job has ended.

The jobs are repetitions of KTH-SP2 in 30 queues of one cohort, so any job that ends may let any of them start. All have
waited for a day, so each queue has a reservation even under the default policy. Another 3,000 jobs wait in 300 queues,
which have 300 reservations. The live forecasts of 1,000 waiting jobs, in one queue and in 30, are based on 6,000
earlier jobs of the log. A change costs one sample path, from which all forecasts are computed again. Run by `make
bench`; figures are CPU time.
"""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager, nullcontext
from statistics import median
from typing import TYPE_CHECKING
from unittest.mock import patch

from benchmarks.backfill import KTH, TRACES, repeated
from benchmarks.support.targets import Row, show
from zonewise_scheduler.backfill.forecast import sample_paths
from zonewise_scheduler.backfill.forecast.history import ForecastHistory
from zonewise_scheduler.backfill.forecast.run_time_samples import MIN_SAMPLES
from zonewise_scheduler.backfill.forecast.sample_paths import SubmittedWorkload
from zonewise_scheduler.backfill.forecast.window import RecentStarts
from zonewise_scheduler.backfill.policies import DEFAULT_POLICY, policy_named
from zonewise_scheduler.backfill.reservations.reservation import ReservationTable
from zonewise_scheduler.backfill.scheduling.scheduling_pass import schedule
from zonewise_scheduler.backfill.state import events
from zonewise_scheduler.backfill.state.planner_state import new_state
from zonewise_scheduler.controller.planning.forecaster import copy_basis, sample_basis
from zonewise_scheduler.quota.api.queue_types import ClusterQueue
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, ResourceQuota, resource_group
from zonewise_scheduler.quota.api.workload_types import PodSet, Workload
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.simulator.swf import read_swf

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from zonewise_scheduler.backfill.scheduling.known_admissions import KnownAdmissions
    from zonewise_scheduler.backfill.state.planner_state import PlannerState
    from zonewise_scheduler.backfill.types import Plan, Reservation
    from zonewise_scheduler.simulator.swf import LoggedJob

WAITING, QUEUES, PROCESSORS = 100_000, 30, 1_000
MANY_QUEUES, WAITING_IN_MANY, MANY_PROCESSORS = 300, 3_000, 3_000
ENDS, ENDS_OF_MANY = 60, 10
FORECAST, OBSERVED = 1_000, 6_000
DAY = 86_400.0


def main() -> int:
    """Run all measurements and print the table; return 1 if a target is missed."""
    if not TRACES.exists():
        print(f"no logs: {TRACES.name}/ is not beside the project")
        return 0
    kth = read_swf(TRACES / KTH).jobs
    return show([*_rows(repeated(kth, WAITING)), *_forecast_rows(sorted(kth, key=lambda job: job.submit_time))])


def _rows(jobs: Sequence[LoggedJob]) -> Iterator[Row]:
    for policy in (DEFAULT_POLICY, "easy", "greedy"):
        times = _after_ends(jobs, policy, QUEUES, PROCESSORS, ENDS)
        yield from _decision_rows(f"{WAITING:,} jobs waiting in {QUEUES} queues of a cohort, {policy}", times, 0.1)
    few = jobs[:WAITING_IN_MANY]
    times = _after_ends(few, DEFAULT_POLICY, MANY_QUEUES, MANY_PROCESSORS, ENDS_OF_MANY)
    what = f"{WAITING_IN_MANY:,} jobs waiting in {MANY_QUEUES} queues of a cohort, {DEFAULT_POLICY}"
    yield from _decision_rows(what, times, 0.5)


def _decision_rows(what: str, times: Sequence[float], bound: float) -> Iterator[Row]:
    """Yield the seconds of the decisions after one end each."""
    usual, worst = median(times), max(times)
    yield Row(f"one end, {what}", f"{usual * 1e3:.0f} ms", f"<= {bound * 1e3:.0f} ms", usual <= bound)
    yield Row(f"... the longest of {len(times)}", f"{worst * 1e3:.0f} ms")


def _forecast_rows(jobs: Sequence[LoggedJob]) -> Iterator[Row]:
    """Yield the time of live forecasts after a change, and how many times longer an exact sample path would take."""
    for queues in (1, QUEUES):
        seconds = min(_forecast(jobs, queues) for _ in range(3))
        what = f"live forecasts of {FORECAST:,} waiting jobs after a change, {queues} queues of a cohort"
        yield Row(what, f"{seconds * 1e3:.0f} ms", "<= 200 ms", seconds <= 0.2)
        yield Row("... exact sample path / this one", f"{_forecast(jobs, queues, exact=True) / seconds:.0f}")


def _forecast(jobs: Sequence[LoggedJob], queues: int, *, exact: bool = False) -> float:
    """Return the seconds that a sample path and the forecasts from it take."""
    names = [f"queue-{index}" for index in range(queues)]
    processors = 100 if queues == 1 else PROCESSORS
    quota = resource_group(FlavorQuotas("all", (("cpu", ResourceQuota(processors // queues)),)))
    planner = new_state(Snapshot([ClusterQueue(name, (quota,), "all") for name in names]), policy_named(DEFAULT_POLICY))
    history, now = ForecastHistory(), float(jobs[OBSERVED].submit_time)
    for index, job in enumerate(jobs[: OBSERVED + FORECAST]):
        queue = names[index % queues]
        created_at = job.submit_time if index < OBSERVED else now - DAY * (OBSERVED + FORECAST - index) / FORECAST
        workload = Workload(
            "ns",
            f"job-{index}",
            (PodSet(requests={"cpu": job.processors}),),
            f"{index:06}",
            walltime=job.requested_time,
            created_at=created_at,
            history_keys=(job.user, queue),
        )
        if index < OBSERVED:
            history.inputs.run_times.observe(workload, job.run_time)
            submitted = SubmittedWorkload(workload, queue, workload.history_keys)
            history.inputs.arrivals.observe(index, submitted, created_at)
            history.inputs.arrivals.observe_end(index, job.run_time)
        else:
            events.submit(planner, workload, queue)
    schedule(planner, now)
    with _exact_sample_paths() if exact else nullcontext():
        recent = RecentStarts()
        for earlier in range(MIN_SAMPLES - 1):
            _add_sample_path(recent, planner, history, now, earlier)
        started = time.process_time()
        _add_sample_path(recent, planner, history, now, MIN_SAMPLES)
        forecasts = history.forecasts(now, recent.samples(now), planner.pending)
        seconds = time.process_time() - started
    if forecasts.keys() != planner.pending.keys():
        raise AssertionError(f"{len(forecasts)} of {len(planner.pending)} waiting jobs have a forecast")
    return seconds


def _add_sample_path(
    recent: RecentStarts, planner: PlannerState, history: ForecastHistory, now: float, number: int
) -> None:
    recent.add(sample_basis(copy_basis(planner, history, now)._replace(numbers=range(number, number + 1))))


@contextmanager
def _exact_sample_paths() -> Generator[None]:
    """Make sample paths use the planner's own passes and reservations."""

    def exact_pass(state: PlannerState, now: float, *, known: KnownAdmissions) -> Plan:  # noqa: ARG001 -- it is exact
        return schedule(state, now)

    def exact_table(reservations: Iterable[Reservation], now: float, grain: float) -> ReservationTable:  # noqa: ARG001
        return ReservationTable(reservations)

    with (
        patch.object(sample_paths, "schedule", exact_pass),
        patch.object(sample_paths, "QuotaReservations", exact_table),
    ):
        yield


def _after_ends(jobs: Sequence[LoggedJob], policy: str, queues: int, processors: int, ends: int) -> list[float]:
    """Return the seconds of each decision after a running job has ended early."""
    planner, now = _planner(jobs, policy, queues, processors), DAY
    schedule(planner, now)
    times: list[float] = []
    for serial in range(ends):
        running = list(planner.running)
        events.finish(planner, running[serial * 7 % len(running)])
        now += 0.1
        started = time.process_time()
        schedule(planner, now)
        times.append(time.process_time() - started)
    return times


def _planner(jobs: Sequence[LoggedJob], policy: str, queues: int, processors: int) -> PlannerState:
    """Return a planner in which all jobs wait."""
    quota = resource_group(FlavorQuotas("all", (("cpu", ResourceQuota(processors // queues)),)))
    names = [f"queue-{place}" for place in range(queues)]
    planner = new_state(Snapshot([ClusterQueue(name, (quota,), "all") for name in names]), policy_named(policy))
    for place, job in enumerate(jobs):
        pods = (PodSet(requests={"cpu": job.processors}),)
        events.submit(
            planner,
            Workload("ns", f"job-{place}", pods, f"{place:06}", walltime=job.requested_time),
            names[place % queues],
        )
    return planner


if __name__ == "__main__":
    sys.exit(main())
