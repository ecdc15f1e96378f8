"""Kueue's performance tests on the virtual clock: first only decisions, then with an API client's write limit.

The scenarios are Kueue's (test/performance/scheduler/configs): 15,000 workloads in 30 queues, 50,000 in 1,000. Without
an API server, the baseline's makespan has a floor of 67.3 s, which assumes no preemption and instant decisions. With an
API server, Kueue's own runs are limited to 50 requests a second, 100 at once (its minimalkueue). They take 351 s and
1,179 s (rangespec.yaml), since they need more than one request per workload. Here an admission is one request.

Run by `make bench`; CPU time is of the decisions and the virtual clock. Each scenario runs in a separate process, so
that its resident memory is known.
"""

from __future__ import annotations

import resource
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.support.targets import Row, show
from zonewise_scheduler.backfill.policies import policy_named
from zonewise_scheduler.simulator.cluster_simulation import simulate_cluster
from zonewise_scheduler.simulator.inputs.loader import load_scenario
from zonewise_scheduler.simulator.latency import NO_LATENCY, Latency
from zonewise_scheduler.simulator.scenario import Scenario
from zonewise_scheduler.simulator.summary import Summary, by_kind, summarise

if TYPE_CHECKING:
    from collections.abc import Iterator

SCENARIOS = Path(__file__).resolve().parents[1] / "demo" / "scenarios"
POLICY = "greedy"
"""Kueue's own policy: best effort."""
FLOOR = 67.3
"""The floor in seconds."""
LIMITED = Latency(rate=50, burst=100)
MIB = 1 << 20


class Run(NamedTuple):
    """The results of a scenario."""

    summary: Summary
    kinds: dict[str, Summary]
    decisions: int
    cpu_seconds: float
    resident: int
    """Peak resident memory in bytes."""


def main() -> int:
    """Run all measurements and print the table; return 1 if a target is missed."""
    return show([*_baseline(), *_topologies(), *_large_scale(), *_limited()])


def _baseline() -> Iterator[Row]:
    run = _apart("kueue-baseline", NO_LATENCY)
    makespan = run.summary.makespan
    yield Row(_title("baseline", run), f"{run.cpu_seconds:.1f} s", "<= 10 s", run.cpu_seconds <= 10)
    yield Row("... makespan", f"{makespan:.1f} s", f"<= {1.15 * FLOOR:.1f} s", makespan <= 1.15 * FLOOR)
    yield from _use(run)


def _topologies() -> Iterator[Row]:
    """Yield the results if all pods are placed; Kueue's own run takes 401 s (configs/tas)."""
    run = _apart("kueue-tas", NO_LATENCY)
    yield Row(
        _title("topologies: 640 nodes in 10 racks", run), f"{run.cpu_seconds:.1f} s", "<= 60 s", run.cpu_seconds <= 60
    )
    yield Row("... makespan", f"{run.summary.makespan:.1f} s")
    yield from _use(run)


def _large_scale() -> Iterator[Row]:
    run = _apart("kueue-large-scale", NO_LATENCY)
    size = run.resident / MIB
    yield Row(_title("large-scale", run), f"{run.cpu_seconds:.1f} s", "<= 60 s", run.cpu_seconds <= 60)
    yield Row("... resident", f"{size:.0f} MB", "<= 400 MB", size <= 400)
    yield Row("... makespan", f"{run.summary.makespan:.1f} s")
    yield from _use(run)


def _limited() -> Iterator[Row]:
    """Yield the results with an API client's limit, with Kueue's times for comparison."""
    run = _apart("kueue-baseline", LIMITED)
    yield Row(_title("baseline, 50/100 requests/s", run), f"{run.cpu_seconds:.1f} s")
    yield Row("... makespan (Kueue: 351 s)", f"{run.summary.makespan:.1f} s")
    yield from _use(run)


def _use(run: Run) -> Iterator[Row]:
    summary = run.summary
    yield Row("... CPU allocated, effective", f"{summary.utilisation['cpu']:.3f}, {summary.effective['cpu']:.3f}")
    yield Row("... preemptions, share lost", f"{summary.preemptions:,}, {summary.lost['cpu']:.3f}")
    yield Row("... decisions", f"{run.decisions:,}")
    for kind, kind_summary in run.kinds.items():
        yield Row(f"... time to admission, {kind}", f"{kind_summary.ready_mean:.1f} s")


def _title(name: str, run: Run) -> str:
    return f"{name}, {run.summary.jobs:,} workloads: CPU time"


def _apart(name: str, latency: Latency) -> Run:
    """Run a scenario in a separate process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as apart:
        return apart.submit(_run, name, latency).result()


def _run(name: str, latency: Latency) -> Run:
    scenario = load_scenario(str(SCENARIOS / f"{name}.yaml"))
    if not isinstance(scenario, Scenario) or scenario.problems:
        raise ValueError(f"{name}: is not what it was")
    history = simulate_cluster(scenario, policy_named(POLICY), latency)
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Run(summarise(history), by_kind(history), history.decisions, history.seconds, resident)


if __name__ == "__main__":
    sys.exit(main())
