"""The numbers of each policy side by side, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.simulator.report.grid import Row, render_grid
from zonewise_scheduler.simulator.report.number_format import format_durations, format_numbers, format_percents

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from zonewise_scheduler.simulator.report.result import PolicyResult
    from zonewise_scheduler.simulator.summary import ResourceShares, Summary

_INDENT = "  "
_MOST_KINDS = 12
"""Of which the waits are in the table; those of more are in the JSON."""


def summary_table(results: Sequence[PolicyResult], width: int) -> str:
    """Return a table with a column for each policy, in so many columns of a terminal; every number has its unit.

    What does not arise (failed jobs, preemptions, forecasts, promises, resources that nobody has) has no line.
    """
    summaries = [result.summary for result in results]
    rows = [
        *_jobs(summaries),
        *_waits(results),
        *_use(summaries),
        *_promises(summaries),
        *_forecasts(summaries),
        Row("decisions", format_numbers([result.history.decisions for result in results])),
        Row("decisions per s", format_numbers([round(one.decisions_per_second) for one in summaries])),
    ]
    return render_grid([result.policy for result in results], rows, width)


def _jobs(summaries: Sequence[Summary]) -> Iterator[Row]:
    yield Row("jobs done", format_numbers([one.jobs - one.failed for one in summaries]))
    for label, counts in (
        ("jobs failed", [one.failed for one in summaries]),
        ("jobs refused", [one.refused for one in summaries]),
        ("jobs waiting still", [one.waiting for one in summaries]),
        ("preemptions", [one.preemptions for one in summaries]),
    ):
        if any(counts):
            yield Row(label, format_numbers(counts))


def _waits(results: Sequence[PolicyResult]) -> Iterator[Row]:
    some = [_with_jobs(result.summary) for result in results]
    means, ready = (
        format_durations([one and one.wait_mean for one in some]),
        format_durations([one and one.ready_mean for one in some]),
    )
    yield Row("wait")
    yield Row(f"{_INDENT}mean", means)
    yield Row(f"{_INDENT}median", format_durations([one and one.wait_median for one in some]))
    yield Row(f"{_INDENT}95th percentile", format_durations([one and one.wait_p95 for one in some]))
    yield Row(f"{_INDENT}longest", format_durations([one and one.wait_max for one in some]))
    if ready != means:
        yield Row(f"{_INDENT}until ready, mean", ready)
    yield Row("bounded slowdown", format_numbers([one and one.bounded_slowdown for one in some]))
    yield from _waits_by_kind(results)


def _waits_by_kind(results: Sequence[PolicyResult]) -> Iterator[Row]:
    """Yield the waits of classes of jobs: not where there is one, or as many as jobs."""
    kinds = _union(result.kinds for result in results)
    if not 1 < len(kinds) <= min(_MOST_KINDS, len(results[0].history.jobs) // 2):
        return
    found = {kind: [_with_jobs(one) for result in results if (one := result.kinds.get(kind))] for kind in kinds}
    yield Row("mean wait of")
    for kind, some in found.items():
        yield Row(f"{_INDENT}{kind}", format_durations([one and one.wait_mean for one in some]))
    yield Row("longest wait of")
    for kind, some in found.items():
        yield Row(f"{_INDENT}{kind}", format_durations([one and one.wait_max for one in some]))


def _with_jobs(summary: Summary) -> Summary | None:
    """Return a summary whose means are of anything; None: nobody started, and no wait is known."""
    return summary if summary.jobs else None


def _use(summaries: Sequence[Summary]) -> Iterator[Row]:
    yield Row("makespan", format_durations([one.makespan if one.jobs else None for one in summaries]))
    utilisation = [one.utilisation for one in summaries]
    effective = [one.effective for one in summaries]
    if all(_same(have, use) for have, use in zip(utilisation, effective, strict=True)):
        yield from _shares("utilisation", utilisation)
        return
    yield from _shares("utilisation, allocated", utilisation)
    yield from _shares("utilisation, effective", effective)


def _shares(heading: str, shares: Sequence[ResourceShares]) -> Iterator[Row]:
    yield Row(heading)
    names = _union(shares)
    for name in [name for name in names if any(one.get(name) for one in shares)] or names:
        yield Row(f"{_INDENT}{name}", format_percents([one.get(name) for one in shares]))


def _promises(summaries: Sequence[Summary]) -> Iterator[Row]:
    kept = [one.promises for one in summaries]
    if any(kept):
        yield Row("starts promised")
        yield Row(f"{_INDENT}jobs", format_numbers([one and one.jobs for one in kept]))
        yield Row(f"{_INDENT}broken", format_numbers([one and one.broken for one in kept]))
        yield Row(f"{_INDENT}earlier by, mean", format_durations([one and one.early_mean for one in kept]))


def _forecasts(summaries: Sequence[Summary]) -> Iterator[Row]:
    errors = [one.forecast for one in summaries]
    if any(errors):
        yield Row("starts forecast")
        yield Row(f"{_INDENT}jobs", format_numbers([one and one.jobs for one in errors]))
        yield Row(f"{_INDENT}unknown", format_numbers([one and one.unknown for one in errors]))
        yield Row(f"{_INDENT}error, mean", format_durations([one and one.mean for one in errors]))
        yield Row(f"{_INDENT}error, median", format_durations([one and one.median for one in errors]))
        yield Row(f"{_INDENT}by declared, mean", format_durations([one and one.declared_mean for one in errors]))
        yield Row(f"{_INDENT}within bounds", format_percents([one and one.within for one in errors]))


def _same(have: ResourceShares, use: ResourceShares) -> bool:
    return format_percents(list(have.values())) == format_percents([use.get(name) for name in have])


def _union(some: Iterable[Iterable[str]]) -> list[str]:
    """Return the names in any of them, in the order in which they appear."""
    return list(dict.fromkeys(name for names in some for name in names))
