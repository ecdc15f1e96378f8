"""What `zonewise simulate` does, once its arguments are understood; this takes numpy."""

from __future__ import annotations

import gc
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from zonewise.commands import CommandError, needing
from zonewise.commands.output import STANDARD_OUTPUT, write
from zonewise_scheduler.queue.time.rules import DEFAULT, RESERVE_AFTER, rules_named
from zonewise_scheduler.simulate.cluster import SimulationError
from zonewise_scheduler.simulate.inputs.content import name_of
from zonewise_scheduler.simulate.inputs.errors import InputError
from zonewise_scheduler.simulate.inputs.open import scenario_of
from zonewise_scheduler.simulate.latency import Latency
from zonewise_scheduler.simulate.play import How, play
from zonewise_scheduler.simulate.plot.picture import check, draw
from zonewise_scheduler.simulate.report.document import document_of, render
from zonewise_scheduler.simulate.report.files import check_writable, replaced
from zonewise_scheduler.simulate.report.notes import caption, counted, heading, listed, not_run
from zonewise_scheduler.simulate.report.progress import Progress, width_of
from zonewise_scheduler.simulate.report.result import Result, Subject, result_of
from zonewise_scheduler.simulate.report.table import summary_table
from zonewise_scheduler.simulate.swf import Log
from zonewise_scheduler.simulate.workload import MOST

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable, Sequence

    from zonewise_scheduler.queue.time.rules import Rules
    from zonewise_scheduler.simulate.history import Outcome
    from zonewise_scheduler.simulate.scenario import Scenario

_LIVE = ("start_latency", "rate", "release_latency", "grace", "deadlines")
"""A log on one pool has no use for them: there, jobs are numbers of processors that run as long as they ran."""
_NOT_RUN: dict[Outcome, str] = {"refused": "that can run nowhere", "waiting": "left waiting at the end"}
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
    how = How(bool(arguments.exact), arguments.forecast or 0, _latency(arguments))
    results = [_result(given, name, one, how, arguments) for name, one in rules.items()]
    if not arguments.quiet:
        _say_not_run(subject, results, whole=arguments.verbose)
    _write(subject, results, arguments)


# --- what was asked for


def _rules(arguments: Namespace) -> dict[str, Rules]:
    """Return the policies by name, in the order of the columns."""
    wanted: list[str] = [arguments.policy] if arguments.policy else []
    chosen = list(dict.fromkeys([*wanted, *arguments.compare])) or [DEFAULT]
    if arguments.reserve_after is not None and DEFAULT not in chosen:
        raise CommandError(f"--reserve-after is of {DEFAULT}, not of {', '.join(chosen)}")
    after = RESERVE_AFTER if arguments.reserve_after is None else arguments.reserve_after
    try:
        return {name: rules_named(name, after) for name in chosen}
    except ValueError as error:
        raise CommandError(str(error)) from error


def _check_outputs(arguments: Namespace) -> None:
    """Find out before anything is simulated what could not be written after it."""
    if arguments.json_jobs and arguments.json is None:
        raise CommandError("--json-jobs goes with --json")
    try:
        if arguments.plot is not None:
            with needing("plot"):
                check(arguments.plot)
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
        enforce=arguments.deadlines is not False, seed=arguments.seed or 0,
    )  # fmt: skip
    return found if arguments.rate is None else found._replace(rate=arguments.rate[0], burst=arguments.rate[1])


# --- what is simulated


def _given(arguments: Namespace) -> Log | Scenario:
    try:
        found = scenario_of(
            arguments.trace, arguments.nodes, seed=arguments.seed, jobs=arguments.jobs, load=arguments.load,
            exact=bool(arguments.exact), whole_nodes=bool(arguments.whole_nodes),
        )  # fmt: skip
    except InputError as error:
        raise CommandError(str(error)) from error
    if isinstance(found, Log):
        _check_log(found, arguments)
    return found


