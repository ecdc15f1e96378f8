"""The inputs that the arguments of `zonewise simulate` select: policies, delays, and the trace with its problems."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from zonewise_common.cli.command import CommandError
from zonewise_scheduler.backfill.policies import DEFAULT_POLICY, DEFAULT_RESERVE_AFTER, policy_named
from zonewise_scheduler.simulator.inputs.fleet_file import is_short_fleet
from zonewise_scheduler.simulator.inputs.loader import load_scenario
from zonewise_scheduler.simulator.inputs.source_files import InputError, source_name
from zonewise_scheduler.simulator.latency import Latency
from zonewise_scheduler.simulator.pool_log import MAX_PROCESSORS
from zonewise_scheduler.simulator.report.notes import bullet_list, count_noun
from zonewise_scheduler.simulator.report.result import TraceInfo
from zonewise_scheduler.simulator.runner import RunOptions
from zonewise_scheduler.simulator.swf import SIZES, SwfLog

if TYPE_CHECKING:
    from argparse import Namespace

    from zonewise_scheduler.backfill.policies import BackfillPolicy
    from zonewise_scheduler.simulator.scenario import Scenario

_DELAYS = ("start_latency", "rate", "release_latency", "grace", "deadlines")
"""Options without a meaning for a log on one pool: its jobs are numbers of processors with their actual run times."""
_OPTIONS = ("nodes", "jobs", "load", "seed", "exact", "whole_nodes", "forecast", *_DELAYS)
"""Arguments that the JSON document repeats if they were used."""


def selected_policies(arguments: Namespace) -> dict[str, BackfillPolicy]:
    """Return the policies by name, in the order of the columns."""
    first: list[str] = [arguments.policy] if arguments.policy else []
    selected = list(dict.fromkeys([*first, *arguments.compare])) or [DEFAULT_POLICY]
    if arguments.reserve_after is not None and DEFAULT_POLICY not in selected:
        raise CommandError(f"--reserve-after works only with {DEFAULT_POLICY}, not with {', '.join(selected)}")
    after = DEFAULT_RESERVE_AFTER if arguments.reserve_after is None else arguments.reserve_after
    try:
        return {name: policy_named(name, after) for name in selected}
    except ValueError as error:
        raise CommandError(str(error)) from error


def sources(arguments: Namespace) -> dict[str, str]:
    """Return the texts that may name a file or directory, by argument; a short description of nodes names none."""
    texts = {"trace": arguments.trace, "nodes": arguments.nodes}
    return {name: text for name, text in texts.items() if text and not (name == "nodes" and is_short_fleet(text))}


def load_trace(arguments: Namespace) -> SwfLog | Scenario:
    """Return the trace. Raises CommandError with the argument, the file and the field."""
    source = load_trace_on(arguments.nodes, arguments)
    if isinstance(source, SwfLog):
        _check_log(source, arguments)
    return source


def load_trace_on(nodes: str | None, arguments: Namespace) -> SwfLog | Scenario:
    """Return the trace on other nodes than the arguments set. Raises CommandError like load_trace()."""
    try:
        return load_scenario(
            arguments.trace, nodes, seed=arguments.seed, jobs=arguments.jobs, load=arguments.load,
            exact=bool(arguments.exact), start_delay=run_options(arguments).latency.start_high,
            whole_nodes=bool(arguments.whole_nodes),
        )  # fmt: skip
    except InputError as error:
        raise CommandError(str(error)) from error


def _check_log(log: SwfLog, arguments: Namespace) -> None:
    trace = source_name(arguments.trace)
    if not log.jobs:
        raise CommandError(f"{trace}: contains no jobs{f': {log.problems[0]}' if log.problems else ''}")
    for name in (*_DELAYS, "whole_nodes"):
        if getattr(arguments, name) is not None:
            flag = name.replace("_", "-")
            raise CommandError(
                f"--{flag} does not work for a log on one pool of processors: also set --nodes, such as 100x64"
            )
    if log.processors is None:
        invalid = next((str(problem) for problem in log.problems if problem.field in SIZES), None)
        problem = invalid or f"header: neither {' nor '.join(SIZES)} is set"
        raise CommandError(f"{trace}: {problem}: add --nodes PROCESSORS")
    if log.processors > MAX_PROCESSORS:
        raise CommandError(
            f"{trace}: header: MaxProcs: {log.processors} is not between 1 and {MAX_PROCESSORS}: add --nodes PROCESSORS"
        )


def trace_info(arguments: Namespace, source: SwfLog | Scenario) -> TraceInfo:
    """Return the name of the trace, the options set by the arguments, and its problems."""
    options = {name: getattr(arguments, name) for name in _OPTIONS if getattr(arguments, name) is not None}
    file = Path(source_name(arguments.trace)).name or str(arguments.trace)
    if isinstance(source, SwfLog):
        return TraceInfo(file, file, options, [str(problem) for problem in source.problems], source.partial)
    return TraceInfo(file, source.name, options, source.problems, source.partial)


def print_problems(trace: TraceInfo, source: SwfLog | Scenario, *, whole: bool) -> None:
    """List problems of the trace on standard error, the first few or all."""
    number = len(trace.problems)
    what = f"{count_noun(number, 'line')} left out" if isinstance(source, SwfLog) else count_noun(number, "problem")
    if number:
        sys.stderr.write(bullet_list(f"{trace.trace}: {what}", trace.problems, whole=whole))
    if trace.partial:
        lines = count_noun(trace.partial, "line")
        sys.stderr.write(
            f"{trace.trace}: {lines} with parts of jobs ignored: the log also has lines for the whole jobs\n"
        )


def run_options(arguments: Namespace) -> RunOptions:
    """Return the options that all policies share."""
    return RunOptions(bool(arguments.exact), arguments.forecast or 0, _latency(arguments))


def _latency(arguments: Namespace) -> Latency:
    low, high = arguments.start_latency or (0.0, 0.0)
    latency = Latency(
        low, high, release=arguments.release_latency or 0.0, grace=arguments.grace or 0.0,
        enforce_deadlines=arguments.deadlines is not False, seed=arguments.seed or 0,
    )  # fmt: skip
    return latency if arguments.rate is None else latency._replace(rate=arguments.rate[0], burst=arguments.rate[1])
