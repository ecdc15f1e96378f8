"""How long a reflector waits between two watches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.kube.errors import ApiError, Gone, TransportError

if TYPE_CHECKING:
    from zonewise_common.kube.backoff import Backoff
    from zonewise_common.kube.errors import KubeError


class WatchBackoff:
    """Counts consecutive failures, and derives the wait from them.

    A watch whose version is too old (410) is not a failure: the server works, and a listing is due at once. A second
    410 without a healthy watch in between counts, so that a defective server is not queried without a pause. An error
    status after attempts without a response means that the server is back: the waits start over.
    """

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._failures = 0
        self._had_response = True
        self._has_relisted = False  # without a wait, since the last healthy watch

    def delay(self, failure: KubeError | None, jitter: float, *, healthy: bool) -> float:
        """Return the seconds to wait after a watch.

        `failure` is the error that ended it; None if the server ended it. `healthy`: the watch lasted long enough.
        """
        if healthy:
            self._failures, self._has_relisted = 0, False
        if isinstance(failure, Gone) and not self._has_relisted:
            self._has_relisted = True
            return 0.0
        if isinstance(failure, ApiError) and not self._had_response:
            self._failures = 0
        self._had_response = not isinstance(failure, TransportError)
        self._failures += not healthy
        retry_after = failure.retry_after if isinstance(failure, ApiError) else None
        return self._backoff.delay(self._failures, jitter, retry_after)
