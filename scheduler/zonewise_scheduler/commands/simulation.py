"""What `zonewise simulate` does, once its arguments are understood; this takes numpy."""

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
from zonewise_scheduler.simulator.inputs.errors import InputError
from zonewise_scheduler.simulator.inputs.loader import load_scenario
from zonewise_scheduler.simulator.inputs.source_files import source_name
from zonewise_scheduler.simulator.latency import Latency
from zonewise_scheduler.simulator.plot.plot_file import check_plot_path, draw_plot
from zonewise_scheduler.simulator.pool_tasks import MAX_PROCESSORS
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

_LIVE = ("start_latency", "rate", "release_latency", "grace", "deadlines")
"""A log on one pool has no use for them: there, jobs are numbers of processors that run as long as they ran."""
_NOT_RUN: dict[JobOutcome, str] = {"refused": "that can run nowhere", "waiting": "left waiting at the end"}
_TOLD = ("nodes", "jobs", "load", "seed", "exact", "whole_nodes", "forecast", *_LIVE)
"""What the JSON says of the arguments, where they were given."""


class _NotRun(NamedTuple):
    """Jobs that have not run, a line each, and under which policies."""

    lines: list[str]
    policies: list[str]


def run_simulation(arguments: Namespace) -> None:
    """Read, simulate under each policy, and write what came of it. Raises CommandError."""
    rules = _rules(arguments)
    _check_outputs(arguments)
    given = _given(arguments)
    subject = _subject(arguments, given)
    gc.freeze()  # tens of thousands of nodes, to be searched again and again: there is no garbage in them
    if not arguments.quiet:
        _say_left_out(subject, given, whole=arguments.verbose)
    how = RunOptions(bool(arguments.exact), arguments.forecast or 0, _latency(arguments))
    results = [_result(given, name, one, how, arguments) for name, one in rules.items()]
    if not arguments.quiet:
        _say_not_run(subject, results, whole=arguments.verbose)
    _write(subject, results, arguments)


# --- what was asked for


def _rules(arguments: Namespace) -> dict[str, BackfillPolicy]:
    """Return the policies by name, in the order of the columns."""
    wanted: list[str] = [arguments.policy] if arguments.policy else []
    chosen = list(dict.fromkeys([*wanted, *arguments.compare])) or [DEFAULT_POLICY]
    if arguments.reserve_after is not None and DEFAULT_POLICY not in chosen:
        raise CommandError(f"--reserve-after is of {DEFAULT_POLICY}, not of {', '.join(chosen)}")
    after = DEFAULT_RESERVE_AFTER if arguments.reserve_after is None else arguments.reserve_after
    try:
        return {name: policy_named(name, after) for name in chosen}
    except ValueError as error:
        raise CommandError(str(error)) from error


def _check_outputs(arguments: Namespace) -> None:
    """Find out before anything is simulated what could not be written after it."""
    if arguments.json_jobs and arguments.json is None:
        raise CommandError("--json-jobs goes with --json")
    try:
        if arguments.plot is not None:
            with require_extra("plot"):
                check_plot_path(arguments.plot)
        kept = {
            Path(one).resolve(): f"is {what}, and is not overwritten"
            for what, one in (("the trace", arguments.trace), ("the nodes", arguments.nodes))
            if one
        }
        for path in _files(arguments):
            check_writable(path)
            if why := kept.get(path.resolve()):
                raise CommandError(f"{path}: {why}")
            kept[path.resolve()] = "is where the numbers go: the picture needs a file of its own"
    except ValueError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"{error.filename}: {error.strerror}" if error.strerror else str(error)) from error


def _files(arguments: Namespace) -> list[Path]:
    return [file for file in (_json_file(arguments), arguments.plot) if file is not None]


def _json_file(arguments: Namespace) -> Path | None:
    """Return where the JSON is to be written; None: to standard output, or nowhere."""
    return None if arguments.json in (None, STANDARD_OUTPUT) else Path(arguments.json)


def _latency(arguments: Namespace) -> Latency:
    low, high = arguments.start_latency or (0.0, 0.0)
    found = Latency(
        low, high, release=arguments.release_latency or 0.0, grace=arguments.grace or 0.0,
        enforce_deadlines=arguments.deadlines is not False, seed=arguments.seed or 0,
    )  # fmt: skip
    return found if arguments.rate is None else found._replace(rate=arguments.rate[0], burst=arguments.rate[1])


# --- what is simulated


def _given(arguments: Namespace) -> SwfLog | Scenario:
    try:
        found = load_scenario(
            arguments.trace, arguments.nodes, seed=arguments.seed, jobs=arguments.jobs, load=arguments.load,
            exact=bool(arguments.exact), whole_nodes=bool(arguments.whole_nodes),
        )  # fmt: skip
    except InputError as error:
        raise CommandError(str(error)) from error
    if isinstance(found, SwfLog):
        _check_log(found, arguments)
    return found


