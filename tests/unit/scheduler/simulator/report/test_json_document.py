"""The JSON document: its keys are a promise, and its values are JSON's."""

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


def made(*results: PolicyResult, with_jobs: bool = False) -> Any:
    return json.loads(text_of(*results, with_jobs=with_jobs))


def test_what_was_simulated() -> None:
    found = made(result(PREEMPTED))
    assert list(found) == ["schemaVersion", "scenario", "results"]
    assert found["schemaVersion"] == SCHEMA_VERSION == "zonewise.dev/simulation/v1"
    assert found["scenario"] == {
        "trace": "log.swf.gz",
        "name": "a log",
        "jobs": 7,
        "capacity": {"cpu": 0.008},
        "options": {"nodes": "100", "startLatency": [1.0, None]},
        "problems": ["line 7: no good"],
        "partial": 3,
    }


def test_no_field_is_renamed_or_removed() -> None:
    """Whoever reads version 1 finds all of these."""
    found = made(result(PREEMPTED), with_jobs=True)["results"][0]
    assert list(found) == ["policy", "rules", "decisions", "seconds", "summary", "kinds", "jobs"]
    assert set(found["rules"]) == {"reserveAfter", "depth", "shortestFirst", "overtaking", "eager"}
    assert set(found["summary"]) >= SUMMARY
    assert set(found["summary"]["promises"]) >= {"jobs", "broken", "earlyMean"}
    assert all(set(one) >= JOB for one in found["jobs"])
    told = history(job("a", 0, 8, run(5, 9), forecast=(1, 2, 3), kind="big"))
    found = made(result(told))["results"][0]
    assert set(found["summary"]["forecast"]) >= {"jobs", "unknown", "mean", "median", "declaredMean", "within"}
    assert set(found["kinds"]["big"]) >= SUMMARY


def test_each_policy_has_its_result() -> None:
    names = ["greedy", "conservative", DEFAULT_POLICY]
    found = made(*(result(PREEMPTED, name) for name in names))["results"]
    assert [one["policy"] for one in found] == names
    assert [one["rules"]["reserveAfter"] for one in found] == [None, 0.0, 86_400.0]
    assert [one["rules"]["depth"] for one in found] == [1, None, 1]
    assert "jobs" not in found[0]


def test_a_job() -> None:
    """Never is null; CPUs are CPUs; a promise says when it was made."""
    one = job("a", 3, 1500, run(4, 6, whole=False), run(7, 9, 8), reservation=(3, 7), forecast=(4, 5, inf), kind="k")
    assert made(result(history(one)), with_jobs=True)["results"][0]["jobs"] == [
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


def test_a_job_is_a_line() -> None:
    text = text_of(result(PREEMPTED), with_jobs=True)
    assert sum(line.startswith('        {"name": ') for line in text.splitlines()) == 7
    assert text.endswith("\n")
    assert text.isascii()


def test_names_are_kept_as_they_are() -> None:
    """Only our own fields are in camelCase, not resources and kinds."""
    one = job("a", 0, 1, run(0, 1), kind="my_kind", amounts={"example.com/my_gpu": 1})
    found = made(result(history(one, capacity={"example.com/my_gpu": 4})))["results"][0]
    assert found["summary"]["utilisation"] == {"example.com/my_gpu": 0.25}
    assert list(found["kinds"]) == ["my_kind"]


@pytest.mark.parametrize("value", [nan, inf, -inf])
def test_what_is_no_number_in_json_is_null(value: float) -> None:
    found = history(job("a", 0, 1, walltime=value))
    assert made(result(found), with_jobs=True)["results"][0]["jobs"][0]["limit"] is None


@given(histories())
def test_whatever_happened_is_json_and_the_same_each_time(what: History) -> None:
    one = result(what)
    text = text_of(one, with_jobs=True)
    assert text == text_of(one, with_jobs=True)
    found = json.loads(text)
    assert len(found["results"][0].pop("jobs")) == len(what.jobs)
    assert json.loads(json.dumps(build_document(SUBJECT, [one]), allow_nan=False)) == found


def test_jobs_are_text_one_at_a_time() -> None:
    pieces = list(render(build_document(SUBJECT, [result(PREEMPTED)], with_jobs=True)))
    assert max(one.count('"name"') for one in pieces) == 1
