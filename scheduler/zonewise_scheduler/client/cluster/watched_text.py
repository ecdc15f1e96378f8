"""A text about the cluster that `--watch` shows again, even through an outage of the API server."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from zonewise_common.cli.redraw import show
from zonewise_scheduler.client.cluster.outage import OutageTolerance

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from zonewise_common.cli.terminal import Terminal


def show_text(
    render: Callable[[], str], terminal: Terminal, arguments: Namespace, wait: Callable[[float], object] | None = None
) -> None:
    """Write a text once; with --watch, whenever it changes, until an exception ends the loop. Raises KubeError.

    During an outage after the first text, the last text remains. `wait` defaults to time.sleep.
    """
    last = ""
    rendering = OutageTolerance(
        render,
        lambda note: sys.stderr.write(f"zonewise: {note}\n"),
        "the output shows the last known state until it responds",
    )

    def text() -> str:
        nonlocal last
        current = rendering.result()
        last = last if current is None else current
        return last

    show(text, terminal, watch=arguments.watch, interval=arguments.interval, wait=wait)
