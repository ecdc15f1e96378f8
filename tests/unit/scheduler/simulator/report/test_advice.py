"""Advice as text and as JSON."""

from __future__ import annotations

import json
from math import inf
from typing import Any

from zonewise_scheduler.backfill.policies import DEFAULT_POLICY, policy_named
from zonewise_scheduler.simulator.advice.goal import Measurement, parse_goal
from zonewise_scheduler.simulator.advice.search import SearchResult
from zonewise_scheduler.simulator.advice.settings import NodeCount
from zonewise_scheduler.simulator.report.advice import Advice, advice_curve, advice_document, advice_text
from zonewise_scheduler.simulator.report.json_document import render
from zonewise_scheduler.simulator.report.result import TraceInfo
from zonewise_scheduler.simulator.swf import LoggedJobs, SwfLog

SETTING = NodeCount(SwfLog(LoggedJobs(), 4, [], 0), policy_named(DEFAULT_POLICY), 4)
MEASURED = {
    2: Measurement(inf, 7, met=False, unstarted=3),
    3: Measurement(7200.0, 7, met=False, unstarted=1),
    4: Measurement(1800.0, 7, met=True, unstarted=0),
    5: Measurement(4000.0, 7, met=False, unstarted=2),
}


def advice(smallest: int | None, missing: tuple[int, ...] = ()) -> Advice:
    measured = {at: found._replace(met=found.met and smallest is not None) for at, found in MEASURED.items()}
    goal = parse_goal("p95 wait <= 1h", lambda _: 3600.0)
    return Advice(TraceInfo("a.swf", "a", {"seed": 3}), "p", SETTING, goal, SearchResult(smallest, measured, missing))


def test_a_table_of_every_value() -> None:
    lines = advice_text(advice(4, (5,))).splitlines()
    assert lines[0] == "a.swf: p95 wait <= 1h, 7 jobs, policy p"
    assert [" ".join(line.split()) for line in lines[2:7]] == [
        "processors p95 wait goal", "2 never missed", "3 2.00 h missed", "4 0.50 h met the smallest, present",
        "5 1.11 h missed",
    ]  # fmt: skip
    assert lines[8:] == [
        "The smallest simulated value that meets the goal: processors 4.",
        "The next below miss it: 2, 3.",
        "Starts are not monotone: above it 5 missed again.",
    ]
    assert advice_text(advice(2, (3,))).endswith("From 4 on, every simulated value meets the goal.\n") is False
    lasting = advice(2, (3,))
    measured = {at: measurement for at, measurement in lasting.result.measured.items() if at < 5}
    text = advice_text(lasting._replace(result=lasting.result._replace(measured=measured)))
    assert text.endswith("From 4 on, every simulated value meets the goal.\n")


def test_neighbours_that_meet_the_goal_and_ends_of_the_search() -> None:
    above = {**MEASURED, 5: MEASURED[4]}
    result = advice(4).result._replace(measured=above)
    assert advice_text(advice(4)._replace(result=result)).endswith("The next above meet it.\n")
    assert "It is the lowest value of the search." in advice_text(advice(2))
    assert advice_text(advice(5)).endswith("It is the highest value of the search.\n")


def test_a_value_with_which_jobs_never_start() -> None:
    """A goal may not count these jobs, or may hold without them."""
    assert "processors 3.\nWith processors 3, 1 job never starts.\nThe next" in advice_text(advice(3))


def test_no_value_meets_the_goal() -> None:
    text = advice_text(advice(None))
    assert text.endswith("\n\nNo simulated value from 2 to 5 meets the goal.\nWith processors 5, 2 jobs never start.\n")
    assert "the smallest" not in text


def test_the_document() -> None:
    document: Any = json.loads("".join(render(advice_document(advice(4, (5,))))))
    assert document["schemaVersion"] == "zonewise.dev/advice/v1"
    assert document["scenario"] == {"trace": "a.swf", "name": "a", "options": {"seed": 3}, "problems": []}
    assert document["goal"] == {"text": "p95 wait <= 1h", "statistic": "p95", "group": "", "name": "", "bound": 3600.0}
    assert document["setting"] == {"name": "processors", "present": 4}
    assert (document["policy"], document["smallest"], document["neighboursThatMiss"]) == ("p", 4, [5])
    assert document["meetsFrom"] is None
    assert document["curve"][0] == {"value": 2, "wait": None, "jobs": 7, "met": False, "unstarted": 3}
    assert [point["met"] for point in document["curve"]] == [False, False, True, False]
    empty: Any = json.loads("".join(render(advice_document(advice(None)))))
    assert empty["smallest"] is None


def test_the_curve_of_the_picture() -> None:
    curve = advice_curve(advice(4))
    assert curve.smallest == curve.points[2]
    assert curve.points[2][:3] == (4, "4", 1800.0)
    assert (curve.title, curve.setting, curve.statistic, curve.bound) == (
        "a.swf: p95 wait <= 1h", "processors", "p95 wait", 3600.0,
    )  # fmt: skip
    assert advice_curve(advice(None)).smallest is None
