"""Waiting for what other threads and processes do."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 120.0
"""Seconds for what takes a moment: tests share a few cores with each other, and with whatever else runs there."""


def eventually(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait until something holds; fail where it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not so within {seconds} s"
        time.sleep(0.005)
