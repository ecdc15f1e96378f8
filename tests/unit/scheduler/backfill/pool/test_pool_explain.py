"""Why a job of a pool waits: which amounts it lacks now or always, and which reservation it would delay."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from support.pool_jobs import CPUS, TWO, cpus, job
from zonewise_scheduler.backfill.explanation import Explanation, QuotaShortage
from zonewise_scheduler.backfill.pool.job import Job
from zonewise_scheduler.backfill.pool.pool_explain import explain_job
from zonewise_scheduler.backfill.pool.pool_state import PoolReservation, PoolState
from zonewise_scheduler.backfill.types import ReservedStart

NOW = 100.0


def pool(*running: Job, pending: tuple[Job, ...]) -> PoolState:
    """Return a pool of 8 CPUs with jobs that have run since NOW."""
    state = PoolState(cpus(8))
    for one in running:
        state.start(one, NOW)
    for one in pending:
        state.submit(one)
    return state


def shortage(requested: int, available: int, *, ever: bool = False) -> QuotaShortage:
    return QuotaShortage("", "cpu", requested, available, "nominal", "", 8, exceeds_max_quota=ever)


FIRST, SECOND, THIRD = job(0, 3, 10), job(1, 2, 20), job(2, 2, inf)
"""These jobs run: they use 7 of 8 CPUs, until 110, 120 and an unknown time."""


@pytest.mark.parametrize(
    ("size", "walltime", "fields"),
    [
        (0, 5, {}),
        (1, 5, {}),
        (1, inf, {}),
        (2, 5, {"shortages": (shortage(2, 1),), "waits_for": ("job-0",), "start": 110}),
        (4, 5, {"shortages": (shortage(4, 1),), "waits_for": ("job-0",), "start": 110}),
        (5, 5, {"shortages": (shortage(5, 1),), "waits_for": ("job-1",), "start": 120}),
        (6, 5, {"shortages": (shortage(6, 1),), "waits_for": ("job-1",), "start": 120}),
        (7, 5, {"shortages": (shortage(7, 1),), "waits_for": ("job-2",), "start": inf}),
        (8, 5, {"shortages": (shortage(8, 1),), "waits_for": ("job-2",), "start": inf}),
        (9, 5, {"shortages": (shortage(9, 8, ever=True),), "never_fits": True}),
    ],
)
def test_a_job_waits_for_the_first_end_at_which_it_fits(size: int, walltime: float, fields: dict[str, Any]) -> None:
    waiting = job(9, size, walltime)
    state = pool(FIRST, SECOND, THIRD, pending=(job(8, 1, 5), waiting))
    assert explain_job(waiting, NOW, state, CPUS, ()) == Explanation("job-9", "", 2, NOW)._replace(**fields)


@pytest.mark.parametrize(
    ("size", "walltime", "fields"),
    [
        (1, 10, {}),
        (2, 10, {}),
        (1, 11, {"delayed_reservation": ReservedStart("job-8", 110.0), "start": 115.0}),
        (1, inf, {"delayed_reservation": ReservedStart("job-8", 110.0), "start": 115.0}),
        (3, 5, {"shortages": (shortage(3, 2),), "waits_for": ("job-0",), "start": 115.0}),
    ],
)
def test_a_job_may_end_exactly_at_a_reserved_start(size: int, walltime: float, fields: dict[str, Any]) -> None:
    """The reserved job holds all CPUs from 110 to 115."""
    reserved, waiting = job(8, 8, 5), job(9, size, walltime)
    running = job(0, 6, 10)
    state = pool(running, pending=(reserved, waiting))
    reservations = [PoolReservation(reserved, 110.0, (running,))]
    assert explain_job(waiting, NOW, state, CPUS, reservations) == Explanation("job-9", "", 2, NOW)._replace(**fields)
    own = explain_job(reserved, NOW, state, CPUS, reservations)
    assert own == Explanation(
        "job-8", "", 1, NOW, shortages=(shortage(8, 2),), waits_for=("job-0",), start=110.0, reserved=True
    )


def test_the_first_reservation_that_would_be_delayed_is_named() -> None:
    """The job fits beside the first reservation, but not beside the first two, nor beside the third."""
    state = pool(job(0, 6, 10), pending=(job(1, 4, 20), job(2, 3, 20), job(3, 2, 20), job(9, 2, 50)))
    reservations = [
        PoolReservation(one, start) for one, start in zip(state.pending, (110.0, 110.0, 130.0), strict=False)
    ]
    explanation = explain_job(state.pending[-1], NOW, state, CPUS, reservations)
    assert explanation == Explanation(
        "job-9", "", 4, NOW, delayed_reservation=ReservedStart("job-2", 110.0), start=130.0
    )


@pytest.mark.parametrize(
    ("size", "walltime", "fields"),
    [
        (1, 10, {}),
        (2, 10, {"delayed_reservation": ReservedStart("job-8", inf)}),
        (3, inf, {"delayed_reservation": ReservedStart("job-8", inf)}),
    ],
)
def test_a_reservation_with_an_unknown_start_holds_its_amount_from_now_on(
    size: int, walltime: float, fields: dict[str, Any]
) -> None:
    reserved, waiting = job(8, 3, 5), job(9, size, walltime)
    state = pool(job(0, 4, inf), pending=(reserved, waiting))
    reservations = [PoolReservation(reserved, float("inf"))]
    assert explain_job(waiting, NOW, state, CPUS, reservations) == Explanation("job-9", "", 2, NOW)._replace(**fields)


def test_each_insufficient_resource_is_named() -> None:
    """Nothing is left of an overcommitted resource."""
    state = PoolState(TWO.pack_available({"cpu": 8, "gpu": 4}))
    running = TWO.pack_request({"cpu": 5, "gpu": 3})
    state.start(Job(0, running.amount, running.guards, 0.0, 10.0, name="runs"), NOW)
    state.available -= TWO.pack_request({"gpu": 2}).amount
    requests = TWO.pack_request({"cpu": 4, "gpu": 2})
    waiting = Job(1, requests.amount, requests.guards, 0.0, 5.0, name="waits")
    state.submit(waiting)
    assert explain_job(waiting, NOW, state, TWO, ()) == Explanation(
        "waits",
        "",
        1,
        NOW,
        shortages=(
            QuotaShortage("", "cpu", 4, 3, "nominal", "", 8),
            QuotaShortage("", "gpu", 2, 0, "nominal", "", 4),
        ),
        waits_for=("runs",),
        start=110.0,
    )
