"""The profile, compared with a model that counts every second."""

from __future__ import annotations

from itertools import pairwise
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from support.pool_jobs import CPUS, cpus, job
from zonewise_scheduler.backfill.pool.profile import AvailabilityProfile

END = 30
"""Nothing changes after this second."""

Change = tuple[int, float, int]
"""(start, end, CPUs)"""
changes = st.lists(
    st.tuples(st.integers(0, END), st.one_of(st.integers(0, END), st.just(inf)), st.integers(-3, 3)), max_size=8
)


class Seconds:
    """The amount available in each second; the last element covers all later seconds."""

    def __init__(self, free: int) -> None:
        self.free = [free] * (END + 1)

    def change(self, start: int, end: float, size: int) -> None:
        for second in range(start, int(min(end, END + 1))):
            self.free[second] += size

    def fits(self, size: int, start: int, limit: float) -> bool:
        last = min(start + limit, END + 1)
        return not size or all(self.free[second] >= size for second in range(start, max(int(last), start + 1)))


def built(some: list[Change]) -> tuple[AvailabilityProfile, Seconds]:
    """Return both models after the same changes."""
    profile, seconds = AvailabilityProfile(0, cpus(5)), Seconds(5)
    for start, end, size in some:
        profile.add(start * 1.0, end * 1.0, size)  # equal times are distinct objects, as in a simulation
        seconds.change(start, end, size)
    return profile, seconds


def drawn(profile: AvailabilityProfile) -> list[int]:
    """Return the profile's amount in each second."""
    steps = list(profile.steps())
    assert all(one[1] != other[1] for one, other in pairwise(steps)), "two steps are one"
    assert all(one[0] < other[0] for one, other in pairwise(steps)), "a step begins before the one in front of it"
    assert steps[-1][0] < inf
    return [
        CPUS.unpack_available(next(available for time, available in reversed(steps) if time <= second))["cpu"]
        for second in range(int(steps[0][0]), END + 1)
    ]


@given(changes, st.integers(0, END))
def test_the_profile_equals_the_count_of_each_second(some: list[Change], now: int) -> None:
    profile, seconds = built(some)
    assert drawn(profile) == seconds.free
    profile.advance(now)
    assert drawn(profile) == seconds.free[now:]
    profile.add(now + 5.0, now - 1.0, 1)  # this change has already ended
    assert drawn(profile) == seconds.free[now:]


@given(changes, st.integers(0, 8), st.sampled_from([1, 2, 5, 11, inf]))
def test_the_earliest_start_fits_until_the_deadline(some: list[Change], size: int, limit: float) -> None:
    profile, seconds = built(some)
    one = job(0, size, limit)
    fitting = [second for second in range(END + 1) if seconds.fits(size, second, limit)]
    assert profile.earliest(one) == (fitting[0] if fitting else inf)
    assert [second for second in range(END + 1) if profile.fits(one, second)] == fitting


@given(changes, st.integers(1, 8), st.sampled_from([1, 2, 5, 11, inf]), st.integers(0, END))
def test_earlier_start_equals_a_new_reservation(some: list[Change], size: int, limit: float, start: int) -> None:
    """The reservation's own amounts are available for as long as the earlier start overlaps its present time."""
    one = job(0, size, limit)
    reserved, _ = built(some)
    _, free = built(some)
    if not free.fits(size, start, limit):
        return
    reserved.add(start, start + limit, -one.request)
    first = next(second for second in range(END + 1) if free.fits(size, second, limit))
    for freed_until in (inf, first + 0.5):
        assert reserved.earlier_start(one, start, freed_until) == (first if first < start else None)
    for freed_until in (first, first - 0.5):
        assert reserved.earlier_start(one, start, freed_until) is None


def test_running_jobs_return_their_amounts_at_their_deadlines() -> None:
    """Jobs without a walltime never return their amounts."""
    ends = [(4.0, 2), (float("4"), 1), (9.0, 3), (float("9"), 1), (12.0, 1), (inf, 2)]
    running = [(end, serial, job(serial, size)) for serial, (end, size) in enumerate(ends)]
    steps = [(0, cpus(0)), (4, cpus(3)), (9, cpus(7)), (12, cpus(8))]
    assert list(AvailabilityProfile(0, cpus(0), running).steps()) == steps
