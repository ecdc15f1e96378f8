"""The description of a node by `zonewise explain`."""

from __future__ import annotations

from typing import Any

from zonewise_common.cli.terminal import Terminal
from zonewise_scheduler.client.describe.describe_node import describe_node
from zonewise_scheduler.client.describe.description import Description, render_description
from zonewise_scheduler.client.jobs.job_facts import JobFacts
from zonewise_scheduler.client.jobs.pod_facts import PodFacts
from zonewise_scheduler.client.nodes.node_facts import NodeAvailability

NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def pod(name: str, workload: str = "") -> PodFacts:
    return PodFacts("ns", name, "node-0", "Running", {"cpu": 4000}, workload)


def job(workload: str, walltime: float | None = None, deadline: float | None = None) -> JobFacts:
    times: dict[str, Any] = {"started_at": NOW - 1800, "walltime": walltime, "deadline": deadline}
    return JobFacts("ns", workload, "Job", "batch/v1", workload, "gpu", "Admitted", **times)


def description(*pods: PodFacts, jobs: tuple[JobFacts, ...]) -> Description:
    node = NodeAvailability("node-0", ready=True, pods=pods)
    return describe_node(node, {f"ns/{job.workload}": job for job in jobs}, NOW, ())


def test_pods_are_listed_in_the_order_in_which_their_jobs_end() -> None:
    late, soon = job("late", walltime=7200, deadline=NOW + 5400), job("soon", walltime=3600, deadline=NOW + 1800)
    overdue = job("overdue", walltime=600, deadline=NOW + 60)
    pods = [
        pod("web"),
        pod("endless-0", "endless"),
        *(pod(f"{each.workload}-0", each.workload) for each in (late, soon)),
    ]
    described = description(*pods, pod("overdue-0", "overdue"), jobs=(late, soon, overdue, job("endless")))
    lines = render_description(described, "table", Terminal()).splitlines()[-6:]
    assert [" ".join(line.split()) for line in lines] == [
        "POD REQUESTS ENDS BY",
        "ns/overdue-0 4 cpu overdue",
        "ns/soon-0 4 cpu in 30m",
        "ns/late-0 4 cpu in 1h30m",
        "ns/web 4 cpu",
        "ns/endless-0 4 cpu unknown",
    ]


def test_the_document_has_the_deadline_of_each_pod() -> None:
    jobs = (job("a", walltime=7200, deadline=NOW + 5400),)
    document = description(pod("a-0", "a"), pod("web"), pod("b-0", "b"), jobs=jobs).document
    fields = [(each["workload"], each["deadline"], each["requests"]) for each in document["pods"]]
    cpus = {"cpu": "4"}
    assert fields == [("a", "2026-01-01T01:30:00Z", cpus), (None, None, cpus), ("b", None, cpus)]
