"""A reserved workload whose start has come: where it starts under the conditions of that time."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Literal

import pytest

from support.planner_stories import make_planner, make_workload, queue, submission
from zonewise_common.k8s.taints import Taint
from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.backfill.scheduling.scheduling_pass import schedule
from zonewise_scheduler.backfill.state import events
from zonewise_scheduler.backfill.state.queue_router import QueueConfiguration
from zonewise_scheduler.quota.api.queue_types import AdmissionCheckStrategyRule, ClusterQueue, ResourceFlavor
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, FlavorResource, ResourceQuota, resource_group
from zonewise_scheduler.quota.api.workload_types import PodSet

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.reservations.timeline import TimelineSource
    from zonewise_scheduler.backfill.state.planner_state import PlannerState
    from zonewise_scheduler.backfill.types import Plan
    from zonewise_scheduler.quota.cycle.entry import Head

CPUS = [FlavorQuotas(name, (("cpu", ResourceQuota(10)),)) for name in ("one", "two")]
GPUS = FlavorQuotas("gpus", (("gpu", ResourceQuota(1)),))
SPEC = ClusterQueue("q", (resource_group(*CPUS), resource_group(GPUS)))


def make_configuration(spec: ClusterQueue = SPEC, *taints: Taint) -> QueueConfiguration:
    """Return a queue with two flavors of 10 CPUs; the taints apply to the first flavor."""
    flavors = (ResourceFlavor("one", node_taints=taints), ResourceFlavor("two"), ResourceFlavor("gpus"))
    return QueueConfiguration((spec,), flavors=flavors)


def submit(planner: PlannerState, name: str, run: float, *, cpus: int = 10, gpus: int = 0, flavor: str = "") -> None:
    """Submit a workload; with a flavor, it is restricted to that one."""
    pod_set = PodSet(requests={"cpu": cpus} | ({"gpu": gpus} if gpus else {}))
    allowed = frozenset({flavor, "gpus"}) if flavor else None
    workload = replace(submission(name, cpus, run).workload, pod_sets=(pod_set,), allowed_flavors=allowed)
    events.submit(planner, workload, "q")


def flavors(plan: Plan) -> dict[str, set[str]]:
    """Return the flavors in which each workload has started."""
    return {workload.name: {key.flavor for key in workload.usage} for workload in plan.admitted}


def test_no_workload_starts_in_a_flavor_that_has_been_tainted_since() -> None:
    """Its reservation moves to a flavor whose taints it tolerates."""
    planner = make_planner([SPEC], BackfillPolicy())
    events.reconfigure(planner, make_configuration())
    for name, run in (("1-short", 100), ("2-long", 1000), ("3-waits", 100)):
        submit(planner, name, run)
    assert flavors(schedule(planner, 0)) == {"1-short": {"one"}, "2-long": {"two"}}
    assert [reservation.start for reservation in planner.reservations_by_start] == [100]
    events.reconfigure(planner, make_configuration(SPEC, Taint("maintenance", "", "NoSchedule")))
    schedule(planner, 50)
    assert [reservation.start for reservation in planner.reservations_by_start] == [1000]
    events.finish(planner, "/1-short")
    assert flavors(schedule(planner, 100)) == {}
    events.finish(planner, "/2-long")
    assert flavors(schedule(planner, 1000)) == {"3-waits": {"two"}}


def reserved_in_the_second_flavor() -> PlannerState:
    """At 100, a workload starts in flavor two as reserved; in flavor one, which is free, it would delay another one."""
    planner = make_planner([SPEC], BackfillPolicy(depth=2))
    events.reconfigure(planner, make_configuration())
    submit(planner, "1-first", 110, flavor="one")
    submit(planner, "2-second", 100, flavor="two")
    submit(planner, "3-gpu", 120, cpus=0, gpus=1)
    submit(planner, "4-waits", 200)
    submit(planner, "5-delayed", inf, gpus=1, flavor="one")
    schedule(planner, 0)
    assert {key: one.start for key, one in planner.reservations.by_key.items()} == {"/4-waits": 100, "/5-delayed": 120}
    events.finish(planner, "/1-first")
    schedule(planner, 50)
    return planner


def test_a_workload_starts_as_reserved_if_it_would_delay_another_elsewhere() -> None:
    planner = reserved_in_the_second_flavor()
    events.finish(planner, "/2-second")
    assert flavors(schedule(planner, 100)) == {"4-waits": {"two"}}


def test_a_workload_that_starts_as_reserved_has_to_pass_the_current_checks() -> None:
    """The check was added to its queue after the reservation was made."""
    planner = reserved_in_the_second_flavor()
    events.reconfigure(planner, make_configuration(SPEC._replace(admission_checks=(AdmissionCheckStrategyRule("c"),))))
    events.finish(planner, "/2-second")
    [started] = schedule(planner, 100).admitted
    assert started.usage == {FlavorResource("two", "cpu"): 10}
    assert started.admission is not None
    assert started.admission.pending_checks == ("c",)


def test_a_workload_is_reserved_once_one_with_an_unknown_reserved_start_has_started() -> None:
    """Until then, all quota is reserved for the other workload, whose end is unknown."""
    planner = make_planner([queue("q", 8, cohort="c"), queue("r", 0, cohort="c")], BackfillPolicy())
    events.submit(planner, make_workload("runs", 8, inf), "q")
    schedule(planner, 0)
    events.submit(planner, make_workload("first", 8, 10, at=1), "q")
    schedule(planner, 1)
    events.submit(planner, make_workload("second", 8, 10, at=2), "r")
    schedule(planner, 2)
    assert {key: one.start for key, one in planner.reservations.by_key.items()} == {"ns/first": inf}
    events.finish(planner, "ns/runs")
    schedule(planner, 3)
    events.submit(planner, make_workload("third", 1, at=4), "r")
    schedule(planner, 4)
    assert {key: one.start for key, one in planner.reservations.by_key.items()} == {"ns/second": 13}


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
def test_a_workload_that_can_never_start_is_searched_for_once(
    strategy: Literal["BestEffortFIFO", "StrictFIFO"], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its search is not repeated in each pass, even if no other workload of its queue may start."""
    planner = make_planner([queue("q", 4)._replace(queueing_strategy=strategy)], BackfillPolicy())
    searched: list[str] = []
    reserve = planner.reservations.reserve

    def counted(head: Head, source: TimelineSource, latest: float = inf) -> float | None:
        searched.append(head.workload.key)
        return reserve(head, source, latest)

    monkeypatch.setattr(planner.reservations, "reserve", counted)
    events.submit(planner, make_workload("wide", 9), "q")
    for now in range(5):
        events.submit(planner, make_workload(f"small-{now}", 9, at=now + 1), "q")
        schedule(planner, now + 1)
    assert searched.count("ns/wide") == 1
