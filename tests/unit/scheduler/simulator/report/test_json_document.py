"""The JSON document: its keys are stable, and its values are valid JSON."""

from __future__ import annotations

import json
from math import inf, nan
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from support.histories import PREEMPTED, histories, history, job, run
from zonewise_scheduler.backfill.policies import DEFAULT_POLICY, policy_named
from zonewise_scheduler.simulator.report.json_document import SCHEMA_VERSION, build_document, render
from zonewise_scheduler.simulator.report.result import PolicyResult, TraceInfo, build_result

if TYPE_CHECKING:
    from zonewise_scheduler.simulator.history import History

SUBJECT = TraceInfo("log.swf.gz", "a log", {"nodes": "100", "start_latency": (1.0, inf)}, ["line 7: no good"], 3)
SUMMARY = {
    "jobs", "failed", "refused", "waiting", "waitMean", "waitMedian", "waitP95", "waitMax", "readyMean",
    "boundedSlowdown", "utilisation", "effective", "lost", "preemptions", "makespan", "forecast", "promises",
    "decisionsPerSecond",
}  # fmt: skip
JOB = {
    "name", "queue", "kind", "submitted", "limit", "amounts", "pods", "priority", "outcome", "runs", "promised", "told",
    "why", "wait",
}  # fmt: skip


def result(what: History, policy: str = DEFAULT_POLICY) -> PolicyResult:
    return build_result(policy, policy_named(policy), what)


def text_of(*results: PolicyResult, with_jobs: bool = False) -> str:
    return "".join(render(build_document(SUBJECT, results, with_jobs=with_jobs)))


def built(*results: PolicyResult, with_jobs: bool = False) -> Any:
    return json.loads(text_of(*results, with_jobs=with_jobs))


def test_the_document_describes_the_simulation() -> None:
    actual = built(result(PREEMPTED))
    assert list(actual) == ["schemaVersion", "scenario", "results"]
    assert actual["schemaVersion"] == SCHEMA_VERSION == "zonewise.dev/simulation/v1"
    assert actual["scenario"] == {
        "trace": "log.swf.gz",
        "name": "a log",
        "jobs": 7,
        "capacity": {"cpu": 0.008},
        "options": {"nodes": "100", "startLatency": [1.0, None]},
        "problems": ["line 7: no good"],
        "partial": 3,
    }


def test_no_field_is_renamed_or_removed() -> None:
    """Readers of version 1 rely on all of these fields."""
    actual = built(result(PREEMPTED), with_jobs=True)["results"][0]
    assert list(actual) == ["policy", "rules", "decisions", "seconds", "summary", "kinds", "jobs"]
    assert set(actual["rules"]) == {
        "reserveAfter",
        "reserveAfterBase",
        "reserveAfterWalltimes",
        "maxHold",
        "reserveAfterUndeclared",
        "presumedWalltime",
        "depth",
        "shortestFirst",
        "ageWeight",
        "overtaking",
        "eager",
    }
    assert set(actual["summary"]) >= SUMMARY
    assert set(actual["summary"]["promises"]) >= {"jobs", "broken", "earlyMean"}
    assert all(set(entry) >= JOB for entry in actual["jobs"])
    reported = history(job("a", 0, 8, run(5, 9), forecast=(1, 2, 3), kind="big"))
    actual = built(result(reported))["results"][0]
    assert set(actual["summary"]["forecast"]) >= {
        "jobs",
        "unknown",
        "mean",
        "median",
        "relative",
        "shortMedian",
        "longRelative",
        "within",
        "width",
        "longWidth",
    }
    assert set(actual["kinds"]["big"]) >= SUMMARY


def test_each_policy_has_its_result() -> None:
    names = ["greedy", "conservative", DEFAULT_POLICY]
    actual = built(*(result(PREEMPTED, name) for name in names))["results"]
    assert [entry["policy"] for entry in actual] == names
    assert [entry["rules"]["reserveAfter"] for entry in actual] == [None, 0.0, 1_209_600.0]
    assert [entry["rules"]["depth"] for entry in actual] == [1, None, 1]
    assert "jobs" not in actual[0]


def test_a_job() -> None:
    """Infinity is null, CPUs are whole CPUs, and a reservation includes the time at which it was made."""
    entry = job("a", 3, 1500, run(4, 6, whole=False), run(7, 9, 8), reservation=(3, 7), forecast=(4, 5, inf), kind="k")
    assert built(result(history(entry)), with_jobs=True)["results"][0]["jobs"] == [
        {
            "name": "a", "queue": "", "kind": "k", "submitted": 3, "limit": None, "amounts": {"cpu": 1.5}, "pods": 1,
            "priority": 0, "outcome": "done",
            "runs": [
                {"start": 4, "end": 6, "ready": 4, "whole": False}, {"start": 7, "end": 9, "ready": 8, "whole": True},
            ],
            "promised": {"at": 3, "start": 7}, "told": {"earliest": 4, "likely": 5, "latest": None}, "why": "",
            "wait": 4,
        }
    ]  # fmt: skip


def test_each_job_is_one_line() -> None:
    text = text_of(result(PREEMPTED), with_jobs=True)
    assert sum(line.startswith('        {"name": ') for line in text.splitlines()) == 7
    assert text.endswith("\n")
    assert text.isascii()


def test_names_are_kept_as_they_are() -> None:
    """Only the document's own fields are in camelCase, not resources and kinds."""
    entry = job("a", 0, 1, run(0, 1), kind="my_kind", amounts={"example.com/my_gpu": 1})
    actual = built(result(history(entry, capacity={"example.com/my_gpu": 4})))["results"][0]
    assert actual["summary"]["utilisation"] == {"example.com/my_gpu": 0.25}
    assert list(actual["kinds"]) == ["my_kind"]


@pytest.mark.parametrize("value", [nan, inf, -inf])
def test_values_that_json_cannot_represent_are_null(value: float) -> None:
    actual = history(job("a", 0, 1, walltime=value))
    assert built(result(actual), with_jobs=True)["results"][0]["jobs"][0]["limit"] is None


@given(histories())
def test_any_history_gives_valid_json_and_the_same_each_time(what: History) -> None:
    entry = result(what)
    text = text_of(entry, with_jobs=True)
    assert text == text_of(entry, with_jobs=True)
    actual = json.loads(text)
    assert len(actual["results"][0].pop("jobs")) == len(what.jobs)
    assert json.loads(json.dumps(build_document(SUBJECT, [entry]), allow_nan=False)) == actual


def test_jobs_are_rendered_one_at_a_time() -> None:
    pieces = list(render(build_document(SUBJECT, [result(PREEMPTED)], with_jobs=True)))
    assert max(entry.count('"name"') for entry in pieces) == 1
