"""The arguments and the output of commands that change jobs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from zonewise_scheduler.client.session import add_cluster_arguments

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Iterable

    from zonewise_scheduler.client.job_actions import ActionResult

_NOT_DONE = 1


def add_action_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of a command that changes jobs."""
    parser.add_argument("jobs", metavar="JOB", nargs="+", help="a job of a queue: NAME, job/NAME, jobset/NAME, "
        "workload/NAME")  # fmt: skip
    parser.add_argument("--dry-run", action="store_true", help="change nothing, and print what would be done")
    parser.add_argument("-o", "--output", choices=("text", "name"), default="text", help="sentences, or names alone "
        "(default: text)")  # fmt: skip
    add_cluster_arguments(parser, all_namespaces=False, read_api=False)


def print_results(results: Iterable[ActionResult], output: str) -> int:
    """Print each result as it comes, and return the status of the program."""
    status = 0
    for result in results:
        if not result.done:
            sys.stderr.write(f"zonewise: {result.message}\n")
            status = _NOT_DONE
        else:
            sys.stdout.write(f"{result.name if output == 'name' else result.message}\n")
    return status
