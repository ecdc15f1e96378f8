"""How long to wait before the next attempt: exponential, jittered, never earlier than the server said."""

from __future__ import annotations

from typing import NamedTuple


class Backoff(NamedTuple):
    """A rule for waiting; all in seconds."""

    base: float = 0.25
    """Before attempt 0, at most."""
    cap: float = 30.0
    """Of client-go's reflector (client-go tools/cache/reflector.go)."""
    retry_after_cap: float = 300.0
    """What a server can demand at most: a wrong clock in Retry-After must not silence us for a year."""

    def delay(self, attempt: int, jitter: float, retry_after: float | None = None) -> float:
        """Return how long to wait before the attempt after `attempt` failures.

        `draw` is a random number from 0 to 1. Half of the wait is jitter, so that agents of many nodes that lost their
        server at once do not come back at once. What the server asks for is exceeded by up to a quarter, never cut.
        """
        longest = min(self.cap, self.base * 2 ** min(attempt, 63))
        own = longest * (0.5 + jitter / 2)
        if retry_after is None:
            return own
        return max(own, min(retry_after, self.retry_after_cap) * (1 + jitter / 4))
