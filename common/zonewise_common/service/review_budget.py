"""A limit on the reviews that bearers of unknown tokens cost the API server, for each client and for all together."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from zonewise_common.token_bucket import TokenBucket

if TYPE_CHECKING:
    from collections.abc import Callable

CLIENT_RATE, CLIENT_BURST = 1.0, 10
"""Reviews a second of one address. A scraper has one token for a minute, and several may share a gateway's address."""
TOTAL_RATE, TOTAL_BURST = 8.0, 64
"""Reviews a second of all addresses together. client-go's own limit is 50 requests a second, a review is two."""
_MAX_CLIENTS = 256
"""Addresses with a bucket of their own, so that many of them cost no memory."""


class ReviewBudget:
    """A token bucket for each address, and another for all of them. Safe for several threads."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Create a full budget; the clock returns seconds and never goes back."""
        self._clock = clock
        self._lock = threading.Lock()
        self._total = TokenBucket(TOTAL_RATE, TOTAL_BURST, clock)
        self._clients: dict[str, TokenBucket] = {}  # the one used last is the last

    def try_acquire(self, address: str) -> bool:
        """Consume one review, and return whether the address had one. An address without any costs the others none."""
        with self._lock:
            bucket = self._clients.pop(address, None) or TokenBucket(CLIENT_RATE, CLIENT_BURST, self._clock)
            self._clients[address] = bucket
            if len(self._clients) > _MAX_CLIENTS:
                del self._clients[next(iter(self._clients))]
        return bucket.try_acquire() and self._total.try_acquire()
