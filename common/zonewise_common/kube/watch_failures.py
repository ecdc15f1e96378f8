"""Log the failures of watches without a line for each.

During an outage of the API server, all watches of a program fail in the same way, every few seconds. One line for each
kind of failure suffices, and one once each watch works again. The log level "debug" shows all failures.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from zonewise_common.kube.errors import (
    BadResponse,
    ConfigError,
    Gone,
    NotFound,
    ServerError,
    TooManyRequests,
    TransportError,
    Unauthorized,
)

if TYPE_CHECKING:
    from zonewise_common.kube.errors import KubeError

log = logging.getLogger(__name__)

_OF_THE_SERVER = (ConfigError, TransportError, ServerError, TooManyRequests, Unauthorized, Gone)
"""Failures that concern all watches; others, such as 403, concern one. A server that restarts or compacts its store
answers 410 to all."""
_NOT_SERVED = "; the API server does not serve this kind, so its CustomResourceDefinition is missing"


class WatchFailures:
    """The current failures of the watches of one client; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures: dict[str, tuple[type, str]] = {}
        """The kind of the last failure of each watch that fails."""

    def add(self, watch: str, error: KubeError) -> None:
        """Log the failure of a watch, unless another one fails or this one has just failed in the same way."""
        is_of_server = isinstance(error, _OF_THE_SERVER) and not isinstance(error, BadResponse)
        kind = type(error), "" if is_of_server else watch
        with self._lock:
            is_known = kind in self._failures.values()
            self._failures[watch] = kind
        cause = _NOT_SERVED if isinstance(error, NotFound) else ""
        log.log(logging.DEBUG if is_known else logging.WARNING, "%s: %s%s", watch, error, cause)

    def end(self, watch: str) -> None:
        """Record that a watch works."""
        with self._lock:
            is_last = self._failures.pop(watch, None) is not None and not self._failures
        if is_last:
            log.info("all watches of the API server work again")
