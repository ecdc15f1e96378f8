"""Logged jobs as tasks for the virtual clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.backfill.pool.packed_amounts import NARROW_BITS, ResourcePacking
from zonewise_scheduler.backfill.pool.pool_state import Job
from zonewise_scheduler.simulator.pool_simulation import Task

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.simulator.swf import LoggedJob

PROCESSORS = "processors"
COLUMNS = ResourcePacking((PROCESSORS,), NARROW_BITS)
"""The one resource of a log."""
MAX_PROCESSORS = (1 << 26) - 1
"""More processors than any machine has; a job of yet more fits nowhere either."""


def build_tasks(jobs: Iterable[LoggedJob], *, exact: bool = False) -> list[Task]:
    """Return the tasks of a log by time of submission, equal ones by number; their serials count from 0.

    With `exact`, every job declares just the run time that it has.
    """
    logged = sorted(jobs, key=lambda one: (one.submit_time, one.job_number))
    return [_task(serial, one, exact=exact) for serial, one in enumerate(logged)]


def _task(serial: int, one: LoggedJob, *, exact: bool) -> Task:
    demand = COLUMNS.pack_request({PROCESSORS: min(one.processors, MAX_PROCESSORS)})
    limit = (one.run_time or 1) if exact else one.requested_time
    kin = (one.user, one.queue, one.executable)
    return Task(
        Job(serial, demand.amount, demand.guards, one.submit_time, limit, 0, str(one.job_number), kin), one.run_time
    )
