"""Waiting for what other threads and processes do.

Each look costs both sides CPU time, which what is waited for then lacks on a loaded machine. So the pause between two
looks is a tenth of the time waited so far, within bounds.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 120.0
"""Seconds for what takes a moment: tests share a few cores with each other, and with whatever else runs there."""


_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.005, 0.05
"""Seconds between two looks."""


def pause(waited: float) -> None:
    """Pause between two looks; `waited`: the seconds since the first."""
    time.sleep(min(max(waited / 10, _SHORTEST_PAUSE), _LONGEST_PAUSE))


def eventually(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait until something holds; fail where it does not in time."""
    started = time.monotonic()
    while not condition():
        waited = time.monotonic() - started
        assert waited < seconds, f"not so within {seconds} s"
        pause(waited)
