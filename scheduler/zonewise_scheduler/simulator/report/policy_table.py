"""The table of results, with one column per policy and one row per number."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.simulator.report.number_format import format_durations, format_numbers, format_percents

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from zonewise_scheduler.simulator.report.result import PolicyResult
    from zonewise_scheduler.simulator.summary import ResourceShares, Summary

_INDENT = "  "
_MAX_KINDS = 12
"""Maximum number of kinds with waits in the table; if there are more, these are only in the JSON."""
_GAP = "  "
_MIN_LABEL = 8
"""Minimum number of characters of a label, in the narrowest terminal."""
_ELLIPSIS = ".."


class Row(NamedTuple):
    """A row; without cells, it is the heading of the indented rows below."""

    label: str
    cells: Sequence[str] = ()


def summary_table(results: Sequence[PolicyResult], width: int) -> str:
    """Return the table, as wide as the terminal. Every number has its unit.

    Rows without a meaning (failed jobs, preemptions, forecasts, reservations, unused resources) are left out.
    """
    summaries = [result.summary for result in results]
    rows = [
        *_jobs(summaries),
        *_waits(results),
        *_use(summaries),
        *_reservations(summaries),
        *_forecasts(summaries),
        Row("decisions", format_numbers([result.history.decisions for result in results])),
        Row("decisions per s", format_numbers([round(summary.decisions_per_second) for summary in summaries])),
    ]
    return render_grid([result.policy for result in results], rows, width)


def _jobs(summaries: Sequence[Summary]) -> Iterator[Row]:
    yield Row("jobs done", format_numbers([summary.jobs - summary.failed for summary in summaries]))
    for label, counts in (
        ("jobs failed", [summary.failed for summary in summaries]),
        ("jobs rejected", [summary.rejected for summary in summaries]),
        ("jobs pending", [summary.waiting for summary in summaries]),
        ("preemptions", [summary.preemptions for summary in summaries]),
    ):
        if any(counts):
            yield Row(label, format_numbers(counts))


def _waits(results: Sequence[PolicyResult]) -> Iterator[Row]:
    summaries = [_nonempty(result.summary) for result in results]
    means, ready = (
        format_durations([summary and summary.wait_mean for summary in summaries]),
        format_durations([summary and summary.ready_mean for summary in summaries]),
    )
    yield Row("wait")
    yield Row(f"{_INDENT}mean", means)
    yield Row(f"{_INDENT}median", format_durations([summary and summary.wait_median for summary in summaries]))
    yield Row(f"{_INDENT}95th percentile", format_durations([summary and summary.wait_p95 for summary in summaries]))
    yield Row(f"{_INDENT}longest", format_durations([summary and summary.wait_max for summary in summaries]))
    if ready != means:
        yield Row(f"{_INDENT}until ready, mean", ready)
    yield Row("bounded slowdown", format_numbers([summary and summary.bounded_slowdown for summary in summaries]))
    yield from _waits_by_kind(results)


def _waits_by_kind(results: Sequence[PolicyResult]) -> Iterator[Row]:
    """Yield the waits of each kind of job, unless there is only one kind or there are about as many as jobs."""
    kinds = _union(result.kinds for result in results)
    if not 1 < len(kinds) <= min(_MAX_KINDS, len(results[0].history.jobs) // 2):
        return
    summaries_by_kind = {
        kind: [_nonempty(summary) for result in results if (summary := result.kinds.get(kind))] for kind in kinds
    }
    yield Row("mean wait of")
    for kind, summaries in summaries_by_kind.items():
        yield Row(f"{_INDENT}{kind}", format_durations([summary and summary.wait_mean for summary in summaries]))
    yield Row("95th percentile of")
    for kind, summaries in summaries_by_kind.items():
        yield Row(f"{_INDENT}{kind}", format_durations([summary and summary.wait_p95 for summary in summaries]))
    yield Row("longest wait of")
    for kind, summaries in summaries_by_kind.items():
        yield Row(f"{_INDENT}{kind}", format_durations([summary and summary.wait_max for summary in summaries]))


def _nonempty(summary: Summary) -> Summary | None:
    """Return the summary if it has completed jobs; None if no job started and no wait is known."""
    return summary if summary.jobs else None


def _use(summaries: Sequence[Summary]) -> Iterator[Row]:
    yield Row("makespan", format_durations([summary.makespan if summary.jobs else None for summary in summaries]))
    utilisation = [summary.utilisation for summary in summaries]
    effective = [summary.effective for summary in summaries]
    if all(_same(allocated, used) for allocated, used in zip(utilisation, effective, strict=True)):
        yield from _shares("utilisation", utilisation)
        return
    yield from _shares("utilisation, allocated", utilisation)
    yield from _shares("utilisation, effective", effective)


def _shares(heading: str, shares: Sequence[ResourceShares]) -> Iterator[Row]:
    yield Row(heading)
    names = _union(shares)
    for name in [name for name in names if any(share.get(name) for share in shares)] or names:
        yield Row(f"{_INDENT}{name}", format_percents([share.get(name) for share in shares]))


def _reservations(summaries: Sequence[Summary]) -> Iterator[Row]:
    accuracies = [accuracy.reservations for accuracy in summaries]
    if any(accuracies):
        yield Row("reservations")
        yield Row(f"{_INDENT}jobs", format_numbers([accuracy and accuracy.jobs for accuracy in accuracies]))
        yield Row(f"{_INDENT}started late", format_numbers([accuracy and accuracy.broken for accuracy in accuracies]))
        yield Row(
            f"{_INDENT}earlier by, mean",
            format_durations([accuracy and accuracy.early_mean for accuracy in accuracies]),
        )


def _forecasts(summaries: Sequence[Summary]) -> Iterator[Row]:
    errors = [error.forecast for error in summaries]
    if any(errors):
        yield Row("forecasts")
        yield Row(f"{_INDENT}jobs", format_numbers([error and error.jobs for error in errors]))
        yield Row(f"{_INDENT}unknown", format_numbers([error and error.unknown for error in errors]))
        yield Row(f"{_INDENT}error, mean", format_durations([error and error.mean for error in errors]))
        yield Row(f"{_INDENT}error, median", format_durations([error and error.median for error in errors]))
        yield Row(f"{_INDENT}error relative to wait", format_percents([error and error.relative for error in errors]))
        yield Row(f"{_INDENT}error below 2 h", format_durations([error and error.short_median for error in errors]))
        yield Row(f"{_INDENT}error from 2 h", format_percents([error and error.long_relative for error in errors]))
        yield Row(f"{_INDENT}within bounds", format_percents([error and error.within for error in errors]))
        yield Row(f"{_INDENT}width relative to wait", format_percents([error and error.width for error in errors]))
        yield Row(f"{_INDENT}width from 2 h", format_percents([error and error.long_width for error in errors]))


def _same(allocated: ResourceShares, used: ResourceShares) -> bool:
    return format_percents(list(allocated.values())) == format_percents([used.get(name) for name in allocated])


def _union(name_lists: Iterable[Iterable[str]]) -> list[str]:
    """Return the distinct names in order of appearance."""
    return list(dict.fromkeys(name for names in name_lists for name in names))


# --- layout


def render_grid(head: Sequence[str], rows: Sequence[Row], width: int) -> str:
    """Return right-aligned columns under their heads. Columns beyond the width follow below, with labels repeated."""
    sizes = [max(map(len, (name, *_column(rows, column)))) for column, name in enumerate(head)]
    max_label = max(len(row.label) for row in rows)
    blocks: list[str] = []
    for columns in _blocks(sizes, width - max_label):
        remaining = width - sum(len(_GAP) + sizes[column] for column in columns)
        label_width = min(max_label, max(remaining, _MIN_LABEL))
        blocks.append("".join(_line(row, label_width, sizes, columns) for row in (Row("", head), *rows)))
    return "\n".join(blocks)


def _column(rows: Sequence[Row], column: int) -> Iterator[str]:
    return (row.cells[column] for row in rows if row.cells)


def _blocks(sizes: Sequence[int], width: int) -> Iterator[list[int]]:
    """Yield blocks of columns that fit side by side; each has at least one."""
    block: list[int] = []
    used = 0
    for column, size in enumerate(sizes):
        if block and used + len(_GAP) + size > width:
            yield block
            block, used = [], 0
        block.append(column)
        used += len(_GAP) + size
    if block:
        yield block


def _line(row: Row, width: int, sizes: Sequence[int], columns: Sequence[int]) -> str:
    label = row.label if len(row.label) <= width else row.label[: width - len(_ELLIPSIS)] + _ELLIPSIS
    cells = [_GAP + row.cells[column].rjust(sizes[column]) for column in columns if row.cells]
    return (label.ljust(width) + "".join(cells)).rstrip() + "\n"