def _check_log(log: SwfLog, arguments: Namespace) -> None:
    trace = source_name(arguments.trace)
    if not log.jobs:
        raise CommandError(f"{trace}: holds no jobs{f': {log.problems[0]}' if log.problems else ''}")
    for name in (*_LIVE, "whole_nodes"):
        if getattr(arguments, name) is not None:
            flag = name.replace("_", "-")
            raise CommandError(f"--{flag} is not of a log on one pool of processors: say --nodes, such as 100x64, too")
    if log.processors is None:
        raise CommandError(f"{trace}: header: tells neither MaxProcs nor MaxNodes: say --nodes PROCESSORS")
    if log.processors > MAX_PROCESSORS:
        raise CommandError(
            f"{trace}: header: MaxProcs: not from 1 to {MAX_PROCESSORS}: {log.processors}: say --nodes PROCESSORS"
        )


def _subject(arguments: Namespace, given: SwfLog | Scenario) -> TraceInfo:
    told = {name: getattr(arguments, name) for name in _TOLD if getattr(arguments, name) is not None}
    file = Path(source_name(arguments.trace)).name or str(arguments.trace)
    if isinstance(given, SwfLog):
        return TraceInfo(file, file, told, [str(one) for one in given.problems], given.partial)
    return TraceInfo(file, given.name, told, given.problems)


def _say_left_out(subject: TraceInfo, given: SwfLog | Scenario, *, whole: bool) -> None:
    found = len(subject.problems)
    what = f"{count_noun(found, 'line')} left out" if isinstance(given, SwfLog) else count_noun(found, "problem")
    if found:
        sys.stderr.write(bullet_list(f"{subject.trace}: {what}", subject.problems, whole=whole))
    if subject.partial:
        lines = count_noun(subject.partial, "line")
        sys.stderr.write(f"{subject.trace}: {lines} of parts of jobs left out: there are lines of the whole jobs\n")


def _say_not_run(subject: TraceInfo, results: Sequence[PolicyResult], *, whole: bool) -> None:
    """Name the jobs that have not run, and say why: those of all policies at once, where they are the same."""
    for outcome, what in _NOT_RUN.items():
        found: dict[tuple[int, ...], _NotRun] = {}
        for result in results:
            jobs = unfinished_jobs(result.history, outcome)
            found.setdefault(tuple(jobs), _NotRun(list(jobs.values()), [])).policies.append(result.policy)
        for lines, policies in found.values():
            under = f" under {', '.join(policies)}" if len(found) > 1 else ""
            if lines:
                head = f"{subject.trace}: {count_noun(len(lines), 'job')} {what}{under}"
                sys.stderr.write(bullet_list(head, lines, whole=whole))


# --- simulating and writing


def _result(
    given: SwfLog | Scenario, name: str, rules: BackfillPolicy, how: RunOptions, arguments: Namespace
) -> PolicyResult:
    shown = not arguments.quiet and sys.stderr.isatty()
    progress = ProgressLine(sys.stderr, name, terminal_width(sys.stderr)) if shown else None
    try:
        return build_result(name, rules, run_policy(given, rules, how, progress and progress.update))
    except SimulationError as error:
        raise CommandError(f"{name}: {error}") from error
    finally:
        if progress is not None:
            progress.clear()


def _write(subject: TraceInfo, results: Sequence[PolicyResult], arguments: Namespace) -> None:
    """Write the files, and the table or the JSON."""
    document = partial(build_document, subject, results, with_jobs=arguments.json_jobs)
    if (file := _json_file(arguments)) is not None:
        _to_file(file, lambda path: _write_pieces(path, render(document())))
    if arguments.plot is not None:
        _to_file(arguments.plot, lambda path: _draw(subject, results, path))
    if arguments.json == STANDARD_OUTPUT:
        for piece in render(document()):
            write(piece, STANDARD_OUTPUT)
    else:
        table = summary_table(results, terminal_width(sys.stdout))
        write(f"{heading(subject.trace, results[0].history)}\n\n{table}", STANDARD_OUTPUT)


def _to_file(file: Path, make: Callable[[Path], object]) -> None:
    try:
        with atomic_replacement(file) as path:
            make(path)
    except OSError as error:
        raise CommandError(f"{file}: cannot be written: {error.strerror or error}") from error


def _write_pieces(path: Path, pieces: Iterable[str]) -> None:
    with path.open("w", encoding="ascii") as file:
        file.writelines(pieces)


def _draw(subject: TraceInfo, results: Sequence[PolicyResult], path: Path) -> None:
    first = results[0]
    others = [(result.policy, result.history) for result in results] if len(results) > 1 else []
    title, line = heading(subject.trace, first.history), "; ".join(caption(result) for result in results)
    draw_plot(first.history, path, title=title, caption=line, compare=others)
