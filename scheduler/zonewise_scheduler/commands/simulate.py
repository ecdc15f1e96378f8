"""`zonewise simulate`: the scheduler on a virtual clock, with logs of real machines, generated load, or own jobs."""

from __future__ import annotations

import sys
from argparse import BooleanOptionalAction, RawDescriptionHelpFormatter
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING

from zonewise_common.cli.command import Command, require_extra
from zonewise_common.cli.output import STANDARD_OUTPUT
from zonewise_scheduler.backfill.policies import DEFAULT_POLICY
from zonewise_scheduler.commands.arguments import count, duration, names, positive, rate, span

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping

POLICIES = {
    DEFAULT_POLICY: "whatever fits starts, the shortest first; who has waited for 24 h (--reserve-after) has a reservation",
    "fifo": "nobody overtakes: Kueue's StrictFIFO",
    "greedy": "whatever fits starts: Kueue's BestEffortFIFO, Volcano, YuniKorn",
    "easy": "whatever fits starts, unless it delays the first that does not fit, which has a reservation",
    "easy-sjbf": "the same, of those that may overtake the shortest first",
    "conservative": "everybody has a reservation from the beginning",
    "depth-K": "the first K that do not fit have reservations: depth-4",
}
MIXES = {
    "hpc": "a supercomputer's: from one CPU to all nodes, a minute to a day",
    "ai": "trainings of whole nodes with GPUs for days, and many small jobs",
    "batch": "many short jobs of a few pods, and some long ones",
}
EXAMPLES = {
    "KTH-SP2.swf.gz --compare easy,greedy": "a log of a real machine, policies side by side",
    "KTH-SP2.swf.gz --forecast --plot run.svg": "how good forecasts of starts are, and a picture",
    "generator.yaml --start-latency 1-2s --rate 50/100": "Kueue's performance test, with the delays of a live cluster",
    "jobs.yaml --nodes 100x64x256Gi --json out.json": "one's own jobs on a hundred nodes, as numbers",
    "- --nodes nodes.yaml --forecast 1": "objects of a cluster, piped in from `kubectl get ... -A -o yaml`",
}
_INTERRUPTED = 130
_FORECAST_EVERY = 10
_WIDTH = 100
_NARROW = 30
_LEAST = 50
"""Columns for what a name means, for that to be beside it."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.formatter_class = RawDescriptionHelpFormatter
    parser.epilog = _epilog()
    add = parser.add_argument
    add("trace", metavar="TRACE", help="an SWF log (text or gzip), a generator file of Kueue's, jobs as JSON or YAML, "
        "objects of Kubernetes and Kueue, a directory of these, or a mix by name; - is standard input")  # fmt: skip
    add("--policy", metavar="NAME", help=f"see below (default: {DEFAULT_POLICY})")
    add("--compare", metavar="A,B,...", type=names, default=[], help="several policies, side by side")
    add("--reserve-after", metavar="DURATION", type=duration, help=f"of {DEFAULT_POLICY} (default: 24h; or never)")
    add("--nodes", metavar="SPEC", help="so many processors (100), nodes (100x64, 100x64x256Gi), a fleet's file, or "
        "NodeResourceTopologies (default: what the trace says)")  # fmt: skip
    add("--exact", action="store_true", default=None, help="jobs declare the run times that they have")
    add("--whole-nodes", action="store_true", default=None, help="of a log on nodes: each pod is as wide as a node")
    add("--jobs", metavar="N", type=count, help="so many of a mix, the first so many of anything else")
    add("--load", metavar="X", type=positive, help="of a mix: the work that comes, as a share of what can be done")
    add("--seed", metavar="N", type=int, help="of all that is drawn by chance (default: 0)")
    _add_live(parser)
    _add_output(parser)


def _add_live(parser: ArgumentParser) -> None:
    add = parser.add_argument_group("delays of a live cluster (not of a log on one pool of processors)").add_argument
    add("--start-latency", metavar="SPAN", type=span, help="from a job's start until a pod of it is ready, "
        "for each pod anew: 2s, 1-2s; the work begins when all are")  # fmt: skip
    add("--rate", metavar="QPS/BURST", type=rate, help="so many admissions are written a second, and at once: 50/100")
    add("--release-latency", metavar="DURATION", type=duration, help="from the end of pods until their room is free")
    add("--grace", metavar="DURATION", type=duration, help="from when pods are told to stop until they are gone")
    add("--deadlines", action=BooleanOptionalAction, help="whether jobs are killed when their declared run time is "
        "over, as in Kubernetes (default: they are)")  # fmt: skip


def _add_output(parser: ArgumentParser) -> None:
    add = parser.add_argument_group("output").add_argument
    add("--json", metavar="FILE", nargs="?", const=STANDARD_OUTPUT, help="all numbers as JSON; without a FILE to "
        "standard output, and no table")  # fmt: skip
    add("--json-jobs", action="store_true", help="and each job in it")
    add("--plot", metavar="FILE", type=Path, help="a picture, .svg or .png: utilisation, queue, waits, who ran when")
    add("--forecast", metavar="EVERY", nargs="?", type=count, const=_FORECAST_EVERY, help="of a log on one pool: "
        f"foretell the start of each so-manyth job that waits, and compare (every {_FORECAST_EVERY}th)")  # fmt: skip
    add("--verbose", action="store_true", help="name all that is left out of the trace, not the first few")
    add("--quiet", action="store_true", help="no progress, and no word of what is left out")


def run(arguments: Namespace) -> int:
    """Simulate, and print what came of it. Raises CommandError."""
    try:
        with require_extra("scheduler"):  # some libraries are imported when they are needed
            from zonewise_scheduler.commands.simulation import run_simulation

            run_simulation(arguments)
    except KeyboardInterrupt:
        sys.stderr.write("zonewise: interrupted\n")
        return _INTERRUPTED
    return 0


COMMAND = Command("let the jobs of a log, a file or a mix come to a cluster, on a virtual clock", add_arguments, run)


def _epilog() -> str:
    """Return what there is to choose from, as wide as the terminal."""
    width = get_terminal_size((_WIDTH, 24)).columns - 2
    examples = {f"zonewise simulate {what}": line for what, line in EXAMPLES.items()}
    notes = wrap(
        "A DURATION is 90, 90s, 15m, 24h or 7d. Status 0: it ran, whatever came of it; 2: something cannot be read or "
        "written, or is not understood; 130: interrupted.", width
    )  # fmt: skip
    return "\n".join(
        [
            "policies:",
            *_described(POLICIES, width),
            "",
            "mixes:",
            *_described(MIXES, width),
            "",
            "examples:",
            *_described(examples, width),
            "",
            *notes,
        ]
    )


def _described(what: Mapping[str, str], width: int) -> list[str]:
    """Return names with what they mean beside them, or below where there is no room."""
    beside = max(map(len, what)) + 4
    if width < beside + _LEAST:
        beside = 6
    found: list[str] = []
    for name, meaning in what.items():
        lines = wrap(meaning, max(width, _NARROW), initial_indent=" " * beside, subsequent_indent=" " * beside)
        head = f"  {name}"
        found += [head + lines[0][len(head) :], *lines[1:]] if len(head) + 2 <= beside else [head, *lines]
    return found
