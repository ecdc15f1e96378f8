"""Writes the picture of a history to a file."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from zonewise_scheduler.simulator.advice.curve import AdviceCurve
    from zonewise_scheduler.simulator.history import History

SUFFIXES = (".svg", ".png")


def check_plot_path(path: Path) -> str:
    """Return the format of a picture at this path, "svg" or "png".

    Raises ValueError for another suffix, and ModuleNotFoundError without matplotlib.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"{path}: {suffix or 'no suffix'}: pictures are {' or '.join(SUFFIXES)}")
    if find_spec("matplotlib") is None:
        raise ModuleNotFoundError("No module named 'matplotlib', which draws pictures", name="matplotlib")
    return suffix[1:]


def draw_plot(
    history: History, path: Path, *, title: str, caption: str = "", compare: Sequence[tuple[str, History]] = ()
) -> None:
    """Draw utilisation, queue length, waits by width, and a Gantt chart with reservations; the bytes are deterministic.

    With `compare`, these histories are drawn over each other by name; the Gantt chart shows only `history`. The caption
    is a line below the title. Raises the errors of check_plot_path, and OSError if the file cannot be written.
    """
    form = check_plot_path(path)
    from zonewise_scheduler.simulator.plot.figure import write_figure  # takes half a second, so only for pictures

    write_figure(history, path, form, (title, caption), compare)


def draw_advice_plot(curve: AdviceCurve, path: Path) -> None:
    """Draw the wait for each value of a setting, with the goal's bound; the bytes are deterministic.

    Raises the same errors as draw_plot.
    """
    form = check_plot_path(path)
    from zonewise_scheduler.simulator.plot.advice_curve import write_advice_figure

    write_advice_figure(curve, path, form)
