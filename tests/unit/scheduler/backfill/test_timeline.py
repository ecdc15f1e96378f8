"""The search for the earliest start, where many workloads must end before."""

from __future__ import annotations

from support.planner_stories import make_planner, queue, submission
from zonewise_scheduler.backfill import events
from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.backfill.scheduling_pass import schedule
from zonewise_scheduler.backfill.timeline import Timeline
from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS
from zonewise_scheduler.quota.cycle.entry import Head

RUNNING = 300
"""One CPU each. The first ends after 1 s, the second after 2 s, and so on."""


def test_a_head_starts_at_the_first_end_after_which_it_fits() -> None:
    """However many steps there are, and it names the workload that ends then."""
    planner = make_planner([queue("q", RUNNING)], BackfillPolicy())
    for index in range(RUNNING):
        events.submit(planner, submission(f"{index:03}", 1, index + 1).workload, "q")
    schedule(planner, 0)
    for cpus in (*range(1, 20), *range(255, 260), 290, RUNNING, RUNNING + 1):
        timeline = Timeline(0, planner.snapshot.copy(), planner.running_workloads, ())
        reservation = timeline.earliest_reservation(Head(submission("head", cpus, 5).workload, "q"), DEFAULT_SETTINGS)
        if cpus > RUNNING:
            assert reservation is None
        else:
            assert reservation is not None
            assert (reservation.start, reservation.waits_for) == (cpus, (f"/{cpus - 1:03}",))
