"""`zonewise release`: queues held jobs again."""

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
    add_action_arguments(parser, done="no job is held any more", not_done="some still are")


def run(arguments: Namespace) -> int:
    """Release each job. Raises CommandError."""

    def act(jobs: NamedJobs, name: str) -> ActionResult:
        from zonewise_scheduler.client.jobs.job_actions import release

        return release(jobs, name, dry_run=arguments.dry_run)

    return act_on_jobs(arguments, act)


COMMAND = Command("release held jobs: they are queued again", add_arguments, run)
