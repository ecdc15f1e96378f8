"""`zonewise explain`: shows why a job waits, where a pod runs, or what is free on a node."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from zonewise_common.cli.command import Command
from zonewise_common.cli.output_format import add_output_arguments
from zonewise_common.cli.redraw import add_watch_arguments
from zonewise_common.cli.terminal import stdout_terminal
from zonewise_scheduler.client.cluster.session import add_cluster_arguments, open_session
from zonewise_scheduler.client.cluster.watched_text import show_text

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

_UNKNOWN_NAME = 1


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = (
        "A name without a kind is looked up among jobs, pods and nodes, in this order. To select a kind, write "
        "job/NAME, jobset/NAME, workload/NAME, pod/NAME or node/NAME. Status 0: done; 1: nothing has this name; 2: "
        "unusable arguments, or no API server."
    )
    parser.add_argument("name", metavar="JOB|POD|NODE", help="job of a queue, pod or node")
    add_output_arguments(parser)
    add_watch_arguments(parser)
    add_cluster_arguments(parser, all_namespaces=False)


def run(arguments: Namespace) -> int:
    """Print the explanation. Raises CommandError."""
    terminal = stdout_terminal(arguments.color)
    with open_session(arguments) as session:
        from zonewise_scheduler.client.describe.description import render_description
        from zonewise_scheduler.client.describe.explaining import explain, unknown_name

        first = [explain(session, arguments.name)]
        if first[0] is None:
            sys.stderr.write(f"zonewise: {unknown_name(arguments.name, session.namespace)}\n")
            return _UNKNOWN_NAME

        def text() -> str:
            description = first.pop() if first else explain(session, arguments.name)
            if description is None:
                return f"{arguments.name} no longer exists.\n"
            return render_description(description, arguments.output, terminal)

        show_text(text, terminal, arguments)
    return 0


COMMAND = Command("explain why a job waits, where a pod runs, or what a node has free", add_arguments, run)
