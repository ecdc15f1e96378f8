"""`zonewise forecast`: when a job would start, without submitting it."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from zonewise_common.cli.argument_types import checked
from zonewise_common.cli.command import Command, CommandError
from zonewise_common.cli.output import STANDARD_OUTPUT, write
from zonewise_common.cli.output_format import JSON, TABLE, YAML, add_output_arguments
from zonewise_common.cli.terminal import stdout_terminal
from zonewise_scheduler.client.cluster.session import add_cluster_arguments, open_session
from zonewise_scheduler.client.submit.job_request import GPU, JobRequest, pod_devices
from zonewise_scheduler.client.submit.sbatch_values import parse_gpus, parse_memory, parse_time_limit
from zonewise_scheduler.commands.arguments import count

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping

    from zonewise_scheduler.client.cluster.session import Json

_NO_START = 1


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = (
        "The controller simulates its queue with this job in it, and submits nothing. The start is unknown if jobs "
        "before it declare no walltime, or are too many to simulate. Status 0: a start is known; 1: the job never "
        "fits, or its start is unknown; 2: unusable arguments, or no read API."
    )
    add = parser.add_argument
    add("-p", "--queue", "--partition", metavar="QUEUE", default="", help="LocalQueue of the job (default: "
        "$ZONEWISE_QUEUE, else `default`)")  # fmt: skip
    add(
        "-N",
        "--pods",
        "--nodes",
        type=count,
        default=1,
        metavar="NUMBER",
        help="number of pods, which all start together (default: 1)",
    )
    add("-c", "--cpus", type=count, default=1, metavar="NUMBER", help="CPUs of each pod (default: 1)")
    add(
        "--mem",
        type=checked(parse_memory),
        default=None,
        metavar="SIZE",
        help="memory of each pod: 64G, 512M, 4096 (MiB)",
    )
    add("-G", "--gpus", type=checked(parse_gpus), metavar="NUMBER", help="GPUs of all pods together")
    add("--gpus-per-node", type=checked(parse_gpus), metavar="NUMBER", help="GPUs of each pod")
    add("--gpu-resource", metavar="NAME", default=GPU, help=f"resource that --gpus requests (default: {GPU})")
    parser.set_defaults(gres=None, gpus_per_task=None)  # pod_devices() reads these options of `zonewise submit`
    add("-t", "--time", type=checked(parse_time_limit), default=None, metavar="TIME", help="walltime of the job: 2h, "
        "90 (minutes), 1:30:00, 1-12 (days-hours)")  # fmt: skip
    add("--priority", type=int, default=0, metavar="NUMBER", help="priority of the job (default: 0)")
    add(
        "--topology",
        metavar="LABEL",
        default="",
        help="level of the queue's Topology; all pods go to one domain of this level",
    )
    add_output_arguments(parser, (TABLE, JSON, YAML))
    add_cluster_arguments(parser, all_namespaces=False)


def run(arguments: Namespace) -> int:
    """Print the forecast. Raises CommandError."""
    terminal = stdout_terminal(arguments.color)
    request = _request(arguments)
    with open_session(arguments) as session:
        from zonewise_common.kube.errors import NotFound
        from zonewise_scheduler.client.cluster.read_api import ReadApiUnavailable
        from zonewise_scheduler.client.describe.describe_forecast import describe_forecast
        from zonewise_scheduler.client.describe.description import render_description
        from zonewise_scheduler.client.submit.job_objects import pod_requests, summary
        from zonewise_scheduler.client.time_text import parse_time

        try:
            query = _query(arguments, session.namespace, request, pod_requests(request))
            response = session.read_api.get("/api/v1/forecast", query)
        except NotFound as error:
            raise CommandError(
                "the controller is older than this command and makes no forecasts: upgrade it"
            ) from error
        except ReadApiUnavailable as error:
            raise CommandError(f"a forecast needs the controller's read API: {error}") from error
    now = parse_time(response.get("at"))  # the controller's clock, which the forecast follows
    description, is_known = describe_forecast(response, summary(request), time.time() if now is None else now)
    write(render_description(description, arguments.output, terminal), STANDARD_OUTPUT)
    return 0 if is_known else _NO_START


COMMAND = Command("forecast when a job would start, without submitting it", add_arguments, run)


def _request(arguments: Namespace) -> JobRequest:
    """Return the job's requests. Raises CommandError."""
    return JobRequest(
        "",
        "",
        arguments.queue or os.environ.get("ZONEWISE_QUEUE", "") or "default",
        arguments.pods,
        cpus=arguments.cpus,
        memory=arguments.mem,
        devices=pod_devices(arguments, arguments.pods, 1),
        walltime=arguments.time,
        topology=arguments.topology,
    )


def _query(arguments: Namespace, namespace: str, request: JobRequest, requests: Mapping[str, str]) -> Json:
    return {
        "namespace": namespace,
        "queue": request.queue,
        "pods": request.pods,
        "requests": ",".join(f"{name}={amount}" for name, amount in requests.items()),
        "walltime": "" if request.walltime is None else f"{max(1, round(request.walltime))}s",
        "priority": arguments.priority,
        "topology": request.topology,
    }
