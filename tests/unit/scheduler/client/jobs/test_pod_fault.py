"""The hardware fault that hit the pods of a job, according to the agent's conditions and Events."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.health_stories import FIRST_GPU, POD, START, Story, xid
from zonewise.objects.hardware_faults import event_message, node_conditions, pod_condition, reason
from zonewise_scheduler.client.jobs.job_facts import JobFacts
from zonewise_scheduler.client.jobs.pod_fault import (
    MAX_LINES,
    PodFault,
    fault_lines,
    job_faults,
    pod_name_pattern,
    read_event_fault,
    read_pod_fault,
    without_fault,
)
from zonewise_scheduler.client.time_text import format_time

Json = dict[str, Any]
JOB = JobFacts("ns", "job-train-1", "Job", "batch/v1", "train", "gpu", "Admitted", requests=(("main", 2, {}),))


def struck(code: int) -> tuple[Json, Json, float]:
    """Return a pod and an Event as the agent and the kubelet leave them, and the time of the fault."""
    story = Story()
    story.held = {FIRST_GPU: [POD]}
    story.observe()
    at = story.now + 1
    story.observe(events=xid(code, at))
    [fault] = story.state.active
    condition = pod_condition(fault)
    assert condition is not None
    ended = {"terminated": {"exitCode": 134, "finishedAt": format_time(at + 2)}}
    pod = {
        "metadata": {"name": POD.pod},
        "spec": {"nodeName": "node-7"},
        "status": {
            "conditions": [{"type": "Ready", "status": "False"}, condition._asdict()],
            "containerStatuses": [{"name": "main", "state": ended}],
        },
    }
    event = {
        "involvedObject": {"kind": "Pod", "name": POD.pod},
        "source": {"component": "zonewise-agent", "host": "node-7"},
        "reason": reason(fault.sign.rule),
        "message": event_message(fault),
        "lastTimestamp": format_time(at),
    }
    return pod, event, at


@pytest.mark.parametrize(
    ("code", "start"),
    [
        (79, "the hardware: XID 79: "),
        (119, "the driver or the firmware: XID 119: "),
        (31, "the program, not the hardware: XID 31: "),
    ],
)
def test_the_condition_and_the_event_give_the_same_text(code: int, start: str) -> None:
    pod, event, at = struck(code)
    [line] = fault_lines(job_faults([pod], [event]), at + 60)
    assert line.startswith(start)
    assert line.endswith(
        f"(gpu {FIRST_GPU.name}) on node-7 at 22:13 UTC, 2s before pod {POD.pod} ended with exit code 134"
    )
    [later] = fault_lines(job_faults([], [event]), at + 60)
    assert later == line.replace("2s before pod", "while pod").replace("ended with exit code 134", "held it")


def test_pods_hit_by_one_fault_share_a_line() -> None:
    faults = [
        PodFault(f"train-{n}-abcde", "node-7", "hardware", "XID79", "off", "gpu 0", START, START + 9 - n, 1)
        for n in range(8)
    ]
    [line] = fault_lines(faults, START)
    assert line.endswith("2s before pod train-7-abcde and 7 other pods ended with exit code 1")
    many = [PodFault("p", f"node-{n}", "hardware", "XID79", "off", "gpu 0") for n in range(9)]
    assert len(fault_lines(many, START)) == MAX_LINES + 1
    assert fault_lines(many, START)[-1] == "and 3 more faults: -o json lists all"


def test_unknown_conditions_are_shown_unchanged() -> None:
    condition = {"type": "zonewise.dev/HardwareFault", "status": "Unknown", "reason": "R", "message": "something else"}
    fault = read_pod_fault({"metadata": {"name": "p"}, "status": {"conditions": [condition]}})
    assert fault is not None
    assert fault_lines([fault], START) == ["unknown: the hardware or the program: something else, while pod p held it"]
    assert read_pod_fault({}) is None
    _, event, _ = struck(79)
    assert read_event_fault({**event, "source": {"component": "kubelet"}}) is None
    assert read_event_fault({**event, "involvedObject": {"kind": "Node", "name": "node-7"}}) is None
    assert read_event_fault({**event, "message": "no such form"}) is None


@pytest.mark.parametrize(
    ("pod", "is_its"),
    [
        ("train-7x2bq", True),
        ("train-12-7x2bq", True),
        ("train-workers-0-3-7x2bq", True),
        ("train-workers-3", True),
        ("train-big-7x2bq", False),
        ("train-abcde", False),  # generated names have no vowels
        ("train", False),
    ],
)
def test_the_names_of_the_pods_of_a_job(pod: str, is_its: bool) -> None:
    job = replace(JOB, requests=(("workers", 4, {}),))
    assert bool(pod_name_pattern(job).fullmatch(pod)) is is_its


def test_the_text_without_a_fault() -> None:
    conditions = [condition._asdict() for condition in node_conditions(())]
    nodes: dict[str, Json] = {f"node-{n}": {"status": {"conditions": conditions}} for n in range(5)}
    nodes["other"] = {"status": {}}
    assert list(without_fault(nodes)) == [
        "none on a device of its pods, according to the agent of node-0, node-1, node-2 and 2 more",
        "unknown on other: its agent publishes no health (health.mode)",
    ]
    assert list(without_fault({})) == []
