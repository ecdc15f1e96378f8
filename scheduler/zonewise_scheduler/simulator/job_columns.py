"""The jobs of a history as columns, regardless of how the history stores them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.simulator.history import OUTCOMES, JobColumns
from zonewise_scheduler.simulator.pool_log import LogHistory

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zonewise_scheduler.simulator.history import JobHistory

_RUN_FIELDS = 4


def job_columns(jobs: Sequence[JobHistory]) -> JobColumns:
    """Return jobs as columns."""
    if isinstance(jobs, LogHistory):
        return jobs.columns
    distinct = {id(job.amounts): job.amounts for job in jobs}
    rows = {identity: row for row, identity in enumerate(distinct)}
    runs = np.array([run for job in jobs for run in job.runs], np.float64).reshape(-1, _RUN_FIELDS)
    return JobColumns(
        submitted=np.array([job.submitted for job in jobs], np.float64),
        pods=np.array([job.pods for job in jobs], np.int64),
        outcome=np.array([OUTCOMES.index(job.outcome) for job in jobs], np.int8),
        amounts=list(distinct.values()),
        amounts_row=np.array([rows[id(job.amounts)] for job in jobs], np.int64),
        job=np.repeat(np.arange(len(jobs)), np.array([len(job.runs) for job in jobs], np.int64)),
        start=runs[:, 0],
        end=runs[:, 1],
        ready=runs[:, 2],
        whole=runs[:, 3] > 0,
    )


def jobs_with_reservation(jobs: Sequence[JobHistory]) -> Iterable[JobHistory]:
    """Return jobs, possibly without those that have no reservation."""
    return jobs.with_reservation() if isinstance(jobs, LogHistory) else jobs


def jobs_with_forecast(jobs: Sequence[JobHistory]) -> Iterable[JobHistory]:
    """Return jobs, possibly without those that have no forecast."""
    return jobs.with_forecast() if isinstance(jobs, LogHistory) else jobs


def jobs_with_kind(jobs: Sequence[JobHistory]) -> Iterable[JobHistory]:
    """Return jobs, possibly without those that have no kind."""
    return () if isinstance(jobs, LogHistory) else jobs
