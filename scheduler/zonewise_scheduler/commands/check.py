"""`zonewise check`: says what is missing or does not match in the setup of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.cli.command import Command
from zonewise_common.cli.output import STANDARD_OUTPUT, write
from zonewise_common.cli.output_format import JSON, TABLE, YAML, add_output_arguments
from zonewise_common.cli.terminal import stdout_terminal
from zonewise_scheduler.client.cluster.session import add_cluster_arguments, open_session

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

_HAS_ERROR = 1


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = (
        "The command checks nodes and their agents' reports, the policies of kubelets, and pods that wait for a "
        "scheduler that does not run. It also checks the controller, queues, and flavors with their quotas. It "
        "reports each problem with its repair, if there is one, and changes nothing. "
        "Status 0: no error; 1: an error was found; 2: unusable arguments, or no API server."
    )
    add_output_arguments(parser, (TABLE, JSON, YAML))
    add_cluster_arguments(parser, namespaced=False, all_namespaces=False)


def run(arguments: Namespace) -> int:
    """Print the findings. Raises CommandError."""
    terminal = stdout_terminal(arguments.color)
    with open_session(arguments) as session:
        from zonewise_scheduler.client.describe.describe_setup import describe_setup
        from zonewise_scheduler.client.describe.description import render_description
        from zonewise_scheduler.client.setup.setup_findings import ERROR, setup_findings
        from zonewise_scheduler.client.setup.setup_reading import read_setup

        findings = setup_findings(read_setup(session))
        write(render_description(describe_setup(findings), arguments.output, terminal), STANDARD_OUTPUT)
    return _HAS_ERROR if any(finding.result == ERROR for finding in findings) else 0


COMMAND = Command("check the setup of a cluster, and report what to repair", add_arguments, run)
