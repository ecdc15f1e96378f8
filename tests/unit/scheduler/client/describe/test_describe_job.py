"""The description of a job by `zonewise explain`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from zonewise_common.cli.terminal import Terminal
from zonewise_scheduler.client.describe.describe_job import JobContextFacts, describe_job
from zonewise_scheduler.client.describe.description import render_description
from zonewise_scheduler.client.jobs.explanation_facts import MAX_BLOCKERS, ExplanationFacts, read_explanation
from zonewise_scheduler.client.jobs.job_facts import JobFacts
from zonewise_scheduler.client.jobs.pod_facts import PodFacts

Json = dict[str, Any]

NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z
WAITING = JobFacts(
    "ns", "job-b-12345", "Job", "batch/v1", "b", "gpu", "Pending", 2, 0, "research", NOW - 720, None, 7200.0,
    position=3, reserved_start=NOW + 8400, earliest=NOW + 3600, likely=NOW + 7800, latest=NOW + 9000,
    reason="WaitingForQuota", message="needs 8 GPUs; cohort lab has 0 left", requests=(("main", 2, {"cpu": 4000}),),
)  # fmt: skip
RUNNING = replace(
    WAITING,
    name="a",
    workload="job-a-12345",
    state="Admitted",
    started_at=NOW - 1800,
    deadline=NOW + 5400,
    reason="",
    message="",
)
BLOCKED = ExplanationFacts(("ns/job-a-12345", "ns/job-x-1"), (), NOW + 8400)

NOTHING = JobContextFacts()


def text(job: JobFacts, context: JobContextFacts = NOTHING, **settings: Any) -> list[str]:
    return render_description(describe_job(job, context, NOW), "table", Terminal(**settings)).splitlines()


def test_a_finished_job_states_its_wait_and_its_run() -> None:
    finished = replace(RUNNING, state="Finished", finished_at=NOW - 600, deadline=None, reason="Succeeded")
    cases = {
        "state     Finished 10m ago, waited for 42m and ran for 20m": replace(finished, created_at=NOW - 4320),
        "state     Finished 10m ago, ran for 20m": replace(finished, created_at=None),
        "state     Finished 10m ago": replace(finished, started_at=None),
        "state     Finished": replace(finished, finished_at=None),
    }
    for line, job in cases.items():
        assert text(job)[1].startswith(line)
    assert "walltime  none is declared" in text(replace(finished, walltime=None))
    assert "walltime  none is declared, so its end is unknown" in text(replace(RUNNING, walltime=None))


def test_why_a_job_waits() -> None:
    lines = text(WAITING, JobContextFacts(BLOCKED, {"ns/job-a-12345": RUNNING}))
    assert lines == [
        "Job ns/b",
        "state     Pending for 12m, number 3 in its ClusterQueue",
        "queue     LocalQueue gpu, ClusterQueue research",
        "requests  2 pods, each 4 cpu",
        "walltime  2h",
        "reason    WaitingForQuota",
        "why       needs 8 GPUs; cohort lab has 0 left",
        "start     reserved, at 02:20 UTC (in 2h20m) at the latest",
        "forecast  earliest at 01:00 UTC (in 1h), likely at 02:10 UTC (in 2h10m), latest at 02:20 UTC (in 2h20m)",
        "",
        "MUST END FIRST   STATE      RUN   ENDS AT THE LATEST",
        "a                Admitted   30m   at 01:30 UTC (in 1h30m)",
        "ns/job-x-1",
    ]


def test_a_job_of_another_namespace_is_shown_with_it() -> None:
    lines = text(replace(WAITING, namespace="other"), JobContextFacts(BLOCKED, {"ns/job-a-12345": RUNNING}))
    assert "ns/a             Admitted   30m   at 01:30 UTC (in 1h30m)" in lines


def test_only_the_last_blockers_are_shown() -> None:
    waits_for = tuple(f"ns/w{i}" for i in range(50))
    lines = text(WAITING, JobContextFacts(ExplanationFacts(waits_for, ("ns/p0", "ns/w49"))))
    shown = [line for line in lines if line.startswith("ns/")]
    assert shown == [*(f"ns/w{i}" for i in range(31, 49)), "ns/p0", "ns/w49"]
    assert lines[-1] == "31 other workloads must end first; all are in -o json"


@pytest.mark.parametrize(("waiting", "preempted"), [(0, 0), (3, 0), (0, 3), (30, 0), (30, 19), (30, 20), (5, 30)])
def test_no_more_than_twenty_workloads_are_read(waiting: int, preempted: int) -> None:
    facts = ExplanationFacts(tuple(f"ns/w{i}" for i in range(waiting)), tuple(f"ns/p{i}" for i in range(preempted)))
    shown = facts.shown_blockers
    assert len(shown) == len(set(shown)) == min(MAX_BLOCKERS, waiting + preempted)
    assert sum(key.startswith("ns/p") for key in shown) == min(preempted, MAX_BLOCKERS)


def test_a_priority_other_than_the_default_is_shown() -> None:
    assert "priority  -5" in text(replace(WAITING, priority=-5))
    assert not any(line.startswith("priority") for line in text(WAITING))


def test_eighty_columns() -> None:
    context = JobContextFacts(BLOCKED, {"ns/job-a-12345": RUNNING})
    assert max(map(len, text(WAITING, context, width=80))) <= 80


@pytest.mark.parametrize(
    ("explanation", "job", "start"),
    [
        (
            ExplanationFacts(never_fits=True),
            WAITING,
            "never with the present nodes and quotas: it does not fit even when all others have ended",
        ),
        (
            ExplanationFacts(start=NOW + 60),
            replace(WAITING, reserved_start=None, position=1),
            "at 00:01 UTC (in 1m), which is not reserved",
        ),
        (
            ExplanationFacts(start=NOW + 60),
            replace(WAITING, reserved_start=None, position=2),
            "at 00:01 UTC (in 1m), unless the job before it starts first; it is not reserved",
        ),
        (
            ExplanationFacts(start=NOW + 60),
            replace(WAITING, reserved_start=None),
            "at 00:01 UTC (in 1m), unless one of the 2 jobs before it starts first; it is not reserved",
        ),
        (
            ExplanationFacts(("ns/a",)),
            replace(WAITING, reserved_start=None),
            "unknown: the workloads that must end first declare no walltime",
        ),
    ],
)
def test_starts(explanation: ExplanationFacts, job: JobFacts, start: str) -> None:
    assert f"start     {start}" in text(job, JobContextFacts(explanation))


def test_a_running_job_with_pods_and_node_problems() -> None:
    pods = [
        PodFacts("ns", "a-0", "node-1", "Running", {}, predicted_admission="main zones=0 cpus=1-4"),
        PodFacts("ns", "a-1", "node-2", "Failed", {}, reason="TopologyAffinityError", message="cannot be aligned"),
    ]
    context = JobContextFacts(pods=pods, node_problems={"node-2": ("GpuLost: XID79: GPU 3 has fallen off the bus",)})
    lines = text(RUNNING, context)
    assert "state        Admitted, runs for 30m, ends in 1h30m at the latest" in lines
    assert "node node-2  GpuLost: XID79: GPU 3 has fallen off the bus" in lines
    assert "a-0   node-1   Running   main zones=0 cpus=1-4" in lines
    assert lines[-1].endswith("TopologyAffinityError: cannot be aligned")


def test_a_job_that_runs_longer_than_it_declares() -> None:
    """The planner expects such a job to end within a minute, again and again; this is not an upper bound."""
    job = replace(RUNNING, walltime=1200.0, deadline=NOW + 60)
    assert "state     Admitted, runs for 30m, 10m longer than it declares" in text(job)
    lines = text(WAITING, JobContextFacts(BLOCKED, {"ns/job-a-12345": job}))
    assert "a                Admitted   30m   unknown: it runs longer than it declares" in lines


def test_an_admitted_job_without_pods() -> None:
    """The API server may reject its start, or each of its pods. Pods of other kinds of jobs may not be recognized."""
    line = "pods      none exists; if this persists, the events show the reason"
    assert line in text(RUNNING)
    with_pods = JobContextFacts(pods=[PodFacts("ns", "a-0", "n", "Running", {})])
    for job, context in ((RUNNING, with_pods), (WAITING, NOTHING), (replace(RUNNING, kind="JobSet"), NOTHING)):
        assert line not in text(job, context)


def test_the_newest_events() -> None:
    def event(reason: str, at: str) -> Json:
        return {"reason": reason, "message": "m", "lastTimestamp": at, "involvedObject": {"name": "b"}}

    events = [event("Admitted", "2025-12-31T23:59:30Z"), event("Pending", "2025-12-31T23:50:00Z")]
    assert [line.split() for line in text(RUNNING, JobContextFacts(events=events))[-2:]] == [
        ["10m", "Pending", "m"], ["30s", "Admitted", "m"],
    ]  # fmt: skip
    assert "Pending" not in text(WAITING, JobContextFacts(events=events))[-2:][0]
    failed = [
        {**event("FailedCreate", f"2025-12-31T23:59:5{i}Z"), "message": f'pods "a-0-bcdf{letter}" is forbidden'}
        for i, letter in enumerate("bcdfghj")
    ]
    assert text(RUNNING, JobContextFacts(events=[*events, *failed]))[-1].split()[:3] == ["4s", "(x7)", "FailedCreate"]


def test_output_for_programs() -> None:
    description = describe_job(WAITING, JobContextFacts(BLOCKED), NOW)
    assert description.document["waitsFor"] == ["ns/job-a-12345", "ns/job-x-1"]
    assert description.document["couldStart"] == "2026-01-01T02:20:00Z"
    assert render_description(description, "name", Terminal()) == "job.batch/b\n"


def test_the_explanation_of_the_read_api() -> None:
    row = {"explanation": {"waitsFor": ["ns/a"], "preempts": [], "start": "2026-01-01T00:00:00Z", "reserved": True}}
    assert read_explanation(row) == ExplanationFacts(("ns/a",), (), NOW)
    assert read_explanation(None) == ExplanationFacts()
