"""`zonewise up`: a whole cluster on this machine, in one process, until Ctrl-C."""

from __future__ import annotations

import gc
import os
import shlex
import shutil
import sys
import time
from argparse import SUPPRESS, ArgumentTypeError, RawDescriptionHelpFormatter
from contextlib import ExitStack
from typing import TYPE_CHECKING

from zonewise_common.cli.argument_types import port
from zonewise_common.cli.command import Command, CommandError, require_extra
from zonewise_common.cli.interrupts import killed_by_interrupt
from zonewise_common.cli.output import STANDARD_OUTPUT, write
from zonewise_sandbox.up.node_kinds import DEFAULT_POLICY, NODE_KINDS, POLICIES

if TYPE_CHECKING:
    import threading
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

    from zonewise_sandbox.up.cluster import ClusterOptions
    from zonewise_sandbox.up.load import SubmittedAt
    from zonewise_sandbox.up.node_descriptions import NodeSet

DEFAULT_NODES = "4xhgx-h100"
DEFAULT_PORT, DEFAULT_STATUS_PORT = 8001, 9821
MIX_NAMES = ("hpc", "ai", "batch")
"""Same as the simulator's MIXES, whose import is slow."""
_SIMULATED = ("nodes", "topology_policy", "load", "load_share", "seed", "speed", "port", "write_kubeconfig")
"""Arguments that apply only to a simulated cluster."""
_EXAMPLES = """\
examples:
  zonewise up                              four nodes with eight GPUs each
  zonewise up --nodes 1000 --load ai --speed 60
                                           1,000 such nodes with jobs; an hour
                                           passes in a minute
  zonewise up --nodes 2xgb200,8xepyc-9654  nodes of two kinds
  zonewise up --nodes 4xnode.tar.zst       four copies of a captured machine
  zonewise up --nodes fleet.yaml           the nodes of a file, as for simulate
  zonewise up --kubeconfig ~/.kube/config  the page of an existing cluster,
                                           read-only. If zonewise's controller
                                           runs there, use `zonewise page`
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.formatter_class = RawDescriptionHelpFormatter
    parser.description = (
        "Run a cluster in this process, on loopback. It has an API server in memory,\n"
        "simulated nodes with the real agent, and the real extender and controller.\n"
        "A Job controller and a substitute for kube-scheduler complete it. Ctrl-C ends\n"
        "the cluster and leaves nothing behind."
    )
    parser.epilog = f"{_EXAMPLES}\nkinds of nodes:\n{_kinds()}"
    add = parser.add_argument
    add("--nodes", default=SUPPRESS, metavar="NODES", help="nodes to simulate: NUMBERxKIND, NUMBER, "
        "NUMBERxCPUSxMEMORY, captures or a file, or several of these joined by commas (default: "
        f"{DEFAULT_NODES})")  # fmt: skip
    add("--topology-policy", default=SUPPRESS, choices=POLICIES, metavar="POLICY", help="Topology Manager policy of "
        f"the nodes' kubelets, unless a file of nodes sets another one: {', '.join(POLICIES)} (default: "
        f"{DEFAULT_POLICY})")  # fmt: skip
    add(
        "--load",
        default=SUPPRESS,
        metavar="MIX",
        help=f"mix of jobs to submit: {', '.join(MIX_NAMES)} (default: no jobs)",
    )
    add("--load-share", default=SUPPRESS, type=_positive, metavar="NUMBER", help="work of these jobs, as a share of "
        "the nodes' capacity (default: 0.9)")  # fmt: skip
    add("--seed", default=SUPPRESS, type=_natural, metavar="NUMBER", help="seed of these jobs (default: 0)")
    add("--speed", default=SUPPRESS, type=_speed, metavar="NUMBER", help="seconds of the cluster's clock per second "
        "(default: 1)")  # fmt: skip
    add("--port", default=SUPPRESS, type=port, metavar="PORT", help="port of the API server on 127.0.0.1; 0 for any "
        f"free one (default: {DEFAULT_PORT})")  # fmt: skip
    add("--status-port", type=port, default=DEFAULT_STATUS_PORT, metavar="PORT", help="port of the controller's page, "
        f"read API and metrics; 0 for any free one (default: {DEFAULT_STATUS_PORT})")  # fmt: skip
    add("--write-kubeconfig", default=SUPPRESS, metavar="FILE", help="file for the kubeconfig, instead of a temporary "
        "one; it is removed at the end")  # fmt: skip
    add("--kubeconfig", nargs="?", const="", metavar="FILE", help="show the page of this cluster, read-only, and run "
        "no simulated one (without FILE: kubectl's kubeconfig)")  # fmt: skip
    add("--context", metavar="NAME", help="context of that kubeconfig (default: the current one)")
    add("--log-level", choices=("debug", "info", "warning", "error"), default="error", help="lowest level of messages "
        "on standard error (default: error)")  # fmt: skip


def run(arguments: Namespace) -> int:
    """Run until SIGINT, SIGTERM or SIGHUP. Raises CommandError."""
    if arguments.kubeconfig is None and arguments.context is None:
        gc.disable()  # the start creates no garbage; the controller enables the collector
        try:
            return _run_cluster(arguments)
        finally:
            gc.enable()
    simulated = [name for name in _SIMULATED if hasattr(arguments, name)]
    if simulated:
        flag = simulated[0].replace("_", "-")
        raise CommandError(
            f"--{flag} is for a simulated cluster, but --kubeconfig and --context select a real one: remove one of them"
        )
    return _run_observer(arguments)


COMMAND = Command("run a whole cluster on this machine, to try things out", add_arguments, run)


def _run_cluster(arguments: Namespace) -> int:
    start = time.monotonic()
    values = vars(arguments)
    api_port, status_port = values.get("port", DEFAULT_PORT), arguments.status_port
    if api_port and api_port == status_port:
        raise CommandError(f"--port and --status-port are both {api_port}: choose two different ports")
    with killed_by_interrupt(), require_extra("agent,scheduler"):
        from zonewise_sandbox.up.cluster import ClusterError, ClusterOptions, ClusterStopped
        from zonewise_sandbox.up.node_descriptions import NodesError, parse_nodes
    stop = _stop_event(arguments)
    try:
        nodes = parse_nodes(values.get("nodes", DEFAULT_NODES), values.get("topology_policy", DEFAULT_POLICY))
        options = ClusterOptions(nodes, api_port, status_port, values.get("speed", 1.0))
        _serve_cluster(arguments, options, start, stop)
    except ClusterStopped:
        return 0
    except (NodesError, ClusterError) as error:
        raise CommandError(str(error)) from error
    return 0


def _serve_cluster(arguments: Namespace, options: ClusterOptions, start: float, stop: threading.Event) -> None:
    """Run a cluster until `stop` is set; `start` is when the command began, by time.monotonic()."""
    from zonewise_sandbox.up.cluster import open_cluster
    from zonewise_sandbox.up.kubeconfig import written_kubeconfig
    from zonewise_sandbox.up.summary import cluster_summary

    values = vars(arguments)
    jobs = _load(arguments, options.nodes)
    path = values.get("write_kubeconfig", "")
    with ExitStack() as stack:
        cluster = stack.enter_context(open_cluster(options, _progress, stop))
        try:
            path = stack.enter_context(written_kubeconfig(cluster.url, path))
        except FileExistsError as error:
            raise CommandError(f"--write-kubeconfig {path}: the file exists; remove it first") from error
        except OSError as error:
            raise CommandError(f"--write-kubeconfig {path}: {error.strerror}") from error
        if jobs is not None:
            from zonewise_sandbox.up.load import LoadSubmitter

            stack.enter_context(LoadSubmitter(cluster.config, jobs, cluster.clock))
        seconds, load = time.monotonic() - start, values.get("load", "")
        write(cluster_summary(options.nodes, cluster, path, seconds, load, program_text()), STANDARD_OUTPUT)
        stop.wait()
        write("\nending ...\n", STANDARD_OUTPUT)


def _run_observer(arguments: Namespace) -> int:
    with require_extra("scheduler"):
        from zonewise_sandbox.up.observer import ObserverError, open_observer
        from zonewise_sandbox.up.summary import observer_summary
    kubeconfig, context = arguments.kubeconfig or "", arguments.context or ""
    try:
        with open_observer(kubeconfig, context, arguments.status_port, lambda: _stop_event(arguments)) as observer:
            if not observer.stop.is_set():
                write(observer_summary(observer), STANDARD_OUTPUT)
            observer.stop.wait()
    except ObserverError as error:
        raise CommandError(str(error)) from error
    return 0


def _stop_event(arguments: Namespace) -> threading.Event:
    """Return the event that signals set from now on, and configure logging."""
    from zonewise_common.service import logs
    from zonewise_common.service.stop_signals import stop_event

    logs.configure_logging(arguments.log_level, "text")
    return stop_event(on_hangup=True)


def _load(arguments: Namespace, nodes: NodeSet) -> Iterator[SubmittedAt] | None:
    """Return the arriving jobs, or None if there are none. Raises CommandError."""
    options = vars(arguments)
    if "load" not in options:
        absent = next((name for name in ("load_share", "seed") if name in options), None)
        if absent is not None:
            raise CommandError(f"--{absent.replace('_', '-')} works only with --load")
        return None
    from zonewise_sandbox.up.load import DEFAULT_LOAD, LoadError, load_jobs

    try:
        return load_jobs(
            options["load"], nodes, share=options.get("load_share", DEFAULT_LOAD), seed=options.get("seed", 0)
        )
    except LoadError as error:
        raise CommandError(str(error)) from error


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"starting {text} ...\n")
        sys.stderr.flush()


def program_text() -> str:
    """Return the command to run this program in another terminal: its name if it is on PATH, otherwise its path."""
    path = sys.argv[0]
    is_found = shutil.which("zonewise") is not None or not os.access(path, os.X_OK)
    return "zonewise" if is_found else shlex.quote(os.path.abspath(path))


def _kinds() -> str:
    width = max(map(len, NODE_KINDS)) + 2
    return "".join(f"  {kind.name:{width}}{kind.text}\n" for kind in NODE_KINDS.values())


# --- values of arguments


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise ArgumentTypeError(f"not a number above 0: {text}")
    return value


def _speed(text: str) -> float:
    from zonewise_sandbox.up.cluster_clock import MAX_SPEED

    value = _positive(text)
    if value > MAX_SPEED:
        raise ArgumentTypeError(f"must be at most {MAX_SPEED:g}: {text}")
    return value


def _natural(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise ArgumentTypeError(f"not a non-negative whole number: {text}")
    return int(text)
