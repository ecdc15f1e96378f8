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

from zonewise_scheduler.simulate.plot import style
from zonewise_scheduler.simulate.plot.lanes import Piece, pack
from zonewise_scheduler.simulate.plot.units import limits_below, short, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from zonewise_scheduler.simulate.history import JobHistory
    from zonewise_scheduler.simulate.plot.excerpt import Excerpt
    from zonewise_scheduler.simulate.plot.table import Floats, Ints, Table
    from zonewise_scheduler.simulate.plot.units import Unit

PROMISES = 60
"""So many of the widest jobs have their promises drawn."""
LABELLED = 60
"""Up to so many bars have names, where they have room."""
THICK = 2.5
"""Points: bars are told apart by a border if they are thicker, else there would be little of them."""
_HATCHES = {True: "", False: "/////"}


class Chart(NamedTuple):
    """What is drawn."""

    table: Table
    jobs: Sequence[JobHistory]
    origin: float
    name: str
    """Of the policy; ""."""
    resource: str
    whole: int
    """Of the resource, in all."""
    part: Excerpt
    unit: Unit


def chart(axes: Axes, one: Chart) -> None:
    """Draw it."""
    part, table = one.part, one.table
    sizes = table.amount(one.resource)[table.job]
    pieces = _packed(table, sizes, part.runs, one.whole)
    waits = table.start - table.submitted[table.job]
    limits = limits_below(float(waits[part.runs].max()), len(style.WAITS) - 1)
    classes = np.searchsorted(np.array(limits), waits, "right")
    handles = _bars(axes, one, pieces, classes)
    axes.set_xlim(part.begin / one.unit.seconds, part.end / one.unit.seconds)
    top = max(1.0, *(piece.high / one.whole for piece in pieces))
    style.labelled(axes, f"share of {one.resource}")
    style.percents(axes, top)
    if part.runs.size <= LABELLED:
        _names(axes, one, pieces, classes)
    if _promises(axes, one, pieces):
        handles.append(Line2D([], [], color=style.PROMISE, lw=1, ls="--", marker="|", mew=1.6, label="promised start"))
    style.headed(axes, f"Gantt chart of {one.name}" if one.name else "Gantt chart")
    style.footed(axes, _note(part))
    style.legend(axes, _explained(limits, set(classes[part.runs].tolist())) + handles)


def _packed(table: Table, sizes: Ints, runs: Ints, whole: int) -> list[Piece]:
    """Return the pieces of these runs, each with its row of the table."""
    found = pack(table.start[runs].tolist(), table.end[runs].tolist(), sizes[runs].tolist(), whole)
    return [piece._replace(run=int(runs[piece.run])) for piece in found]


def _bars(axes: Axes, one: Chart, pieces: Sequence[Piece], classes: Ints) -> list[Artist]:
    """Draw the bars, and return what explains the hatches."""
    table = one.table
    points = 72 * axes.get_window_extent().height / axes.figure.dpi / one.whole
    bars: dict[tuple[int, bool, bool], list[Floats]] = {}
    for piece in pieces:
        run = piece.run
        left, right = table.start[run] / one.unit.seconds, table.end[run] / one.unit.seconds
        low, high = piece.low / one.whole, piece.high / one.whole
        kind = (int(classes[run]), (piece.high - piece.low) * points > THICK, bool(table.whole[run]))
        bars.setdefault(kind, []).append(np.array(((left, low), (left, high), (right, high), (right, low))))
    for (group, thick, whole), shapes in sorted(bars.items()):
        colour = style.WAITS[group]
        edge, line = (style.PAPER if thick else colour, 0.4) if whole else (style.PROMISE, 0.5)
        axes.add_collection(PolyCollection(shapes, fc=colour, ec=edge, lw=line, hatch=_HATCHES[whole]), autolim=False)
    lost = any(not whole for *_, whole in bars)
    return [Patch(fc=style.PAPER, ec=style.PROMISE, hatch=_HATCHES[False], label="preempted")] if lost else []


def _explained(limits: Sequence[float], present: set[int]) -> list[Artist]:
    """Return what explains the colours."""
    names = [short(limit) for limit in limits]
    labels = [f"< {name}" for name in names] + [f"≥ {name}" for name in names[-1:]] or ["not at all"]
    first = min(present)
    return [
        Patch(color=style.WAITS[group], label="waited " * (group == first) + labels[group]) for group in sorted(present)
    ]


def _promises(axes: Axes, one: Chart, pieces: Sequence[Piece]) -> bool:
    """Draw a line from each promise to the promised start, in the lane where the job came to run."""
    places = {int(one.table.job[piece.run]): piece for piece in reversed(pieces)}
    sizes = one.table.amount(one.resource)
    lines: list[Floats] = []
    for job in sorted(places, key=lambda job: (-sizes[job], job)):
        promised = one.jobs[job].promised
        if promised is not None and isfinite(promised[1]) and len(lines) < PROMISES:
            x = (np.array(promised) - one.origin) / one.unit.seconds
            y = (places[job].low + places[job].high) / 2 / one.whole
            lines.append(np.column_stack((x, (y, y))))
    axes.add_collection(LineCollection(lines, colors=style.PROMISE, lw=0.8, ls="--"), autolim=False)
    for line in lines:
        axes.plot(*line[-1], "|", color=style.PROMISE, ms=7, mew=1.6)
    return bool(lines)


def _names(axes: Axes, one: Chart, pieces: Sequence[Piece], classes: Ints) -> None:
    """Write names into the bars that have room."""
    table, unit = one.table, one.unit.seconds
    box = axes.get_window_extent()
    across, up = box.width / (one.part.end - one.part.begin), box.height / axes.get_ylim()[1]
    for piece in pieces:
        name = style.plain(one.jobs[int(table.job[piece.run])].name)
        left, right = table.start[piece.run], table.end[piece.run]
        low, high = piece.low / one.whole, piece.high / one.whole
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
    time = f"{words(part.end - part.begin)} about the longest queue"
    if part.runs.size == part.there:
        return f"{time}: {part.there:,} of {part.total:,} runs"
    return f"{time}: the {part.runs.size:,} widest of {part.there:,} runs"
