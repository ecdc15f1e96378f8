"""`zonewise hold`: keeps jobs from starting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.cli.command import Command
from zonewise_scheduler.client.action_output import add_action_arguments, print_results
from zonewise_scheduler.client.session import open_session

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = (
        "A held job is not considered until `zonewise release`. Status 0: all are held; 1: some are not, and standard "
        "error has the reasons; 2: unusable arguments, or no API server."
    )
    parser.add_argument("--requeue", action="store_true", help="stop a job that runs, and hold it")
    add_action_arguments(parser)


def run(arguments: Namespace) -> int:
    """Change each job. Raises CommandError."""
    with open_session(arguments) as session:
        from zonewise_scheduler.client.job_actions import hold

        return print_results(
            (hold(session, name, requeue=arguments.requeue, dry_run=arguments.dry_run) for name in arguments.jobs),
            arguments.output,
        )


COMMAND = Command("hold jobs that wait: they do not start until they are released", add_arguments, run)
