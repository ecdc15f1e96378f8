"""The checkpoint of a pool: that of the planner (checkpoint.py), with jobs by name and without queues.

After a restart, a new PoolState gets the same jobs, the running ones with their starts. The checkpoint is then restored
before any later event is applied. Decisions are the same as without a restart, unless a job has outlived its walltime.
Its deadline is then extended from the time of the restart.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from zonewise_scheduler.backfill.pool.conservative import ConservativeBackfill

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.backfill.checkpoint import Checkpoint
    from zonewise_scheduler.backfill.pool.pool_state import PoolPolicy, PoolState


def checkpoint_pool(policy: PoolPolicy, state: PoolState) -> Checkpoint:
    """Return the checkpoint of a state between two decisions."""
    if isinstance(policy, ConservativeBackfill):
        return pool_checkpoint({job.name: start for job, start in policy.reserved_starts.items()})
    return pool_checkpoint({} if state.reserved_job is None else {state.reserved_job.name: inf})


def pool_checkpoint(starts: Mapping[str, float]) -> Checkpoint:
    """Return a checkpoint with the reserved starts of jobs, by name; infinite if unknown.

    The start of a single reservation (EASY) is not saved, since every decision recomputes it.
    """
    return {
        "reservations": [
            {
                "workload": name,
                "queue": "",
                "start": None if start == inf else start,
                "pod_sets": [],
                "waits_for": [],
                "victims": [],
            }
            for name, start in starts.items()
        ],
        "usage": {},
    }


def restore_pool(checkpoint: Checkpoint, policy: PoolPolicy, now: float, state: PoolState) -> None:
    """Restore the reservations of a new state under a new policy; jobs that are no longer pending are skipped.

    All running jobs must have deadlines after now (PoolState.extend_overrun).
    """
    job_by_name = {job.name: job for job in state.pending}
    starts = {
        job_by_name[saved["workload"]]: inf if saved["start"] is None else saved["start"]
        for saved in checkpoint["reservations"]
        if saved["workload"] in job_by_name
    }
    if isinstance(policy, ConservativeBackfill):
        policy.resume(starts, now, state)
    else:
        state.reserved_job = next(iter(starts), None)
