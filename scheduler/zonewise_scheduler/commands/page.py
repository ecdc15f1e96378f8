"""`zonewise page`: serves the page of a cluster's controller on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.cli.argument_types import port
from zonewise_common.cli.command import Command, CommandError
from zonewise_common.cli.output import STANDARD_OUTPUT, write
from zonewise_scheduler.client.cluster.session import add_cluster_arguments, open_session

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

DEFAULT_PORT = 9821


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.description = (
        "Serve the controller's page on 127.0.0.1 until Ctrl-C. The page reads its data through the API server with "
        "the credentials of the kubeconfig. The browser receives none of them, and the page is read-only."
    )
    parser.epilog = (
        "The printed address contains a token, because other users of this machine can reach the port as well. Status "
        "2: unusable arguments, or no controller responds."
    )
    parser.add_argument("--port", type=port, default=DEFAULT_PORT, metavar="PORT", help="port to serve on; 0 for any "
        f"free one (default: {DEFAULT_PORT})")  # fmt: skip
    add_cluster_arguments(parser, namespaced=False, all_namespaces=False)


def run(arguments: Namespace) -> int:
    """Serve until SIGINT or SIGTERM. Raises CommandError."""
    with open_session(arguments) as session:
        from zonewise_common.kube.errors import NotFound
        from zonewise_common.service.stop_signals import stop_event
        from zonewise_scheduler.client.cluster.page_server import PageServer
        from zonewise_scheduler.client.cluster.read_api import ReadApiUnavailable

        try:
            session.read_api.get("/api/v1/queues")
        except (ReadApiUnavailable, NotFound) as error:
            raise CommandError(f"the controller: {error}") from error
        try:
            server = PageServer(session.read_api, arguments.port)
        except OSError as error:
            raise CommandError(
                f"--port {arguments.port}: {error.strerror}; choose another port, or 0 for any free one"
            ) from error
        stop = stop_event()
        with server:
            text = f"{server.url}\n\nOpen it in a browser. Ctrl-C ends the page; the cluster stays as it is.\n"
            write(text, STANDARD_OUTPUT)
            stop.wait()
    return 0


COMMAND = Command("show the cluster, its queues and its plan in a browser, read-only", add_arguments, run)
