"""Runs `zonewise simulate` with parsed arguments. This module imports numpy."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.commands.policy_run import run_with_progress
from zonewise_scheduler.commands.simulation_inputs import (
    load_trace,
    print_problems,
    run_options,
    selected_policies,
    trace_info,
)
from zonewise_scheduler.commands.simulation_outputs import check_outputs, write_results
from zonewise_scheduler.simulator.plot.plot_file import draw_plot
from zonewise_scheduler.simulator.report.json_document import build_document, render
from zonewise_scheduler.simulator.report.notes import bullet_list, caption, count_noun, heading, unfinished_jobs
from zonewise_scheduler.simulator.report.policy_table import summary_table
from zonewise_scheduler.simulator.report.progress import terminal_width
from zonewise_scheduler.simulator.report.result import PolicyResult, TraceInfo, build_result

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence
    from pathlib import Path

    from zonewise_scheduler.simulator.history import JobOutcome

_UNFINISHED: dict[JobOutcome, str] = {"refused": "that fit nowhere", "waiting": "pending at the end"}


class _Unfinished(NamedTuple):
    """A line for each unfinished job, and the policies under which exactly these jobs did not finish."""

    lines: list[str]
    policies: list[str]


def run_simulation(arguments: Namespace) -> None:
    """Read the trace, simulate it under each policy, and write the results. Raises CommandError."""
    policies = selected_policies(arguments)
    check_outputs(arguments)
    source = load_trace(arguments)
    trace = trace_info(arguments, source)
    gc.freeze()  # tens of thousands of nodes without garbage, which each collection would scan
    if not arguments.quiet:
        print_problems(trace, source, whole=arguments.verbose)
    options = run_options(arguments)
    results = [
        build_result(name, policy, run_with_progress(source, name, policy, options, quiet=arguments.quiet))
        for name, policy in policies.items()
    ]
    if not arguments.quiet:
        _print_unfinished(trace, results, whole=arguments.verbose)
    _write(trace, results, arguments)


def _print_unfinished(trace: TraceInfo, results: Sequence[PolicyResult], *, whole: bool) -> None:
    """List unfinished jobs with their reasons, once for all policies under which they are the same."""
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


def _write(trace: TraceInfo, results: Sequence[PolicyResult], arguments: Namespace) -> None:
    """Write the files, and print the table or the JSON."""
    table = summary_table(results, terminal_width(sys.stdout))
    write_results(
        arguments,
        f"{heading(trace.trace, results[0].history)}\n\n{table}",
        lambda: render(build_document(trace, results, with_jobs=arguments.json_jobs)),
        lambda path: _draw(trace, results, path),
    )


def _draw(trace: TraceInfo, results: Sequence[PolicyResult], path: Path) -> None:
    first = results[0]
    compared = [(result.policy, result.history) for result in results] if len(results) > 1 else []
    draw_plot(
        first.history, path, title=heading(trace.trace, first.history), caption=caption(results), compare=compared
    )
