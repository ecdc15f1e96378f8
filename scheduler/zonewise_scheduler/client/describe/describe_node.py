"""`zonewise explain NODE`: what is free in each zone, which pods hold the rest until when, and its problems."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from zonewise_common.cli.details import Detail
from zonewise_common.cli.table import Cell, Column, make_table
from zonewise_scheduler.client.describe.describe_job import pod_problem
from zonewise_scheduler.client.describe.describe_pod import held_text
from zonewise_scheduler.client.describe.description import Description
from zonewise_scheduler.client.jobs.pod_facts import amount_texts, amounts_text
from zonewise_scheduler.client.nodes.node_listing import list_nodes
from zonewise_scheduler.client.time_text import format_time, time_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from zonewise_common.cli.table import Table
    from zonewise_scheduler.client.jobs.job_facts import JobFacts
    from zonewise_scheduler.client.jobs.pod_facts import PodFacts
    from zonewise_scheduler.client.nodes.node_facts import ClassDevices, NodeAvailability


def describe_node(
    node: NodeAvailability, jobs: Mapping[str, JobFacts], now: float, notes: Sequence[str]
) -> Description:
    """Return the description of a node; `jobs` are the known jobs of its pods by PodFacts.workload_key."""
    listing = list_nodes([node])
    pods = None if node.pods is None else [_pod_document(node, pod, jobs.get(pod.workload_key)) for pod in node.pods]
    document = {**listing.document["items"][0], "pods": pods}
    tables = (*listing.tables, _pod_table(node, jobs, now))
    return Description(f"Node {node.name}", list(_details(node)), document, f"node/{node.name}", tables, notes)


def _details(node: NodeAvailability) -> Iterator[Detail]:
    ready = "unknown" if node.ready is None else "Ready" if node.ready else "not Ready"
    state = ready if node.schedulable else f"{ready}, cordoned: no pod is scheduled to it"
    yield Detail("state", [state], "good" if node.ready and node.schedulable else "warning")
    yield Detail("problems", node.problems, "bad")
    if node.zones is None:
        yield Detail("zones", ["unknown: it has no NodeResourceTopology. Check that the agent runs on it."], "warning")
    yield Detail("policy", [node.policy])
    yield Detail("devices", [_devices_text(name, devices) for name, devices in node.class_devices.items()])


def _devices_text(device_class: str, devices: ClassDevices) -> str:
    """Return "gpu.example.com: 2 of 4 free"."""
    free = "an unknown number" if devices.free is None else str(devices.free)
    return f"{device_class}: {free} of {devices.total} free"


def _pod_table(node: NodeAvailability, jobs: Mapping[str, JobFacts], now: float) -> Table:
    """Return the pods in the order in which they end at the latest; those with an unknown end come last."""
    columns = (
        Column("POD", shorten="middle"),
        Column("REQUESTS", shorten="end"),
        Column("HOLDS EXCLUSIVELY", shorten="end"),
        Column("ENDS BY"),
        Column("PREDICTED ADMISSION", wide=True),
        Column("PROBLEM", shorten="end"),
    )
    rows: list[list[str | Cell]] = []
    for pod in sorted(node.pods or (), key=lambda pod: _end(jobs.get(pod.workload_key))):
        holdings = node.held_by(pod)
        problem = Cell(pod_problem(pod), "bad")
        held = "" if holdings is None else held_text(holdings)
        end = _end_text(jobs.get(pod.workload_key), now)
        rows.append(
            [f"{pod.namespace}/{pod.name}", amounts_text(pod.requests), held, end, pod.predicted_admission, problem]
        )
    return make_table(columns, rows)


def _end(job: JobFacts | None) -> float:
    return inf if job is None or job.deadline is None else job.deadline


def _end_text(job: JobFacts | None, now: float) -> str:
    """Return when a pod ends by the walltime of its job; "" for a pod that is in no queue."""
    if job is None:
        return ""
    return "overdue" if job.overrun(now) else time_until(job.deadline, now) or "unknown"


def _pod_document(node: NodeAvailability, pod: PodFacts, job: JobFacts | None) -> dict[str, Any]:
    holdings = node.held_by(pod)
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "workload": pod.workload or None,
        "deadline": None if job is None else format_time(job.deadline),
        "requests": amount_texts(pod.requests),
        "held": None if holdings is None else held_text(holdings),
        "predictedAdmission": pod.predicted_admission or None,
        "problem": pod_problem(pod) or None,
    }
