"""The webhooks and the read API on one port, which has TLS, and which the API server reaches in each cluster.

The read API is for bearers of tokens here. It takes a small part of the server's threads: no client delays the creation
of jobs.

The API server passes a request to any replica of a Service. One that stands by has no reservations, reasons and
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
"""Requests of the read API at once, of the 16 threads of the server. More get 429, and their clients try again."""


class SharedPortHandler:
    """Passes paths of the read API to one handler, and all others to that of the webhooks."""

    def __init__(self, webhooks: Handler, read_api: Handler, stands_by: Callable[[], bool]) -> None:
        """Create a handler of both; `stands_by` tells whether another replica leads, or may do so soon."""
        self.max_body = webhooks.max_body
        self._webhooks, self._read_api, self._stands_by = webhooks, read_api, stands_by
        self._reads = threading.BoundedSemaphore(MAX_READS)

    def methods(self, path: str) -> Collection[str]:
        """Return the methods of a path."""
        return (self._read_api if path.startswith(READ_API_PREFIX) else self._webhooks).methods(path)

    def handle(self, request: Request) -> Response:
        """Return the response to a request with a method of its path."""
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