def _check_log(log: Log, arguments: Namespace) -> None:
    trace = name_of(arguments.trace)
    if not log.jobs:
        raise CommandError(f"{trace}: holds no jobs{f': {log.problems[0]}' if log.problems else ''}")
    for name in (*_LIVE, "whole_nodes"):
        if getattr(arguments, name) is not None:
            flag = name.replace("_", "-")
            raise CommandError(f"--{flag} is not of a log on one pool of processors: say --nodes, such as 100x64, too")
    if log.processors is None:
        raise CommandError(f"{trace}: header: tells neither MaxProcs nor MaxNodes: say --nodes PROCESSORS")
    if log.processors > MOST:
        raise CommandError(f"{trace}: header: MaxProcs: not from 1 to {MOST}: {log.processors}: say --nodes PROCESSORS")


def _subject(arguments: Namespace, given: Log | Scenario) -> Subject:
    told = {name: getattr(arguments, name) for name in _TOLD if getattr(arguments, name) is not None}
    file = Path(name_of(arguments.trace)).name or str(arguments.trace)
    if isinstance(given, Log):
        return Subject(file, file, told, [str(one) for one in given.problems], given.partial)
    return Subject(file, given.name, told, given.problems)


def _say_left_out(subject: Subject, given: Log | Scenario, *, whole: bool) -> None:
    found = len(subject.problems)
    what = f"{counted(found, 'line')} left out" if isinstance(given, Log) else counted(found, "problem")
    if found:
        sys.stderr.write(listed(f"{subject.trace}: {what}", subject.problems, whole=whole))
    if subject.partial:
        lines = counted(subject.partial, "line")
        sys.stderr.write(f"{subject.trace}: {lines} of parts of jobs left out: there are lines of the whole jobs\n")


def _say_not_run(subject: Subject, results: Sequence[Result], *, whole: bool) -> None:
    """Name the jobs that have not run, and say why: those of all policies at once, where they are the same."""
    for outcome, what in _NOT_RUN.items():
        found: dict[tuple[int, ...], _NotRun] = {}
        for result in results:
            jobs = not_run(result.history, outcome)
            found.setdefault(tuple(jobs), _NotRun(list(jobs.values()), [])).policies.append(result.policy)
        for lines, policies in found.values():
            under = f" under {', '.join(policies)}" if len(found) > 1 else ""
            if lines:
                head = f"{subject.trace}: {counted(len(lines), 'job')} {what}{under}"
                sys.stderr.write(listed(head, lines, whole=whole))


# --- simulating and writing


def _result(given: Log | Scenario, name: str, rules: Rules, how: How, arguments: Namespace) -> Result:
    shown = not arguments.quiet and sys.stderr.isatty()
    progress = Progress(sys.stderr, name, width_of(sys.stderr)) if shown else None
    try:
        return result_of(name, rules, play(given, rules, how, progress and progress.told))
    except SimulationError as error:
        raise CommandError(f"{name}: {error}") from error
    finally:
        if progress is not None:
            progress.clear()


def _write(subject: Subject, results: Sequence[Result], arguments: Namespace) -> None:
    """Write the files, and the table or the JSON."""
    document = partial(document_of, subject, results, with_jobs=arguments.json_jobs)
    if (file := _json_file(arguments)) is not None:
        _to_file(file, lambda path: _write_pieces(path, render(document())))
    if arguments.plot is not None:
        _to_file(arguments.plot, lambda path: _draw(subject, results, path))
    if arguments.json == STANDARD_OUTPUT:
        for piece in render(document()):
            write(piece, STANDARD_OUTPUT)
    else:
        table = summary_table(results, width_of(sys.stdout))
        write(f"{heading(subject.trace, results[0].history)}\n\n{table}", STANDARD_OUTPUT)


def _to_file(file: Path, make: Callable[[Path], object]) -> None:
    try:
        with replaced(file) as path:
            make(path)
    except OSError as error:
        raise CommandError(f"{file}: cannot be written: {error.strerror or error}") from error


def _write_pieces(path: Path, pieces: Iterable[str]) -> None:
    with path.open("w", encoding="ascii") as file:
        file.writelines(pieces)


def _draw(subject: Subject, results: Sequence[Result], path: Path) -> None:
    first = results[0]
    others = [(result.policy, result.history) for result in results] if len(results) > 1 else []
    title, line = heading(subject.trace, first.history), "; ".join(caption(result) for result in results)
    draw(first.history, path, title=title, caption=line, compare=others)
