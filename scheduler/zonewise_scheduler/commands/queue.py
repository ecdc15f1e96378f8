"""`zonewise queue`: lists queues with their quotas, and the jobs of a queue."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from zonewise_common.cli.argument_types import checked
from zonewise_common.cli.command import Command
from zonewise_common.cli.output_format import add_output_arguments, render_listing
from zonewise_common.cli.redraw import add_watch_arguments
from zonewise_common.cli.terminal import stdout_terminal
from zonewise_scheduler.client.cluster.session import add_cluster_arguments, open_session
from zonewise_scheduler.client.cluster.watched_text import show_text

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from zonewise_common.cli.output_format import Listing
    from zonewise_scheduler.client.cluster.session import Session
    from zonewise_scheduler.client.jobs.job_reading import QueueSelection
    from zonewise_scheduler.client.queues.queue_facts import QueueFacts

_NO_QUEUE = 1


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    from zonewise_scheduler.client.jobs.job_selection import SORT_COLUMNS, read_states

    parser.epilog = (
        "USED is the quota that workloads have reserved. SHARE is the share of fair sharing; the queue with the "
        "lowest share is next. START is the likely start of a pending job, and LATEST the latest one. Both are "
        "unknown if jobs before it declare no walltime, or are too many to simulate. WAITED is the time from the "
        "creation of a finished job to its last start, and RUN the time from this start to its end. USER submitted "
        "the job; the column appears if there are several users. For more columns, use -o wide. Status 0: done; 1: "
        "there is no such queue; 2: unusable arguments, or no API server."
    )
    parser.add_argument("queue", metavar="QUEUE", nargs="?", default="", help="LocalQueue or ClusterQueue whose jobs "
        "to list")  # fmt: skip
    parser.add_argument("-j", "--jobs", action="store_true", help="list the jobs of all queues in the namespace")
    parser.add_argument("--all-states", action="store_true", help="include finished jobs; implies "
        "--jobs")  # fmt: skip
    parser.add_argument("--state", metavar="STATES", type=checked(read_states), default=frozenset(), help="list only "
        "jobs in these states, such as pending,held; implies --jobs")  # fmt: skip
    users = parser.add_mutually_exclusive_group()
    users.add_argument("-u", "--user", metavar="NAME", default="", help="list only jobs that this user submitted; "
        "implies --jobs")  # fmt: skip
    users.add_argument("--me", action="store_true", help="list only your own jobs; implies --jobs")
    parser.add_argument("--sort-by", metavar="COLUMN", choices=SORT_COLUMNS, default="", help="sort jobs by "
        f"{', '.join(SORT_COLUMNS)}; implies --jobs")  # fmt: skip
    add_output_arguments(parser)
    add_watch_arguments(parser)
    add_cluster_arguments(parser)


def run(arguments: Namespace) -> int:
    """Print queues or jobs. Raises CommandError."""
    terminal = stdout_terminal(arguments.color)
    with open_session(arguments) as session:
        from zonewise_scheduler.client.jobs.job_reading import find_queue

        selection = find_queue(session, arguments.queue) if arguments.queue else None
        if arguments.queue and selection is None:
            sys.stderr.write(
                f"zonewise: there is no queue {arguments.queue} in namespace {session.namespace}, and no such "
                "ClusterQueue; `zonewise queue -A` lists all queues\n"
            )
            return _NO_QUEUE

        user = session.username() if arguments.me else arguments.user
        selects_jobs = arguments.all_states or arguments.state or arguments.sort_by or user
        lists_jobs = arguments.jobs or selects_jobs or selection is not None

        def text() -> str:
            listing = _jobs(session, selection, arguments, user) if lists_jobs else _queues(session)
            return render_listing(listing, arguments.output, terminal)

        show_text(text, terminal, arguments)
    return 0


COMMAND = Command("list queues with their quota and usage, or the jobs of a queue", add_arguments, run)


def _queues(session: Session) -> Listing:
    from zonewise_common.kube.errors import Forbidden
    from zonewise_common.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES
    from zonewise_scheduler.client.queues.queue_facts import read_cluster_queue, read_local_queue, sorted_queues
    from zonewise_scheduler.client.queues.queue_listing import list_queues

    problems: list[str] = []
    notes: list[str] = []
    try:
        cluster_queues = [read_cluster_queue(obj, problems) for obj in session.list(CLUSTER_QUEUES)]
    except Forbidden as error:
        cluster_queues: list[QueueFacts] = []
        notes.append(f"ClusterQueues are missing: {error.message}")
    local_queues = [read_local_queue(obj, problems) for obj in session.list(LOCAL_QUEUES, scope=session.scope)]
    if cluster_queues and not local_queues and not session.all_namespaces:
        notes.append(f"There is no LocalQueue in namespace {session.namespace}; `zonewise queue -A` lists all.")
    return list_queues(sorted_queues(cluster_queues), sorted_queues(local_queues), [*notes, *problems])


def _jobs(session: Session, selection: QueueSelection | None, arguments: Namespace, user: str) -> Listing:
    from zonewise_scheduler.client.jobs.job_facts import STATES
    from zonewise_scheduler.client.jobs.job_reading import read_jobs
    from zonewise_scheduler.client.jobs.job_selection import select_jobs
    from zonewise_scheduler.client.queues.queue_listing import list_jobs

    jobs, notes = read_jobs(session, everywhere=selection is not None and bool(selection.cluster_queue))
    if selection is not None:
        jobs = [job for job in jobs if selection.has(job)]
    states = frozenset(STATES) if arguments.all_states else arguments.state
    jobs = select_jobs(jobs, states, arguments.sort_by, session.now(), user)
    all_namespaces = session.all_namespaces or any(job.namespace != session.namespace for job in jobs)
    return list_jobs(jobs, session.now(), all_namespaces=all_namespaces, notes=notes)
