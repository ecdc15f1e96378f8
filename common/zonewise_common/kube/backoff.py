"""The wait before the next attempt: exponential, jittered, and at least as long as the server's Retry-After."""

from __future__ import annotations

from typing import NamedTuple


class Backoff(NamedTuple):
    """A rule for wait times, in seconds."""

    base: float = 0.25
    """The longest wait before attempt 0."""
    cap: float = 30.0
    """The longest wait without a Retry-After."""
    retry_after_cap: float = 300.0
    """The longest Retry-After that is obeyed: a server with a wrong clock must not silence its clients for a year."""

    def delay(self, attempt: int, jitter: float, retry_after: float | None = None) -> float:
        """Return the wait before the attempt after `attempt` failures.

        `jitter` is a random number from 0 to 1. Half of the wait is jitter: the agents of many nodes lose their server
        together, but must not return together. The wait exceeds Retry-After by up to a quarter, and is never shorter.
        """
        longest = min(self.cap, self.base * 2 ** min(attempt, 63))
        own = longest * (0.5 + jitter / 2)
        if retry_after is None:
            return own
        return max(own, min(retry_after, self.retry_after_cap) * (1 + jitter / 4))
