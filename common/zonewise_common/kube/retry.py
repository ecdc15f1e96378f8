"""Repeats a write that another writer's change made invalid (client-go util/retry/util.go RetryOnConflict)."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, TypeVar

from zonewise_common.kube.backoff import Backoff
from zonewise_common.kube.errors import Conflict

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_BACKOFF = Backoff(base=0.02, cap=1.0)  # writers that race for one object do so for milliseconds


def retry_on_conflict(
    action: Callable[[], T],
    attempts: int = 5,
    *,
    sleep: Callable[[float], object] = time.sleep,
    draw: Callable[[], float] = random.random,
) -> T:
    """Call an action that reads, changes and replaces an object, and repeat it while another writer is faster.

    Raises the last Conflict after so many attempts, and every other error at once.
    """
    for attempt in range(attempts - 1):
        try:
            return action()
        except Conflict as error:
            sleep(_BACKOFF.delay(attempt, draw(), error.retry_after))
    return action()
