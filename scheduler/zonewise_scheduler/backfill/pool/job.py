"""A job of a pool, and its place in the order of the queue."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable


@dataclass(slots=True, eq=False)
class Job:
    """A job that is pending or runs; two jobs with equal fields are two jobs."""

    serial: int
    """In the order in which jobs became known; decides between equals."""
    request: int
    """PackedRequest.amount."""
    guards: int
    """PackedRequest.guards."""
    submitted: float
    walltime: float = inf
    """Declared run time in seconds, an upper bound, more than zero; infinite where none is declared."""
    priority: int = 0
    name: str = ""
    """Unique, where forecasts, explanations or checkpoints name jobs."""
    history_keys: tuple[Hashable, ...] = ()
    """What groups it with similar jobs, the widest group first: (user, queue, template)."""


def queue_order(job: Job) -> tuple[int, float, int]:
    """Return the sort key of a job in the queue: falling priority, submission, serial."""
    return (-job.priority, job.submitted, job.serial)
