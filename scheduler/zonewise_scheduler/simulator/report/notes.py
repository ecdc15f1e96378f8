"""Texts that accompany the numbers: the trace, its problems, unfinished jobs, and the caption of a result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.simulator.history import OUTCOMES
from zonewise_scheduler.simulator.job_columns import job_columns
from zonewise_scheduler.simulator.report.number_format import format_amount, format_durations

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.simulator.history import History, JobOutcome
    from zonewise_scheduler.simulator.report.result import PolicyResult

_MAX_LINES = 5


def heading(name: str, history: History) -> str:
    """Return the trace and its capacity: "log.swf: 28,481 jobs, 100 processors"."""
    requested = {name for amounts in job_columns(history.jobs).amounts for name, size in amounts.items() if size}
    used = {name: size for name, size in history.capacity.items() if name in requested}
    return f"{name}: {', '.join([count_noun(len(history.jobs), 'job'), *_amounts(used)])}"


def caption(results: Sequence[PolicyResult]) -> str:
    """Return the results as the caption of a picture; means share one unit, and so do the longest waits."""
    summaries = [result.summary if result.summary.jobs else None for result in results]
    means = format_durations([summary and summary.wait_mean for summary in summaries])
    longest = format_durations([summary and summary.wait_max for summary in summaries])
    return "; ".join(
        f"{result.policy}: mean wait {mean}, longest {most}"
        for result, mean, most in zip(results, means, longest, strict=True)
    )


def unfinished_jobs(history: History, outcome: JobOutcome) -> dict[int, str]:
    """Return the explanations of the jobs with this outcome, by index."""
    rows = np.flatnonzero(job_columns(history.jobs).outcome == OUTCOMES.index(outcome)).tolist()
    jobs = ((index, history.jobs[index]) for index in rows)
    return {index: f"job {job.name}: {job.explanation or ', '.join(_amounts(job.amounts))}" for index, job in jobs}


def bullet_list(head: str, lines: Sequence[str], *, whole: bool) -> str:
    """Return a heading and the first few lines, or all, as text that ends in a newline."""
    visible = lines if whole else lines[:_MAX_LINES]
    rest = [f"and {len(lines) - len(visible):,} more (all with --verbose)"] if len(visible) < len(lines) else []
    return "\n  ".join([f"{head}:", *visible, *rest]) + "\n"


def count_noun(number: int, thing: str, things: str = "") -> str:
    """Return "1 line", "2,000 lines"; `things`: an irregular plural."""
    return f"{number:,} {thing if number == 1 else things or f'{thing}s'}"


def _amounts(amounts: Mapping[str, int]) -> list[str]:
    return [format_amount(name, size) for name, size in amounts.items()]
