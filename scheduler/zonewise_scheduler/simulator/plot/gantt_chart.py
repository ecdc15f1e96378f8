"""Draws the Gantt chart: runs as bars in lanes, with their reservations."""

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
from zonewise_scheduler.simulator.plot.label_boxes import LabelBox, place_labels
from zonewise_scheduler.simulator.plot.time_units import format_length, format_short

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from zonewise_scheduler.simulator.history import JobHistory
    from zonewise_scheduler.simulator.plot.gantt_excerpt import Excerpt
    from zonewise_scheduler.simulator.plot.history_arrays import Floats, HistoryArrays, Ints
    from zonewise_scheduler.simulator.plot.time_units import TimeUnit

MAX_RESERVATIONS = 60
"""Maximum number of jobs whose reservations are drawn, widest first."""
MAX_LABELLED = 60
"""Large bars are labelled with names only if there are no more bars than this."""
MIN_BORDERED_HEIGHT = 2.5
"""Height in points above which bars have a border; a border would hide lower bars."""
_LABEL_GAP = 2.0
"""Points between the mark of a reserved start and its label."""
_HATCHES = {True: "", False: "/////"}


class GanttChart(NamedTuple):
    """The contents of the chart."""

    table: HistoryArrays
    jobs: Sequence[JobHistory]
    origin: float
    name: str
    """Name of the policy, or ""."""
    resource: str
    capacity: int
    """Total capacity of the resource."""
    excerpt: Excerpt
    unit: TimeUnit
    wait_limits: Sequence[float]
    """Limits between the colours of waits, ascending; the same for all charts of a figure."""


def draw_gantt_chart(axes: Axes, chart: GanttChart) -> None:
    """Draw the chart."""
    excerpt, arrays = chart.excerpt, chart.table
    sizes = arrays.amount(chart.resource)[arrays.job]
    pieces = _packed_pieces(arrays, sizes, excerpt.runs, chart.capacity)
    wait_classes = np.searchsorted(np.array(chart.wait_limits), arrays.run_wait, "right")
    handles = _draw_bars(axes, chart, pieces, wait_classes)
    axes.set_xlim(excerpt.begin / chart.unit.seconds, excerpt.end / chart.unit.seconds)
    top = max(1.0, *(piece.high / chart.capacity for piece in pieces))
    style.label_y_axis(axes, f"share of {chart.resource}")
    style.set_percent_axis(axes, top)
    labelled = excerpt.runs.size <= MAX_LABELLED
    names = _draw_names(axes, chart, pieces, wait_classes) if labelled else []
    reservations = _reservation_lines(chart, pieces)
    _draw_reservations(axes, reservations)
    if labelled:
        _label_reservations(axes, chart, reservations, names)
    if reservations:
        handles.append(
            Line2D([], [], color=style.RESERVATION_COLOUR, lw=1, ls="--", marker="|", mew=1.6, label="reservation")
        )
    style.draw_title(axes, f"Gantt chart of {chart.name}" if chart.name else "Gantt chart")
    style.draw_footnote(axes, _note(excerpt))
    style.draw_legend(axes, _colour_legend(chart.wait_limits, set(wait_classes[excerpt.runs].tolist())) + handles)


def _packed_pieces(arrays: HistoryArrays, sizes: Ints, runs: Ints, capacity: int) -> list[BarPiece]:
    """Return the bar pieces of these runs, each with the index of its run."""
    pieces = pack_lanes(arrays.start[runs].tolist(), arrays.end[runs].tolist(), sizes[runs].tolist(), capacity)
    return [piece._replace(run=int(runs[piece.run])) for piece in pieces]


def _draw_bars(axes: Axes, chart: GanttChart, pieces: Sequence[BarPiece], wait_classes: Ints) -> list[Artist]:
    """Draw the bars, and return the legend entries of the hatches."""
    arrays = chart.table
    points = 72 * axes.get_window_extent().height / axes.figure.dpi / chart.capacity
    bars: dict[tuple[int, bool, bool], list[Floats]] = {}
    for piece in pieces:
        run = piece.run
        left, right = arrays.start[run] / chart.unit.seconds, arrays.end[run] / chart.unit.seconds
        low, high = piece.low / chart.capacity, piece.high / chart.capacity
        style_key = (
            int(wait_classes[run]),
            (piece.high - piece.low) * points > MIN_BORDERED_HEIGHT,
            bool(arrays.whole[run]),
        )
        bars.setdefault(style_key, []).append(np.array(((left, low), (left, high), (right, high), (right, low))))
    for (group, thick, whole_run), shapes in sorted(bars.items()):
        colour = style.WAITS[group]
        edge, line = (style.PAPER if thick else colour, 0.4) if whole_run else (style.RESERVATION_COLOUR, 0.5)
        axes.add_collection(
            PolyCollection(shapes, fc=colour, ec=edge, lw=line, hatch=_HATCHES[whole_run]), autolim=False
        )
    lost = any(not whole_run for *_, whole_run in bars)
    return (
        [Patch(fc=style.PAPER, ec=style.RESERVATION_COLOUR, hatch=_HATCHES[False], label="preempted")] if lost else []
    )


