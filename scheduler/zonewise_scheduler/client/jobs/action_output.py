"""Arguments and output of the commands that change jobs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from zonewise_common.cli.output import STANDARD_OUTPUT, write
from zonewise_common.cli.terminal import printable
from zonewise_scheduler.client.cluster.session import add_cluster_arguments, open_session

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable

    from zonewise_scheduler.client.jobs.job_actions import ActionResult
    from zonewise_scheduler.client.jobs.job_reading import NamedJobs

_NOT_DONE = 1


def add_action_arguments(parser: ArgumentParser, *, done: str, not_done: str = "some are not") -> None:
    """Declare the arguments of a command that changes jobs; `done` and `not_done` explain the statuses 0 and 1."""
    status = (
        f"Status 0: {done}; 1: {not_done}, for the reasons on standard error; 2: unusable arguments, or no API server."
    )
    parser.epilog = " ".join(filter(None, (parser.epilog, status)))
    parser.add_argument("jobs", metavar="JOB", nargs="+", help="job of a queue: NAME, job/NAME, jobset/NAME or "
        "workload/NAME")  # fmt: skip
    parser.add_argument("--dry-run", action="store_true", help="print what would be done, and change nothing")
    parser.add_argument("-o", "--output", choices=("text", "name"), default="text", help="print sentences, or only "
        "names (default: text)")  # fmt: skip
    add_cluster_arguments(parser, all_namespaces=False, read_api=False)


def act_on_jobs(arguments: Namespace, act: Callable[[NamedJobs, str], ActionResult]) -> int:
    """Change each job, print each result as it arrives, and return the exit status. Raises CommandError."""
    status = 0
    with open_session(arguments) as session:
        from zonewise_scheduler.client.jobs.job_reading import NamedJobs

        jobs = NamedJobs(session)
        for name in arguments.jobs:
            result = act(jobs, name)
            if result.done:
                text = result.name if arguments.output == "name" else result.message
                write(f"{printable(text)}\n", STANDARD_OUTPUT)
            else:
                sys.stderr.write(f"zonewise: {printable(result.message)}\n")
                status = _NOT_DONE
    return status
