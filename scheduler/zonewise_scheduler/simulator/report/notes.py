"""Sentences beside the numbers: what was simulated, what is missing from it, and what came of it in a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.simulator.report.number_format import format_amount, format_durations

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.simulator.history import History, JobOutcome
    from zonewise_scheduler.simulator.report.result import PolicyResult

_FIRST = 5


def heading(name: str, history: History) -> str:
    """Return what was simulated, and on how much: "log.swf: 28,481 jobs, 100 processors"."""
    asked = {name for job in history.jobs for name, size in job.amounts.items() if size}
    there = {name: size for name, size in history.capacity.items() if name in asked}
    return f"{name}: {', '.join([count_noun(len(history.jobs), 'job'), *_amounts(there)])}"


def caption(result: PolicyResult) -> str:
    """Return what came of it, for a picture."""
    mean, longest = format_durations([result.summary.wait_mean, result.summary.wait_max])
    return f"{result.policy}: mean wait {mean}, longest {longest}"


def unfinished_jobs(history: History, outcome: JobOutcome) -> dict[int, str]:
    """Return the jobs that were refused, or that wait still, by their places: what stands in the way of each."""
    return {
        place: f"job {job.name}: {job.why or ', '.join(_amounts(job.amounts))}"
        for place, job in enumerate(history.jobs)
        if job.outcome == outcome
    }


def bullet_list(head: str, lines: Sequence[str], *, whole: bool) -> str:
    """Return a list below its heading, the first few or the whole, as text that ends in a newline."""
    shown = lines if whole else lines[:_FIRST]
    more = [f"and {len(lines) - len(shown):,} more (all with --verbose)"] if len(shown) < len(lines) else []
    return "\n  ".join([f"{head}:", *shown, *more]) + "\n"


def count_noun(number: int, thing: str) -> str:
    """Return "1 line", "2,000 lines"."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _amounts(amounts: Mapping[str, int]) -> list[str]:
    return [format_amount(name, size) for name, size in amounts.items()]
