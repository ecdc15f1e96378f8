"""Logged jobs as tasks for the virtual clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.queue.time.amounts import NARROW, Columns
from zonewise_scheduler.queue.time.state import Job
from zonewise_scheduler.simulate.clock import Task

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.simulate.swf import LoggedJob

PROCESSORS = "processors"
COLUMNS = Columns((PROCESSORS,), NARROW)
"""The one resource of a log."""
MOST = (1 << 26) - 1
"""More processors than any machine has; a job of yet more fits nowhere either."""


def tasks_of(jobs: Iterable[LoggedJob], *, exact: bool = False) -> list[Task]:
    """Return the tasks of a log by time of submission, equal ones by number; their serials count from 0.

    With `exact`, every job declares just the run time that it has.
    """
    logged = sorted(jobs, key=lambda one: (one.submitted, one.number))
    return [_task(serial, one, exact=exact) for serial, one in enumerate(logged)]


def _task(serial: int, one: LoggedJob, *, exact: bool) -> Task:
    demand = COLUMNS.demand({PROCESSORS: min(one.processors, MOST)})
    limit = (one.run or 1) if exact else one.limit
    kin = (one.user, one.queue, one.executable)
    return Task(Job(serial, demand.amount, demand.guards, one.submitted, limit, 0, str(one.number), kin), one.run)
