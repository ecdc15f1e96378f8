"""A limit on reviews, which cost the API server, for each client and for all clients together."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from zonewise_common.token_bucket import TokenBucket

if TYPE_CHECKING:
    from collections.abc import Callable

CLIENT_RATE, CLIENT_BURST = 2.0, 40
"""Reviews per second and burst of one client. All users behind the API server's proxy share its address. Each of their
commands uses a token of up to eight minutes of age, so 2 per second suffice for a thousand users."""
TOTAL_RATE, TOTAL_BURST = 16.0, 128
"""Reviews per second and burst of all clients together. client-go's own limit is 50 requests a second, and a review
takes two."""
_MAX_CLIENTS = 256
"""Maximum number of clients with a separate bucket, so that many clients cost no memory."""


class ReviewBudget:
    """A token bucket for each client, and another for all of them. Thread-safe."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Create a full budget; the clock returns seconds and is monotonic."""
        self._clock = clock
        self._lock = threading.Lock()
        self._total = TokenBucket(TOTAL_RATE, TOTAL_BURST, clock)
        self._clients: dict[str, TokenBucket] = {}  # ordered by last use

    def try_acquire(self, client: str) -> bool:
        """Consume one review, and return whether the client was allowed one: an address or the digest of a token.

        A client that has none left costs the others nothing.
        """
        with self._lock:
            bucket = self._clients.pop(client, None) or TokenBucket(CLIENT_RATE, CLIENT_BURST, self._clock)
            self._clients[client] = bucket
            if len(self._clients) > _MAX_CLIENTS:
                del self._clients[next(iter(self._clients))]
        return bucket.try_acquire() and self._total.try_acquire()
