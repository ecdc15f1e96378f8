"""The planner of Kueue's queues with 100,000 waiting jobs: how long a decision takes after one that runs has ended.

The jobs are KTH-SP2's, over and over, in 30 queues of one cohort, so that whatever ends may let any of them start. All
have waited for a day: under the default policy too, each queue has a reservation. Run by `make bench`; CPU time.
"""

from __future__ import annotations

import sys
import time
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.backfill import KTH, TRACES, repeated
from benchmarks.targets import Row, show
from zonewise_scheduler.backfill import events
from zonewise_scheduler.backfill.planner_state import new_state
from zonewise_scheduler.backfill.policies import DEFAULT_POLICY, policy_named
from zonewise_scheduler.backfill.scheduling_pass import schedule
from zonewise_scheduler.quota.api.queue_types import ClusterQueue
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, ResourceQuota, resource_group
from zonewise_scheduler.quota.api.workload_types import PodSet, Workload
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.simulator.swf import read_swf

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zonewise_scheduler.backfill.planner_state import PlannerState
    from zonewise_scheduler.simulator.swf import LoggedJob

WAITING, QUEUES, PROCESSORS = 100_000, 30, 1_000
ENDS = 60
DAY = 86_400.0


def main() -> int:
    """Measure all, print the table; return 1 where a target is missed."""
    if not TRACES.exists():
        print(f"no logs: {TRACES.name}/ is not beside the project")
        return 0
    return show(list(_rows(repeated(read_swf(TRACES / KTH).jobs, WAITING))))


def _rows(jobs: Sequence[LoggedJob]) -> Iterator[Row]:
    for policy in (DEFAULT_POLICY, "easy", "greedy"):
        times = _after_ends(jobs, policy)
        usual, worst = median(times), max(times)
        what = f"one end, {WAITING:,} jobs waiting in {QUEUES} queues of a cohort, {policy}"
        yield Row(what, f"{usual * 1e3:.0f} ms", "<= 100 ms", usual <= 0.1)
        yield Row(f"... the longest of {ENDS}", f"{worst * 1e3:.0f} ms")


def _after_ends(jobs: Sequence[LoggedJob], policy: str) -> list[float]:
    """Return the seconds that each decision takes after one of the running jobs has ended early."""
    planner, now = _planner(jobs, policy), DAY
    schedule(planner, now)
    times: list[float] = []
    for serial in range(ENDS):
        running = list(planner.running)
        events.finish(planner, running[serial * 7 % len(running)])
        now += 0.1
        started = time.process_time()
        schedule(planner, now)
        times.append(time.process_time() - started)
    return times


def _planner(jobs: Sequence[LoggedJob], policy: str) -> PlannerState:
    """Return a planner in which all wait."""
    quota = resource_group(FlavorQuotas("all", (("cpu", ResourceQuota(PROCESSORS // QUEUES)),)))
    names = [f"queue-{place}" for place in range(QUEUES)]
    planner = new_state(Snapshot([ClusterQueue(name, (quota,), "all") for name in names]), policy_named(policy))
    for place, job in enumerate(jobs):
        pods = (PodSet(requests={"cpu": job.processors}),)
        events.submit(
            planner,
            Workload("ns", f"job-{place}", pods, f"{place:06}", walltime=job.requested_time),
            names[place % QUEUES],
        )
    return planner


if __name__ == "__main__":
    sys.exit(main())
