"""Runs `zonewise simulate --repeat`: seeds, policies and loads, in several processes. This module imports numpy."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.cli.command import CommandError
from zonewise_scheduler.commands.simulation_inputs import (
    load_trace,
    print_problems,
    run_options,
    selected_policies,
    trace_info,
)
from zonewise_scheduler.commands.simulation_outputs import check_outputs, write_results
from zonewise_scheduler.simulator.cluster_simulation import SimulationError
from zonewise_scheduler.simulator.inputs.source_files import STANDARD_INPUT
from zonewise_scheduler.simulator.report.json_document import render
from zonewise_scheduler.simulator.report.progress import ProgressLine, terminal_width
from zonewise_scheduler.simulator.runner import run_policy
from zonewise_scheduler.simulator.summary import summarise
from zonewise_scheduler.simulator.sweep.sweep_report import sweep_document, sweep_text
from zonewise_scheduler.simulator.sweep.sweep_runs import RunResult, SweepRun, run_result, sweep_columns, sweep_runs
from zonewise_scheduler.simulator.sweep.worker_pool import RunError, RunsInterrupted, run_in_processes
from zonewise_scheduler.simulator.swf import SwfLog

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from zonewise_scheduler.simulator.report.result import TraceInfo

_REJECTED = ("plot", "forecast", "json_jobs")


class Sweep(NamedTuple):
    """The runs of a sweep and their trace."""

    runs: Sequence[SweepRun]
    trace: TraceInfo


def run_sweep(arguments: Namespace) -> None:
    """Simulate every run and write the means. Raises CommandError, and KeyboardInterrupt after SIGINT."""
    sweep = prepare_sweep(arguments)
    write_sweep(arguments, sweep, _results(arguments, sweep.runs))


def prepare_sweep(arguments: Namespace) -> Sweep:
    """Return the runs of a sweep, and print the problems of the trace. Raises CommandError."""
    for name in _REJECTED:
        if getattr(arguments, name):
            raise CommandError(f"--{name.replace('_', '-')} does not work with --repeat")
    for name, value in (("TRACE", arguments.trace), ("--nodes", arguments.nodes)):
        if value == STANDARD_INPUT:
            raise CommandError(f"--repeat reads {name} once for each run: use a file, not -")
    policies = selected_policies(arguments)
    check_outputs(arguments)
    first = arguments.seed or 0
    loads = arguments.loads or [arguments.load]
    runs = sweep_runs([*policies], loads, range(first, first + arguments.repeat))
    source = load_trace(_of_run(arguments, runs[0]))
    if isinstance(source, SwfLog):
        raise CommandError("--repeat: a log on one pool draws no random numbers: also set --nodes and --start-latency")
    trace = trace_info(arguments, source)
    if not arguments.quiet:
        print_problems(trace, source, whole=arguments.verbose)
    return Sweep(runs, trace)


def write_sweep(arguments: Namespace, sweep: Sweep, results_by_run: Sequence[RunResult]) -> None:
    """Write the means of the results, which are in the order of the runs. Raises CommandError."""
    results = list(zip(sweep.runs, results_by_run, strict=True))
    columns = sweep_columns(results)
    write_results(
        arguments,
        sweep_text(sweep.trace.trace, columns, terminal_width(sys.stdout)),
        lambda: render(sweep_document(sweep.trace.trace, sweep.trace.options, results, columns)),
    )


def simulate_run(arguments: Namespace, run: SweepRun) -> RunResult:
    """Return the result of one run, which depends only on its arguments, not on the process. Raises CommandError."""
    arguments = _of_run(arguments, run)
    source, policy = load_trace(arguments), selected_policies(arguments)[run.policy]
    try:
        history = run_policy(source, policy, run_options(arguments))
    except SimulationError as error:
        raise CommandError(str(error)) from error
    return run_result(summarise(history))


class RunProgress:
    """Shows the number of completed runs on the terminal while the context is entered."""

    def __init__(self, arguments: Namespace, runs: Sequence[SweepRun]) -> None:
        """Create the progress display; the arguments may disable it."""
        visible = not arguments.quiet and sys.stderr.isatty()
        self._line = ProgressLine(sys.stderr, "sweep", terminal_width(sys.stderr), things="runs") if visible else None
        self._total = len(runs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._line is not None:
            self._line.clear()

    def show(self, done: int) -> None:
        """Show the number."""
        if self._line is not None:
            self._line.update(done, self._total)

    def note(self, text: str) -> None:
        """Print a line beside the number."""
        if self._line is not None:
            self._line.clear()
        sys.stderr.write(f"zonewise: note: {text}\n")


def _results(arguments: Namespace, runs: Sequence[SweepRun]) -> list[RunResult]:
    try:
        with RunProgress(arguments, runs) as progress:
            return run_in_processes(partial(simulate_run, arguments), runs, _processes(arguments), progress.show)
    except RunError as error:
        raise CommandError(str(error)) from error
    except RunsInterrupted as interruption:
        sys.stderr.write(f"zonewise: {interruption}; no means are printed\n")
        raise KeyboardInterrupt from None


def _processes(arguments: Namespace) -> int:
    """Return the number of processes: the one set, or one for each CPU that this program may use."""
    if arguments.jobs_parallel is None:
        return 1
    if hasattr(os, "sched_getaffinity"):  # on Linux; macOS lacks it
        return arguments.jobs_parallel or len(os.sched_getaffinity(0))
    return arguments.jobs_parallel or os.cpu_count() or 1


def _of_run(arguments: Namespace, run: SweepRun) -> Namespace:
    return Namespace(**{**vars(arguments), "seed": run.seed, "load": run.load})
