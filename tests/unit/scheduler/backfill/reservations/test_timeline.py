"""The search for the earliest start if many workloads must end first."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

import pytest

from support.planner_stories import make_planner, make_workload, queue, submission
from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.backfill.reservations import timeline
from zonewise_scheduler.backfill.reservations.timeline import RunningWorkload, Timeline, ends_by_time
from zonewise_scheduler.backfill.scheduling.scheduling_pass import schedule
from zonewise_scheduler.backfill.state import events
from zonewise_scheduler.backfill.types import Reservation
from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS
from zonewise_scheduler.quota.api.queue_types import ClusterQueue
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, ResourceQuota, resource_group
from zonewise_scheduler.quota.api.workload_types import Admission, PodSetAdmission
from zonewise_scheduler.quota.cycle.entry import Head

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.state.planner_state import PlannerState
    from zonewise_scheduler.quota.api.configuration import QuotaSettings
    from zonewise_scheduler.quota.flavorassigner.assignment import Assignment
    from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot

RUNNING = 300
"""One CPU each: the first workload ends after 1 s, the second after 2 s, and so on."""


def running_planner() -> PlannerState:
    planner = make_planner([queue("q", RUNNING)], BackfillPolicy())
    for index in range(RUNNING):
        events.submit(planner, submission(f"{index:03}", 1, index + 1).workload, "q")
    schedule(planner, 0)
    return planner


def earliest(planner: PlannerState, cpus: int) -> Reservation | None:
    """Return the reservation of a head that needs this number of CPUs."""
    head = Head(submission("head", cpus, 5).workload, "q")
    return Timeline(0, planner.snapshot.copy(), planner.running_workloads, ()).earliest_reservation(
        head, DEFAULT_SETTINGS
    )


def test_a_head_starts_at_the_first_end_after_which_it_fits() -> None:
    """The reservation names the workload that ends then, after any number of steps."""
    planner = running_planner()
    for cpus in (*range(1, 20), *range(255, 260), 290, RUNNING):
        reservation = earliest(planner, cpus)
        assert reservation is not None
        assert (reservation.start, reservation.waits_for) == (cpus, (f"/{cpus - 1:03}",))
    assert earliest(planner, RUNNING + 1) is None


@pytest.mark.parametrize(
    ("cpus", "looks"),
    [
        (1, [0, 1]),
        (2, [0, 1, 3, 2]),
        (20, [0, 1, 3, 7, 15, 31, 23, 19, 21, 20]),
        (299, [0, 1, 3, 7, 15, 31, 63, 127, 255, 300, 278, 289, 295, 298, 299]),
        (301, [0, 1, 3, 7, 15, 31, 63, 127, 255, 300]),
    ],
)
def test_the_search_doubles_its_stride_and_then_halves_what_is_left(
    monkeypatch: pytest.MonkeyPatch, cpus: int, looks: list[int]
) -> None:
    """Among 300 ends it tests at most fifteen; each test is identified by the number of workloads that have ended."""
    planner = running_planner()
    ended: list[int] = []
    assign = timeline.assign_without_preemption

    def look(snapshot: Snapshot, head: Head, settings: QuotaSettings) -> Assignment | None:
        ended.append(RUNNING - len(snapshot.workloads_by_queue["q"]))
        return assign(snapshot, head, settings)

    monkeypatch.setattr(timeline, "assign_without_preemption", look)
    earliest(planner, cpus)
    assert ended == looks


def admitted(name: str, start: float, flavor: str = "all", **amounts: int) -> Reservation:
    """Return a reservation of a workload with these amounts of one flavor, for 10 s."""
    pods = PodSetAdmission("main", dict.fromkeys(amounts, flavor), amounts, 1)
    workload = replace(submission(name, 0, 10).workload, admission=Admission("q", (pods,), start))
    return Reservation(workload, Head(workload, "q"), start)


def test_a_reservation_is_feasible_if_its_flavors_exist_and_earlier_ones_leave_enough() -> None:
    """It may use all resources of its queue or only one. An infeasible reservation takes nothing from later ones."""
    quotas = (("cpu", ResourceQuota(8)), ("gpu", ResourceQuota(2)))
    planner = make_planner([ClusterQueue("q", (resource_group(FlavorQuotas("all", quotas)),))], BackfillPolicy())
    reservations = [
        admitted("first", 10, cpu=6),
        admitted("removed", 10, "old", cpu=1),
        admitted("wide", 15, cpu=3),
        admitted("both", 15, cpu=2, gpu=2),
        admitted("gpu", 19, gpu=1),
        admitted("late", 20, cpu=6),
    ]
    future = Timeline(0, planner.snapshot.copy(), (), reservations)
    assert [one.workload.name for one in future.infeasible_reservations()] == ["removed", "wide", "gpu"]


def test_an_unknown_start_waits_for_no_reserved_workload() -> None:
    """Both wait for the workload that runs without a walltime; beside the reserved one, the head has enough."""
    planner = make_planner([queue("q", 8)], BackfillPolicy())
    events.submit(planner, submission("running", 7, inf).workload, "q")
    schedule(planner, 0)
    future = Timeline(0, planner.snapshot.copy(), planner.running_workloads, [admitted("reserved", inf, cpu=6)])
    reservation = future.earliest_reservation(Head(submission("head", 2, 5).workload, "q"), DEFAULT_SETTINGS)
    assert reservation is not None
    assert (reservation.start, reservation.waits_for) == (inf, ("/running",))


def test_the_workloads_that_end_at_each_time() -> None:
    """A reservation whose start is in the past begins now; one with an unknown start never ends."""
    running = [RunningWorkload(end, 0, make_workload(f"runs-{end:g}", 1)) for end in (20.0, 30.0, inf)]
    reservations = [
        Reservation(reserved, Head(reserved, "q"), start)
        for start, walltime in ((5.0, 20.0), (10.0, 10.0), (13.0, 7.0), (20.0, inf), (inf, 10.0))
        for reserved in [make_workload(f"waits-{start:g}", 1, walltime)]
    ]
    assert ends_by_time(10, running, reservations) == {
        20: ["ns/runs-20", "ns/waits-10", "ns/waits-13"],
        30: ["ns/runs-30", "ns/waits-5"],
        inf: ["ns/runs-inf", "ns/waits-20"],
    }
