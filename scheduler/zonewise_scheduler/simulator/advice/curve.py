"""The curve of an advice as values, for its figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class CurvePoint(NamedTuple):
    """One simulated value of the setting."""

    value: float
    label: str
    wait: float
    """Seconds; infinite if jobs never start."""
    met: bool


class AdviceCurve(NamedTuple):
    """The contents of the figure."""

    title: str
    caption: str
    setting: str
    """Label of the horizontal axis."""
    statistic: str
    """Label of the vertical axis."""
    bound: float
    """The bound of the goal, in seconds."""
    points: Sequence[CurvePoint]
    """Ascending by value."""
    smallest: CurvePoint | None
