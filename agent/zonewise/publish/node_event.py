"""An Event on the Node that is written repeatedly: each later occurrence raises its count."""

from __future__ import annotations

import logging
import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from zonewise.publish.nrt_publisher import FIELD_MANAGER
from zonewise_common.kube.errors import KubeError
from zonewise_common.kube.events import Occurrences, event, node_reference, utc_now
from zonewise_common.kube.resources import EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from zonewise_common.kube.resources import Resource

log = logging.getLogger(__name__)


class EventClient(Protocol):
    """The part of a zonewise.kube Client that is needed."""

    def apply(self, resource: Resource, obj: dict[str, Any], *, field_manager: str) -> dict[str, Any]:
        """Apply a whole object and return the result."""
        ...


class EventIdentity(NamedTuple):
    """The properties that all writes of an Event share."""

    suffix: str
    """Suffix of its name, after the name of the Node."""
    reason: str
    interval: float
    """Seconds between two writes. API servers keep an Event for an hour after its last write (--event-ttl)."""


class NodeEvent:
    """The Event of one node. Not thread-safe."""

    def __init__(
        self,
        identity: EventIdentity,
        client: EventClient,
        node: str,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """Prepare to write the Event; `clock` returns the seconds of a monotonic clock, `now` the time of day."""
        self._identity = identity
        self._client = client
        self._node = node
        self._clock = clock
        self._now = now
        self._seen = Occurrences(now(), now(), 0)
        self._written_at = -math.inf

    @property
    def is_due(self) -> bool:
        """Return whether the interval since the last write has passed."""
        return self._clock() - self._written_at >= self._identity.interval

    def count(self, *, anew: bool = False) -> None:
        """Count an occurrence; `anew` restarts the count at one."""
        now = self._now()
        self._seen = Occurrences(now, now) if anew else self._seen._replace(last=now, total=self._seen.total + 1)

    def write(self, message: str) -> bool:
        """Write the Event; return whether that succeeded. A failure is logged."""
        suffix, reason, _ = self._identity
        body = event(
            node_reference(self._node), suffix, FIELD_MANAGER, reason, message, event_type="Warning", seen=self._seen
        )
        try:
            self._client.apply(EVENTS, body, field_manager=FIELD_MANAGER)
        except KubeError as error:
            log.warning("the Event %s of the Node cannot be written: %s", reason, error)
            return False
        self._written_at = self._clock()
        return True
