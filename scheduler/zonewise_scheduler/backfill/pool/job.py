"""A job of a pool, and its place in the order of the queue."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable


@dataclass(slots=True, eq=False)
class Job:
    """A pending or running job; jobs with equal fields are still different jobs."""

    serial: int
    """Number in the order in which jobs became known; breaks ties."""
    request: int
    """PackedRequest.amount."""
    guards: int
    """PackedRequest.guards."""
    submitted: float
    walltime: float = inf
    """Declared run time in seconds, an upper bound, more than zero; infinite if none is declared."""
    priority: int = 0
    name: str = ""
    """Must be unique if forecasts, explanations or checkpoints refer to jobs by name."""
    history_keys: tuple[Hashable, ...] = ()
    """Groups of similar jobs that the job belongs to, widest first: (user, queue, template)."""


def queue_order(job: Job) -> tuple[int, float, int]:
    """Return the sort key of a job in the queue: descending priority, submission, serial."""
    return (-job.priority, job.submitted, job.serial)
