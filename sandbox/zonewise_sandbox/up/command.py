"""`zonewise up`: a whole cluster on this machine, in one process, until Ctrl-C."""

from __future__ import annotations

import sys
import time
from argparse import RawDescriptionHelpFormatter
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING

from zonewise_common.cli.command import Command, CommandError, require_extra
from zonewise_sandbox.up.node_kinds import NODE_KINDS

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from zonewise_sandbox.up.cluster import Cluster
    from zonewise_sandbox.up.node_descriptions import NodeSet

DEFAULT_NODES = "4xhgx-h100"
DEFAULT_PORT, DEFAULT_STATUS_PORT = 8001, 9821
MAX_PORT = 65535
MIX_NAMES = ("hpc", "ai", "batch")
_EXAMPLES = """\
examples:
  zonewise up                                four nodes of eight GPUs
  zonewise up --nodes 1000 --load ai --speed 60
                                             a thousand of them, with jobs; an hour passes in a minute
  zonewise up --nodes 2xgb200,8xepyc-9654    two kinds of nodes
  zonewise up --nodes 4xnode.tar.zst         four as the one that `zonewise capture` has read
  zonewise up --nodes fleet.yaml             the nodes of a file, as `zonewise simulate --nodes` takes it
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.formatter_class = RawDescriptionHelpFormatter
    parser.description = (
        "Run a cluster in this process, on loopback: an API server in memory, simulated nodes with the real agent,\n"
        "a Job controller, a stand-in for kube-scheduler, and the real extender and controller. Ctrl-C ends it and\n"
        "leaves nothing."
    )
    parser.epilog = f"{_EXAMPLES}\nkinds of nodes:\n{_kinds()}"
    add = parser.add_argument
    add("--nodes", default=DEFAULT_NODES, metavar="NODES", help="NUMBERxKIND, NUMBER, NUMBERxCPUSxMEMORY, captures, "
        f"or a file; several joined by commas (default: {DEFAULT_NODES})")  # fmt: skip
    add("--load", metavar="MIX", help=f"have jobs arrive by themselves: {', '.join(MIX_NAMES)}")
    add("--load-share", type=_positive, metavar="NUMBER", help="their work, as a share of the nodes (default: 0.9)")
    add("--seed", type=int, default=0, metavar="NUMBER", help="of these jobs (default: 0)")
    add("--speed", type=_positive, default=1.0, metavar="NUMBER", help="seconds of the cluster that pass in a second "
        "(default: 1)")  # fmt: skip
    add("--port", type=_port, default=DEFAULT_PORT, metavar="PORT", help="of the API server, on 127.0.0.1; 0: any free "
        f"one (default: {DEFAULT_PORT})")  # fmt: skip
    add("--status-port", type=_port, default=DEFAULT_STATUS_PORT, metavar="PORT", help="of the controller's page, read "
        f"API and metrics; 0: any free one (default: {DEFAULT_STATUS_PORT})")  # fmt: skip
    add("--write-kubeconfig", default="", metavar="FILE", help="write the kubeconfig there, rather than into a "
        "temporary file; it is removed at the end")  # fmt: skip
    add("--log-level", choices=("debug", "info", "warning", "error"), default="error", help="of the log on standard "
        "error (default: error)")  # fmt: skip


def run(arguments: Namespace) -> int:
    """Run until SIGINT or SIGTERM. Raises CommandError."""
    start = time.monotonic()
    with require_extra("scheduler"), require_extra("agent"):
        from zonewise_sandbox.up.cluster import ClusterError, ClusterOptions, open_cluster
        from zonewise_sandbox.up.cluster_clock import MAX_SPEED
        from zonewise_sandbox.up.kubeconfig import written_kubeconfig
        from zonewise_sandbox.up.node_descriptions import NodesError, parse_nodes
    from zonewise_common.service import logs
    from zonewise_common.service.stop_signals import stop_event

    if arguments.speed > MAX_SPEED:
        raise CommandError(f"--speed {arguments.speed:g}: not from above 0 to {MAX_SPEED:g}")
    logs.configure_logging(arguments.log_level, "text")
    stop = stop_event()
    try:
        nodes = parse_nodes(arguments.nodes)
        options = ClusterOptions(nodes, arguments.port, arguments.status_port, arguments.speed)
        with ExitStack() as stack:
            jobs = _load(arguments, nodes)
            cluster = stack.enter_context(open_cluster(options, _progress))
            path = stack.enter_context(written_kubeconfig(cluster.url, arguments.write_kubeconfig))
            if jobs is not None:
                from zonewise_sandbox.up.load import LoadSubmitter

                stack.enter_context(LoadSubmitter(cluster.config, jobs, cluster.clock))
            _write(_summary(nodes, cluster, path, time.monotonic() - start, arguments))
            stop.wait()
            _write("\nending ...\n")
    except (NodesError, ClusterError) as error:
        raise CommandError(str(error)) from error
    except FileExistsError as error:
        raise CommandError(f"--write-kubeconfig {arguments.write_kubeconfig}: the file exists") from error
    except OSError as error:
        raise CommandError(f"{error.filename or 'the cluster'}: {error.strerror or error}") from error
    return 0


COMMAND = Command("run a whole cluster on this machine, to try things out", add_arguments, run)


def _load(arguments: Namespace, nodes: NodeSet):  # noqa: ANN202
    if arguments.load is None:
        if arguments.load_share is not None:
            raise CommandError("--load-share goes with --load")
        return None
    from zonewise_sandbox.up.load import DEFAULT_LOAD, LoadError, load_jobs

    try:
        return load_jobs(arguments.load, nodes, share=arguments.load_share or DEFAULT_LOAD, seed=arguments.seed)
    except LoadError as error:
        raise CommandError(str(error)) from error


def _summary(nodes: NodeSet, cluster: Cluster, path: str, seconds: float, arguments: Namespace) -> str:
    from zonewise_sandbox.up.machines import capacity_text

    kinds = Counter(node.machine.kind for node in nodes.nodes)
    machines = {node.machine.kind: node.machine for node in nodes.nodes}
    speed = f"; {arguments.speed:g} seconds pass in one" if arguments.speed != 1 else ""
    load = f"; jobs of the mix {arguments.load} arrive" if arguments.load else ""
    lines = [
        f"ready in {seconds:.1f} s{speed}{load}",
        "",
        *(f"  {number:5} x {kind}: {capacity_text(machines[kind])}" for kind, number in kinds.items()),
        "",
        f"  API server  {cluster.url}",
        f"  page        {cluster.status_url}",
        f"  kubeconfig  {path}",
        "",
        "In another terminal:",
        "",
        f"  export KUBECONFIG={path}",
        "  kubectl get nodes",
        "  kubectl create job hello --image none -- true",
        "  kubectl get workloads",
        "",
        "Ctrl-C ends the cluster, and nothing of it stays.",
        "",
    ]
    return "\n".join(lines)


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"starting {text} ...\n")
        sys.stderr.flush()


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _kinds() -> str:
    width = max(map(len, NODE_KINDS)) + 2
    return "".join(f"  {kind.name:{width}}{kind.text}\n" for kind in NODE_KINDS.values())


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError
    return value


def _port(text: str) -> int:
    value = int(text)
    if not 0 <= value <= MAX_PORT:
        raise ValueError
    return value
