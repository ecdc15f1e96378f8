"""The default policy's order and reservations: ages count as specified, and no workload starves."""

from __future__ import annotations

from itertools import pairwise
from math import inf
from statistics import mean

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.pool_jobs import cpus, starts, task
from zonewise_scheduler.backfill.policies import (
    DEFAULT_POLICY,
    POLICY_NAMES,
    UNLIMITED_DEPTH,
    BackfillPolicy,
    extended_deadline,
    policy_named,
)
from zonewise_scheduler.backfill.pool.pool_policies import pool_policy, pool_policy_named

HOUR = 3600.0
DEFAULT = policy_named(DEFAULT_POLICY)
NAMES = [name.replace("-K", "-4") for name in POLICY_NAMES]
WALLTIMES = st.integers(1, 10**6).map(float)
WAITS = st.tuples(WALLTIMES, st.integers(0, 10**6).map(float))
"""(walltime, time since which the workload has waited)"""
AGED = BackfillPolicy(60.0, 10.0, 2.0, 0.5, shortest_first=True, age_weight=0.5)
"""The default's rules at the scale of seconds."""


# --- the rules of each name


def test_without_any_setting_a_policy_is_easy() -> None:
    """The policy reserves at once, for the first workload that does not fit, and at any start."""
    assert policy_named("easy") == BackfillPolicy() == (0.0, inf, 0.0, inf, inf, 1, False, 0.0, inf, True, False)


def test_other_policies_differ_from_easy_in_one_or_two_rules() -> None:
    easy = BackfillPolicy()
    assert policy_named("easy-sjbf") == easy._replace(shortest_first=True)
    assert policy_named("greedy") == easy._replace(reserve_after=inf)
    assert policy_named("fifo") == easy._replace(overtaking=False)
    assert policy_named("conservative") == easy._replace(depth=UNLIMITED_DEPTH, eager=True)
    assert policy_named("depth-4") == easy._replace(depth=4, eager=True)


@pytest.mark.parametrize(
    ("overrun", "extension"),
    [(0, 60), (60, 60), (61, 61), (240, 240), (600, 600), (600.1, 1600.1), (1200, 2200), (86_400, 87_400)],
)
def test_an_overrun_is_extended_by_its_length_and_later_by_the_elapsed_time(overrun: float, extension: float) -> None:
    """For a walltime of 1,000 s: if walltimes are enforced, the job has ended after ten minutes."""
    now = 5000 + 1000 + overrun
    assert extended_deadline(5000, 1000, now) == now + extension


# --- the order


@given(st.lists(WAITS, min_size=2), st.integers(10**6, 10**7), st.integers(0, 10**7))
def test_the_order_is_that_of_walltimes_less_half_the_wait_at_any_time(
    waiting: list[tuple[float, float]], now: int, later: int
) -> None:
    """The order is therefore total, and a heap of pending workloads remains in order while they wait."""
    ordered = sorted(waiting, key=lambda one: DEFAULT.backfill_key(*one))
    for time in (now, now + later):
        aged = [walltime - (time - since) / 2 for walltime, since in ordered]
        assert all(first <= second for first, second in pairwise(aged))


@given(WAITS, WAITS)
def test_a_later_workload_precedes_only_if_it_is_shorter_by_enough(
    first: tuple[float, float], second: tuple[float, float]
) -> None:
    """A second of walltime counts as much as two seconds of arrival; of equal walltimes the older workload is first."""
    (walltime, since), (other, later) = sorted((first, second), key=lambda one: one[1])
    precedes = DEFAULT.backfill_key(other, later) < DEFAULT.backfill_key(walltime, since)
    assert precedes == (later - since < 2 * (walltime - other))


@given(WAITS)
def test_a_workload_without_a_walltime_is_ordered_as_one_of_four_hours(one: tuple[float, float]) -> None:
    """It therefore does not starve behind workloads that declare a walltime. In orders without ages it is last."""
    _, since = one
    assert DEFAULT.backfill_key(inf, since) == DEFAULT.backfill_key(4 * HOUR, since)
    assert policy_named("easy-sjbf").backfill_key(inf, since) == inf


