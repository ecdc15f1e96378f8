"""Draws the curve of an advice: the wait for each value of a setting, the goal's bound, and the smallest value."""

# keyword arguments of matplotlib have no types
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import warnings
from math import isfinite
from typing import TYPE_CHECKING

from matplotlib import style as styles
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from zonewise_scheduler.simulator.plot import style
from zonewise_scheduler.simulator.plot.figure import (
    DPI,
    LINE,
    WIDTH,
    caption_lines,
    draw_caption,
    save_figure,
    title_line,
)
from zonewise_scheduler.simulator.plot.time_units import axis_unit

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from zonewise_scheduler.simulator.advice.curve import AdviceCurve, CurvePoint

_LEFT, _WIDTH = 0.09, 0.87
"""Left edge and width of the axes, as shares of the figure."""
_HEAD, _CURVE, _FOOT = 0.96, 3.04, 0.6
"""Heights in inches: above the axes with a caption of one line, of the axes, and below them."""
_MAX_LABELS = 10


def write_advice_figure(curve: AdviceCurve, path: Path, file_format: str) -> None:
    """Write the figure as svg or png."""
    with warnings.catch_warnings(), styles.context(["default", style.STYLE]):
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        title, lines = title_line(curve.title), caption_lines(curve.caption)
        height = _HEAD + LINE * (len(lines) - 1) + _CURVE + _FOOT
        figure = Figure(figsize=(WIDTH, height), dpi=DPI)
        FigureCanvasAgg(figure)
        figure.text(_LEFT, 1 - 0.32 / height, title, size=14, weight="bold")
        draw_caption(figure, _LEFT, lines)
        _draw_curve(figure.add_axes((_LEFT, _FOOT / height, _WIDTH, _CURVE / height)), curve)
        save_figure(figure, path, file_format, title)


def _draw_curve(axes: Axes, curve: AdviceCurve) -> None:
    finite = [point for point in curve.points if isfinite(point.wait)]
    unit = axis_unit(max((point.wait for point in finite), default=curve.bound))
    axes.plot(
        [point.value for point in finite], [point.wait / unit.seconds for point in finite], color=style.FAINT, lw=1
    )
    for met, colour, mark, label in ((True, style.BLUE, "o", "met"), (False, style.RESERVATION_COLOUR, "x", "missed")):
        points = [point for point in finite if point.met == met]
        axes.plot(
            [point.value for point in points], [point.wait / unit.seconds for point in points], ls="", color=colour,
            marker=mark, label=label,
        )  # fmt: skip
    axes.axhline(curve.bound / unit.seconds, color=style.DIM, lw=1, ls="--", label="goal")
    _draw_never(axes, curve)
    if curve.smallest is not None:
        axes.axvline(
            curve.smallest.value, color=style.BLUE, lw=1, ls=":", label=f"the smallest: {curve.smallest.label}"
        )
    axes.set_xscale("log")
    labelled = _labelled(curve.points)
    axes.set_xticks([point.value for point in labelled], [style.printable(point.label) for point in labelled])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_ylim(bottom=0)
    axes.set_xlabel(style.printable(curve.setting))
    axes.set_ylabel(style.printable(f"{curve.statistic}, {unit.name}"))
    handles, _ = axes.get_legend_handles_labels()
    style.draw_legend(axes, handles)


def _draw_never(axes: Axes, curve: AdviceCurve) -> None:
    """Mark values for which jobs never start, at the upper edge."""
    never = [point.value for point in curve.points if not isfinite(point.wait)]
    if never:
        axes.plot(
            never, [1.0] * len(never), ls="", color=style.RESERVATION_COLOUR, marker="^", clip_on=False,
            transform=axes.get_xaxis_transform(), label="never",
        )  # fmt: skip


def _labelled(points: Sequence[CurvePoint]) -> list[CurvePoint]:
    """Return the points to label: each at least a tenth of the logarithmic axis after the previous one."""
    if not points:
        return []
    lowest, highest = points[0].value, points[-1].value
    factor = (highest / lowest) ** (1 / _MAX_LABELS)
    labelled = [points[0]]
    for point in points[1:]:
        if point.value >= labelled[-1].value * factor:
            labelled.append(point)
    return labelled
