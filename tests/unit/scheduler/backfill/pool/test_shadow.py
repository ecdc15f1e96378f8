"""The shadow time against its definition: the first time from which a job fits if all others end at their deadlines."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from support.pool_jobs import cpus, job
from zonewise_scheduler.backfill.pool.shadow import Shadow, earliest_reservation, shadow_time

SIZE = 8
NOW = 2.0


@given(
    st.lists(st.tuples(st.sampled_from([3, 4, 5, 9]), st.integers(1, 3)), max_size=6),
    st.integers(0, 2),
    st.integers(0, SIZE),
)
def test_a_job_starts_at_the_first_end_after_which_it_fits(runs: list[tuple[int, int]], spare: int, size: int) -> None:
    """The extra amounts include those of all jobs that end by then, also of jobs that end exactly then."""
    known = [(float(f"{end}"), serial, job(serial, cpu)) for serial, (end, cpu) in enumerate(runs)]
    endless = (inf, 9, job(9, SIZE))
    running = sorted([*known, endless])
    freed = {
        time: spare + sum(cpu for end, cpu in runs if end <= time) + (SIZE if time == inf else 0)
        for time in (NOW, *(end for end, _, _ in running))
    }
    start = min(time for time, amount in freed.items() if amount >= size)
    waiting = job(10, size)
    shadow = shadow_time(waiting, NOW, cpus(spare), running)
    assert shadow == Shadow(start, cpus(freed[start]) - waiting.request)
    assert earliest_reservation(waiting, NOW, cpus(spare), running) == (waiting, start)
