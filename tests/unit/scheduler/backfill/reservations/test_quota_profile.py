"""Quota over time, compared with the quota tree at each time."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.planner_stories import CPU, queue
from unit.scheduler.backfill.reservations.test_reservation import NAMES, queue_lists
from zonewise_scheduler.backfill.reservations.quota_profile import QuotaProfile, UsageSpan
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot

if TYPE_CHECKING:
    from zonewise_scheduler.quota.api.queue_types import ClusterQueue

NOW = 10.0
TIMES = st.sampled_from([NOW, 12.0, 15.0, 20.0, 31.0, 50.0])


class Span(NamedTuple):
    queue: str
    cpus: int
    start: float
    end: float

    def usage(self) -> UsageSpan:
        return UsageSpan(self.queue, ((CPU, self.cpus),), self.start, self.end)


@st.composite
def span_lists(draw: st.DrawFn) -> list[Span]:
    """Draw usage like the planner's; it may or may not fit when it starts."""
    return [
        Span(
            draw(st.sampled_from(NAMES)), draw(st.integers(1, 5)), start, start + draw(st.sampled_from([2, 5, 19, inf]))
        )
        for start in draw(st.lists(TIMES, max_size=6))
    ]


def available_at(specs: list[ClusterQueue], spans: list[Span], name: str, time: float) -> int:
    """Return the quota that the tree has available for a queue at a time."""
    snapshot = Snapshot(specs)
    for span in spans:
        if span.start <= time < span.end:
            snapshot.cluster_queues[span.queue].add_amount(CPU, span.cpus)
    return snapshot.cluster_queues[name].available(CPU)


@given(queue_lists(preemption=False), span_lists(), st.data())
def test_the_profile_equals_the_quota_tree_at_each_time(
    specs: list[ClusterQueue], spans: list[Span], data: st.DataObject
) -> None:
    profile = QuotaProfile(Snapshot(specs), NOW, 0.0)
    counted = [profile.add(span.usage()) for span in spans]
    removed = data.draw(st.sets(st.sampled_from(range(len(spans))))) if spans else set[int]()
    for index in removed:
        profile.remove(counted[index])
    profile.advance(now := data.draw(st.sampled_from([NOW, 14.0, 15.0, 33.0])))
    spans = [span for index, span in enumerate(spans) if index not in removed]
    name, cpus, walltime = (
        data.draw(st.sampled_from(NAMES)),
        data.draw(st.integers(1, 6)),
        data.draw(st.integers(1, 40)),
    )
    times = sorted({now, *(time for span in spans for time in span[2:] if now < time < inf)})
    available = {time: available_at(specs, spans, name, time) for time in times}

    def fits(start: float) -> bool:
        return all(available[time] >= cpus for time in times if start <= time < start + walltime)

    requests = ((CPU, cpus),)
    for time in times:
        assert profile.fits(name, requests, time, time + walltime) == fits(time)
        lacking = (each for each in times if each >= time and available[each] < cpus)
        assert profile.latest_end(name, CPU, time, cpus) == next(lacking, inf)
        assert profile.may_fit_before(name, requests, time) == any(
            available[each] >= cpus for each in times if each < time
        )
    intervals = list(profile.possible_starts(name, requests, walltime))
    assert [time for time in times if any(first <= time <= last for first, last in intervals)] == [*filter(fits, times)]
    assert all(fits(start) for first, last in intervals for start in (first, min(last, first + 1)) if first < inf)
    expected = next((time for time in times if fits(time)), None)
    assert profile.earliest_start(name, requests, walltime) in ({None, inf} if expected is None else {expected})


@pytest.mark.parametrize(
    ("lending_limit", "own", "others", "available"),
    [
        (None, 0, 0, 7),
        (None, 2, 0, 5),
        (None, 5, 0, 2),
        (None, 7, 0, 0),
        (None, 5, 6, 1),
        (1, 0, 0, 7),
        (1, 2, 0, 5),
        (1, 5, 0, 2),
        (1, 5, 6, 1),
        (1, 2, 8, 2),
    ],
)
def test_a_queue_borrows_up_to_its_limit_or_the_quota_of_the_cohort(
    lending_limit: int | None, own: int, others: int, available: int
) -> None:
    """It has 4 CPUs and may borrow 3 more; the other queues have 8."""
    specs = [
        queue("q", 4, cohort="team", borrowing_limit=3, lending_limit=lending_limit),
        queue("other", 8, cohort="team"),
    ]
    profile = QuotaProfile(Snapshot(specs), NOW, 0.0)
    profile.add(UsageSpan("q", ((CPU, own),), NOW, 20.0))
    profile.add(UsageSpan("other", ((CPU, others),), NOW, 30.0))
    assert [profile.latest_end("q", CPU, NOW, amount) for amount in (available, available + 1)] == [inf, NOW]


