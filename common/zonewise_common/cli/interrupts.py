"""Ctrl-C while a program imports."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def killed_by_interrupt() -> Generator[None]:
    """Have SIGINT kill the process in this block, in which nothing begins that must end; for the main thread.

    Without it an import ends by KeyboardInterrupt: with a traceback, or not at all where the interrupt meets a callback
    of importlib, which cannot raise. Where SIGINT has another handler, or is ignored, as in a process that a shell
    without job control has started behind `&`, nothing changes.
    """
    handler = signal.getsignal(signal.SIGINT)
    if handler is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
