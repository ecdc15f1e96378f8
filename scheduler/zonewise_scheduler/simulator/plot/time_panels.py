"""Draws the panels of utilisation and queue length over time."""

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
"""Number of bins of the time axis: about half of its pixels on a screen."""
MAX_EXACT_CHANGES = 2000
"""If there are no more changes than this, each is drawn."""


class PlottedPolicy(NamedTuple):
    """A policy with its arrays and style."""

    name: str
    table: HistoryArrays
    look: PolicyStyle


class TimeAxis(NamedTuple):
    """The time axis, from 0."""

    end: float
    """End of the axis, in seconds."""
    unit: TimeUnit

    @property
    def edges(self) -> Floats:
        """Return the edges of the bins, in seconds."""
        return np.linspace(0, self.end, TIME_BINS + 1)

    def curve(self, function: StepFunction, whole: int = 1, *, peak: bool = False) -> tuple[Floats, Floats]:
        """Return N values as shares of the capacity and N + 1 edges in units, or else means (or peaks) by bin."""
        if function.times.size <= MAX_EXACT_CHANGES:
            values, edges = np.concatenate(([0], function.values)), np.concatenate(([0.0], function.times, [self.end]))
        else:
            values, edges = (step_functions.peaks if peak else step_functions.means)(function, self.edges), self.edges
        return values / whole, edges / self.unit.seconds

    def note(self, functions: Sequence[StepFunction]) -> str:
        """Return a note on the resolution of the curves; "" if they are exact."""
        binned = any(function.times.size > MAX_EXACT_CHANGES for function in functions)
        return f"means of {format_length(self.end / TIME_BINS)}" if binned else ""


def draw_utilisation(
    axes: Axes, policies: Sequence[PlottedPolicy], names: Sequence[str], size: int, span: TimeAxis
) -> None:
    """Draw allocated and effective amounts of resources with equal shares; `size` is the capacity of the first."""
    allocated_steps = [step_functions.allocated(policy.table, names[0]) for policy in policies]
    effective_steps = [step_functions.effective(policy.table, names[0]) for policy in policies]
    lossless = all(map(_equal, allocated_steps, effective_steps))
    for policy, outer, inner in zip(policies, allocated_steps, effective_steps, strict=True):
        if len(policies) == 1:
            axes.stairs(*span.curve(outer, size), fill=True, color=style.PALE, lw=0)
            axes.stairs(*span.curve(inner, size), fill=True, color=style.BLUE, lw=0)
            continue
        axes.stairs(*span.curve(outer, size), baseline=None, color=policy.look.colour, lw=0.9)
        if not lossless:
            axes.stairs(*span.curve(inner, size), baseline=None, color=policy.look.colour, lw=0.9, ls=":")
    caption = (
        "no run was lost, or waited for its pods"
        if lossless and any(policy.times.size for policy in allocated_steps)
        else ""
    )
    style.draw_title(
        axes, f"Utilisation of {_join_names(names)}", style.join_notes(span.note(allocated_steps), caption)
    )
    if not lossless:
        make_legend = _filled_legend if len(policies) == 1 else _line_legend
        style.draw_legend(axes, make_legend("allocated", "effective"))
    style.set_percent_axis(axes, float(axes.dataLim.y1))


def _equal(first: StepFunction, second: StepFunction) -> bool:
    return np.array_equal(first.times, second.times) and np.array_equal(first.values, second.values)


def _join_names(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def draw_queue_length(axes: Axes, policies: Sequence[PlottedPolicy], span: TimeAxis) -> None:
    """Draw the number of pending jobs and, if jobs differ in their pods, the number of pods on a second axis."""
    functions = [step_functions.queue_length(policy.table) for policy in policies]
    for policy, function in zip(policies, functions, strict=True):
        colour = policy.look.colour if len(policies) > 1 else style.BLUE
        if function.times.size > MAX_EXACT_CHANGES and len(policies) == 1:
            axes.stairs(*span.curve(function, peak=True), fill=True, color=style.PALE, lw=0)
        axes.stairs(*span.curve(function), baseline=None, color=colour, lw=1.2)
    means_note = span.note(functions)
    peak_note = "shaded: the most" if means_note and len(policies) == 1 else ""
    sizes = np.unique(np.concatenate([policy.table.pods for policy in policies]))
    pods_note = f"of {sizes[0]:,} pods each" if sizes.size == 1 and sizes[0] != 1 else ""
    style.draw_title(axes, "Queue length", style.join_notes(pods_note, means_note, peak_note))
    _set_count_axis(axes)
    style.label_y_axis(axes, "waiting jobs")
    if sizes.size > 1:
        _draw_pods(axes, policies, span)
        style.draw_legend(axes, _line_legend("jobs", "pods (right)"))


def _draw_pods(axes: Axes, shown: Sequence[PlottedPolicy], span: TimeAxis) -> None:
    right = axes.twinx()
    for policy in shown:
        colour = policy.look.colour if len(shown) > 1 else style.DIM
        right.stairs(
            *span.curve(step_functions.queue_length(policy.table, pods=True)),
            baseline=None,
            color=colour,
            lw=0.8,
            ls=":",
        )
    right.grid(visible=False)
    _set_count_axis(right)
    right.set_ylabel("their pods")


def _set_count_axis(axes: Axes) -> None:
    axes.set_ylim(0, max(axes.dataLim.y1 * 1.05, 1))
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def _filled_legend(outer: str, inner: str) -> list[Artist]:
    return [Patch(color=style.PALE, label=outer), Patch(color=style.BLUE, label=inner)]


def _line_legend(solid: str, dotted: str) -> list[Artist]:
    return [
        Line2D([], [], color=style.DIM, lw=1.2, label=solid),
        Line2D([], [], color=style.DIM, lw=1, ls=":", label=dotted),
    ]
