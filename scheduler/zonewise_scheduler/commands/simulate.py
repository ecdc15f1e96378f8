"""`zonewise simulate`: the scheduler on a virtual clock, with logs of machines, generated workloads, or own jobs."""

from __future__ import annotations

import re
import sys
from argparse import BooleanOptionalAction, RawDescriptionHelpFormatter
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING

from zonewise_common.cli.command import Command, CommandError, require_extra
from zonewise_common.cli.output import STANDARD_OUTPUT
from zonewise_scheduler.backfill.policies import DEFAULT_POLICY, DEFAULT_RESERVE_AFTER
from zonewise_scheduler.client.session import add_cluster_arguments
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
    DEFAULT_POLICY: "any job that fits starts, the shortest less half of its wait first; after a wait of 6 h and six "
    "walltimes, a job has a reservation if its start is at most 0.3 of the wait away, after 14 d (--reserve-after) any",
    "fifo": "jobs start in order of submission: Kueue's StrictFIFO",
    "greedy": "any job that fits starts: Kueue's BestEffortFIFO, Volcano, YuniKorn",
    "easy": "any job that fits starts, unless it delays the first that does not fit, which has a reservation",
    "easy-sjbf": "as easy, but the shortest job is backfilled first",
    "conservative": "every job has a reservation from its submission",
    "depth-K": "the first K jobs that do not fit have reservations: depth-4",
}
MIXES = {
    "hpc": "a supercomputer's: from one CPU to all nodes, a minute to a day",
    "ai": "trainings on whole nodes with GPUs for days, and many small jobs",
    "batch": "many short jobs of a few pods, and some long ones",
}
EXAMPLES = {
    "KTH-SP2.swf.gz --compare easy,greedy": "a log of a real machine, policies side by side",
    "KTH-SP2.swf.gz --forecast --plot run.svg": "how good forecasts of starts are, and a picture",
    "generator.yaml --start-latency 1-2s --rate 50/100": "Kueue's performance test, with the delays of a live cluster",
    "jobs.yaml --nodes 100x64x256Gi --json out.json": "your own jobs on a hundred nodes, as numbers",
    "jobs.yaml --nodes 64x48 --advise nodes --goal 'p95 wait <= 1h'": "the fewest nodes at which 95 % of the jobs "
    "start within an hour",
    "hpc --nodes 64x64 --compare easy,greedy --repeat 20 --jobs-parallel": "means of 20 draws, on all cores",
    "hpc --nodes 64x64 --repeat 20 --on-cluster apply --gather": "the same as a Job of a cluster: 20 pods",
    "- --nodes nodes.yaml --forecast 1": "objects of a cluster, piped in from `kubectl get ... -A -o yaml`",
}
_INTERRUPTED = 130
_FORECAST_EVERY = 10
_WIDTH = 100
_MIN_WIDTH = 30
_MIN_MEANING = 50
"""Columns that a meaning needs to be beside its name."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.formatter_class = RawDescriptionHelpFormatter
    parser.epilog = _epilog()
    add = parser.add_argument
    add("trace", metavar="TRACE", nargs="?", help="an SWF log (text or gzip), a generator file of Kueue's, jobs as "
        "JSON or YAML, objects of Kubernetes and Kueue, a directory of these, or a mix by name; - is standard "
        "input")  # fmt: skip
    add("--policy", metavar="NAME", help=f"see below (default: {DEFAULT_POLICY})")
    add("--compare", metavar="A,B,...", type=names, default=[], help="several policies, side by side")
    add("--reserve-after", metavar="DURATION", type=duration, help=f"of {DEFAULT_POLICY} (default: "
        f"{DEFAULT_RESERVE_AFTER / 3600:.0f}h; or never)")  # fmt: skip
    add("--nodes", metavar="SPEC", help="processors (100), nodes (100x64, 100x64x256Gi), a fleet file, or "
        "NodeResourceTopologies (default: those of the trace)")  # fmt: skip
    add("--exact", action="store_true", default=None, help="jobs declare their true run times")
    add("--whole-nodes", action="store_true", default=None, help="of a log on nodes: each pod is as wide as a node")
    add("--jobs", metavar="N", type=count, help="the number of jobs of a mix; the first N of any other trace")
    add("--load", metavar="X", type=positive, help="of a mix: submitted work, as a share of the capacity")
    add("--seed", metavar="N", type=int, help="seed of all random numbers (default: 0)")
    _add_sweep(parser)
    _add_cluster_sweep(parser)
    _add_advice(parser)
    _add_live(parser)
    _add_replay(parser)
    _add_output(parser)


def _add_sweep(parser: ArgumentParser) -> None:
    add = parser.add_argument_group("means over many runs, with 95 % confidence intervals").add_argument
    add("--repeat", metavar="N", type=count, help="simulate each policy with N seeds, from --seed on")
    add("--loads", metavar="X,Y,...", type=positives, help="of a mix: and with each of these loads")
    add("--jobs-parallel", metavar="N", nargs="?", type=count, const=0, help="in N processes at once (default: one; "
        "without a number one for each CPU); the results are the same")  # fmt: skip


def _add_cluster_sweep(parser: ArgumentParser) -> None:
    add = parser.add_argument_group(
        "the runs of --repeat as an Indexed Job of a cluster, one pod for each"
    ).add_argument
    add("--on-cluster", nargs="?", choices=("print", "apply"), const="print", help="print the Job as YAML, with the "
        "files in a ConfigMap, or apply it (default: print); --jobs-parallel N has N pods at once")  # fmt: skip
    add("--gather", action="store_true", default=None, help="wait for the pods of this very command, and print the "
        "means; after --on-cluster apply, or with it")  # fmt: skip
    add("--image", metavar="IMAGE", help="of the pods (default: zonewise-scheduler of this version)")
    add("--inputs", metavar="DIRECTORY", help="of the image, with the files of TRACE and --nodes (default: a "
        "ConfigMap, for files of up to 1 MiB)")  # fmt: skip
    add("--namespace", metavar="NAME", help="of the Job (default: default)")
    add("--part", metavar="FILE", help="in a pod: simulate only the run of JOB_COMPLETION_INDEX, and write its result "
        "to FILE")  # fmt: skip
    add_cluster_arguments(parser, namespaced=False, all_namespaces=False, read_api=False)


def _add_advice(parser: ArgumentParser) -> None:
    add = parser.add_argument_group("the smallest value of a setting that meets a goal, by a search").add_argument
    add("--advise", metavar="SETTING", type=advised_setting, help="nodes (of --nodes; processors of a log), "
        "quota:QUEUE:RESOURCE:FLAVOR (a nominal quota), or reserve-after; status 1 where no value meets the goal; "
        "--plot draws the curve")  # fmt: skip
    add("--goal", metavar="GOAL", type=goal, help="STATISTIC wait [of queue|kind|resource NAME] <= DURATION, where "
        "STATISTIC is mean, longest or pN: 'p95 wait of queue gpu <= 1h' is met where 95 %% of these jobs start within "
        "an hour; jobs that never start miss it")  # fmt: skip


def _add_live(parser: ArgumentParser) -> None:
    add = parser.add_argument_group("delays of a live cluster (not of a log on one pool of processors)").add_argument
    add("--start-latency", metavar="SPAN", type=span, help="from a job's start until a pod of it is ready, "
        "for each pod anew: 2s, 1-2s; the work begins when all are")  # fmt: skip
    add("--rate", metavar="QPS/BURST", type=rate, help="admissions written per second, and at once: 50/100")
    add("--release-latency", metavar="DURATION", type=finite_duration, help="from the end of pods until their "
        "quota is free")  # fmt: skip
    add("--grace", metavar="DURATION", type=finite_duration, help="termination grace period of preempted and "
        "killed pods")  # fmt: skip
    add("--deadlines", action=BooleanOptionalAction, help="whether a job is killed at its walltime, as in Kubernetes "
        "(default: it is)")  # fmt: skip


def _add_replay(parser: ArgumentParser) -> None:
    add = parser.add_argument_group("recordings of `zonewise controller`, in the place of TRACE").add_argument
    add("--replay", metavar="RECORDING", help="decide again what the controller has decided, and compare: status 0 "
        "where all scheduling passes agree, 1 where not")  # fmt: skip
    add("--explain", metavar="NAMESPACE/NAME", help="why a Workload, or a job, waited; status 1 where it is not queued")
    add("--at", metavar="TIME", type=moment, help="then: 2026-11-22T12:00:00Z, or seconds since 1970 (default: at the "
        "end of the recording)")  # fmt: skip


def _add_output(parser: ArgumentParser) -> None:
    add = parser.add_argument_group("output").add_argument
    add("--json", metavar="FILE", nargs="?", const=STANDARD_OUTPUT, help="all numbers as JSON; without a FILE to "
        "standard output, and no table")  # fmt: skip
    add("--json-jobs", action="store_true", help="and each job in it")
    add("--plot", metavar="FILE", type=Path, help="a picture, .svg or .png: utilisation, queue, waits, Gantt chart")
    add("--forecast", metavar="EVERY", nargs="?", type=count, const=_FORECAST_EVERY, help="forecast the start of every "
        f"EVERYth pending job, and compare it with the true start (every {_FORECAST_EVERY}th)")  # fmt: skip
    add("--verbose", action="store_true", help="list every problem of the trace, not the first few")
    add("--quiet", action="store_true", help="no progress, and no problems of the trace")


def run(arguments: Namespace) -> int:
    """Simulate or replay, and print the results. Raises CommandError."""
    _check_source(arguments)
    try:
        with require_extra("scheduler"):  # some libraries are imported when they are needed
            if arguments.replay is not None:
                from zonewise_scheduler.commands.replay import run_replay

                return run_replay(arguments)
            if arguments.repeat is not None:
                _run_repeated(arguments)
                return 0
            if arguments.advise is not None:
                from zonewise_scheduler.commands.advice import run_advice

                return run_advice(arguments)
            from zonewise_scheduler.commands.simulation import run_simulation

            run_simulation(arguments)
    except KeyboardInterrupt:
        sys.stderr.write("zonewise: interrupted\n")
        return _INTERRUPTED
    return 0


def _run_repeated(arguments: Namespace) -> None:
    """Simulate the runs of a sweep here or on a cluster, or one of them in a pod."""
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
        raise CommandError(f"--advise and --goal go together: write --advise nodes --goal '{EXAMPLE}'")
    _check_sweep(arguments)
    if arguments.replay is not None and arguments.advise is not None:
        raise CommandError("--advise goes with a TRACE, not with --replay")
    if arguments.replay is not None and arguments.trace is not None:
        raise CommandError(f"{arguments.trace}: a trace goes without --replay")
    if arguments.replay is None:
        if arguments.trace is None:
            raise CommandError("TRACE is missing; see `zonewise simulate --help`")
        for name in ("explain", "at"):
            if getattr(arguments, name) is not None:
                raise CommandError(f"--{name} goes with --replay")


def _check_sweep(arguments: Namespace) -> None:
    for name in ("loads", "jobs_parallel", "on_cluster", "gather", "part"):
        if arguments.repeat is None and getattr(arguments, name) is not None:
            raise CommandError(f"--{name.replace('_', '-')} goes with --repeat")
    on_cluster = arguments.on_cluster is not None or arguments.gather
    for name in ("image", "inputs", "namespace"):
        if not on_cluster and getattr(arguments, name) is not None:
            raise CommandError(f"--{name} goes with --on-cluster or --gather")
    if arguments.on_cluster is not None and not arguments.gather and arguments.json is not None:
        raise CommandError("--json goes with --gather: --on-cluster alone has no results yet")
    if arguments.gather and arguments.on_cluster == "print":
        raise CommandError("--gather goes with --on-cluster apply, or after it: --on-cluster alone prints the Job")
    for name in ("advise", "replay"):
        if arguments.repeat is not None and getattr(arguments, name) is not None:
            raise CommandError(f"--{name} does not go with --repeat")
    if arguments.loads is not None and arguments.load is not None:
        raise CommandError("--load and --loads are two ways to say the same: write one of them")


COMMAND = Command("simulate the jobs of a log, a file or a mix, on a virtual clock", add_arguments, run)


def _epilog() -> str:
    """Return the policies, mixes and examples, as wide as the terminal."""
    width = get_terminal_size((_WIDTH, 24)).columns - 2
    examples = {f"zonewise simulate {arguments}": meaning for arguments, meaning in EXAMPLES.items()}
    notes = wrap(
        "A DURATION is 90, 90s, 15m, 24h or 7d. Status 0: the simulation ran; 1: as --replay and --advise say; "
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
    """Return a command on lines that a shell joins where each but the last ends on a backslash; quoted words stay."""
    whole = re.sub("'[^']*'", lambda quoted: quoted[0].replace(" ", "\0"), command)
    lines = wrap(whole, width - 4, initial_indent="  ", subsequent_indent="    ", break_long_words=False,
                 break_on_hyphens=False)  # fmt: skip
    return [line.replace("\0", " ") for line in lines]


def _two_columns(descriptions: Mapping[str, str], width: int) -> list[str]:
    """Return names with their meanings beside them, or below them in a narrow terminal."""
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