@pytest.mark.parametrize("name", ["fifo", "greedy", "easy", "conservative", "depth-4"])
@given(WAITS)
def test_other_policies_keep_the_order_of_the_queue(name: str, one: tuple[float, float]) -> None:
    assert policy_named(name).backfill_key(*one) == 0


@given(WAITS)
def test_the_shortest_is_first_at_any_age_unless_ages_have_a_weight(one: tuple[float, float]) -> None:
    assert (
        BackfillPolicy(shortest_first=True).backfill_key(*one) == policy_named("easy-sjbf").backfill_key(*one) == one[0]
    )


# --- when a reservation is due


@given(WALLTIMES)
def test_a_reservation_is_due_at_once_or_after_a_base_unless_walltimes_count(walltime: float) -> None:
    assert BackfillPolicy().reserve_age(walltime) == BackfillPolicy().shortest_reserve_age == 0
    assert BackfillPolicy(reserve_after=9.0, reserve_after_base=5.0).reserve_age(walltime) == 5


@pytest.mark.parametrize(
    ("walltime", "hours"), [(0.0, 6), (HOUR, 12), (6 * HOUR, 42), (55 * HOUR, 336), (60 * HOUR, 336), (inf, 72)]
)
def test_the_default_reserves_after_six_hours_and_six_walltimes_or_three_days(walltime: float, hours: float) -> None:
    assert DEFAULT.reserve_age(walltime) == hours * HOUR
    assert policy_named(DEFAULT_POLICY, 24 * HOUR).reserve_age(walltime) == min(hours, 24) * HOUR
    assert policy_named(DEFAULT_POLICY, HOUR).shortest_reserve_age == HOUR


@pytest.mark.parametrize(
    ("hours", "latest"), [(0, 0.0), (10, 13.0), (100, 130.0), (335, 435.5), (336, inf), (1000, inf)]
)
def test_the_default_reserves_starts_up_to_0_3_of_the_wait_away_and_any_after_two_weeks(
    hours: float, latest: float
) -> None:
    since = 1000 * HOUR
    assert DEFAULT.latest_start(since + hours * HOUR, since) == (1000 + latest) * HOUR


@pytest.mark.parametrize("name", ["easy", "easy-sjbf", "conservative", "depth-4"])
@given(WALLTIMES)
def test_other_policies_reserve_any_start(name: str, wait: float) -> None:
    for policy in (policy_named(name), policy_named(name)._replace(reserve_after=10.0)):
        assert policy.latest_start(wait, 0.0) == policy.latest_start(0.0, 0.0) == inf


def test_a_start_that_is_too_far_away_is_reserved_once_the_wait_is_long_enough() -> None:
    """At 15 and 60 s, the pool would be held for more than half of the wait; at 70 s, for less.

    The holds would be 85, 40 and 30 s long.
    """
    tasks = [task(0, 4, 100), task(1, 8, 10), task(2, 4, 100, 15, 5), task(3, 4, 45, 60, 10), task(4, 4, 40, 70, 30)]
    policy = BackfillPolicy(1000.0, 10.0, 0.0, 0.5)
    assert starts(tasks, cpus(8), pool_policy(policy)) == [0, 100, 15, 60, 110]
    assert starts(tasks, cpus(8), pool_policy(policy._replace(max_hold=inf))) == [0, 100, 110, 110, 115]
    assert starts(tasks, cpus(8), pool_policy(policy._replace(reserve_after=15.0))) == [0, 100, 110, 110, 115]


def test_only_one_of_three_due_workloads_that_do_not_fit_gets_a_reservation() -> None:
    """Two or three workloads that need the whole pool wait beside a long one; another one fits and may be reserved."""
    wide = [task(number, 8, 10, number) for number in range(1, 4)]
    running, narrow = [task(0, 3, 500), task(9, 2, 60)], [task(5, 4, 40, 5), task(6, 3, 50, 30, 10)]
    policy = pool_policy(BackfillPolicy(1000.0, 1.0, 0.0, 2.0))
    assert starts([*running, *wide[:2], *narrow], cpus(8), policy)[-2:] == [60, 100]
    assert starts([*running, *wide, *narrow], cpus(8), policy)[-2:] == [60, 30]


