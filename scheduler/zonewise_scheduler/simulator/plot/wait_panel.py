"""The panel of waits by width, in candles."""

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
"""Up to so many jobs of one policy, each is a point."""
_FLOOR = 0.5
"""Seconds: where waits of less than a second are drawn."""


def draw_waits_by_width(
    axes: Axes, figure: Figure, policies: Sequence[PlottedPolicy], widths: Sequence[Floats]
) -> None:
    """Draw for jobs about as wide the quantiles of their waits; and each job, where there are few."""
    within = width_bins(widths)
    found = [wait_groups(shares, one.table.wait, within) for one, shares in zip(policies, widths, strict=True)]
    if not any(found):
        style.draw_empty_panel(axes, "Waits by width", "no job has started")
        axes.set_xticks([])
        return
    for place, (one, some) in enumerate(zip(policies, found, strict=True)):
        aside = (place - (len(policies) - 1) / 2) * 6 / 72
        at = axes.transData + ScaledTranslation(aside, 0, figure.dpi_scale_trans)
        colour = one.look.colour if len(policies) > 1 else style.BLUE
        _candles(axes, some, Line2D([], [], color=colour, marker=one.look.mark, transform=at))
    if len(policies) == 1 and widths[0].size <= MAX_POINTS:
        waits = np.maximum(policies[0].table.wait, _FLOOR)
        axes.plot(widths[0], waits, ".", ms=4, mew=0, color=style.BLUE, alpha=0.3, zorder=1)
    style.draw_title(axes, "Waits by width", _unseen(policies, widths))
    style.draw_legend(axes, _marks())
    _widths_axis(axes, within.begins, max(float(shares.max(initial=0)) for shares in widths))
    _waits_axis(axes, max(1.0, *(float(group.waits[-1]) for some in found for group in some)))


def _candles(axes: Axes, found: Sequence[WaitGroup], like: Line2D) -> None:
    """Draw a thin line from the 5th to the 95th percentile, a thick one over the middle half, the median, the most."""
    for group in found:
        low, lower, median, upper, high, most = np.maximum(group.waits, _FLOOR)
        for y, width in (((low, high), 1.0), ((lower, upper), 4.0)):
            axes.plot(
                (group.width,) * 2, y, color=like.get_color(), lw=width, transform=like.get_transform(),
                solid_capstyle="butt",
            )  # fmt: skip
        for y, colour in ((median, style.PAPER), (most, like.get_color())):
            axes.plot(
                group.width, y, color=like.get_color(), mfc=colour, marker=like.get_marker(), ms=4.5, mew=1,
                transform=like.get_transform(),
            )  # fmt: skip


def _marks() -> list[Artist]:
    """Return what explains the candles."""
    ink = style.DIM
    return [
        Line2D([], [], color=ink, lw=1, label="5 to 95 %"),
        Line2D([], [], color=ink, lw=4, label="middle half"),
        Line2D([], [], color=ink, ls="", marker="o", mfc=style.PAPER, ms=4.5, label="median"),
        Line2D([], [], color=ink, ls="", marker="o", ms=4.5, label="longest"),
    ]


def _unseen(shown: Sequence[PlottedPolicy], widths: Sequence[Floats]) -> str:
    """Say how many jobs have no point."""
    never = [int(np.isnan(one.table.wait).sum()) for one in shown]
    wide = [int((shares <= 0).sum()) for shares in widths]
    return style.join_notes(_counts(never, "never started"), _counts(wide, "take nothing that is limited"))


def _counts(numbers: Sequence[int], what: str) -> str:
    return f"{' / '.join(f'{number:,}' for number in numbers)} {what}" if any(numbers) else ""


def _widths_axis(axes: Axes, begins: Floats, most: float) -> None:
    axes.set_xscale("log")
    axes.set_xlabel("share of the machine that a job takes")
    axes.xaxis.set_major_formatter(FuncFormatter(style.format_percent))
    low, high = (10 ** floor(log10(begins[0])), 10 ** ceil(log10(most))) if begins.size else (0.01, 1.0)
    high = max(high, 10 * low)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 99 * low else (1.0,)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(0.8 * low, 1.25 * high)


def _waits_axis(axes: Axes, longest: float) -> None:
    axes.set_yscale("log")
    ticks = [tick for tick in TICKS if tick <= longest * 2]
    axes.yaxis.set_major_locator(FixedLocator([_FLOOR, *ticks[1:]]))
    axes.yaxis.set_major_formatter(FuncFormatter(_wait))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylim(_FLOOR / 1.5, longest * 2)
    style.label_y_axis(axes, "wait")


def _wait(length: float, _: int | None = None) -> str:
    return TICKS.get(length, "at once")
