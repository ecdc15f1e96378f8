"""`zonewise hold`: keeps jobs from starting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.cli.command import Command
from zonewise_scheduler.client.jobs.action_output import act_on_jobs, add_action_arguments

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from zonewise_scheduler.client.jobs.job_actions import ActionResult
    from zonewise_scheduler.client.jobs.job_reading import NamedJobs


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = "A held job is not considered until `zonewise release`."
    parser.add_argument("--requeue", action="store_true", help="also stop and hold jobs that run")
    add_action_arguments(parser, done="all jobs are held")


def run(arguments: Namespace) -> int:
    """Hold each job. Raises CommandError."""

    def act(jobs: NamedJobs, name: str) -> ActionResult:
        from zonewise_scheduler.client.jobs.job_actions import hold

        return hold(jobs, name, requeue=arguments.requeue, dry_run=arguments.dry_run)

    return act_on_jobs(arguments, act)


COMMAND = Command("hold pending jobs: they do not start until they are released", add_arguments, run)
