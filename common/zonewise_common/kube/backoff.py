"""The wait before the next attempt: exponential, jittered, and at least as long as the server's Retry-After."""

from __future__ import annotations

from typing import NamedTuple


class Backoff(NamedTuple):
    """A rule for waiting, in seconds."""

    base: float = 0.25
    """Before attempt 0, at most."""
    cap: float = 30.0
    """The longest wait without a Retry-After."""
    retry_after_cap: float = 300.0
    """The longest Retry-After that counts: a server with a wrong clock must not silence its clients for a year."""

    def delay(self, attempt: int, jitter: float, retry_after: float | None = None) -> float:
        """Return the wait before the attempt after `attempt` failures.

        `jitter` is a random number from 0 to 1. Half of the wait is jitter, so that the agents of many nodes that lost
        their server at once do not return at once. The server's wait is exceeded by up to a quarter, never shortened.
        """
        longest = min(self.cap, self.base * 2 ** min(attempt, 63))
        own = longest * (0.5 + jitter / 2)
        if retry_after is None:
            return own
        return max(own, min(retry_after, self.retry_after_cap) * (1 + jitter / 4))
