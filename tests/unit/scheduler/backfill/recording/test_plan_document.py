"""Plans as JSON: each decision with all its fields."""

from __future__ import annotations

import json
from dataclasses import replace
from math import inf

import pytest

from support.planner_stories import make_workload
from zonewise_scheduler.backfill.recording.plan_document import plan_document
from zonewise_scheduler.backfill.types import Plan, Reservation, StopOrder, Victim
from zonewise_scheduler.quota.api.workload_types import Admission, PodSetAdmission
from zonewise_scheduler.quota.cycle.entry import Head
from zonewise_scheduler.quota.topology.types import TopologyAssignment, TopologyDomainAssignment

PENDING = make_workload("one", 2)
PLACEMENT = TopologyAssignment(("rack", "host"), (TopologyDomainAssignment(("r1", "h3"), 2),))
ADMITTED = replace(
    PENDING,
    admission=Admission(
        "q",
        (
            PodSetAdmission("main", {"cpu": "spot"}, {"cpu": 4000}, 2, PLACEMENT),
            PodSetAdmission("driver", {"cpu": "plain"}, {"cpu": 1000}, 1),
        ),
    ),
)
DOCUMENT = {
    "key": "ns/one",
    "clusterQueue": "q",
    "podSets": [
        {"name": "main", "pods": 2, "flavors": {"cpu": "spot"}, "domains": [{"values": ["r1", "h3"], "pods": 2}]},
        {"name": "driver", "pods": 1, "flavors": {"cpu": "plain"}, "domains": None},
    ],
}
EMPTY: dict[str, object] = {"admitted": [], "placed": [], "victims": [], "stopped": [], "reserved": [], "wakeAt": None}


@pytest.mark.parametrize(
    ("plan", "fields"),
    [
        (Plan(), {}),
        (Plan(admitted=(ADMITTED, PENDING)), {"admitted": [DOCUMENT, {"key": "ns/one"}]}),
        (Plan(placed=(ADMITTED,)), {"placed": [DOCUMENT]}),
        (
            Plan(victims=(Victim(ADMITTED, make_workload("two", 2), "InClusterQueue"),)),
            {"victims": [{"key": "ns/one", "preemptor": "ns/two", "reason": "InClusterQueue"}]},
        ),
        (
            Plan(stopped=(StopOrder(ADMITTED, "NodeFailures"),)),
            {"stopped": [{"key": "ns/one", "reason": "NodeFailures"}]},
        ),
        (
            Plan(reserved=tuple(Reservation(ADMITTED, Head(PENDING, "q"), start) for start in (7.5, inf))),
            {"reserved": [{"key": "ns/one", "start": 7.5}, {"key": "ns/one", "start": None}]},
        ),
        (Plan(wake_at=12.5), {"wakeAt": 12.5}),
    ],
)
def test_a_plan_is_an_object_of_its_decisions(plan: Plan, fields: dict[str, object]) -> None:
    document = plan_document(plan)
    assert document == EMPTY | fields
    assert json.loads(json.dumps(document, allow_nan=False)) == document
