"""The panels on a page, and the page as a file."""

# keyword arguments of matplotlib have no types
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import re
import warnings
from io import StringIO
from itertools import cycle
from textwrap import shorten, wrap
from typing import TYPE_CHECKING, NamedTuple

from matplotlib import style as styles
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from zonewise_scheduler.simulator.plot import style
from zonewise_scheduler.simulator.plot.gantt_chart import GanttChart, draw_gantt_chart
from zonewise_scheduler.simulator.plot.gantt_excerpt import select_excerpt
from zonewise_scheduler.simulator.plot.history_arrays import (
    build_arrays,
    group_equal_shares,
    job_widths,
    resource_capacity,
)
from zonewise_scheduler.simulator.plot.step_functions import queue_length
from zonewise_scheduler.simulator.plot.time_panels import PlottedPolicy, TimeAxis, draw_queue_length, draw_utilisation
from zonewise_scheduler.simulator.plot.time_units import axis_unit
from zonewise_scheduler.simulator.plot.wait_panel import draw_waits_by_width

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from zonewise_scheduler.simulator.history import History, JobHistory

WIDTH = 11.0
"""Inches, as all that follows."""
DPI = 150
"""Of PNG."""
MAX_RESOURCES = 3
"""At most so many have a panel, the scarcest first."""
_LEFT, _RIGHT, _FOOT = 0.85, 0.75, 0.5
_HEAD, _LINE = 0.83, 0.18
_BETWEEN, _CLOSE = 0.75, 0.42
_UTILISATION, _QUEUE, _GANTT, _WAITS = 1.1, 1.3, 3.4, 2.6
_TITLE, _CAPTION = 80, 125
"""Letters that a line has room for."""
_PATH = re.compile(r' d="[^"]*"')
_DIGITS = re.compile(r"(\.\d\d)\d+")


class FigureSpec(NamedTuple):
    """What is drawn."""

    title: str
    caption: list[str]
    """Lines."""
    policies: Sequence[PlottedPolicy]
    capacity: Mapping[str, int]
    """Of each resource, the scarcest first."""
    span: TimeAxis
    chart: GanttChart | None
    """None: nothing has run."""

    @property
    def gantt_shows_whole_time(self) -> bool:
        """Return whether the Gantt chart is of the same time as all else."""
        return self.chart is None or self.chart.excerpt.whole


def write_figure(
    history: History, path: Path, form: str, title: tuple[str, str], compare: Sequence[tuple[str, History]]
) -> None:
    """Write the picture; the title is followed by its caption."""
    page = _page(history, title, compare)
    with warnings.catch_warnings(), styles.context(["default", style.STYLE]):
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # another font of who reads an SVG has it
        figure = _drawn(page)
        if form == "svg":
            path.write_text(_svg(figure, page.title), encoding="utf-8")
        else:
            figure.savefig(path, format=form, metadata={"Software": "zonewise"})


def _svg(figure: Figure, title: str) -> str:
    """Return it with coordinates of a hundredth of a point, which is half the size."""
    file = StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": "zonewise", "Title": title})
    return _PATH.sub(lambda path: _DIGITS.sub(r"\1", path[0]), file.getvalue())


def _page(history: History, title: tuple[str, str], compare: Sequence[tuple[str, History]]) -> FigureSpec:
    named = compare or [("", history)]
    origin = min((job.submitted for one in (history, *(one for _, one in named)) for job in one.jobs), default=0.0)
    looks = cycle(style.POLICY_STYLES)
    shown = [PlottedPolicy(style.printable(name), build_arrays(one, origin), next(looks)) for name, one in named]
    same = (drawn for (_, one), drawn in zip(named, shown, strict=True) if one is history)
    main = next(same, None) or PlottedPolicy("", build_arrays(history, origin), style.POLICY_STYLES[0])
    whole = resource_capacity(main.table, history.capacity)
    end = max(main.table.last_time, *(one.table.last_time for one in shown)) or 1.0
    span = TimeAxis(end, axis_unit(end))
    return FigureSpec(
        shorten(style.printable(title[0]), _TITLE, placeholder="…"),
        [style.printable(line) for line in wrap(title[1], _CAPTION)],
        shown,
        whole,
        span,
        _chart(main, history.jobs, origin, whole, span),
    )


