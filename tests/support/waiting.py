"""Waiting for other threads and processes.

Each check costs CPU time on both sides, which a loaded machine lacks for the work itself. So the pause between two
checks is a tenth of the time waited so far, within bounds. Waits for servers are mostly seconds long.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 120.0
"""Seconds allowed for an operation that takes a moment: tests share a few cores with each other and with other
programs."""


_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.005, 0.3
"""Seconds between two checks."""


def pause(waited: float) -> None:
    """Pause between two checks; `waited`: the seconds since the first one."""
    time.sleep(min(max(waited / 10, _SHORTEST_PAUSE), _LONGEST_PAUSE))


def eventually(
    condition: Callable[[], object], seconds: float = PATIENCE, say: Callable[[], str] | None = None
) -> None:
    """Wait until a condition holds; on a timeout, fail with the message of `say`."""
    started = time.monotonic()
    while not condition():
        waited = time.monotonic() - started
        assert waited < seconds, f"not so within {seconds} s" if say is None else say()
        pause(waited)