@pytest.mark.parametrize("policy", [*map(policy_named, NAMES), AGED], ids=[*NAMES, "aged"])
@given(WALLTIMES, WALLTIMES)
@example(inf, 1.0)
def test_a_longer_workload_is_due_no_earlier_but_no_later_than_the_threshold(
    policy: BackfillPolicy, first: float, second: float
) -> None:
    short, long = sorted((first, second))
    ages = policy.shortest_reserve_age, policy.reserve_age(short), policy.reserve_age(long), policy.reserve_after
    assert all(one <= other for one, other in pairwise(ages))


@pytest.mark.parametrize(
    ("name", "depth"),
    [("fifo", 0), ("greedy", 0), ("depth-0", 0), ("easy", 1), ("easy-sjbf", 1), (DEFAULT_POLICY, 1), ("depth-4", 4)],
)
def test_a_policy_limits_the_reservations_of_a_queue(name: str, depth: int) -> None:
    policy = policy_named(name)
    assert policy.reserves == (depth > 0)
    assert not policy.reserves or policy.depth == depth
    assert not policy._replace(reserve_after=float("inf")).reserves


# --- no workload starves


@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(5, 12), st.integers(1, 5)), min_size=80, max_size=80),
    st.integers(1, 30),
)
def test_a_wide_workload_waits_no_longer_than_its_threshold_and_four_walltimes(
    stream: list[tuple[int, int, int]], walltime: int
) -> None:
    """Narrow workloads keep arriving, with any widths, walltimes and distances.

    Once due, the wide workload is the first of its queue. Before it, at most one that was due earlier holds a
    reservation. Each of these, and each decision, waits at most for the longest walltime of the running workloads. So a
    start is at most that far away and is reserved after twice as long a wait.
    """
    tasks, now = [task(0, 8, 12), task(1, 8, walltime)], 0
    for serial, (width, length, distance) in enumerate(stream, 2):
        now += distance
        tasks.append(task(serial, width, length, now))
    wait = starts(tasks, cpus(8), pool_policy(AGED))[1]
    assert wait <= max(AGED.reserve_age(walltime), 2 * 12) + 4 * 12


def test_a_stream_of_narrow_workloads_starves_a_wide_one_without_reservations() -> None:
    """The control of the test above: without reservations and ages, the wait far exceeds the bound."""
    tasks = [task(0, 8, 12), task(1, 8, 30), *(task(2 + n, 4, 12, 3 * n + 1) for n in range(80))]
    without = pool_policy(AGED._replace(reserve_after=inf, age_weight=0.0))
    bound = AGED.reserve_age(30) + 4 * 12
    assert starts(tasks, cpus(8), pool_policy(AGED))[1] <= bound
    assert starts(tasks, cpus(8), without)[1] > 2 * bound


# --- a narrow workload among workloads that need the whole pool


def test_a_long_narrow_workload_that_idles_the_machine_starts_later() -> None:
    """It runs for 0.8 days on 4 of 4,096 CPUs; the other workloads need the whole machine for 4 h each.

    No order avoids the idle CPUs, as the narrow workload must run by itself. Shortest first with age lets it wait for
    shorter workloads. On average these wait less than under policies that start by arrival.
    """
    narrow = [task(20 + n, 4, 19.2 * HOUR, (2 + 20 * n) * HOUR) for n in range(12)]
    tasks = [task(0, 4_096, 4 * HOUR), *(task(1 + n, 4_096, 4 * HOUR, (n + 1) * HOUR) for n in range(12)), *narrow]
    waits = {
        name: [
            start - one.job.submitted
            for start, one in zip(starts(tasks, cpus(4_096), pool_policy_named(name)), tasks, strict=True)
        ]
        for name in (DEFAULT_POLICY, "easy", "greedy")
    }
    ours = waits.pop(DEFAULT_POLICY)
    assert all(mean(ours) < 0.7 * mean(other) for other in waits.values())
    assert all(max(ours) < max(other) for other in waits.values())