def _chart(
    main: PlottedPolicy, jobs: Sequence[JobHistory], origin: float, whole: Mapping[str, int], span: TimeAxis
) -> GanttChart | None:
    """Return the Gantt chart by the scarcest resource."""
    for name, size in whole.items():
        part = select_excerpt(main.table, main.table.amount(name)[main.table.job], queue_length(main.table))
        return GanttChart(main.table, jobs, origin, main.name, name, size, part, span.unit) if part.runs.size else None
    return None


def _drawn(page: FigureSpec) -> Figure:
    several = group_equal_shares([one.table for one in page.policies], page.capacity)[:MAX_RESOURCES]
    heights = [_UTILISATION] * max(len(several), 1) + [_QUEUE, _GANTT, _WAITS]
    gaps = [_CLOSE] * (len(heights) - 3) + [_CLOSE if page.gantt_shows_whole_time else _BETWEEN, _BETWEEN]
    compared = len(page.policies) > 1
    figure, axes = _stacked(_HEAD + _LINE * max(len(page.caption), 1) + 0.25 * compared, heights, gaps)
    _headline(figure, page, compared=compared)
    *above, bars, waits = axes
    for panel, names in zip(above, several, strict=False):
        draw_utilisation(panel, page.policies, names, page.capacity[names[0]], page.span)
    if not several:
        style.draw_empty_panel(above[0], "Utilisation", "nothing was taken")
    draw_queue_length(above[-1], page.policies, page.span)
    if page.chart is None:
        style.draw_empty_panel(bars, "Gantt chart", "nothing has run")
    else:
        draw_gantt_chart(bars, page.chart)
    _time_axes(page, above, bars)
    draw_waits_by_width(waits, figure, page.policies, [job_widths(one.table, page.capacity) for one in page.policies])
    return figure


def _stacked(head: float, heights: Sequence[float], gaps: Sequence[float]) -> tuple[Figure, list[Axes]]:
    """Return a figure with panels below each other, below a head so high."""
    high = round(head + sum(heights) + sum(gaps) + _FOOT, 2)
    figure = Figure(figsize=(WIDTH, high), dpi=DPI)
    FigureCanvasAgg(figure)
    axes: list[Axes] = []
    top = high - head
    for height, gap in zip(heights, [*gaps, 0.0], strict=True):
        box = (_LEFT / WIDTH, (top - height) / high, 1 - (_LEFT + _RIGHT) / WIDTH, height / high)
        axes.append(figure.add_axes(box))
        top -= height + gap
    return figure, axes


def _headline(figure: Figure, page: FigureSpec, *, compared: bool) -> None:
    high, left = figure.get_figheight(), _LEFT / WIDTH
    figure.text(left, 1 - 0.36 / high, page.title, size=14, weight="bold")
    for place, line in enumerate(page.caption):
        figure.text(left, 1 - (0.6 + _LINE * place) / high, line, color=style.DIM)
    if compared:
        handles = [
            Line2D([], [], color=one.look.colour, marker=one.look.mark, ms=5, lw=1.6, label=one.name)
            for one in page.policies
        ]
        corner = (left, 1 - (0.5 + _LINE * max(len(page.caption), 1)) / high)
        figure.legend(handles=handles, loc="upper left", bbox_to_anchor=corner, ncols=len(handles), fontsize=9)


def _time_axes(page: FigureSpec, above: Sequence[Axes], bars: Axes) -> None:
    """Let panels that share their time have its numbers below the last alone; shade what the Gantt chart shows."""
    unit, end = page.span.unit, page.span.end / page.span.unit.seconds
    for panel in above:
        panel.set_xlim(0, end)
        panel.tick_params(labelbottom=panel is above[-1] and not page.gantt_shows_whole_time)
        if page.chart is not None and not page.gantt_shows_whole_time:
            part = page.chart.excerpt
            panel.axvspan(
                part.begin / unit.seconds, part.end / unit.seconds, color=style.RESERVATION_COLOUR, alpha=0.15
            )
    if page.gantt_shows_whole_time:
        bars.set_xlim(0, end)
    for panel in [bars] if page.gantt_shows_whole_time else [above[-1], bars]:
        panel.set_xlabel(f"time since the first submission, {unit.name}", labelpad=2)
