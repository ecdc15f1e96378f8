"""`zonewise simulate`: runs the scheduler on a virtual clock, with machine logs, generated workloads, or own jobs."""

from __future__ import annotations

import re
import sys
from argparse import BooleanOptionalAction, RawDescriptionHelpFormatter
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING

from zonewise_common.cli.command import Command, CommandError, require_extra
from zonewise_common.cli.imports import without_collections
from zonewise_common.cli.output import STANDARD_OUTPUT
from zonewise_scheduler.backfill.policies import DEFAULT_POLICY, DEFAULT_RESERVE_AFTER
from zonewise_scheduler.client.cluster.session import add_cluster_arguments
from zonewise_scheduler.commands.arguments import (
    advised_setting,
    count,
    duration,
    finite_duration,
    goal,
    moment,
    names,
    positive,
    positives,
    rate,
    span,
)
from zonewise_scheduler.simulator.advice.goal import EXAMPLE

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping

POLICIES = {
    DEFAULT_POLICY: "any job that fits starts, in the order of walltime minus half of the wait. After 6 h and six "
    "walltimes, a job may get a reservation that is at most 0.3 of its wait away. After 14 d (--reserve-after), any "
    "start is reserved",
    "fifo": "jobs start in order of submission, as with Kueue's StrictFIFO",
    "greedy": "any job that fits starts, as with Kueue's BestEffortFIFO, Volcano and YuniKorn",
    "easy": "any job that fits starts, unless it delays the first job that does not fit, which has a reservation",
    "easy-sjbf": "like easy, but the shortest job is backfilled first",
    "conservative": "every job has a reservation from its submission",
    "depth-K": "the first K jobs that do not fit have reservations, such as depth-4",
}
MIXES = {
    "hpc": "jobs of a supercomputer, from one CPU to all nodes and from a minute to a day",
    "ai": "training jobs on whole GPU nodes for days, and many small jobs",
    "batch": "many short jobs of a few pods, and some long ones",
}
EXAMPLES = {
    "KTH-SP2.swf.gz --compare easy,greedy": "compare two policies on the log of a real machine",
    "KTH-SP2.swf.gz --forecast --plot run.svg": "measure how good forecasts of starts are, and draw a picture",
    "generator.yaml --start-latency 1-2s --rate 50/100": "run Kueue's performance test with the delays of a live "
    "cluster",
    "jobs.yaml --nodes 100x64x256Gi --json out.json": "run your own jobs on a hundred nodes, and write the results as "
    "JSON",
    "jobs.yaml --nodes 64x48 --advise nodes --goal 'p95 wait <= 1h'": "find the fewest nodes with which 95 % of the "
    "jobs start within an hour",
    "hpc --nodes 64x64 --compare easy,greedy --repeat 20 --jobs-parallel": "print the means of 20 random runs, on all "
    "cores",
    "hpc --nodes 64x64 --repeat 20 --on-cluster apply --gather": "run the same as a Job on a cluster, with 20 pods",
    "- --nodes nodes.yaml --forecast 1": "read the objects of a cluster from `kubectl get ... -A -o yaml`",
}
_INTERRUPTED = 130
_FORECAST_EVERY = 10
_WIDTH = 80
"""Width in columns if the terminal has none, as in argparse."""
_MIN_WIDTH = 30
_MIN_MEANING = 50
"""Minimum width in columns for a meaning that is printed beside its name."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.formatter_class = RawDescriptionHelpFormatter
    parser.epilog = _epilog()
    add = parser.add_argument
    add("trace", metavar="TRACE", nargs="?", help="an SWF log (text or gzip), records of the controller, a Kueue "
        "generator file, jobs as JSON or YAML, API objects, or a directory of these. Instead of a file, the name of a "
        "mix, or - for standard input")  # fmt: skip
    add("--policy", metavar="NAME", help=f"policy to simulate, from the list below (default: {DEFAULT_POLICY})")
    add("--compare", metavar="A,B,...", type=names, default=[], help="several policies to compare side by side")
    add("--reserve-after", metavar="DURATION", type=duration, help=f"wait after which {DEFAULT_POLICY} reserves any "
        f"start (default: {DEFAULT_RESERVE_AFTER / 3600:.0f}h; or never)")  # fmt: skip
    add("--nodes", metavar="SPEC", help="processors (100), nodes (100x64, 100x64x256Gi), a fleet file, or "
        "NodeResourceTopologies (default: the nodes of the trace)")  # fmt: skip
    add("--exact", action="store_true", default=None, help="assume that jobs declare their true run times")
    add("--whole-nodes", action="store_true", default=None, help="for a log on nodes: make each pod as wide as a node")
    add("--jobs", metavar="N", type=count, help="number of jobs of a mix (default: 10000); for any other "
        "trace, only its first N jobs")  # fmt: skip
    add("--load", metavar="X", type=positive, help="for a mix: submitted work as a share of the capacity")
    add("--seed", metavar="N", type=int, help="seed of all random numbers (default: 0)")
    _add_sweep(parser)
    _add_cluster_sweep(parser)
    _add_advice(parser)
    _add_live(parser)
    _add_replay(parser)
    _add_output(parser)


def _add_sweep(parser: ArgumentParser) -> None:
    add = parser.add_argument_group("repeated runs, with means and 95 % confidence intervals").add_argument
    add("--repeat", metavar="N", type=count, help="simulate each policy with N seeds, counting up from --seed")
    add("--loads", metavar="X,Y,...", type=positives, help="for a mix: also with each of these loads")
    add("--jobs-parallel", metavar="N", nargs="?", type=count, const=0, help="number of processes that run at once "
        "(default: one; without N, one for each CPU); the results are the same")  # fmt: skip


def _add_cluster_sweep(parser: ArgumentParser) -> None:
    add = parser.add_argument_group(
        "repeated runs as an Indexed Job on a cluster, with one pod for each run"
    ).add_argument
    add("--on-cluster", nargs="?", choices=("print", "apply"), const="print", help="print the Job as YAML, with the "
        "files in a ConfigMap, or apply it (default: print); with --jobs-parallel N, N pods run at once")  # fmt: skip
    add("--gather", action="store_true", default=None, help="wait for the pods of the same command and print the "
        "means; use it with --on-cluster apply, or after it")  # fmt: skip
    add("--image", metavar="IMAGE", help="image of the pods (default: zonewise-scheduler of this version)")
    add("--inputs", metavar="DIRECTORY", help="directory in the image with the files of TRACE and --nodes (default: a "
        "ConfigMap, for files of up to 1 MiB)")  # fmt: skip
    add("--namespace", metavar="NAME", help="namespace of the Job (default: default)")
    add("--part", metavar="FILE", help="in a pod: simulate only the run of JOB_COMPLETION_INDEX, and write its result "
        "to FILE")  # fmt: skip
    add_cluster_arguments(parser, namespaced=False, all_namespaces=False, read_api=False)


def _add_advice(parser: ArgumentParser) -> None:
    add = parser.add_argument_group("search for the smallest value of a setting that meets a goal").add_argument
    add("--advise", metavar="SETTING", type=advised_setting, help="setting to search: nodes (those of --nodes, or the "
        "processors of a log), quota:QUEUE:RESOURCE:FLAVOR (a nominal quota), or reserve-after; --plot draws the "
        "curve; status 1 if no value meets the goal")  # fmt: skip
    add("--goal", metavar="GOAL", type=goal, help="STATISTIC wait [of queue|kind|resource NAME] <= DURATION, where "
        "STATISTIC is mean, longest or pN. The goal 'p95 wait of queue gpu <= 1h' is met if 95 %% of these jobs start "
        "within an hour. The wait of a job that never starts is infinite")  # fmt: skip


def _add_live(parser: ArgumentParser) -> None:
    add = parser.add_argument_group("delays of a live cluster (not for a log on one pool of processors)").add_argument
    add("--start-latency", metavar="SPAN", type=span, help="time from the start of a job until a pod is ready, drawn "
        "for each pod (2s, 1-2s); the work begins when all pods are ready")  # fmt: skip
    add("--rate", metavar="QPS/BURST", type=rate, help="admissions written per second, and in a burst: 50/100")
    add("--release-latency", metavar="DURATION", type=finite_duration, help="time from the end of pods until their "
        "quota is free")  # fmt: skip
    add("--grace", metavar="DURATION", type=finite_duration, help="termination grace period of preempted and killed "
        "pods")  # fmt: skip
    add("--deadlines", action=BooleanOptionalAction, help="kill a job at its walltime, as Kubernetes does (default: "
        "yes)")  # fmt: skip


def _add_replay(parser: ArgumentParser) -> None:
    add = parser.add_argument_group("recordings of `zonewise controller`, instead of TRACE").add_argument
    add("--replay", metavar="RECORDING", help="repeat the decisions of the controller and compare them: status 0 if "
        "all scheduling passes agree, 1 if not")  # fmt: skip
    add(
        "--explain",
        metavar="NAMESPACE/NAME",
        help="explain why a Workload or a job waited; status 1 if it is not queued",
    )
    add("--at", metavar="TIME", type=moment, help="time to explain: 2026-11-22T12:00:00Z, or seconds since 1970 "
        "(default: the end of the recording)")  # fmt: skip


def _add_output(parser: ArgumentParser) -> None:
    add = parser.add_argument_group("output").add_argument
    add("--json", metavar="FILE", nargs="?", const=STANDARD_OUTPUT, help="write all results as JSON; without FILE, to "
        "standard output in place of the table")  # fmt: skip
    add("--json-jobs", action="store_true", help="include each job in the JSON")
    add(
        "--plot",
        metavar="FILE",
        type=Path,
        help="draw a picture, .svg or .png, of utilisation, queue, waits and a Gantt chart",
    )
    add("--forecast", metavar="EVERY", nargs="?", type=count, const=_FORECAST_EVERY, help="forecast the start of every "
        "EVERYth pending job, and compare it with the true start (without EVERY: every "
        f"{_FORECAST_EVERY}th)")  # fmt: skip
    add("--verbose", action="store_true", help="list every problem of the trace, not only the first few")
    add("--quiet", action="store_true", help="show neither progress nor problems of the trace")


def run(arguments: Namespace) -> int:
    """Simulate or replay, and print the results. Raises CommandError."""
    _check_source(arguments)
    try:
        with require_extra("scheduler"):  # some libraries are imported only when needed
            if arguments.replay is not None:
                from zonewise_scheduler.commands.replay import run_replay

                return run_replay(arguments)
            if arguments.repeat is not None:
                _run_repeated(arguments)
                return 0
            if arguments.advise is not None:
                from zonewise_scheduler.commands.advice import run_advice

                return run_advice(arguments)
            with without_collections():
                from zonewise_scheduler.commands.simulation import run_simulation
            run_simulation(arguments)
    except KeyboardInterrupt:
        sys.stderr.write("zonewise: interrupted\n")
        return _INTERRUPTED
    return 0


def _run_repeated(arguments: Namespace) -> None:
    """Simulate the runs of a sweep here or on a cluster, or one of the runs in a pod."""
    if arguments.part is not None:
        from zonewise_scheduler.commands.cluster_sweep import run_part

        run_part(arguments)
    elif arguments.on_cluster is not None or arguments.gather:
        from zonewise_scheduler.commands.cluster_sweep import run_cluster_sweep

        run_cluster_sweep(arguments)
    else:
        from zonewise_scheduler.commands.sweep import run_sweep

        run_sweep(arguments)


def _check_source(arguments: Namespace) -> None:
    if (arguments.advise is None) != (arguments.goal is None):
        raise CommandError(f"--advise and --goal must be used together: write --advise nodes --goal '{EXAMPLE}'")
    _check_sweep(arguments)
    if arguments.replay is not None and arguments.advise is not None:
        raise CommandError("--advise needs a TRACE, and does not work with --replay")
    if arguments.replay is not None and arguments.trace is not None:
        raise CommandError(f"{arguments.trace}: --replay takes no TRACE: remove one of them")
    if arguments.replay is None:
        for name in ("explain", "at"):
            if getattr(arguments, name) is not None:
                raise CommandError(f"--{name} works only with --replay")
        if arguments.trace is None:
            raise CommandError("TRACE is missing; see `zonewise simulate --help`")


def _check_sweep(arguments: Namespace) -> None:
    for name in ("loads", "jobs_parallel", "on_cluster", "gather", "part"):
        if arguments.repeat is None and getattr(arguments, name) is not None:
            raise CommandError(f"--{name.replace('_', '-')} works only with --repeat")
    on_cluster = arguments.on_cluster is not None or arguments.gather
    for name in ("image", "inputs", "namespace"):
        if not on_cluster and getattr(arguments, name) is not None:
            raise CommandError(f"--{name} works only with --on-cluster or --gather")
    if arguments.on_cluster is not None and not arguments.gather and arguments.json is not None:
        raise CommandError("--json works only with --gather: --on-cluster alone has no results yet")
    if arguments.gather and arguments.on_cluster == "print":
        raise CommandError("--gather works with --on-cluster apply, or after it: --on-cluster alone prints the Job")
    for name in ("advise", "replay"):
        if arguments.repeat is not None and getattr(arguments, name) is not None:
            raise CommandError(f"--{name} does not work with --repeat")
    if arguments.loads is not None and arguments.load is not None:
        raise CommandError("--load and --loads set the same value: use one of them")


COMMAND = Command("simulate the jobs of a log, a file or a mix on a virtual clock", add_arguments, run)


def _epilog() -> str:
    """Return the policies, mixes and examples, wrapped to the terminal's width."""
    width = get_terminal_size((_WIDTH, 24)).columns - 2
    examples = {f"zonewise simulate {arguments}": meaning for arguments, meaning in EXAMPLES.items()}
    notes = wrap(
        "A DURATION is 90, 90s, 15m, 24h or 7d. Status 0: done; 1: see --replay, --explain and --advise; "
        "2: an argument is invalid, or a file cannot be read or written; 130: interrupted.", width
    )  # fmt: skip
    return "\n".join(
        [
            "policies:",
            *_two_columns(POLICIES, width),
            "",
            "mixes:",
            *_two_columns(MIXES, width),
            "",
            "examples:",
            *_two_columns(examples, width),
            "",
            *notes,
        ]
    )


def _command_lines(command: str, width: int) -> list[str]:
    """Return a command wrapped to lines, each but the last ending with a backslash; quoted words are not split."""
    whole = re.sub("'[^']*'", lambda quoted: quoted[0].replace(" ", "\0"), command)
    lines = wrap(whole, width - 4, initial_indent="  ", subsequent_indent="    ", break_long_words=False,
                 break_on_hyphens=False)  # fmt: skip
    return [line.replace("\0", " ") for line in lines]


def _two_columns(descriptions: Mapping[str, str], width: int) -> list[str]:
    """Return names with their meanings, beside them or, in a narrow terminal, below them."""
    column = max(map(len, descriptions)) + 4
    if width < column + _MIN_MEANING:
        column = 6
    lines: list[str] = []
    for name, meaning in descriptions.items():
        paragraph = wrap(meaning, max(width, _MIN_WIDTH), initial_indent=" " * column, subsequent_indent=" " * column)
        *broken, head = _command_lines(name, max(width, _MIN_WIDTH))
        lines += [f"{line} \\" for line in broken]
        lines += [head + paragraph[0][len(head) :], *paragraph[1:]] if len(head) + 2 <= column else [head, *paragraph]
    return lines
