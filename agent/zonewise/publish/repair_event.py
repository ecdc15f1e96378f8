"""An Event on the Node while another client changes the NodeResourceTopology again and again.

It is one Event for each node. Later repairs raise its count and name the client of the last change.
"""

from __future__ import annotations

import logging
import math
import time
from typing import TYPE_CHECKING, Any, Protocol

from zonewise.publish.nrt_publisher import FIELD_MANAGER
from zonewise.publish.repair_pauses import AT_ONCE, WINDOW
from zonewise_common.kube.errors import KubeError
from zonewise_common.kube.events import Occurrences, event, node_reference, utc_now
from zonewise_common.kube.resources import EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from zonewise.publish.nrt_publisher import ForeignChange
    from zonewise_common.kube.resources import Resource

log = logging.getLogger(__name__)

REASON = "ReportRepairedRepeatedly"
SUFFIX = "zonewise-repairs"
WRITE_INTERVAL = 300.0
"""Seconds between two writes of the Event. API servers keep an Event for an hour after its last write (--event-ttl)."""


class EventClient(Protocol):
    """The part of a zonewise.kube Client that is needed."""

    def apply(self, resource: Resource, obj: dict[str, Any], *, field_manager: str) -> dict[str, Any]:
        """Apply a whole object, and return the result."""
        ...


class RepairEvent:
    """The Event of one node. Not for several threads at once."""

    def __init__(
        self,
        client: EventClient,
        node: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """Take the seconds of a monotonic clock, and the time of day."""
        self._client = client
        self._node = node
        self._clock = clock
        self._now = now
        self._seen = Occurrences(now(), now(), 0)
        self._written_at = -math.inf

    def note(self, change: ForeignChange, count: int) -> None:
        """Note a repair, the `count`th within WINDOW; write the Event from the first repair that waits on.

        An Event that cannot be written is logged, and tried again at the next repair.
        """
        now = self._now()
        # the first repair after a quiet WINDOW begins a new count
        self._seen = Occurrences(now, now) if count == 1 else self._seen._replace(last=now, total=self._seen.total + 1)
        if count <= AT_ONCE or self._clock() - self._written_at < WRITE_INTERVAL:
            return
        try:
            self._client.apply(EVENTS, self._event(change, count), field_manager=FIELD_MANAGER)
        except KubeError as error:
            log.warning("no event on the Node tells of the repairs: %s", error)
        else:
            self._written_at = self._clock()

    def _event(self, change: ForeignChange, count: int) -> dict[str, Any]:
        client = f"the field manager {change.manager}" if change.manager else "another client"
        message = (
            f"zonewise: the NodeResourceTopology of this node was {change.cause} by {client} and is repaired, "
            f"{count} times within {WINDOW:.0f} s. Later repairs wait, and schedulers read a wrong report meanwhile."
        )
        return event(
            node_reference(self._node), SUFFIX, FIELD_MANAGER, REASON, message, event_type="Warning", seen=self._seen
        )
