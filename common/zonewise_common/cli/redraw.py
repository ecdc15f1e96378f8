"""`--watch`: shows a text again whenever it has changed."""

from __future__ import annotations

import time
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING

from zonewise_common.cli.output import STANDARD_OUTPUT, check_reader, write

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable

    from zonewise_common.cli.terminal import Terminal

DEFAULT_INTERVAL = 2.0
_MIN_INTERVAL = 0.5
_CLEAR = "\x1b[H\x1b[2J\x1b[3J"
"""Move the cursor to the first cell; erase the screen; erase the scrollback (ECMA-48, xterm)."""


def add_watch_arguments(parser: ArgumentParser) -> None:
    """Declare --watch and --interval."""
    parser.add_argument("-w", "--watch", action="store_true", help="redraw the output when it changes, until Ctrl-C")
    parser.add_argument(
        "--interval", type=_interval, default=DEFAULT_INTERVAL, metavar="SECONDS",
        help=f"time between two reads of --watch, at least {_MIN_INTERVAL:g} (default: {DEFAULT_INTERVAL:g})",
    )  # fmt: skip


def show(
    render: Callable[[], str],
    terminal: Terminal,
    *,
    watch: bool = False,
    interval: float = DEFAULT_INTERVAL,
    wait: Callable[[float], object] | None = None,
) -> None:
    """Write the text once; with `watch`, write it whenever it changes, until an exception ends the loop.

    BrokenPipeError ends it once the reader has closed the output, even if the text does not change.

    A terminal is cleared before each text. Otherwise a blank line separates two texts. `wait` defaults to time.sleep.
    """
    before = None
    while True:
        text = render()
        if text != before:
            head = _CLEAR if watch and terminal.interactive else "\n" if before is not None else ""
            write(head + text, STANDARD_OUTPUT)
            before = text
        if not watch:
            return
        (wait or time.sleep)(interval)
        check_reader()


def _interval(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not _MIN_INTERVAL <= seconds < float("inf"):
        raise ArgumentTypeError(f"{text!r} is not a number of seconds; the smallest is {_MIN_INTERVAL:g}")
    return seconds
