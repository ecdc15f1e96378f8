"""The style of pictures: white background, readable on any page, and no meaning conveyed only by colour."""

# keyword arguments of matplotlib have no types
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator, StrMethodFormatter

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

INK, DIM, FAINT, GRID, PAPER = "#1b1f24", "#59636e", "#8c959f", "#e6e9ec", "#ffffff"
BLUE, PALE = "#1f5fa8", "#c3d7ea"
RESERVATION_COLOUR = "#c24a00"
WAITS = ("#d5e0ea", "#94b8d8", "#4a86bd", "#163f6b")
"""Colours of waits, shortest first; distinguishable in greyscale too."""
SMALL = 8.0
PAD = 5.0
"""Both in points."""


class PolicyStyle(NamedTuple):
    """The style of a policy: a marker, and a colour of Okabe and Ito, which colour-blind people can distinguish."""

    colour: str
    mark: str


_POLICY_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#aa4499", "#56b4e9", "#b8860b", "#000000")
"""A colour for each named policy."""
_POLICY_MARKS = ("o", "s", "^", "D", "v", "P", "X")

STYLE: dict[str, Any] = {
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],  # the first is part of matplotlib: same sizes everywhere
    "font.size": 9.0,
    "text.color": INK,
    "text.parse_math": False,  # a name may contain a dollar sign
    "axes.edgecolor": FAINT,
    "axes.labelcolor": DIM,
    "axes.labelsize": SMALL,
    "axes.linewidth": 0.8,
    "axes.titlelocation": "left",
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlepad": PAD,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": DIM,
    "ytick.labelcolor": DIM,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.frameon": False,
    "legend.fontsize": SMALL,
    "legend.handlelength": 1.6,
    "legend.handleheight": 0.9,
    "legend.columnspacing": 1.4,
    "legend.borderaxespad": 0.2,
    "legend.borderpad": 0.1,
    "hatch.linewidth": 0.7,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "svg.fonttype": "none",
    "svg.hashsalt": "zonewise",
}


def policy_style(index: int) -> PolicyStyle:
    """Return the style of a policy by its index in the picture; colours repeat after seven policies, with other marks.

    The first 49 styles are distinct.
    """
    repetition, colour = divmod(index, len(_POLICY_COLOURS))
    return PolicyStyle(_POLICY_COLOURS[colour], _POLICY_MARKS[(colour + repetition) % len(_POLICY_MARKS)])


def printable(text: str) -> str:
    """Return a text without characters that XML or a font cannot hold."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)


def join_notes(*notes: str) -> str:
    """Return the non-empty notes joined into one."""
    return ", ".join(note for note in notes if note)


def draw_title(axes: Axes, title: str, note: str = "") -> None:
    """Draw the title of a panel, and a note beside it."""
    box = axes.set_title(printable(title)).get_window_extent()
    _beside(axes, note, (0, 1), (72 * box.width / axes.figure.dpi + 7, PAD), "left")


def draw_footnote(axes: Axes, note: str) -> None:
    """Draw a note below a panel, on the right."""
    _beside(axes, note, (1, 0), (0, -23), "right")


def _beside(axes: Axes, note: str, corner: tuple[int, int], offset: tuple[float, float], align: str) -> None:
    axes.annotate(
        note,
        corner,
        offset,
        xycoords="axes fraction",
        textcoords="offset points",
        ha=align,
        va="baseline",
        color=DIM,
        fontsize=SMALL,
    )


def draw_legend(axes: Axes, handles: list[Artist]) -> None:
    """Draw a legend above a panel, on the right."""
    labels = [str(handle.get_label()) for handle in handles]
    legend_box = axes.legend(handles, labels, loc="lower right", bbox_to_anchor=(1, 1), ncols=len(handles))
    for text in legend_box.get_texts():
        text.set_color(DIM)


def set_percent_axis(axes: Axes, top: float) -> None:
    """Show shares on the y axis, from 0 to 1 or above."""
    axes.set_ylim(0, max(1.02, top * 1.02))
    axes.yaxis.set_major_locator(MultipleLocator(0.25) if top < 2 else MaxNLocator(5))
    axes.yaxis.set_major_formatter(FuncFormatter(format_percent))


def format_percent(share: float, _: int | None = None) -> str:
    """Return a share as text."""
    return f"{100 * share:.12g} %"


def label_y_axis(axes: Axes, label: str) -> None:
    """Label the y axis at the same position in every panel."""
    axes.set_ylabel(printable(label))
    axes.yaxis.set_label_coords(-0.062, 0.5)


def label_time_axis(axes: Axes, unit: str) -> None:
    """Label the axis of times in a unit."""
    axes.set_xlabel(f"time since the first submission, {unit}", labelpad=2, loc="left")  # footnotes are on the right
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))


def draw_empty_panel(axes: Axes, title: str, reason: str) -> None:
    """Draw an empty panel that shows the reason."""
    axes.set_title(title)
    axes.grid(visible=False)
    axes.set_yticks([])
    axes.text(0.5, 0.5, reason, transform=axes.transAxes, ha="center", va="center", color=DIM)
