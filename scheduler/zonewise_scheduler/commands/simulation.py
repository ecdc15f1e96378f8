"""Runs `zonewise simulate` with parsed arguments. This module imports numpy."""

from __future__ import annotations

import gc
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.cli.command import CommandError, require_extra
from zonewise_common.cli.output import STANDARD_OUTPUT, write
from zonewise_scheduler.backfill.policies import DEFAULT_POLICY, DEFAULT_RESERVE_AFTER, policy_named
from zonewise_scheduler.simulator.cluster_simulation import SimulationError
from zonewise_scheduler.simulator.inputs.loader import load_scenario
from zonewise_scheduler.simulator.inputs.source_files import InputError, source_name
from zonewise_scheduler.simulator.latency import Latency
from zonewise_scheduler.simulator.plot.plot_file import check_plot_path, draw_plot
from zonewise_scheduler.simulator.pool_log import MAX_PROCESSORS
from zonewise_scheduler.simulator.report.atomic_files import atomic_replacement, check_writable
from zonewise_scheduler.simulator.report.json_document import build_document, render
from zonewise_scheduler.simulator.report.notes import bullet_list, caption, count_noun, heading, unfinished_jobs
from zonewise_scheduler.simulator.report.policy_table import summary_table
from zonewise_scheduler.simulator.report.progress import ProgressLine, terminal_width
from zonewise_scheduler.simulator.report.result import PolicyResult, TraceInfo, build_result
from zonewise_scheduler.simulator.runner import RunOptions, run_policy
from zonewise_scheduler.simulator.swf import SwfLog

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable, Sequence

    from zonewise_scheduler.backfill.policies import BackfillPolicy
    from zonewise_scheduler.simulator.history import JobOutcome
    from zonewise_scheduler.simulator.scenario import Scenario

_DELAYS = ("start_latency", "rate", "release_latency", "grace", "deadlines")
"""Options without a meaning for a log on one pool: its jobs are numbers of processors that run as long as they ran."""
_UNFINISHED: dict[JobOutcome, str] = {"refused": "that fit nowhere", "waiting": "pending at the end"}
_OPTIONS = ("nodes", "jobs", "load", "seed", "exact", "whole_nodes", "forecast", *_DELAYS)
"""Arguments that the JSON document repeats, where they were used."""


class _Unfinished(NamedTuple):
    """A line for each unfinished job, and the policies under which these jobs did not finish."""

    lines: list[str]
    policies: list[str]


def run_simulation(arguments: Namespace) -> None:
    """Read the trace, simulate it under each policy, and write the results. Raises CommandError."""
    policies = _policies(arguments)
    _check_outputs(arguments)
    source = _load(arguments)
    trace = _trace_info(arguments, source)
    gc.freeze()  # tens of thousands of nodes without garbage, which each collection would search
    if not arguments.quiet:
        _print_problems(trace, source, whole=arguments.verbose)
    options = RunOptions(bool(arguments.exact), arguments.forecast or 0, _latency(arguments))
    results = [_run(source, name, policy, options, arguments) for name, policy in policies.items()]
    if not arguments.quiet:
        _print_unfinished(trace, results, whole=arguments.verbose)
    _write(trace, results, arguments)


# --- arguments


def _policies(arguments: Namespace) -> dict[str, BackfillPolicy]:
    """Return the policies by name, in the order of the columns."""
    first: list[str] = [arguments.policy] if arguments.policy else []
    selected = list(dict.fromkeys([*first, *arguments.compare])) or [DEFAULT_POLICY]
    if arguments.reserve_after is not None and DEFAULT_POLICY not in selected:
        raise CommandError(f"--reserve-after is of {DEFAULT_POLICY}, not of {', '.join(selected)}")
    after = DEFAULT_RESERVE_AFTER if arguments.reserve_after is None else arguments.reserve_after
    try:
        return {name: policy_named(name, after) for name in selected}
    except ValueError as error:
        raise CommandError(str(error)) from error


def _check_outputs(arguments: Namespace) -> None:
    """Check before the simulation that every file can be written after it."""
    if arguments.json_jobs and arguments.json is None:
        raise CommandError("--json-jobs goes with --json")
    try:
        if arguments.plot is not None:
            with require_extra("plot"):
                check_plot_path(arguments.plot)
        reserved = {
            Path(input_path).resolve(): f"is {role}, and is not overwritten"
            for role, input_path in (("the trace", arguments.trace), ("the nodes", arguments.nodes))
            if input_path
        }
        for path in _output_files(arguments):
            check_writable(path)
            if reason := reserved.get(path.resolve()):
                raise CommandError(f"{path}: {reason}")
            reserved[path.resolve()] = "is the file of the JSON: the picture needs a file of its own"
    except ValueError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"{error.filename}: {error.strerror}" if error.strerror else str(error)) from error


def _output_files(arguments: Namespace) -> list[Path]:
    return [file for file in (_json_file(arguments), arguments.plot) if file is not None]


def _json_file(arguments: Namespace) -> Path | None:
    """Return the file for the JSON; None: standard output, or no JSON."""
    return None if arguments.json in (None, STANDARD_OUTPUT) else Path(arguments.json)


def _latency(arguments: Namespace) -> Latency:
    low, high = arguments.start_latency or (0.0, 0.0)
    latency = Latency(
        low, high, release=arguments.release_latency or 0.0, grace=arguments.grace or 0.0,
        enforce_deadlines=arguments.deadlines is not False, seed=arguments.seed or 0,
    )  # fmt: skip
    return latency if arguments.rate is None else latency._replace(rate=arguments.rate[0], burst=arguments.rate[1])


