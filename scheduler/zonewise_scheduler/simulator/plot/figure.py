"""Draws the figure of a picture, with all its panels, and writes it to a file."""

# keyword arguments of matplotlib have no types
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import re
import warnings
from io import StringIO
from math import ceil
from textwrap import shorten, wrap
from typing import TYPE_CHECKING, NamedTuple

from matplotlib import style as styles
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from zonewise_scheduler.simulator.job_columns import job_columns
from zonewise_scheduler.simulator.plot import style
from zonewise_scheduler.simulator.plot.gantt_chart import GanttChart, draw_gantt_chart
from zonewise_scheduler.simulator.plot.gantt_excerpt import excerpt_between, select_excerpt
from zonewise_scheduler.simulator.plot.history_arrays import build_arrays
from zonewise_scheduler.simulator.plot.resource_shares import group_equal_shares, job_widths, resource_capacity
from zonewise_scheduler.simulator.plot.step_functions import queue_length
from zonewise_scheduler.simulator.plot.time_panels import PlottedPolicy, TimeAxis, draw_queue_length, draw_utilisation
from zonewise_scheduler.simulator.plot.time_units import axis_unit, excerpt_unit, round_limits
from zonewise_scheduler.simulator.plot.wait_panel import draw_waits_by_width

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.legend import Legend

    from zonewise_scheduler.simulator.history import History, JobHistory

WIDTH = 11.0
"""Width of the figure in inches, like all sizes below."""
DPI = 150
"""Resolution of PNG files."""
MAX_RESOURCES = 3
"""Maximum number of resource panels, scarcest resource first."""
_LEFT, _RIGHT, _FOOT = 0.85, 0.75, 0.5
LINE = 0.18
"""Distance of two lines of a caption."""
_HEAD, _LEGEND = 0.83, 0.25
"""Height of the title, and of a row of the legend."""
_BETWEEN, _CLOSE = 0.75, 0.42
_UTILISATION, _QUEUE, _GANTT, _WAITS = 1.1, 1.3, 3.4, 2.6
_TITLE, _CAPTION = 80, 125
"""Maximum number of characters in a line."""
_PATH = re.compile(r' d="[^"]*"')
_DIGITS = re.compile(r"(\.\d\d)\d+")


class FigureSpec(NamedTuple):
    """The contents of a figure."""

    title: str
    caption: list[str]
    """The lines of the caption."""
    policies: Sequence[PlottedPolicy]
    capacity: Mapping[str, int]
    """Capacity by resource, scarcest first."""
    span: TimeAxis
    charts: Sequence[GanttChart]
    """One chart per policy, for the same time; empty if nothing has run."""

    @property
    def gantt_shows_whole_time(self) -> bool:
        """Return whether the Gantt charts cover the same time as the other panels."""
        return not self.charts or self.charts[0].excerpt.whole


def write_figure(
    history: History, path: Path, file_format: str, title: tuple[str, str], compare: Sequence[tuple[str, History]]
) -> None:
    """Write the picture. `title` consists of the title and its caption."""
    spec = _figure_spec(history, title, compare)
    with warnings.catch_warnings(), styles.context(["default", style.STYLE]):
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # the viewer of an SVG may have another font
        figure = _draw_figure(spec)
        save_figure(figure, path, file_format, spec.title)


def title_line(title: str) -> str:
    """Return a title as it is drawn: truncated to one line."""
    return shorten(style.printable(title), _TITLE, placeholder="…")


def caption_lines(caption: str) -> list[str]:
    """Return the lines of a caption."""
    return [style.printable(line) for line in wrap(caption, _CAPTION)]


def draw_caption(figure: Figure, left: float, lines: Sequence[str]) -> None:
    """Draw the lines of a caption below the title; `left`: their left edge, as a share of the figure."""
    for index, line in enumerate(lines):
        figure.text(left, 1 - (0.6 + LINE * index) / figure.get_figheight(), line, color=style.DIM)


def save_figure(figure: Figure, path: Path, file_format: str, title: str) -> None:
    """Write a figure as svg or png; the bytes are deterministic."""
    if file_format == "svg":
        path.write_text(_svg(figure, title), encoding="utf-8")
    else:
        figure.savefig(path, format=file_format, metadata={"Software": "zonewise"})