def _colour_legend(limits: Sequence[float], present: set[int]) -> list[Artist]:
    """Return the legend entries of the colours."""
    names = [format_short(limit) for limit in limits]
    labels = [f"< {name}" for name in names] + [f"≥ {name}" for name in names[-1:]] or ["not at all"]
    first = min(present)
    return [
        Patch(color=style.WAITS[group], label="waited " * (group == first) + labels[group]) for group in sorted(present)
    ]


def _reservation_lines(chart: GanttChart, pieces: Sequence[BarPiece]) -> dict[int, Floats]:
    """Return by job, widest first, the line from when a reservation was made to its start, in the lane of the run."""
    piece_by_job = {int(chart.table.job[piece.run]): piece for piece in reversed(pieces)}
    sizes = chart.table.amount(chart.resource)
    lines: dict[int, Floats] = {}
    for job in sorted(piece_by_job, key=lambda job: (-sizes[job], job)):
        reservation = chart.jobs[job].reservation
        if reservation is not None and isfinite(reservation[1]) and len(lines) < MAX_RESERVATIONS:
            x = (np.array(reservation) - chart.origin) / chart.unit.seconds
            y = (piece_by_job[job].low + piece_by_job[job].high) / 2 / chart.capacity
            lines[job] = np.column_stack((x, (y, y)))
    return lines


def _draw_reservations(axes: Axes, lines: Mapping[int, Floats]) -> None:
    """Draw the lines, each with a mark at the reserved start."""
    axes.add_collection(
        LineCollection(list(lines.values()), colors=style.RESERVATION_COLOUR, lw=0.8, ls="--"), autolim=False
    )
    for line in lines.values():
        axes.plot(*line[-1], "|", color=style.RESERVATION_COLOUR, ms=7, mew=1.6)


def _label_reservations(axes: Axes, chart: GanttChart, lines: Mapping[int, Floats], names: Sequence[LabelBox]) -> None:
    """Write the name of the job beside the mark of its reserved start, unless another label is there."""
    labels = [
        axes.annotate(
            style.printable(chart.jobs[job].name), line[-1].tolist(), (0, 0), textcoords="offset points", size=6,
            color=style.RESERVATION_COLOUR, bbox={"fc": style.PAPER, "ec": "none", "pad": 0},
        )
        for job, line in lines.items()
    ]  # fmt: skip
    dots = axes.figure.dpi / 72
    boxes = [_box(label) for label in labels]
    shifts = [_shifts_beside_mark(box, _LABEL_GAP * dots) for box in boxes]
    candidates = [[box.shifted(*shift) for shift in options] for box, options in zip(boxes, shifts, strict=True)]
    places = place_labels(candidates, names, _box(axes))
    for label, options, place in zip(labels, shifts, places, strict=True):
        if place is None:
            label.remove()
        else:
            right, up = options[place]
            label.xyann = (right / dots, up / dots)


def _shifts_beside_mark(box: LabelBox, gap: float) -> list[tuple[float, float]]:
    """Return the possible shifts of a label at its mark, in pixels: to the right or left, above or below."""
    right, left, above, below = gap, box.left - box.right - gap, gap, box.low - box.high - gap
    return [(right, above), (right, below), (left, above), (left, below)]


def _box(artist: Artist) -> LabelBox:
    return LabelBox(*artist.get_window_extent().extents)


def _draw_names(axes: Axes, chart: GanttChart, pieces: Sequence[BarPiece], wait_classes: Ints) -> list[LabelBox]:
    """Write names into the bars that are large enough, and return their boxes."""
    boxes: list[LabelBox] = []
    arrays, unit = chart.table, chart.unit.seconds
    box = axes.get_window_extent()
    horizontal, vertical = box.width / (chart.excerpt.end - chart.excerpt.begin), box.height / axes.get_ylim()[1]
    for piece in pieces:
        name = style.printable(chart.jobs[int(arrays.job[piece.run])].name)
        left, right = arrays.start[piece.run], arrays.end[piece.run]
        low, high = piece.low / chart.capacity, piece.high / chart.capacity
        if (right - left) * horizontal < 6.5 * len(name) + 6 or (high - low) * vertical < 12:
            continue
        colour = style.INK if wait_classes[piece.run] < len(style.WAITS) // 2 else style.PAPER
        label = axes.text(
            (left + right) / 2 / unit, (low + high) / 2, name, ha="center", va="center", color=colour, size=7,
            clip_on=True,
        )  # fmt: skip
        boxes.append(_box(label))
    return boxes


def _note(excerpt: Excerpt) -> str:
    """Return a note on what the excerpt shows and leaves out."""
    if excerpt.runs.size == excerpt.total:
        return ""
    time = "" if excerpt.whole else f"{format_length(excerpt.end - excerpt.begin)} about the longest queue: "
    if excerpt.runs.size == excerpt.runs_in_range:
        return f"{time}{excerpt.runs_in_range:,} of {excerpt.total:,} runs"
    return f"{time}the {excerpt.runs.size:,} widest of {excerpt.runs_in_range:,} runs"
