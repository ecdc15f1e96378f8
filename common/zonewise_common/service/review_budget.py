"""A limit on the reviews of unknown tokens, which cost the API server, for each client and for all together."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from zonewise_common.token_bucket import TokenBucket

if TYPE_CHECKING:
    from collections.abc import Callable

CLIENT_RATE, CLIENT_BURST = 1.0, 10
"""Reviews per second and burst of one address. A scraper uses one token for a minute, and several may share a gateway's
address."""
TOTAL_RATE, TOTAL_BURST = 8.0, 64
"""Reviews per second and burst of all addresses together. client-go's own limit is 50 requests a second, and a review
takes two."""
_MAX_CLIENTS = 256
"""Maximum addresses with a separate bucket, so that many addresses cost no memory."""


class ReviewBudget:
    """A token bucket for each address, and another for all of them. Thread-safe."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Create a full budget; the clock returns seconds and is monotonic."""
        self._clock = clock
        self._lock = threading.Lock()
        self._total = TokenBucket(TOTAL_RATE, TOTAL_BURST, clock)
        self._clients: dict[str, TokenBucket] = {}  # ordered by last use

    def try_acquire(self, address: str) -> bool:
        """Consume one review, and return whether the address was allowed one.

        An address that has none left costs the others nothing.
        """
        with self._lock:
            bucket = self._clients.pop(address, None) or TokenBucket(CLIENT_RATE, CLIENT_BURST, self._clock)
            self._clients[address] = bucket
            if len(self._clients) > _MAX_CLIENTS:
                del self._clients[next(iter(self._clients))]
        return bucket.try_acquire() and self._total.try_acquire()