def _svg(figure: Figure, title: str) -> str:
    """Return the SVG with coordinates rounded to hundredths of a point, which halves its size."""
    file = StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": "zonewise", "Title": title})
    return _PATH.sub(lambda coordinates: _DIGITS.sub(r"\1", coordinates[0]), file.getvalue())


def _figure_spec(history: History, title: tuple[str, str], compare: Sequence[tuple[str, History]]) -> FigureSpec:
    named_histories = compare or [("", history)]
    submissions = (job_columns(past.jobs).submitted for past in (history, *(past for _, past in named_histories)))
    origin = min((float(submitted.min()) for submitted in submissions if submitted.size), default=0.0)
    policies = [
        PlottedPolicy(style.printable(name), build_arrays(past, origin), style.policy_style(index))
        for index, (name, past) in enumerate(named_histories)
    ]
    same_policies = (policy for (_, past), policy in zip(named_histories, policies, strict=True) if past is history)
    main = next(same_policies, None) or PlottedPolicy("", build_arrays(history, origin), style.policy_style(0))
    capacity = resource_capacity(main.table, history.capacity)
    end = max(main.table.last_time, *(past.table.last_time for past in policies)) or 1.0
    span = TimeAxis(end, axis_unit(end))
    compared = [(policy, past.jobs) for policy, (_, past) in zip(policies, named_histories, strict=True)]
    charted = compared if compare else [(main, history.jobs)]
    return FigureSpec(
        title_line(title[0]),
        caption_lines(title[1]),
        policies,
        capacity,
        span,
        _gantt_charts(charted, origin, capacity, span),
    )


def _gantt_charts(
    policies: Sequence[tuple[PlottedPolicy, Sequence[JobHistory]]],
    origin: float,
    capacity: Mapping[str, int],
    span: TimeAxis,
) -> list[GanttChart]:
    """Return the Gantt charts for the scarcest resource, at the time that best shows the first policy."""
    if not capacity:
        return []
    resource, size = next(iter(capacity.items()))
    usages = [policy.table.amount(resource)[policy.table.job] for policy, _ in policies]
    first = policies[0][0].table
    excerpt = select_excerpt(first, usages[0], queue_length(first))
    if excerpt.whole:
        excerpt = excerpt._replace(end=span.end)
    excerpts = [excerpt] + [
        excerpt_between(policy.table, usage, excerpt.begin, excerpt.end)
        for (policy, _), usage in zip(policies[1:], usages[1:], strict=True)
    ]
    charted = [(policy, jobs, part) for (policy, jobs), part in zip(policies, excerpts, strict=True) if part.runs.size]
    longest = max((float(policy.table.run_wait[part.runs].max()) for policy, _, part in charted), default=0.0)
    limits = round_limits(longest, len(style.WAITS) - 1)
    unit = excerpt_unit(excerpt.end - excerpt.begin, span.unit)
    return [
        GanttChart(policy.table, jobs, origin, policy.name, resource, size, part, unit, limits)
        for policy, jobs, part in charted
    ]


def _draw_figure(spec: FigureSpec) -> Figure:
    resource_groups = group_equal_shares([policy.table for policy in spec.policies], spec.capacity)[:MAX_RESOURCES]
    curves = [_UTILISATION] * max(len(resource_groups), 1) + [_QUEUE]
    gantts = max(len(spec.charts), 1)
    heights = [*curves, *[_GANTT] * gantts, _WAITS]
    below_curves = _CLOSE if spec.gantt_shows_whole_time else _BETWEEN
    gaps = [*[_CLOSE] * (len(curves) - 1), below_curves, *[_BETWEEN] * gantts]
    handles = _policy_handles(spec.policies) if len(spec.policies) > 1 else []
    columns = _legend_columns(handles)
    head = _HEAD + LINE * max(len(spec.caption), 1) + _LEGEND * ceil(len(handles) / columns)
    figure, axes = _stacked_axes(head, heights, gaps)
    _draw_headline(figure, spec, handles, columns)
    above, gantt_axes, waits = axes[: len(curves)], axes[len(curves) : -1], axes[-1]
    for panel, names in zip(above, resource_groups, strict=False):
        draw_utilisation(panel, spec.policies, names, spec.capacity[names[0]], spec.span)
    if not resource_groups:
        style.draw_empty_panel(above[0], "Utilisation", "no resource was used")
    draw_queue_length(above[-1], spec.policies, spec.span)
    if not spec.charts:
        style.draw_empty_panel(gantt_axes[0], "Gantt chart", "nothing has run")
    for panel, chart in zip(gantt_axes, spec.charts, strict=False):
        draw_gantt_chart(panel, chart)
    _set_time_axes(spec, above, gantt_axes)
    draw_waits_by_width(
        waits, figure, spec.policies, [job_widths(policy.table, spec.capacity) for policy in spec.policies]
    )
    return figure


