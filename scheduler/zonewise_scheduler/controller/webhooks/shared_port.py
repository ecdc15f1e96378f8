"""The webhooks and the read API on one TLS port, which the API server can reach in each cluster.

On this port, the read API requires a bearer token. It may use only a few of the server's threads, so that no client
delays the creation of jobs.

The API server passes a request to any replica of a Service. A standby replica has no reservations, reasons and
forecasts. So it responds 421 (RFC 9110, section 15.5.20), and clients send the request again.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from zonewise_common.service.handlers import Request, Response, text_response

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from zonewise_common.service.handlers import Handler

READ_API_PREFIX = "/api/"
MAX_READS = 4
"""Maximum number of read API requests at once, of the server's 16 threads. Others get 429, and clients retry."""


class SharedPortHandler:
    """Passes paths of the read API to one handler, and all others to the webhook handler."""

    def __init__(self, webhooks: Handler, read_api: Handler, stands_by: Callable[[], bool]) -> None:
        """Create a handler for both; `stands_by` returns whether another replica leads, or may soon do so."""
        self.max_body = webhooks.max_body
        self._webhooks, self._read_api, self._stands_by = webhooks, read_api, stands_by
        self._reads = threading.BoundedSemaphore(MAX_READS)

    def methods(self, path: str) -> Collection[str]:
        """Return the HTTP methods that a path allows."""
        return (self._read_api if path.startswith(READ_API_PREFIX) else self._webhooks).methods(path)

    def handle(self, request: Request) -> Response:
        """Return the response to a request whose method its path allows."""
        if not request.path.startswith(READ_API_PREFIX):
            return self._webhooks.handle(request)
        if self._stands_by():
            return text_response(421, "this replica of the controller does not lead; send the request again\n")
        if not self._reads.acquire(blocking=False):
            return text_response(429, f"more than {MAX_READS} requests of the read API come at once\n")
        try:
            return self._read_api.handle(request)
        finally:
            self._reads.release()
