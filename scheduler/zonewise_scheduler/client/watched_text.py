"""A text about the cluster that `--watch` shows again, even through an outage of the API server."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from zonewise_common.cli.redraw import show

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from zonewise_common.cli.terminal import Terminal


def show_text(
    render: Callable[[], str], terminal: Terminal, arguments: Namespace, wait: Callable[[float], object] | None = None
) -> None:
    """Write a text once; with --watch, whenever it changes, until an exception ends the loop. Raises KubeError.

    After the first text, a server that fails or does not respond is reported once, and the last text remains. The same
    holds for credentials that cannot be renewed. `wait` defaults to time.sleep.
    """
    from zonewise_common.kube.errors import ConfigError, ServerError, TooManyRequests, TransportError

    last: str | None = None
    is_out = False

    def text() -> str:
        nonlocal last, is_out
        try:
            last = render()
        except (ConfigError, ServerError, TooManyRequests, TransportError) as error:
            if last is None:
                raise
            if not is_out:
                sys.stderr.write(
                    f"zonewise: the API server: {error}; the output shows the last known state until it responds\n"
                )
            is_out = True
        else:
            if is_out:
                sys.stderr.write("zonewise: the API server responds again\n")
            is_out = False
        return last

    show(text, terminal, watch=arguments.watch, interval=arguments.interval, wait=wait)