def test_a_time_before_now_counts_as_now() -> None:
    profile = QuotaProfile(Snapshot([queue("q", 4)]), NOW, 0.0)
    profile.add(UsageSpan("q", ((CPU, 3),), NOW, 20.0))
    assert not profile.fits("q", ((CPU, 2),), NOW - 5, 30.0)
    assert [profile.latest_end("q", CPU, NOW - 5, amount) for amount in (1, 2)] == [inf, NOW]


def test_usage_without_a_walltime_ends_in_the_last_step() -> None:
    profile = QuotaProfile(Snapshot([queue("q", 4)]), NOW, 0.0)
    profile.add(UsageSpan("q", ((CPU, 3),), NOW, inf))
    assert profile.earliest_start("q", ((CPU, 1),), 5.0) == NOW
    assert profile.earliest_start("q", ((CPU, 2),), 5.0) == inf
    assert profile.earliest_start("q", ((CPU, 5),), 5.0) is None
    assert [profile.latest_end("q", CPU, NOW, amount) for amount in (1, 2)] == [inf, NOW]
    reserved = profile.add(UsageSpan("q", ((CPU, 2),), inf, inf))
    assert not profile.fits("q", ((CPU, 3),), inf, inf, last=True)
    profile.remove(reserved)
    assert profile.fits("q", ((CPU, 3),), inf, inf, last=True)


@pytest.mark.parametrize(("grain", "steps"), [(0.0, [40.0, 42.0]), (0.1, [42.0, 42.0]), (0.05, [40.0, 42.0])])
def test_ends_that_are_close_together_are_merged(grain: float, steps: list[float]) -> None:
    """Two ends are merged into the later one if they are closer than the grain times the time from now."""
    profile = QuotaProfile(Snapshot([queue("q", 4)]), NOW, grain)
    later, earlier = (profile.add(UsageSpan("q", ((CPU, 1),), NOW, end)) for end in (42.0, 40.0))
    assert [earlier.end, later.end] == steps
    assert profile.earliest_start("q", ((CPU, 3),), 1.0) == steps[0]
    profile.remove(earlier)
    assert profile.earliest_start("q", ((CPU, 3),), 1.0) == NOW


@pytest.mark.parametrize(
    ("walltime", "starts"),
    [(5, [(20, 26), (50, inf)]), (11, [(20, 20), (50, inf)]), (12, [(50, inf)]), (inf, [(50, inf)])],
)
def test_possible_starts_end_early_enough_before_the_quota_is_used(
    walltime: float, starts: list[tuple[float, float]]
) -> None:
    """Two of four CPUs are available from 20 s to 31 s, and from 50 s on."""
    profile = QuotaProfile(Snapshot([queue("q", 4)]), NOW, 0.0)
    for cpus, start, end in ((3, NOW, 20.0), (4, 31.0, 50.0)):
        profile.add(UsageSpan("q", ((CPU, cpus),), start, end))
    found = list(profile.possible_starts("q", ((CPU, 2),), walltime))
    assert [(first, pytest.approx(last)) for first, last in found] == starts


def test_rounding_errors_rule_out_no_start() -> None:
    """The last 5 bytes of a quota of 16 PiB are available, although the sum of all usage is not exact."""
    total = (1 << 54) + 1
    profile = QuotaProfile(Snapshot([queue("q", total)]), NOW, 0.0)
    for bytes_used in (3, 3, total - 11):
        profile.add(UsageSpan("q", ((CPU, bytes_used),), NOW, 20.0))
    assert list(profile.possible_starts("q", ((CPU, 5),), 5.0)) == [(NOW, inf)]
    assert not profile.fits("q", ((CPU, 1 << 20),), NOW, 20.0)


def test_rounded_times_rule_out_no_start() -> None:
    """The start is the only possible one, although start + walltime - walltime is slightly less."""
    for start, walltime in ((11.1, 5.3), (14.1, 3.3), (16.2, 8.6)):
        profile = QuotaProfile(Snapshot([queue("q", 1)]), NOW, 0.0)
        profile.add(UsageSpan("q", ((CPU, 1),), NOW, start))
        profile.add(UsageSpan("q", ((CPU, 1),), start + walltime, inf))
        first, last = next(profile.possible_starts("q", ((CPU, 1),), walltime))
        assert first == start <= last
