"""A workload that outlives its walltime changes the future for which reservations were computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.planner_stories import make_planner, queue, submission
from zonewise_scheduler.backfill.policies import OVERRUN_EXTENSION, policy_named
from zonewise_scheduler.backfill.scheduling.scheduling_pass import schedule
from zonewise_scheduler.backfill.state import events

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.state.planner_state import PlannerState

LATE = 12.0
"""Two seconds after the deadline of the first workload, which is still running."""


def planner_of(policy: str, *workloads: tuple[str, int, float]) -> PlannerState:
    """Return a planner of a queue of 8 CPUs after its first pass; `workloads` are tuples of name, CPUs and walltime."""
    planner = make_planner([queue("q", 8)], policy_named(policy))
    for name, cpus, walltime in workloads:
        events.submit(planner, submission(name, cpus, walltime).workload, "q")
    schedule(planner, 0)
    return planner


def reserved_starts(planner: PlannerState) -> dict[str, float]:
    """Return the reserved start of each workload that has one, by key."""
    return {reservation.workload.key: reservation.start for reservation in planner.reservations_by_start}


@pytest.mark.parametrize("policy", ["easy", "depth-2", "conservative"])
def test_an_overrun_moves_the_reservation_and_what_may_start_beside_it(policy: str) -> None:
    """The second workload waits for the first. The third would delay it, but an overrun makes the third end before."""
    planner = planner_of(policy, ("first", 5, 10), ("second", 8, 10), ("third", 3, 40))
    assert set(planner.running) == {"/first"}
    assert reserved_starts(planner)["/second"] == 10
    schedule(planner, LATE)
    assert set(planner.running) == {"/first", "/third"}
    assert reserved_starts(planner)["/second"] == LATE + OVERRUN_EXTENSION
    schedule(planner, LATE + 5)
    assert reserved_starts(planner)["/second"] == LATE + OVERRUN_EXTENSION


def test_a_reserved_start_that_passed_without_a_start_is_replaced_after_the_pass() -> None:
    """A live cluster shows the end of the first workload shortly after its deadline."""
    planner = planner_of("easy", ("first", 5, 10), ("second", 8, 10))
    planner.assumed = set()
    schedule(planner, LATE)
    assert reserved_starts(planner) == {"/second": LATE + 60}


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("policy", ["depth-3", "conservative"])
def test_an_overrun_moves_all_reservations_in_their_order(policy: str, live: bool) -> None:
    """The first reserved start may have passed: a live cluster shows ends shortly after the deadlines."""
    names = ("second", "third", "fourth")
    planner = planner_of(policy, ("first", 5, 10), *((name, 8, 10.0) for name in names))
    planner.assumed = set() if live else None
    order = sorted(reserved_starts(planner), key=reserved_starts(planner).__getitem__)
    assert [reserved_starts(planner)[key] for key in order] == [10, 20, 30]
    schedule(planner, LATE)
    assert [reserved_starts(planner)[key] for key in order] == [72, 82, 92]


def test_an_overrun_moves_the_reservations_of_a_cohort_in_their_order() -> None:
    """Each queue has one workload as wide as the cohort; none overtakes the one whose reserved start has passed."""
    planner = make_planner([queue(name, 4, cohort="all") for name in ("p", "q", "r")], policy_named("easy"))
    for name, cpus in (("p", 5), ("q", 12), ("r", 12)):
        events.submit(planner, submission(f"of-{name}", cpus, 10).workload, name)
        schedule(planner, 0)
    planner.assumed = set()
    assert reserved_starts(planner) == {"/of-q": 10, "/of-r": 20}
    schedule(planner, LATE)
    assert reserved_starts(planner) == {"/of-q": 72, "/of-r": 82}


def test_a_workload_that_arrives_after_an_overrun_uses_what_is_left() -> None:
    """It ends before the reservation, which has moved with the deadline of the first workload."""
    planner = planner_of("easy", ("first", 5, 10), ("second", 8, 10))
    schedule(planner, LATE)
    events.submit(planner, submission("third", 3, 40, at=LATE).workload, "q")
    schedule(planner, LATE)
    assert set(planner.running) == {"/first", "/third"}


def test_after_an_overrun_a_long_workload_still_delays_the_reservation() -> None:
    """The control of the tests above: 61 s are longer than the extension."""
    planner = planner_of("easy", ("first", 5, 10), ("second", 8, 10), ("third", 3, OVERRUN_EXTENSION + 1))
    schedule(planner, LATE)
    assert set(planner.running) == {"/first"}


def test_a_reserved_workload_starts_although_another_overruns() -> None:
    """Its start has come, and the overrun uses nothing that it needs."""
    planner = planner_of("easy", ("first", 5, 10), ("other", 3, 10), ("second", 5, 10))
    events.finish(planner, "/first")
    schedule(planner, LATE)
    assert set(planner.running) == {"/other", "/second"}
    assert reserved_starts(planner) == {}