def _stacked_axes(head: float, heights: Sequence[float], gaps: Sequence[float]) -> tuple[Figure, list[Axes]]:
    """Return a figure with stacked panels below a head of this height."""
    figure_height = round(head + sum(heights) + sum(gaps) + _FOOT, 2)
    figure = Figure(figsize=(WIDTH, figure_height), dpi=DPI)
    FigureCanvasAgg(figure)
    axes: list[Axes] = []
    top = figure_height - head
    for height, gap in zip(heights, [*gaps, 0.0], strict=True):
        box = (_LEFT / WIDTH, (top - height) / figure_height, 1 - (_LEFT + _RIGHT) / WIDTH, height / figure_height)
        axes.append(figure.add_axes(box))
        top -= height + gap
    return figure, axes


def _draw_headline(figure: Figure, spec: FigureSpec, handles: Sequence[Line2D], columns: int) -> None:
    figure_height, left = figure.get_figheight(), _LEFT / WIDTH
    figure.text(left, 1 - 0.36 / figure_height, spec.title, size=14, weight="bold")
    draw_caption(figure, left, spec.caption)
    if handles:
        corner = (left, 1 - (0.5 + LINE * max(len(spec.caption), 1)) / figure_height)
        _draw_policy_legend(figure, handles, columns, corner)


def _policy_handles(policies: Sequence[PlottedPolicy]) -> list[Line2D]:
    return [
        Line2D([], [], color=policy.look.colour, marker=policy.look.mark, ms=5, lw=1.6, label=policy.name)
        for policy in policies
    ]


def _legend_columns(handles: Sequence[Line2D]) -> int:
    """Return the maximum number of columns with which the legend of policies fits into the width of a figure."""
    for columns in range(len(handles), 1, -1):
        figure = Figure(figsize=(WIDTH, 1), dpi=DPI)
        FigureCanvasAgg(figure)
        legend = _draw_policy_legend(figure, handles, columns, (_LEFT / WIDTH, 1))
        if legend.get_window_extent().x1 <= figure.bbox.x1:
            return columns
    return 1


def _draw_policy_legend(figure: Figure, handles: Sequence[Line2D], columns: int, corner: tuple[float, float]) -> Legend:
    return figure.legend(handles=handles, loc="upper left", bbox_to_anchor=corner, ncols=columns, fontsize=9)


def _set_time_axes(spec: FigureSpec, above: Sequence[Axes], gantt_axes: Sequence[Axes]) -> None:
    """Label times only below the last panel that shares them, and shade the time of the Gantt charts."""
    unit, end = spec.span.unit, spec.span.end / spec.span.unit.seconds
    gantt_unit = spec.charts[0].unit if spec.charts else unit
    for panel in above:
        panel.set_xlim(0, end)
        panel.tick_params(labelbottom=panel is above[-1] and not spec.gantt_shows_whole_time)
        if not spec.gantt_shows_whole_time:
            excerpt = spec.charts[0].excerpt
            panel.axvspan(
                excerpt.begin / unit.seconds, excerpt.end / unit.seconds, color=style.RESERVATION_COLOUR, alpha=0.15
            )
    if not spec.charts:
        gantt_axes[0].set_xlim(0, end)
    for panel in gantt_axes:
        style.label_time_axis(panel, gantt_unit.name)
    if not spec.gantt_shows_whole_time:
        style.label_time_axis(above[-1], unit.name)
