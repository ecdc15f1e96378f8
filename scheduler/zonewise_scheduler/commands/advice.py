"""Runs `zonewise simulate --advise`: the smallest value of a setting that meets a goal. This module imports numpy."""

from __future__ import annotations

import gc
from functools import partial
from typing import TYPE_CHECKING

from zonewise_common.cli.command import CommandError
from zonewise_scheduler.backfill.policies import DEFAULT_POLICY
from zonewise_scheduler.commands.policy_run import run_with_progress
from zonewise_scheduler.commands.simulation_inputs import (
    load_trace,
    load_trace_on,
    print_problems,
    run_options,
    selected_policies,
    trace_info,
)
from zonewise_scheduler.commands.simulation_outputs import check_outputs, write_results
from zonewise_scheduler.simulator.advice.goal import measure
from zonewise_scheduler.simulator.advice.search import smallest_meeting
from zonewise_scheduler.simulator.advice.settings import (
    NodeCount,
    NominalQuota,
    ReserveAfter,
    find_quota,
    parse_node_count,
)
from zonewise_scheduler.simulator.inputs.source_files import STANDARD_INPUT, InputError
from zonewise_scheduler.simulator.plot.plot_file import draw_advice_plot
from zonewise_scheduler.simulator.report.advice import Advice, advice_curve, advice_document, advice_text
from zonewise_scheduler.simulator.report.json_document import render
from zonewise_scheduler.simulator.scenario import Scenario
from zonewise_scheduler.simulator.swf import SwfLog

if TYPE_CHECKING:
    from argparse import Namespace

    from zonewise_scheduler.backfill.policies import BackfillPolicy
    from zonewise_scheduler.simulator.advice.goal import Goal, Measurement
    from zonewise_scheduler.simulator.advice.settings import AdvisedSetting
    from zonewise_scheduler.simulator.runner import RunOptions

_NOT_MET = 1


def run_advice(arguments: Namespace) -> int:
    """Run the search, and write the result. Return 0, or 1 if no value meets the goal. Raises CommandError."""
    [(name, policy)] = _policy(arguments).items()
    check_outputs(arguments)
    source = load_trace(arguments)
    trace = trace_info(arguments, source)
    gc.freeze()
    if not arguments.quiet:
        print_problems(trace, source, whole=arguments.verbose)
    setting = _setting(arguments, source, policy)
    evaluate = partial(_evaluate, setting, arguments.goal, run_options(arguments), quiet=arguments.quiet)
    result = smallest_meeting(setting.ladder, setting.start, evaluate)
    advice = Advice(trace, name, setting, arguments.goal, result)
    write_results(
        arguments,
        advice_text(advice),
        lambda: render(advice_document(advice)),
        lambda path: draw_advice_plot(advice_curve(advice), path),
    )
    return 0 if result.smallest is not None else _NOT_MET


def _policy(arguments: Namespace) -> dict[str, BackfillPolicy]:
    """Return the single policy by its name."""
    for flag in ("compare", "json_jobs", "forecast"):
        if getattr(arguments, flag):
            raise CommandError(f"--{flag.replace('_', '-')} does not work with --advise")
    kind, _ = arguments.advise
    if kind == "reserve-after" and arguments.policy not in (None, DEFAULT_POLICY):
        raise CommandError(f"--advise reserve-after works only with {DEFAULT_POLICY}: remove --policy")
    return selected_policies(arguments)


def _setting(arguments: Namespace, source: SwfLog | Scenario, policy: BackfillPolicy) -> AdvisedSetting:
    kind, target = arguments.advise
    try:
        if kind == "reserve-after":
            return ReserveAfter(source, policy.reserve_after)
        if kind == "nodes":
            return _node_count(arguments, source, policy)
        if isinstance(source, SwfLog):
            raise CommandError("--advise quota: a log on one pool has no queues: write --advise nodes")
        return NominalQuota(source, policy, *find_quota(source, target))
    except InputError as error:
        raise CommandError(str(error)) from error


def _node_count(arguments: Namespace, source: SwfLog | Scenario, policy: BackfillPolicy) -> NodeCount:
    if isinstance(source, SwfLog):
        return NodeCount(source, policy, source.processors or 1)
    if arguments.trace == STANDARD_INPUT:
        raise CommandError("--advise nodes reads TRACE once for each number: use a file, not -")
    if arguments.nodes is None:
        raise CommandError("--advise nodes: set the present number too, such as --nodes 64x48x256Gi")
    count, width = parse_node_count(arguments.nodes)
    return NodeCount(source, policy, count, partial(_load_on, arguments, width))


def _load_on(arguments: Namespace, width: str, count: int) -> Scenario:
    """Return the trace on `count` nodes of the same width."""
    source = load_trace_on(f"{count}{width or 'x1'}", arguments)
    assert isinstance(source, Scenario)  # noqa: S101 -- only a log without a width of nodes is none
    return source


def _evaluate(setting: AdvisedSetting, goal: Goal, options: RunOptions, position: int, *, quiet: bool) -> Measurement:
    source, policy = setting.apply(position)
    history = run_with_progress(source, f"{setting.name} {setting.text(position)}", policy, options, quiet=quiet)
    try:
        return measure(goal, history)
    except ValueError as error:
        raise CommandError(f"--goal {goal.text!r}: {error}") from error
