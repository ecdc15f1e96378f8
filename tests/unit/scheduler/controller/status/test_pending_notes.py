"""Notes on why workloads wait: they are phrased so that they remain true, and written rarely."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from math import inf
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.planner_stories import make_workload, queue
from zonewise_scheduler.backfill.explanation.explain import explain
from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.backfill.scheduling.scheduling_pass import schedule
from zonewise_scheduler.backfill.state import events
from zonewise_scheduler.backfill.state.planner_state import new_state
from zonewise_scheduler.backfill.types import Forecast
from zonewise_scheduler.controller.status.pending_note import PendingNote, pending_note, queue_reason
from zonewise_scheduler.controller.status.pending_notes import BURST, HEADS, MIN_WAIT, RATE, REFRESH, PendingNotes
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.state.planner_state import PlannerState

START = 1_800_000_000.0  # 2027-01-15 08:00 UTC
RUN = 6 * 3600.0


def planner(waiting: int = 1) -> PlannerState:
    """Return a planner of a queue of 4 CPUs in which one workload runs for six hours and others wait."""
    state = new_state(Snapshot([queue("q", 4000)]), BackfillPolicy())
    events.submit(state, make_workload("running", 3000, RUN, at=START), "q")
    schedule(state, START)
    for i in range(waiting):
        events.submit(state, make_workload(f"w{i}", 2000, 60, at=START), "q")
    schedule(state, START)
    return state


def notes(timer: float = 0.0) -> PendingNotes:
    ticks = count()
    return PendingNotes(lambda: next(ticks) * timer)


def test_a_note_names_the_shortage_and_the_start_of_the_workload() -> None:
    state = planner()
    note = pending_note(explain(state, "ns/w0", START), Forecast(START + 60, START + 1200, START + 7500))
    assert note.reason == "WaitingForQuota"
    assert "needs 2 CPUs" in note.message
    assert "waits for ns/running to end" in note.message
    assert "is reserved to start at 14:00 UTC at the latest" in note.message
    assert note.message.endswith("starts about 08:20 UTC, at the latest 10:05 UTC")


def test_the_note_of_a_workload_that_begins_later() -> None:
    """A changed begin time is a new note."""
    state, notes_of = planner(), list[PendingNote]()
    for hours in (8, 9):
        workload = replace(make_workload("w0", 2000, 60, at=START), begin_at=START + 3600 * hours)
        events.submit(state, workload, "q")
        schedule(state, START)
        notes_of.append(pending_note(explain(state, "ns/w0", START), None))
    assert [note.reason for note in notes_of] == ["BeginTime"] * 2
    assert [note.message for note in notes_of] == [f"begins at {hour}:00 UTC at the earliest" for hour in (16, 17)]
    assert notes_of[0].differs_from(notes_of[1], START)
    assert not notes_of[0].differs_from(notes_of[0], START)


def test_a_workload_is_noted_before_its_begin_time() -> None:
    """Otherwise, `kubectl` would not show until then why it waits."""
    state, pending = planner(), notes()
    events.submit(state, replace(make_workload("w0", 2000, 60, at=START), begin_at=START + 3600), "q")
    schedule(state, START)
    assert not list(pending.due(state, {}, START + MIN_WAIT / 2))
    [(key, note)] = pending.due(state, {}, START + 2 * MIN_WAIT)
    assert (key, note.reason) == ("ns/w0", "BeginTime")


def test_the_note_of_a_workload_that_no_queue_admits() -> None:
    state = planner()
    events.submit(state, replace(make_workload("off", 1), active=False), "q")
    note = pending_note(explain(state, "ns/off", START), None)
    assert note == pending_note(explain(state, "ns/off", START), Forecast(START, START, START))  # of its last queue
    assert (note.reason, note.message) == ("Deactivated", "it is deactivated")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("it is deactivated", "Deactivated"),
        ("it is gated by example.com/a", "AdmissionGated"),
        ("LocalQueue ns/l is inactive: stopPolicy is Hold", "Suspended"),
        ("ClusterQueue q is inactive: it has been deleted", "Suspended"),
        ("there is no LocalQueue ns/inactive", "Misconfigured"),
        ("there is no ClusterQueue deactivated", "Misconfigured"),
    ],
)
def test_the_reason_of_a_workload_that_no_queue_admits(message: str, reason: str) -> None:
    assert queue_reason(message) == reason


def test_the_note_of_a_request_beyond_the_quota() -> None:
    state = planner()
    events.submit(state, make_workload("wide", 5000), "q")
    note = pending_note(explain(state, "ns/wide", START), None)
    assert note.reason == "ExceedsMaxQuota"
    assert "cannot start even when all other workloads have ended" in note.message


@given(st.floats(0, 1e5), st.floats(-1e4, 1e4))
def test_a_note_changes_if_the_start_shifts_by_more_than_a_minute_and_a_tenth(away: float, shift: float) -> None:
    explanation = explain(planner(), "ns/w0", START)
    old = pending_note(explanation, Forecast(START, START + away, inf))
    new = pending_note(explanation, Forecast(START, START + away + shift, inf))
    shifted = (START + away + shift) - (START + away)
    assert new.differs_from(old, START) == (abs(shifted) > max(60.0, 0.1 * ((START + away) - START)))


def test_changed_amounts_and_positions_cause_no_new_note() -> None:
    explanation = explain(planner(), "ns/w0", START)
    (shortage,) = explanation.shortages
    changed = explanation._replace(position=7, shortages=(shortage._replace(available=1),))
    assert not pending_note(changed, None).differs_from(pending_note(explanation, None), START)
    assert pending_note(changed._replace(waits_for=()), None).differs_from(pending_note(explanation, None), START)


def test_a_workload_that_starts_soon_gets_no_note() -> None:
    state, writer = planner(), notes()
    assert not list(writer.due(state, {}, START + MIN_WAIT - 1))
    assert [key for key, _ in writer.due(state, {}, START + MIN_WAIT + 5)] == ["ns/w0"]


@given(st.integers(1, 60), st.lists(st.floats(0.01, 20.0), max_size=40))
def test_the_rate_of_notes_is_limited(waiting: int, pauses: list[float]) -> None:
    """Each workload gets at most one in REFRESH seconds; in all there are at most BURST, and RATE per second."""
    state, writer = planner(waiting), notes()
    now = begin = START + 100
    told: dict[str, float] = {}
    total = 0
    for i, pause in enumerate(pauses):
        forecasts = {key: Forecast(now, now + 1000.0 * i, inf) for key in state.pending}  # all notes change
        for key, _ in writer.due(state, forecasts, now):
            assert now >= told.get(key, -inf) + REFRESH
            told[key] = now
            total += 1
        assert total <= BURST + RATE * (now - begin) + 1e-4  # times are exact to 2e-7 s
        now += pause


def test_each_workload_gets_its_note_and_no_note_is_repeated_unchanged() -> None:
    state, writer = planner(25), notes()
    told = [key for tick in range(400) for key, _ in writer.due(state, {}, START + 20 + tick)]
    assert sorted(told) == sorted(state.pending)
    assert told[:10] == sorted(state.pending)[:10]


def test_slow_explanations_are_rare() -> None:
    """By the timer, each explanation takes a second, so there is one in twenty seconds after the first one."""
    state, writer = planner(25), notes(timer=1.0)
    told = [key for tick in range(200) for key, _ in writer.due(state, {}, START + 20 + tick)]
    assert len(told) == 11


def test_slow_listings_of_the_pending_workloads_are_rare() -> None:
    """By the timer, each listing takes a second, so there is one in fifty seconds."""
    state, writer = planner(), notes(timer=1.0)
    assert [key for key, _ in writer.due(state, {}, START + 20)] == ["ns/w0"]
    events.submit(state, make_workload("new", 2000, 60, at=START), "q")
    told = [(tick, key) for tick in range(21, 71) for key, _ in writer.due(state, {}, START + tick)]
    assert told == [(70, "ns/new")]


def test_unused_time_carries_over_to_the_next_step() -> None:
    """By the timer, each explanation takes 10 ms. The controller makes one step per second while nothing changes."""
    state, writer = planner(25), notes(timer=0.01)
    told = [len(list(writer.due(state, {}, START + 20 + tick))) for tick in range(5)]
    assert told == [5, 5, 5, 5, 5]


def test_workloads_without_a_note_come_before_those_with_one() -> None:
    """Thousands of workloads are due for a new note when a user submits another one."""
    state, writer = planner(400), notes()
    for tick in range(60):
        list(writer.due(state, {}, START + 20 + tick))
    events.submit(state, make_workload("new", 2000, 60, at=START + 50), "q")
    told: list[str] = []
    for tick in range(6):
        forecasts = {key: Forecast(START, START + 1e5, inf) for key in state.pending}  # all notes change
        told += [key for key, _ in writer.due(state, forecasts, START + 100 + tick)]
    assert "ns/new" in told[: HEADS + 1]


def test_the_problem_of_an_invalid_workload_is_reported_at_once_and_only_once() -> None:
    """Thousands of invalid workloads do not prevent the notes of others."""
    state, told = planner(), notes()
    at = START + MIN_WAIT
    assert [key for key, _ in told.due(state, {}, at, {"ns/bad": "spec: bad"})] == ["ns/bad", "ns/w0"]
    later = at + 2 * REFRESH
    assert "ns/bad" not in [key for key, _ in told.due(state, {}, later, {"ns/bad": "spec: bad"})]
    [(key, note)] = told.due(state, {}, later + REFRESH, {"ns/bad": "spec: worse"})
    assert (key, note.reason, note.message) == ("ns/bad", "Misconfigured", "spec: worse")
    told.note_failure("ns/bad")
    assert [key for key, _ in told.due(state, {}, later + 2 * REFRESH, {"ns/bad": "spec: worse"})] == ["ns/bad"]


def test_the_stop_and_the_restart_of_a_queue_are_noted_without_delay() -> None:
    state, writer = planner(), notes()
    at = START + MIN_WAIT
    assert [note.reason for _, note in writer.due(state, {}, at)] == ["WaitingForQuota"]
    state.snapshot.inactive["q"] = "stopPolicy is Hold"
    assert [note.reason for _, note in writer.due(state, {}, at + 6)] == ["Suspended"]
    assert not list(writer.due(state, {}, at + 12))
    del state.snapshot.inactive["q"]
    assert [note.reason for _, note in writer.due(state, {}, at + 18)] == ["WaitingForQuota"]
    assert not list(writer.due(state, {}, at + 24))


def test_a_queue_that_is_deleted_and_created_again_is_noted_without_delay() -> None:
    state, writer = planner(), notes()
    workload = state.pending_workload("ns/w0")
    assert workload is not None
    at = START + MIN_WAIT
    assert [note.reason for _, note in writer.due(state, {}, at)] == ["WaitingForQuota"]
    events.withdraw(state, "ns/w0")
    events.submit(state, workload, "gone")
    assert [note.message for _, note in writer.due(state, {}, at + 6)] == ["there is no ClusterQueue gone"]
    state.snapshot.inactive["q"] = "references missing ResourceFlavors: all"
    events.submit(state, workload, "q")
    assert [note.reason for _, note in writer.due(state, {}, at + 12)] == ["Suspended"]
    assert not list(writer.due(state, {}, at + 18))
