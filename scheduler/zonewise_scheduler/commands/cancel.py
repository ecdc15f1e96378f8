"""`zonewise cancel`: deletes jobs with their pods."""

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
    add_action_arguments(parser, done="all jobs are cancelled")


def run(arguments: Namespace) -> int:
    """Cancel each job. Raises CommandError."""

    def act(jobs: NamedJobs, name: str) -> ActionResult:
        from zonewise_scheduler.client.jobs.job_actions import cancel

        return cancel(jobs, name, dry_run=arguments.dry_run)

    return act_on_jobs(arguments, act)


COMMAND = Command("cancel jobs: delete them and their pods", add_arguments, run)
