"""Limits the time that one call may spend on judging nodes one by one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

JUDGING_SECONDS = 0.03
"""CPU time in seconds that one call may spend on nodes that the arrays do not decide.

The arrays take up to 20 ms for 5,000 nodes, and the reasons for the nodes take as much again. So a call ends within 100
ms.
"""
FILTER_SECONDS = 0.01
"""CPU time in seconds of a filter call for such nodes: including the arrays, a first response takes at most 20 ms for
5,000 nodes."""


class JudgingBudget:
    """A budget of CPU time of the calling thread, in seconds, from now on."""

    def __init__(self, seconds: float = JUDGING_SECONDS, clock: Callable[[], float] = time.thread_time) -> None:
        """Take a clock in seconds that never goes back."""
        self._clock = clock
        self._end = clock() + seconds

    @property
    def is_spent(self) -> bool:
        """Return whether the time is used up; a judgement that has begun may end later."""
        return self._clock() >= self._end
