"""The picture of a history, as a file."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from zonewise_scheduler.simulator.history import History

SUFFIXES = (".svg", ".png")


def check_plot_path(path: Path) -> str:
    """Return what form a picture at this path has, "svg" or "png".

    Raises ValueError for another suffix, and ModuleNotFoundError where matplotlib is not installed.
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
    """Draw utilisation, queue length, waits by width, and a Gantt chart with promised starts; the same bytes each time.

    With `compare`, these histories lie over each other by name, but in the Gantt chart, which is that of `history`
    alone. The caption is a line below the title. Raises what `check` does, and OSError where nothing can be written.
    """
    form = check_plot_path(path)
    from zonewise_scheduler.simulator.plot.figure import write_figure  # half a second, which only pictures cost

    write_figure(history, path, form, (title, caption), compare)
