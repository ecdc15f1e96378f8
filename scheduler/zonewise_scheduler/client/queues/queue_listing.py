"""`zonewise queue`: queues and jobs as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.cli.output_format import Listing
from zonewise_common.cli.table import Cell, Column, make_table
from zonewise_scheduler.client.jobs.job_facts import ADMITTED, FINISHED, HELD, PENDING, STOPPING
from zonewise_scheduler.client.jobs.pod_facts import amounts_text
from zonewise_scheduler.client.nodes.node_listing import UNKNOWN, memory_text
from zonewise_scheduler.client.time_text import format_time, short_duration, time_since, time_until
from zonewise_scheduler.quota.api.amount import UNLIMITED, amount_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zonewise_common.cli.table import Table
    from zonewise_scheduler.client.jobs.job_facts import JobFacts
    from zonewise_scheduler.client.queues.queue_facts import FlavorUsage, QueueFacts

_NO_JOBS = "There are no such jobs; `zonewise queue --all-states` lists finished ones, too."
_SIZES = frozenset({"memory", "ephemeral-storage"})
_STATE_STYLES = {ADMITTED: "good", HELD: "dim", STOPPING: "warning", PENDING: ""}


def list_queues(
    cluster_queues: Sequence[QueueFacts], local_queues: Sequence[QueueFacts], notes: Sequence[str] = ()
) -> Listing:
    """Return ClusterQueues with their quotas and LocalQueues, with a sentence for each queue that admits nothing."""
    queues = [*cluster_queues, *local_queues]
    document = {
        "clusterQueues": [queue.document() for queue in cluster_queues],
        "localQueues": [queue.document() for queue in local_queues],
    }
    inactive = [_inactive(queue) for queue in queues if queue.active is False]
    return Listing(
        (_cluster_queue_table(cluster_queues), _local_queue_table(local_queues)),
        document,
        [f"{queue.kind.lower()}.kueue.x-k8s.io/{queue.name}" for queue in queues],
        [*inactive, *notes],
        "There are no queues; `zonewise check` states what to install.",
    )


def list_jobs(jobs: Sequence[JobFacts], now: float, *, all_namespaces: bool, notes: Sequence[str] = ()) -> Listing:
    """Return jobs with their positions, reasons and forecasts."""
    document = {"items": [job.document() for job in jobs]}
    table = _job_table(jobs, now, all_namespaces=all_namespaces)
    return Listing((table,), document, [job.resource_name for job in jobs], notes, _NO_JOBS)


def _cluster_queue_table(queues: Sequence[QueueFacts]) -> Table:
    columns = (
        Column("CLUSTERQUEUE", shorten="middle"),
        Column("COHORT", shorten="middle"),
        Column("RESOURCE", shorten="middle"),
        Column("FLAVOR", shorten="middle"),
        Column("USED", right=True),
        Column("QUOTA", right=True),
        Column("BORROWED", right=True, wide=True),
        Column("MAY BORROW", right=True, wide=True),
        Column("LENDS", right=True, wide=True),
        Column("SHARE", right=True),
        Column("PENDING", right=True),
        Column("ADMITTED", right=True),
        Column("ACTIVE", wide=True),
    )
    return make_table(columns, [row for queue in queues for row in _cluster_queue_rows(queue)])


def _cluster_queue_rows(queue: QueueFacts) -> Iterator[list[str | Cell]]:
    """Yield a row for each resource of each flavor; the first row also contains the queue itself."""
    head: list[str | Cell] = [queue.name, queue.cohort]
    pending = Cell(_count(queue.pending), "warning" if queue.pending else "")
    active = "" if queue.active is None else "yes" if queue.active else Cell("no", "bad")
    tail: list[str | Cell] = ["" if queue.share is None else str(queue.share), pending, _count(queue.admitted), active]
    for usage in queue.resources:
        yield [*head, *_usage_cells(usage), *tail]
        head, tail = ["", ""], ["", "", "", ""]
    if not queue.resources:
        yield [*head, "", "", "", "", "", "", "", *tail]


def _usage_cells(usage: FlavorUsage) -> list[str | Cell]:
    def text(amount: int | None) -> str:
        if amount is None:
            return ""
        return "unlimited" if amount == UNLIMITED else readable_amount(usage.resource, amount)

    used = UNKNOWN if usage.reserved is None else text(usage.reserved)
    is_full = usage.reserved is not None and usage.nominal > 0 and usage.reserved >= usage.nominal
    return [
        usage.resource,
        usage.flavor,
        Cell(used, "warning" if is_full else ""),
        text(usage.nominal),
        text(usage.borrowed),
        text(usage.borrowing_limit),
        text(usage.lending_limit),
    ]


def _local_queue_table(queues: Sequence[QueueFacts]) -> Table:
    columns = (
        Column("NAMESPACE"),
        Column("LOCALQUEUE"),
        Column("CLUSTERQUEUE", shorten="middle"),
        Column("USED", shorten="end"),
        Column("PENDING", right=True),
        Column("ADMITTED", right=True),
        Column("ACTIVE", wide=True),
    )
    rows: list[list[str | Cell]] = []
    for queue in queues:
        used = ", ".join(
            f"{readable_amount(each.resource, each.reserved or 0)} {each.resource}"
            for each in queue.resources
            if each.reserved
        )
        pending = Cell(_count(queue.pending), "warning" if queue.pending else "")
        active = "" if queue.active is None else "yes" if queue.active else Cell("no", "bad")
        rows.append([queue.namespace, queue.name, queue.cluster_queue, used, pending, _count(queue.admitted), active])
    return make_table(columns, rows)


def _job_table(jobs: Sequence[JobFacts], now: float, *, all_namespaces: bool) -> Table:
    columns = (
        Column("NAMESPACE"),
        Column("JOB", shorten="middle"),
        Column("USER", wide=len({job.user for job in jobs}) <= 1, yields=True, shorten="end"),
        Column("QUEUE", wide=True),
        Column("STATE"),
        Column("POS", right=True),
        Column("PODS", right=True),
        Column("REQUESTS OF A POD", wide=True),
        Column("AGE", right=True, wide=True),
        Column("RUN", right=True),
        Column("LIMIT", right=True),
        Column("WAITED", right=True),
        Column("ENDED", right=True),
        Column("PRIORITY", right=True, wide=True),
        Column("START"),
        Column("LATEST"),
        Column("EARLIEST", wide=True),
        Column("LIKELY", wide=True),
        Column("RESERVED", wide=True),
        Column("REASON", shorten="end"),
        Column("MESSAGE", wide=True),
    )
    rows = [_job_cells(job, now, job.namespace if all_namespaces else "") for job in jobs]
    return make_table(columns, rows)


def _job_cells(job: JobFacts, now: float, namespace: str) -> list[str | Cell]:
    is_waiting = job.state == PENDING
    times = (job.earliest, job.likely, job.reserved_start)
    return [
        namespace,
        job.name,
        job.user,
        job.local_queue,
        Cell(job.state, _STATE_STYLES.get(job.state, "")),
        "" if job.position is None else str(job.position),
        str(job.pods),
        "; ".join(amounts_text(amounts) for _, _, amounts in job.requests),
        short_duration(None if job.created_at is None else now - job.created_at),
        Cell(short_duration(job.ran(now)), "bad" if job.overrun(now) else ""),
        short_duration(job.walltime),
        short_duration(job.waited) if job.state == FINISHED else "",
        time_since(job.finished_at, now),
        str(job.priority),
        time_until(job.likely if job.likely is not None else job.reserved_start, now) if is_waiting else "",
        time_until(latest_start(job), now) if is_waiting else "",
        *((format_time(time) or "") if is_waiting else "" for time in times),
        job.reason,
        job.message,
    ]


def latest_start(job: JobFacts) -> float | None:
    """Return the latest start of a job, by its reservation or forecast; None if unknown."""
    times = [time for time in (job.reserved_start, job.latest) if time is not None]
    return min(times, default=None)


def _inactive(queue: QueueFacts) -> str:
    name = f"{queue.namespace}/{queue.name}" if queue.namespace else queue.name
    return f"{queue.kind} {name} admits nothing: {queue.message or queue.reason}"


def _count(number: int | None) -> str:
    return UNKNOWN if number is None else str(number)


def readable_amount(resource: str, amount: int) -> str:
    """Return an amount for people: sizes in GiB as in the table of nodes, others as quantities."""
    return memory_text(amount) if resource in _SIZES else amount_text(resource, amount)
