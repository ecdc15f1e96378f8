"""Utilisation and queue length over time."""

# keyword arguments of matplotlib have no types
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from zonewise_scheduler.simulator.plot import step_functions, style
from zonewise_scheduler.simulator.plot.time_units import TimeUnit, format_length

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from zonewise_scheduler.simulator.plot.history_arrays import Floats, HistoryArrays
    from zonewise_scheduler.simulator.plot.step_functions import StepFunction
    from zonewise_scheduler.simulator.plot.style import PolicyStyle

TIME_BINS = 480
"""Of the time axis: about the pixels that a screen has for it, by two."""
MAX_EXACT_CHANGES = 2000
"""Up to so many changes, each is drawn."""


class PlottedPolicy(NamedTuple):
    """A policy."""

    name: str
    table: HistoryArrays
    look: PolicyStyle


class TimeAxis(NamedTuple):
    """The time axis, from 0."""

    end: float
    """Seconds."""
    unit: TimeUnit

    @property
    def edges(self) -> Floats:
        """Return the edges of BINS, in seconds."""
        return np.linspace(0, self.end, TIME_BINS + 1)

    def curve(self, function: StepFunction, whole: int = 1, *, peak: bool = False) -> tuple[Floats, Floats]:
        """Return N values, as shares of a whole, and N + 1 edges, in units; or means (or peaks) in BINS."""
        if function.times.size <= MAX_EXACT_CHANGES:
            values, edges = np.concatenate(([0], function.values)), np.concatenate(([0.0], function.times, [self.end]))
        else:
            values, edges = (step_functions.peaks if peak else step_functions.means)(function, self.edges), self.edges
        return values / whole, edges / self.unit.seconds

    def note(self, functions: Sequence[StepFunction]) -> str:
        """Say what a point of their curves is, if not exact."""
        binned = any(function.times.size > MAX_EXACT_CHANGES for function in functions)
        return f"means of {format_length(self.end / TIME_BINS)}" if binned else ""


def draw_utilisation(
    axes: Axes, policies: Sequence[PlottedPolicy], names: Sequence[str], size: int, span: TimeAxis
) -> None:
    """Draw what is allocated and what is effective of resources with equal shares; of the first there is so much."""
    taken = [step_functions.allocated(one.table, names[0]) for one in policies]
    worth = [step_functions.effective(one.table, names[0]) for one in policies]
    lossless = all(map(_equal, taken, worth))
    for one, outer, inner in zip(policies, taken, worth, strict=True):
        if len(policies) == 1:
            axes.stairs(*span.curve(outer, size), fill=True, color=style.PALE, lw=0)
            axes.stairs(*span.curve(inner, size), fill=True, color=style.BLUE, lw=0)
            continue
        axes.stairs(*span.curve(outer, size), baseline=None, color=one.look.colour, lw=0.9)
        if not lossless:
            axes.stairs(*span.curve(inner, size), baseline=None, color=one.look.colour, lw=0.9, ls=":")
    note = "all that is allocated is effective" if lossless and any(one.times.size for one in taken) else ""
    style.draw_title(axes, f"Utilisation of {_listed(names)}", style.join_notes(span.note(taken), note))
    if not lossless:
        explained = _filled if len(policies) == 1 else _lined
        style.draw_legend(axes, explained("allocated", "effective"))
    style.set_percent_axis(axes, float(axes.dataLim.y1))


def _equal(one: StepFunction, other: StepFunction) -> bool:
    return np.array_equal(one.times, other.times) and np.array_equal(one.values, other.values)


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def draw_queue_length(axes: Axes, policies: Sequence[PlottedPolicy], span: TimeAxis) -> None:
    """Draw how many jobs wait, and on an axis of their own the pods that they have, where jobs differ in it."""
    drawn = [step_functions.queue_length(one.table) for one in policies]
    for one, function in zip(policies, drawn, strict=True):
        colour = one.look.colour if len(policies) > 1 else style.BLUE
        if function.times.size > MAX_EXACT_CHANGES and len(policies) == 1:
            axes.stairs(*span.curve(function, peak=True), fill=True, color=style.PALE, lw=0)
        axes.stairs(*span.curve(function), baseline=None, color=colour, lw=1.2)
    means = span.note(drawn)
    most = "shaded: the most" if means and len(policies) == 1 else ""
    sizes = np.unique(np.concatenate([one.table.pods for one in policies]))
    each = f"of {sizes[0]:,} pods each" if sizes.size == 1 and sizes[0] != 1 else ""
    style.draw_title(axes, "Queue length", style.join_notes(each, means, most))
    _counted(axes)
    style.label_y_axis(axes, "waiting jobs")
    if sizes.size > 1:
        _pods(axes, policies, span)
        style.draw_legend(axes, _lined("jobs", "pods (right)"))


def _pods(axes: Axes, shown: Sequence[PlottedPolicy], span: TimeAxis) -> None:
    right = axes.twinx()
    for one in shown:
        colour = one.look.colour if len(shown) > 1 else style.DIM
        right.stairs(
            *span.curve(step_functions.queue_length(one.table, pods=True)), baseline=None, color=colour, lw=0.8, ls=":"
        )
    right.grid(visible=False)
    _counted(right)
    right.set_ylabel("their pods")


def _counted(axes: Axes) -> None:
    axes.set_ylim(0, max(axes.dataLim.y1 * 1.05, 1))
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def _filled(outer: str, inner: str) -> list[Artist]:
    return [Patch(color=style.PALE, label=outer), Patch(color=style.BLUE, label=inner)]


def _lined(solid: str, dotted: str) -> list[Artist]:
    return [
        Line2D([], [], color=style.DIM, lw=1.2, label=solid),
        Line2D([], [], color=style.DIM, lw=1, ls=":", label=dotted),
    ]
