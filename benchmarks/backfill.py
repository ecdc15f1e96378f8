"""Backfill on long logs: EASY, the default and conservative by the seconds, waits against greedy, accasim as a peer.

The logs lie beside the project; longer ones are made from KTH-SP2 by repeating it. Run by `make bench`; figures are CPU
time of the decisions and the virtual clock, without reading. For the peer give the interpreter of a virtual environment
that has accasim from PyPI: `python -m benchmarks.backfill --peer VENV/bin/python`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.least_wait import least_worst_wait
from benchmarks.targets import Row, show
from zonewise_scheduler.backfill.arrival_history import ArrivalHistory
from zonewise_scheduler.backfill.forecast_inputs import ForecastInputs
from zonewise_scheduler.backfill.policies import DEFAULT_POLICY
from zonewise_scheduler.backfill.pool.pool_forecast import sample_starts
from zonewise_scheduler.backfill.pool.pool_policies import pool_policy_named
from zonewise_scheduler.backfill.pool.pool_state import PoolState
from zonewise_scheduler.backfill.run_time_history import RunTimeHistory
from zonewise_scheduler.simulator.history import History
from zonewise_scheduler.simulator.number_column import NumberColumn
from zonewise_scheduler.simulator.pool_log import COLUMNS, PROCESSORS, LogHistory, build_tasks
from zonewise_scheduler.simulator.pool_simulation import stream_pool
from zonewise_scheduler.simulator.reservations import FirstReservations
from zonewise_scheduler.simulator.summary import Summary, summarise
from zonewise_scheduler.simulator.swf import LoggedJob, read_swf

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zonewise_scheduler.backfill.pool.job import Job

TRACES = Path(__file__).resolve().parents[2] / "shared" / "traces"
KTH, CTC, SDSC = "KTH-SP2.easy.swf.gz", "CTC-SP2.easy.swf.gz", "SDSC-SP2.easy.swf.gz"
CURIE = "CEA-Curie-sample.swf.gz"
TRACE_PROCESSORS = {KTH: 100, CTC: 338, SDSC: 128, CURIE: 93_312}
LONG, MIDDLE, PEER = 300_000, 80_000, 2_981
WAITING = 100_000
FORECAST, OBSERVED = 1_000, 6_000
PEER_SCRIPT = Path(__file__).with_name("backfill_accasim.py")


def main() -> int:
    """Measure all, print the table; return 1 where a target is missed."""
    parser = argparse.ArgumentParser(description="Measure backfill on long logs")
    parser.add_argument("--peer", help="a Python that has accasim")
    peer = parser.parse_args().peer
    if not TRACES.exists():
        print(f"no logs: {TRACES.name}/ is not beside the project")
        return 0
    kth = read_swf(TRACES / KTH).jobs
    return show([*_speed(kth), *_waits(), *_peer(sorted(kth, key=_arrival)[:PEER], peer)])


def _speed(kth: Sequence[LoggedJob]) -> Iterator[Row]:
    """Yield how long the policies take."""
    long = repeated(kth, LONG)
    easy, _ = _timed(long, 100, "easy")
    default, _ = _timed(long, 100, DEFAULT_POLICY)
    yield Row(f"EASY, {LONG:,} jobs", f"{easy:.2f} s", "<= 5 s", easy <= 5)
    yield Row("... the default / EASY", f"{default / easy:.2f}", "<= 1.5", default <= 1.5 * easy)
    for what, jobs, processors in (
        ("conservative", repeated(kth, MIDDLE), 100),
        ("... four logs at once, 320 processors", _at_once(kth, 4)[:MIDDLE], 320),
    ):
        seconds, outcome = _timed(jobs, processors, "conservative")
        yield Row(
            f"{what}, {MIDDLE:,} jobs, {_queue(outcome):.0f} waiting on average",
            f"{seconds:.2f} s",
            "<= 20 s",
            seconds <= 20,
        )
    for policy in (DEFAULT_POLICY, "easy", "greedy"):
        seconds = _replanned(kth, WAITING, policy)
        yield Row(
            f"one end, {WAITING:,} jobs waiting, {policy}", f"{seconds * 1e3:.0f} ms", "<= 100 ms", seconds <= 0.1
        )
    seconds = _forecast(kth, FORECAST)
    yield Row(f"forecasts of {FORECAST:,} waiting jobs", f"{seconds * 1e3:.0f} ms", "<= 200 ms", seconds <= 0.2)


def _waits() -> Iterator[Row]:
    """Yield the waits of the default against those of greedy and EASY."""
    for name, processors in TRACE_PROCESSORS.items():
        jobs = read_swf(TRACES / name).jobs
        ours, greedy, easy = (_summary(jobs, processors, policy) for policy in (DEFAULT_POLICY, "greedy", "easy"))
        for what, ratio, most in (
            (f"{name.partition('.')[0]}: mean wait of the default / greedy's", ours.wait_mean / greedy.wait_mean, 1.0),
            ("... 95th percentile / greedy's", ours.wait_p95 / greedy.wait_p95, 1.25),
            ("... 95th percentile / EASY's", ours.wait_p95 / easy.wait_p95, 1.0),
            ("... bounded slowdown / greedy's", ours.bounded_slowdown / greedy.bounded_slowdown, 1.0),
            (f"... longest wait ({greedy.wait_max / 3600:.0f} h under greedy)", ours.wait_max / greedy.wait_max, 0.2),
        ):
            yield Row(what, f"{ratio:.2f}", f"<= {most:g}", ratio <= most)
        least = least_worst_wait(jobs, processors, ours.wait_max) / greedy.wait_max
        yield Row("... no order can have less than", f"{least:.2f}")


def _peer(jobs: Sequence[LoggedJob], python: str | None) -> Iterator[Row]:
    """Yield the comparison with accasim under FIFO."""
    if python is None:
        yield Row("accasim, FIFO", "not run: no --peer")
        return
    with tempfile.TemporaryDirectory() as folder:
        script, log = shutil.copy(PEER_SCRIPT, folder), Path(folder, "log.swf")
        log.write_text("".join(map(_line, jobs)))
        done = subprocess.run(
            [python, script, log, "100"], cwd=folder, capture_output=True, text=True, check=False, timeout=600
        )
    if done.returncode:
        yield Row("accasim, FIFO", f"not run: {done.stderr.strip().splitlines()[-1][:60]}")
        return
    peer = json.loads(done.stdout.splitlines()[-1])
    seconds, outcome = _timed(jobs, 100, "fifo")
    waits = {job.name: job.wait for job in outcome.jobs}
    same = sum(peer["waits"].get(name) == wait for name, wait in waits.items())
    yield Row(f"accasim, FIFO, first {len(jobs):,} jobs: equal waits", f"{same:,}", f"{len(jobs):,}", same == len(jobs))
    yield Row("... accasim / ours", f"{peer['seconds']:.1f} s = {peer['seconds'] / seconds:.0f}")


def _line(job: LoggedJob) -> str:
    """Return a line of a log, with all that a scheduler may know and the run time."""
    size, tail = job.processors, "-1 -1 1 -1 -1 -1"
    known = f"{job.job_number} {job.submit_time} -1 {job.run_time} {size} -1 -1 {size} {job.requested_time} -1 1"
    return f"{known} {job.user} {tail}\n"


def _timed(jobs: Sequence[LoggedJob], processors: int, policy: str) -> tuple[float, History]:
    tasks, capacity, starts = build_tasks(jobs), COLUMNS.pack_available({PROCESSORS: processors}), NumberColumn()
    cost = stream_pool(tasks, capacity, pool_policy_named(policy), lambda job, now: starts.__setitem__(job.serial, now))
    jobs_with_starts = LogHistory(tasks, starts, FirstReservations(), {})
    return cost.seconds, History(jobs_with_starts, COLUMNS.unpack_available(capacity), *cost)


def _replanned(kth: Sequence[LoggedJob], size: int, policy: str) -> float:
    """Return the median time to decide on so many jobs, all of which have waited for a day, after one ends early."""
    state, decider = PoolState(COLUMNS.pack_available({PROCESSORS: 1_000})), pool_policy_named(policy)
    for task in build_tasks(repeated(kth, size)):
        state.submit(replace(task.job, submitted=0.0))
    now, times = 86_400.0, list[float]()
    state.apply(decider.decide(now, state), now)
    for _ in range(9):
        now += 0.1
        state.end(state.running[len(state.running) // 2][2])
        started = time.process_time()
        state.apply(decider.decide(now, state), now)
        times.append(time.process_time() - started)
    return median(times)


def _forecast(kth: Sequence[LoggedJob], waiting: int) -> float:
    """Return the least time to forecast so many jobs, one submitted every five minutes, in the middle of the log."""
    tasks = build_tasks(kth)
    inputs: ForecastInputs[Job] = ForecastInputs(RunTimeHistory(), ArrivalHistory())
    for task in tasks[:OBSERVED]:
        inputs.run_times.observe(task.job, task.run_time)
        inputs.arrivals.observe(task.job, task.job, task.job.submitted)
        inputs.arrivals.observe_end(task.job, task.run_time)
    state, decider = PoolState(COLUMNS.pack_available({PROCESSORS: 100})), pool_policy_named(DEFAULT_POLICY)
    now = float(tasks[OBSERVED].job.submitted)
    for number, task in enumerate(tasks[OBSERVED : OBSERVED + waiting]):
        state.submit(replace(task.job, submitted=now - 300 * (waiting - number)))
    state.apply(decider.decide(now, state), now)
    times = list[float]()
    for _ in range(3):
        started = time.process_time()
        sample_starts(now, state, decider, inputs)
        times.append(time.process_time() - started)
    return min(times)


def _summary(jobs: Sequence[LoggedJob], processors: int, policy: str) -> Summary:
    return summarise(_timed(jobs, processors, policy)[1])


def _arrival(job: LoggedJob) -> tuple[float, int]:
    return (job.submit_time, job.job_number)


def _queue(history: History) -> float:
    """Return how many jobs waited on average (Little's law)."""
    result = summarise(history)
    return result.wait_mean * result.jobs / (history.jobs[-1].submitted - history.jobs[0].submitted)


def repeated(jobs: Sequence[LoggedJob], size: int) -> list[LoggedJob]:
    """Return a log of so many jobs: one after another, each begun where the last submission was."""
    span = max(job.submit_time for job in jobs)
    return [
        job._replace(job_number=serial, submit_time=job.submit_time + serial // len(jobs) * span)
        for serial, job in ((serial, jobs[serial % len(jobs)]) for serial in range(size))
    ]


def _at_once(jobs: Sequence[LoggedJob], times: int) -> list[LoggedJob]:
    """Return a log of one large machine: the same at once, shifted by some days."""
    shifted = [
        job._replace(job_number=copy * len(jobs) + place, submit_time=job.submit_time + copy * 10 * 86_400)
        for copy in range(times)
        for place, job in enumerate(jobs)
    ]
    return sorted(shifted, key=lambda job: job.submit_time)


if __name__ == "__main__":
    sys.exit(main())
