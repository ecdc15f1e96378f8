"""A decision examines only the jobs that may start, not the thousands of jobs that wait."""

from __future__ import annotations

import pytest

from support.pool_jobs import cpus, job
from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.backfill.pool.easy import backfilled
from zonewise_scheduler.backfill.pool.pending_order import PendingOrder
from zonewise_scheduler.backfill.pool.shadow import Shadow

NOW = 100.0


class Examined:
    """A set that excludes no job and records the jobs that are looked up in it."""

    def __init__(self) -> None:
        self.serials: list[int] = []

    def __contains__(self, one: object) -> bool:
        self.serials.append(getattr(one, "serial", -1))
        return False


@pytest.mark.parametrize(
    ("sizes_and_walltimes", "extra", "started"),
    [
        ([(1, 20), (1, 20), (1, 20), (1, 5), (1, 20), (1, 10), (1, 11)], 2, [0, 1, 3, 5]),
        ([(1, 10), (1, 20), (1, 20), (1, 10)], 1, [0, 1, 3]),
        ([(3, 20), (3, 11), (2, 11), (4, 10), (2, 20)], 2, [2, 3]),
        ([(3, 20), (3, 20), (3, 11), (3, 20)], 2, []),
        ([(0, 20), (0, 20), (1, 20)], 0, [0, 1]),
    ],
)
def test_a_job_that_ends_too_late_is_examined_only_while_it_fits_beside_the_reserved_one(
    sizes_and_walltimes: list[tuple[int, float]], extra: int, started: list[int]
) -> None:
    """A reservation begins at 110 s; beside it the extra CPUs are left. All jobs fit now."""
    jobs = [job(serial, size, walltime) for serial, (size, walltime) in enumerate(sizes_and_walltimes)]
    examined, shadow = Examined(), Shadow(NOW + 10, cpus(extra))
    groups = PendingOrder(BackfillPolicy(), jobs).fitting(cpus(8))
    found = [one.serial for one in backfilled(groups, NOW, cpus(8), shadow, examined)]
    assert (found, examined.serials) == (started, started)
