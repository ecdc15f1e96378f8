"""What was promised, as a plain value, so that a scheduler that is started anew keeps it.

The new State is given the same jobs as the old one had, those that run with the starts that they had; then it is told
what was promised, and only then, by its verbs, what has happened since. No later decision is another than it would have
been without the restart, unless a job had outlived its run time: then it is expected to run for another while from now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.backfill.pool.conservative import ConservativeBackfill

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.backfill.pool.pool_state import PoolPolicy, PoolState


class PoolCheckpoint(NamedTuple):
    """Promises by the names of jobs, which are unique."""

    reserved_starts: Mapping[str, float] = {}
    """Of policies with several reservations; infinite where the start is unknown."""
    reserved_job: str = ""
    """Whom the one reservation is promised to; "": nobody."""


def checkpoint_pool(policy: PoolPolicy, state: PoolState) -> PoolCheckpoint:
    """Return what is promised, between two decisions."""
    if isinstance(policy, ConservativeBackfill):
        return PoolCheckpoint({job.name: start for job, start in policy.reserved_starts.items()})
    return PoolCheckpoint(reserved_job="" if state.reserved_job is None else state.reserved_job.name)


def restore_pool(checkpoint: PoolCheckpoint, policy: PoolPolicy, now: float, state: PoolState) -> None:
    """Promise the same to the jobs of a new State, by a new policy; those that no longer wait are passed over.

    All that run must end after now (State.overrun).
    """
    by_name = {job.name: job for job in state.pending}
    state.reserved_job = by_name.get(checkpoint.reserved_job)
    if isinstance(policy, ConservativeBackfill):
        policy.resume(
            {by_name[name]: start for name, start in checkpoint.reserved_starts.items() if name in by_name}, now, state
        )
