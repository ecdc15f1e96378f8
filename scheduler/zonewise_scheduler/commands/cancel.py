"""`zonewise cancel`: deletes jobs with their pods."""

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
        "Status 0: all are cancelled; 1: some are not, and standard error has the reasons; 2: unusable arguments, or "
        "no API server."
    )
    add_action_arguments(parser)


def run(arguments: Namespace) -> int:
    """Change each job. Raises CommandError."""
    with open_session(arguments) as session:
        from zonewise_scheduler.client.job_actions import cancel

        return print_results(
            (cancel(session, name, dry_run=arguments.dry_run) for name in arguments.jobs), arguments.output
        )


COMMAND = Command("cancel jobs: delete them with their pods", add_arguments, run)
