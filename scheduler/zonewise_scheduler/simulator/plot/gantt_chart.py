"""The Gantt chart: runs as bars in lanes, and the starts that were promised to them."""

# keyword arguments of matplotlib have no types
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from zonewise_scheduler.simulator.plot import style
from zonewise_scheduler.simulator.plot.gantt_lanes import BarPiece, pack_lanes
from zonewise_scheduler.simulator.plot.time_units import format_length, format_short, round_limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from zonewise_scheduler.simulator.history import JobHistory
    from zonewise_scheduler.simulator.plot.gantt_excerpt import Excerpt
    from zonewise_scheduler.simulator.plot.history_arrays import Floats, HistoryArrays, Ints
    from zonewise_scheduler.simulator.plot.time_units import TimeUnit

MAX_RESERVATIONS = 60
"""So many of the widest jobs have their promises drawn."""
MAX_LABELLED = 60
"""Up to so many bars have names, where they have room."""
MIN_BORDERED_HEIGHT = 2.5
"""Points: bars are told apart by a border if they are thicker, else there would be little of them."""
_HATCHES = {True: "", False: "/////"}


class GanttChart(NamedTuple):
    """What is drawn."""

    table: HistoryArrays
    jobs: Sequence[JobHistory]
    origin: float
    name: str
    """Of the policy; ""."""
    resource: str
    capacity: int
    """Of the resource, in all."""
    excerpt: Excerpt
    unit: TimeUnit


def draw_gantt_chart(axes: Axes, chart: GanttChart) -> None:
    """Draw it."""
    part, table = chart.excerpt, chart.table
    sizes = table.amount(chart.resource)[table.job]
    pieces = _packed(table, sizes, part.runs, chart.capacity)
    waits = table.start - table.submitted[table.job]
    limits = round_limits(float(waits[part.runs].max()), len(style.WAITS) - 1)
    classes = np.searchsorted(np.array(limits), waits, "right")
    handles = _bars(axes, chart, pieces, classes)
    axes.set_xlim(part.begin / chart.unit.seconds, part.end / chart.unit.seconds)
    top = max(1.0, *(piece.high / chart.capacity for piece in pieces))
    style.label_y_axis(axes, f"share of {chart.resource}")
    style.set_percent_axis(axes, top)
    if part.runs.size <= MAX_LABELLED:
        _names(axes, chart, pieces, classes)
    if _promises(axes, chart, pieces):
        handles.append(
            Line2D([], [], color=style.RESERVATION_COLOUR, lw=1, ls="--", marker="|", mew=1.6, label="promised start")
        )
    style.draw_title(axes, f"Gantt chart of {chart.name}" if chart.name else "Gantt chart")
    style.draw_footnote(axes, _note(part))
    style.draw_legend(axes, _explained(limits, set(classes[part.runs].tolist())) + handles)


def _packed(table: HistoryArrays, sizes: Ints, runs: Ints, whole: int) -> list[BarPiece]:
    """Return the pieces of these runs, each with its row of the table."""
    found = pack_lanes(table.start[runs].tolist(), table.end[runs].tolist(), sizes[runs].tolist(), whole)
    return [piece._replace(run=int(runs[piece.run])) for piece in found]


def _bars(axes: Axes, one: GanttChart, pieces: Sequence[BarPiece], classes: Ints) -> list[Artist]:
    """Draw the bars, and return what explains the hatches."""
    table = one.table
    points = 72 * axes.get_window_extent().height / axes.figure.dpi / one.capacity
    bars: dict[tuple[int, bool, bool], list[Floats]] = {}
    for piece in pieces:
        run = piece.run
        left, right = table.start[run] / one.unit.seconds, table.end[run] / one.unit.seconds
        low, high = piece.low / one.capacity, piece.high / one.capacity
        kind = (int(classes[run]), (piece.high - piece.low) * points > MIN_BORDERED_HEIGHT, bool(table.whole[run]))
        bars.setdefault(kind, []).append(np.array(((left, low), (left, high), (right, high), (right, low))))
    for (group, thick, whole), shapes in sorted(bars.items()):
        colour = style.WAITS[group]
        edge, line = (style.PAPER if thick else colour, 0.4) if whole else (style.RESERVATION_COLOUR, 0.5)
        axes.add_collection(PolyCollection(shapes, fc=colour, ec=edge, lw=line, hatch=_HATCHES[whole]), autolim=False)
    lost = any(not whole for *_, whole in bars)
    return (
        [Patch(fc=style.PAPER, ec=style.RESERVATION_COLOUR, hatch=_HATCHES[False], label="preempted")] if lost else []
    )


def _explained(limits: Sequence[float], present: set[int]) -> list[Artist]:
    """Return what explains the colours."""
    names = [format_short(limit) for limit in limits]
    labels = [f"< {name}" for name in names] + [f"≥ {name}" for name in names[-1:]] or ["not at all"]
    first = min(present)
    return [
        Patch(color=style.WAITS[group], label="waited " * (group == first) + labels[group]) for group in sorted(present)
    ]


def _promises(axes: Axes, one: GanttChart, pieces: Sequence[BarPiece]) -> bool:
    """Draw a line from each promise to the promised start, in the lane where the job came to run."""
    places = {int(one.table.job[piece.run]): piece for piece in reversed(pieces)}
    sizes = one.table.amount(one.resource)
    lines: list[Floats] = []
    for job in sorted(places, key=lambda job: (-sizes[job], job)):
        promised = one.jobs[job].promised
        if promised is not None and isfinite(promised[1]) and len(lines) < MAX_RESERVATIONS:
            x = (np.array(promised) - one.origin) / one.unit.seconds
            y = (places[job].low + places[job].high) / 2 / one.capacity
            lines.append(np.column_stack((x, (y, y))))
    axes.add_collection(LineCollection(lines, colors=style.RESERVATION_COLOUR, lw=0.8, ls="--"), autolim=False)
    for line in lines:
        axes.plot(*line[-1], "|", color=style.RESERVATION_COLOUR, ms=7, mew=1.6)
    return bool(lines)


def _names(axes: Axes, one: GanttChart, pieces: Sequence[BarPiece], classes: Ints) -> None:
    """Write names into the bars that have room."""
    table, unit = one.table, one.unit.seconds
    box = axes.get_window_extent()
    across, up = box.width / (one.excerpt.end - one.excerpt.begin), box.height / axes.get_ylim()[1]
    for piece in pieces:
        name = style.printable(one.jobs[int(table.job[piece.run])].name)
        left, right = table.start[piece.run], table.end[piece.run]
        low, high = piece.low / one.capacity, piece.high / one.capacity
        if (right - left) * across < 6.5 * len(name) + 6 or (high - low) * up < 12:
            continue
        colour = style.INK if classes[piece.run] < len(style.WAITS) // 2 else style.PAPER
        axes.text(
            (left + right) / 2 / unit, (low + high) / 2, name, ha="center", va="center", color=colour, size=7,
            clip_on=True,
        )  # fmt: skip


def _note(part: Excerpt) -> str:
    """Say what is left out."""
    if part.whole:
        return ""
    time = f"{format_length(part.end - part.begin)} about the longest queue"
    if part.runs.size == part.runs_in_range:
        return f"{time}: {part.runs_in_range:,} of {part.total:,} runs"
    return f"{time}: the {part.runs.size:,} widest of {part.runs_in_range:,} runs"