# --- the trace


def _load(arguments: Namespace) -> SwfLog | Scenario:
    try:
        source = load_scenario(
            arguments.trace, arguments.nodes, seed=arguments.seed, jobs=arguments.jobs, load=arguments.load,
            exact=bool(arguments.exact), whole_nodes=bool(arguments.whole_nodes),
        )  # fmt: skip
    except InputError as error:
        raise CommandError(str(error)) from error
    if isinstance(source, SwfLog):
        _check_log(source, arguments)
    return source


def _check_log(log: SwfLog, arguments: Namespace) -> None:
    trace = source_name(arguments.trace)
    if not log.jobs:
        raise CommandError(f"{trace}: holds no jobs{f': {log.problems[0]}' if log.problems else ''}")
    for name in (*_DELAYS, "whole_nodes"):
        if getattr(arguments, name) is not None:
            flag = name.replace("_", "-")
            raise CommandError(f"--{flag} is not of a log on one pool of processors: say --nodes, such as 100x64, too")
    if log.processors is None:
        raise CommandError(f"{trace}: header: neither MaxProcs nor MaxNodes: say --nodes PROCESSORS")
    if log.processors > MAX_PROCESSORS:
        raise CommandError(
            f"{trace}: header: MaxProcs: not from 1 to {MAX_PROCESSORS}: {log.processors}: say --nodes PROCESSORS"
        )


def _trace_info(arguments: Namespace, source: SwfLog | Scenario) -> TraceInfo:
    options = {name: getattr(arguments, name) for name in _OPTIONS if getattr(arguments, name) is not None}
    file = Path(source_name(arguments.trace)).name or str(arguments.trace)
    if isinstance(source, SwfLog):
        return TraceInfo(file, file, options, [str(problem) for problem in source.problems], source.partial)
    return TraceInfo(file, source.name, options, source.problems)


def _print_problems(trace: TraceInfo, source: SwfLog | Scenario, *, whole: bool) -> None:
    number = len(trace.problems)
    what = f"{count_noun(number, 'line')} left out" if isinstance(source, SwfLog) else count_noun(number, "problem")
    if number:
        sys.stderr.write(bullet_list(f"{trace.trace}: {what}", trace.problems, whole=whole))
    if trace.partial:
        lines = count_noun(trace.partial, "line")
        sys.stderr.write(f"{trace.trace}: {lines} of parts of jobs left out: the log has lines of the whole jobs\n")


def _print_unfinished(trace: TraceInfo, results: Sequence[PolicyResult], *, whole: bool) -> None:
    """List unfinished jobs with the reason of each; once for all policies under which they are the same."""
    for outcome, description in _UNFINISHED.items():
        groups: dict[tuple[int, ...], _Unfinished] = {}
        for result in results:
            jobs = unfinished_jobs(result.history, outcome)
            groups.setdefault(tuple(jobs), _Unfinished(list(jobs.values()), [])).policies.append(result.policy)
        for lines, policies in groups.values():
            under = f" under {', '.join(policies)}" if len(groups) > 1 else ""
            if lines:
                head = f"{trace.trace}: {count_noun(len(lines), 'job')} {description}{under}"
                sys.stderr.write(bullet_list(head, lines, whole=whole))


# --- simulation and output


def _run(
    source: SwfLog | Scenario, name: str, policy: BackfillPolicy, options: RunOptions, arguments: Namespace
) -> PolicyResult:
    visible = not arguments.quiet and sys.stderr.isatty()
    progress = ProgressLine(sys.stderr, name, terminal_width(sys.stderr)) if visible else None
    try:
        return build_result(name, policy, run_policy(source, policy, options, progress and progress.update))
    except SimulationError as error:
        raise CommandError(f"{name}: {error}") from error
    finally:
        if progress is not None:
            progress.clear()


def _write(trace: TraceInfo, results: Sequence[PolicyResult], arguments: Namespace) -> None:
    """Write the files, and the table or the JSON."""
    document = partial(build_document, trace, results, with_jobs=arguments.json_jobs)
    if (file := _json_file(arguments)) is not None:
        _write_file(file, lambda path: _write_pieces(path, render(document())))
    if arguments.plot is not None:
        _write_file(arguments.plot, lambda path: _draw(trace, results, path))
    if arguments.json == STANDARD_OUTPUT:
        for piece in render(document()):
            write(piece, STANDARD_OUTPUT)
    else:
        table = summary_table(results, terminal_width(sys.stdout))
        write(f"{heading(trace.trace, results[0].history)}\n\n{table}", STANDARD_OUTPUT)


def _write_file(file: Path, write_to: Callable[[Path], object]) -> None:
    try:
        with atomic_replacement(file) as path:
            write_to(path)
    except OSError as error:
        raise CommandError(f"{file}: cannot be written: {error.strerror or error}") from error


def _write_pieces(path: Path, pieces: Iterable[str]) -> None:
    with path.open("w", encoding="ascii") as file:
        file.writelines(pieces)


def _draw(trace: TraceInfo, results: Sequence[PolicyResult], path: Path) -> None:
    first = results[0]
    compared = [(result.policy, result.history) for result in results] if len(results) > 1 else []
    title, line = heading(trace.trace, first.history), "; ".join(caption(result) for result in results)
    draw_plot(first.history, path, title=title, caption=line, compare=compared)
