"""Draws the panel of waits by width, as candlesticks."""

# keyword arguments of matplotlib have no types
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from math import ceil, floor, log10
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator
from matplotlib.transforms import ScaledTranslation

from zonewise_scheduler.simulator.plot import style
from zonewise_scheduler.simulator.plot.time_units import TICKS
from zonewise_scheduler.simulator.plot.wait_quantiles import WaitGroup, wait_groups, width_bins

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from zonewise_scheduler.simulator.plot.history_arrays import Floats
    from zonewise_scheduler.simulator.plot.time_panels import PlottedPolicy

MAX_POINTS = 2000
"""If one policy has no more jobs than this, each job is drawn as a point."""
_FLOOR = 0.5
"""Height, in seconds, at which waits of less than a second are drawn."""


def draw_waits_by_width(
    axes: Axes, figure: Figure, policies: Sequence[PlottedPolicy], job_widths: Sequence[Floats]
) -> None:
    """Draw quantiles of the waits of jobs with about equal widths, and each job if there are few."""
    started_widths = [widths[~np.isnan(policy.table.wait)] for policy, widths in zip(policies, job_widths, strict=True)]
    width_bins_ = width_bins(started_widths)
    groups_by_policy = [
        wait_groups(shares, policy.table.wait, width_bins_) for policy, shares in zip(policies, job_widths, strict=True)
    ]
    if not any(groups_by_policy):
        style.draw_empty_panel(axes, "Waits by width", "no job has started")
        axes.set_xticks([])
        return
    for index, (policy, groups) in enumerate(zip(policies, groups_by_policy, strict=True)):
        offset = (index - (len(policies) - 1) / 2) * 6 / 72
        transform = axes.transData + ScaledTranslation(offset, 0, figure.dpi_scale_trans)
        colour = policy.look.colour if len(policies) > 1 else style.BLUE
        _candles(axes, groups, Line2D([], [], color=colour, marker=policy.look.mark, transform=transform))
    if len(policies) == 1 and job_widths[0].size <= MAX_POINTS:
        waits = np.maximum(policies[0].table.wait, _FLOOR)
        axes.plot(job_widths[0], waits, ".", ms=4, mew=0, color=style.BLUE, alpha=0.3, zorder=1)
    style.draw_title(axes, "Waits by width", _missing_points(policies, job_widths))
    style.draw_legend(axes, _candle_legend())
    _set_width_axis(axes, width_bins_.begins, max(float(widths.max(initial=0)) for widths in started_widths))
    _set_wait_axis(axes, max(1.0, *(float(group.waits[-1]) for groups in groups_by_policy for group in groups)))


def _candles(axes: Axes, groups: Sequence[WaitGroup], template: Line2D) -> None:
    """Draw a thin line from the 5th to the 95th percentile, a thick one for the middle half, median and maximum."""
    for group in groups:
        low, lower, median, upper, high, longest = np.maximum(group.waits, _FLOOR)
        for y, width in (((low, high), 1.0), ((lower, upper), 4.0)):
            axes.plot(
                (group.width,) * 2, y, color=template.get_color(), lw=width, transform=template.get_transform(),
                solid_capstyle="butt",
            )  # fmt: skip
        for y, colour in ((median, style.PAPER), (longest, template.get_color())):
            axes.plot(
                group.width, y, color=template.get_color(), mfc=colour, marker=template.get_marker(), ms=4.5, mew=1,
                transform=template.get_transform(),
            )  # fmt: skip


def _candle_legend() -> list[Artist]:
    """Return the legend entries of the candlesticks."""
    ink = style.DIM
    return [
        Line2D([], [], color=ink, lw=1, label="5 to 95 %"),
        Line2D([], [], color=ink, lw=4, label="middle half"),
        Line2D([], [], color=ink, ls="", marker="o", mfc=style.PAPER, ms=4.5, label="median"),
        Line2D([], [], color=ink, ls="", marker="o", ms=4.5, label="longest"),
    ]


def _missing_points(shown: Sequence[PlottedPolicy], widths: Sequence[Floats]) -> str:
    """Return a note on the numbers of jobs without a point."""
    never_started = [int(np.isnan(policy.table.wait).sum()) for policy in shown]
    without_width = [int((shares <= 0).sum()) for shares in widths]
    return style.join_notes(
        _counts(never_started, "never started"), _counts(without_width, "take nothing that is limited")
    )


def _counts(numbers: Sequence[int], what: str) -> str:
    return f"{' / '.join(f'{number:,}' for number in numbers)} {what}" if any(numbers) else ""


def _set_width_axis(axes: Axes, begins: Floats, widest: float) -> None:
    axes.set_xscale("log")
    axes.set_xlabel("share of the machine that a job takes")
    axes.xaxis.set_major_formatter(FuncFormatter(style.format_percent))
    low, high = (10 ** floor(log10(begins[0])), 10 ** ceil(log10(widest))) if begins.size else (0.01, 1.0)
    high = max(high, 10 * low)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 99 * low else (1.0,)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(0.8 * low, 1.25 * high)


def _set_wait_axis(axes: Axes, longest: float) -> None:
    axes.set_yscale("log")
    ticks = [tick for tick in TICKS if tick <= longest * 2]
    axes.yaxis.set_major_locator(FixedLocator([_FLOOR, *ticks[1:]]))
    axes.yaxis.set_major_formatter(FuncFormatter(_wait))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylim(_FLOOR / 1.5, longest * 2)
    style.label_y_axis(axes, "wait")


def _wait(length: float, _: int | None = None) -> str:
    return TICKS.get(length, "at once")
