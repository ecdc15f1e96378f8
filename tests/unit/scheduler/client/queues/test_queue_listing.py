"""Queues and jobs as tables, on terminals of any width."""

from __future__ import annotations

from typing import Any

from zonewise_common.cli.output_format import render_listing
from zonewise_common.cli.terminal import Terminal
from zonewise_scheduler.client.jobs.job_facts import JobFacts, read_job, sorted_jobs, with_row
from zonewise_scheduler.client.queues.queue_facts import QueueFacts, read_cluster_queue, read_local_queue, sorted_queues
from zonewise_scheduler.client.queues.queue_listing import list_jobs, list_queues

Json = dict[str, Any]

NOW = 1_767_225_600.0
NOON = "2026-01-01T00:00:00Z"


def cluster_queue(name: str = "research", active: str = "True", **status: Any) -> Json:
    quotas = [
        {"name": "cpu", "nominalQuota": 32},
        {"name": "nvidia.com/gpu", "nominalQuota": "16", "borrowingLimit": "8"},
    ]
    flavor = {"name": "h100", "resources": quotas}
    reserved = [{"name": "cpu", "total": "16"}, {"name": "nvidia.com/gpu", "total": "20", "borrowed": "4"}]
    return {
        "metadata": {"name": name},
        "spec": {"cohortName": "lab", "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}]},
        "status": {
            "conditions": [{"type": "Active", "status": active, "reason": "Stopped", "message": "stopPolicy is Hold"}],
            "flavorsReservation": [{"name": "h100", "resources": reserved}],
            "pendingWorkloads": 3,
            "admittedWorkloads": 2,
            "fairSharing": {"weightedShare": 12},
            **status,
        },
    }


def workload(name: str, *conditions: Json, active: bool = True, created: str = NOON, **metadata: Any) -> Json:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": "u", "controller": True}
    container = {"name": "c", "resources": {"requests": {"cpu": "4", "nvidia.com/gpu": "8"}}}
    return {
        "metadata": {
            "namespace": "ns", "name": f"job-{name}-12345", "ownerReferences": [owner], "creationTimestamp": created,
            "annotations": {"zonewise.dev/max-run-seconds": "7200"}, **metadata,
        },
        "spec": {
            "queueName": "gpu", "active": active,
            "podSets": [{"name": "main", "count": 2, "template": {"spec": {"containers": [container]}}}],
        },
        "status": {"conditions": list(conditions)},
    }  # fmt: skip


def condition(kind: str, status: str = "True", reason: str = "", message: str = "", at: str = NOON) -> Json:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": at}


WAITS = condition(
    "QuotaReserved", "False", "WaitingForQuota", "needs 8 nvidia.com/gpu of flavor h100; cohort lab has 0 left"
)
ROW: Json = {
    "state": "Pending", "clusterQueue": "research", "position": 3, "walltimeSeconds": 7200, "reason": "WaitingForQuota",
    "message": "needs 8 GPUs",
    "forecast": {"earliest": "2026-01-01T01:00:00Z", "likely": "2026-01-01T02:10:00Z", "latest": None},
    "reservedStart": "2026-01-01T03:00:00Z",
}  # fmt: skip


def example_jobs() -> list[JobFacts]:
    running = read_job(workload("train", condition("QuotaReserved"), condition("Admitted", at="2025-12-31T23:30:00Z")))
    waiting = with_row(read_job(workload("evaluate", WAITS)), ROW)
    held = read_job(workload("later", active=False))
    return sorted_jobs([held, waiting, running])


def test_queues() -> None:
    problems: list[str] = []
    queues = [read_cluster_queue(cluster_queue(), problems)]
    local = {
        "metadata": {"namespace": "ns", "name": "gpu"},
        "spec": {"clusterQueue": "research"},
        "status": {"pendingWorkloads": 1},
    }
    listing = list_queues(queues, [read_local_queue(local, problems)])
    assert render_listing(listing, "table", Terminal()).split("\n") == [
        "CLUSTERQUEUE   COHORT   RESOURCE         FLAVOR   USED   QUOTA   SHARE   PENDING   ADMITTED",
        "research       lab      cpu              h100       16      32      12         3          2",
        "                        nvidia.com/gpu   h100       20      16",
        "",
        "NAMESPACE   LOCALQUEUE   CLUSTERQUEUE   PENDING   ADMITTED",
        "ns          gpu          research             1          ?",
        "",
    ]
    assert problems == []
    assert render_listing(listing, "name", Terminal()).split() == [
        "clusterqueue.kueue.x-k8s.io/research", "localqueue.kueue.x-k8s.io/gpu",
    ]  # fmt: skip


def test_sizes_are_in_gib() -> None:
    """The unit is that of `zonewise top`; quantities such as 1649267441664 are for programs."""
    queue = cluster_queue(flavorsReservation=[{"name": "h100", "resources": [{"name": "memory", "total": "1536Gi"}]}])
    queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"] = [{"name": "memory", "nominalQuota": "2Ti"}]
    local = {"metadata": {"namespace": "ns", "name": "gpu"}, "spec": {"clusterQueue": "research"}}
    used = [{"name": "h100", "resources": [{"name": "memory", "total": "1610612736"}]}]
    queues = [read_cluster_queue(queue, [])], [read_local_queue({**local, "status": {"flavorsReservation": used}}, [])]
    lines = render_listing(list_queues(*queues), "table", Terminal()).splitlines()
    assert lines[1].split()[2:6] == ["memory", "h100", "1536Gi", "2048Gi"]
    assert "1.5Gi memory" in lines[4]


def test_a_wide_table_has_limits() -> None:
    text = render_listing(list_queues([read_cluster_queue(cluster_queue(), [])], []), "wide", Terminal(width=80))
    assert "BORROWED   MAY BORROW" in text
    assert "nvidia.com/gpu   h100       20      16          4            8" in text


def test_eighty_columns() -> None:
    queue = read_cluster_queue(cluster_queue("a-very-long-name-of-a-clusterqueue-of-a-department"), [])
    for listing in (list_queues([queue], []), list_jobs(example_jobs(), NOW, all_namespaces=True)):
        text = render_listing(listing, "table", Terminal(width=80))
        assert max(map(len, text.splitlines())) <= 80
        assert render_listing(listing, "table", Terminal(width=80, unicode=False)).isascii()


def test_a_note_states_that_a_queue_admits_nothing() -> None:
    listing = list_queues([read_cluster_queue(cluster_queue(active="False"), [])], [])
    assert listing.notes == ["ClusterQueue research admits nothing: stopPolicy is Hold"]


def test_an_unknown_status_is_not_zero() -> None:
    obj = cluster_queue()
    obj["status"] = {}
    queue = read_cluster_queue(obj, [])
    assert (queue.pending, queue.admitted, queue.active, queue.resources[0].reserved) == (None, None, None, None)
    assert "research       lab      cpu              h100        ?      32" in render_listing(
        list_queues([queue], []), "table", Terminal()
    )
    assert queue.document()["resources"][0]["used"] is None


def test_damaged_queues_are_problems() -> None:
    problems: list[str] = []
    queue = read_cluster_queue({"metadata": {"name": "q"}, "spec": {"resourceGroups": "none"}, "status": []}, problems)
    assert queue == QueueFacts("ClusterQueue", "q")
    assert len(problems) == 2


def test_queues_are_sorted_by_cohort() -> None:
    names = [("b", "x"), ("a", "y"), ("a", "x")]
    queues = [QueueFacts("ClusterQueue", name, cohort=cohort) for cohort, name in names]
    assert [(queue.cohort, queue.name) for queue in sorted_queues(queues)] == [("a", "x"), ("a", "y"), ("b", "x")]


def test_jobs() -> None:
    listing = list_jobs(example_jobs(), NOW, all_namespaces=False)
    assert render_listing(listing, "table", Terminal()).split("\n") == [
        "JOB        STATE      POS   PODS   RUN   LIMIT   START      LATEST   REASON",
        "train      Admitted            2   30m      2h",
        "evaluate   Pending      3      2            2h   in 2h10m   in 3h    WaitingForQuota",
        "later      Held                2            2h                       Deactivated",
        "",
    ]
    assert listing.names == ["job.batch/train", "job.batch/evaluate", "job.batch/later"]
    assert listing.document["items"][1]["forecast"]["likely"] == "2026-01-01T02:10:00Z"


def test_jobs_of_several_users_have_a_column_for_the_user() -> None:
    """A wide list always has it. It yields to the names of jobs. An unknown user is null in the document."""

    def user_column(jobs: list[JobFacts], output: str, width: int = 0) -> bool:
        return " USER " in render_listing(list_jobs(jobs, NOW, all_namespaces=False), output, Terminal(width=width))

    ann, ben, unknown = (
        read_job(workload(name, annotations={"zonewise.dev/submitted-by": user} if user else {}))
        for name, user in (("train", "ann"), ("a-solver-with-a-long-name", "https://id.example.com#ben"), ("old", ""))
    )
    assert [job.document()["user"] for job in (ann, ben, unknown)] == ["ann", "https://id.example.com#ben", None]
    assert [user_column(jobs, "table") for jobs in ([ann], [ann, ben], [ann, unknown])] == [False, True, True]
    assert user_column([ann], "wide")
    assert not user_column([ann, ben], "table", width=40)


def test_a_finished_job_has_the_times_of_its_last_run() -> None:
    """As sacct shows them: when it ended, how long it had waited, and how long it ran."""
    started, ended = (
        condition(kind, at=f"2025-12-31T{at}:00Z") for kind, at in (("Admitted", "22:10"), ("Finished", "23:30"))
    )
    job = read_job(workload("train", started, ended, created="2025-12-31T22:00:00Z"))
    listing = list_jobs([job], NOW, all_namespaces=False)
    assert render_listing(listing, "table", Terminal()).split("\n") == [
        "JOB     STATE      PODS     RUN   LIMIT   WAITED     ENDED",
        "train   Finished      2   1h20m      2h      10m   30m ago",
        "",
    ]
    document = listing.document["items"][0]
    assert (document["startedAt"], document["finishedAt"]) == ("2025-12-31T22:10:00Z", "2025-12-31T23:30:00Z")
    assert document["deadline"] is None


def test_a_job_that_ended_without_a_start_has_no_run() -> None:
    evicted = condition("Admitted", "False", at="2025-12-31T22:10:00Z")
    job = read_job(workload("train", evicted, condition("Finished", at="2025-12-31T23:30:00Z")))
    assert (job.waited, job.ran(NOW), job.overrun(NOW)) == (None, None, 0.0)


def test_a_wide_list_and_the_document_have_the_requests_of_a_pod() -> None:
    listing = list_jobs(example_jobs(), NOW, all_namespaces=False)
    assert "4 cpu, 8 nvidia.com/gpu" in render_listing(listing, "wide", Terminal()).splitlines()[1]
    requests = {"cpu": "4", "nvidia.com/gpu": "8"}
    assert listing.document["items"][0]["podSets"] == [{"name": "main", "pods": 2, "requests": requests}]


def test_a_local_queue_has_no_quota() -> None:
    used = [{"name": "h100", "resources": [{"name": "cpu", "total": "4"}]}]
    obj = {"metadata": {"namespace": "ns", "name": "gpu"}, "status": {"flavorsReservation": used}}
    [usage] = read_local_queue(obj, []).document()["resources"]
    assert usage == {"flavor": "h100", "resource": "cpu", "reserved": "4", "used": None}


def test_colors() -> None:
    text = render_listing(list_jobs(example_jobs(), NOW, all_namespaces=False), "table", Terminal(colors=True))
    assert "\x1b[32mAdmitted\x1b[0m" in text


def test_without_the_read_api_the_reason_is_that_of_the_condition() -> None:
    job = read_job(workload("evaluate", WAITS))
    assert (job.position, job.likely, job.reason) == (None, None, "WaitingForQuota")
    assert job.message.startswith("needs 8 nvidia.com/gpu")
    assert job.requests == (("main", 2, {"cpu": 4000, "nvidia.com/gpu": 8}),)


def test_a_held_job_does_not_show_its_earlier_reason() -> None:
    assert read_job(workload("a", WAITS, active=False)).reason == "Deactivated"


def test_states() -> None:
    def state(*conditions: Json, active: bool = True) -> str:
        return read_job(workload("a", *conditions, active=active)).state

    quota = condition("QuotaReserved")
    assert state() == "Pending"
    assert state(active=False) == "Held"
    assert state(quota) == "Reserved"
    assert state(quota, condition("Admitted")) == "Admitted"
    assert state(quota, condition("Admitted"), condition("Evicted")) == "Stopping"
    assert state(condition("Finished")) == "Finished"


def test_a_group_of_pods_has_the_name_of_its_workload() -> None:
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": f"p-{i}", "uid": str(i)} for i in range(2)]
    job = read_job(workload("group", ownerReferences=owners))
    assert (job.kind, job.name, job.pod_names) == ("Pod", "job-group-12345", ("p-0", "p-1"))
    single = read_job(workload("single", ownerReferences=owners[:1]))
    assert (single.name, single.resource_name) == ("p-0", "pod/p-0")
    assert single.has_name("", "p-0")
    assert single.has_name("workload", "job-single-12345")
    assert not single.has_name("job", "p-0")
