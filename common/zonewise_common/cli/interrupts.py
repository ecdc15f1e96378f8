"""Ctrl-C while a program imports."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def killed_by_interrupt() -> Generator[None]:
    """Let SIGINT kill the process within this block; for the main thread.

    Start nothing in the block that needs a clean end.

    Without this, an import ends with KeyboardInterrupt and a traceback. It may not even end, if the interrupt hits a
    callback of importlib that cannot raise. If SIGINT has another handler or is ignored, nothing changes. A shell
    without job control ignores it for processes that it starts with `&`.
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
