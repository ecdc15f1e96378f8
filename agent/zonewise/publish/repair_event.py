"""An Event on the Node while another client keeps changing the NodeResourceTopology.

There is one Event for each node. Later repairs raise its count and name the client of the last change.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from zonewise.publish.node_event import EventIdentity, NodeEvent
from zonewise.publish.repair_pauses import AT_ONCE, WINDOW
from zonewise_common.kube.events import utc_now

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from zonewise.publish.node_event import EventClient
    from zonewise.publish.nrt_publisher import ForeignChange

REASON = "ReportRepairedRepeatedly"
SUFFIX = "zonewise-repairs"
WRITE_INTERVAL = 300.0
"""Seconds between two writes of the Event."""
_IDENTITY = EventIdentity(SUFFIX, REASON, WRITE_INTERVAL)


class RepairEvent:
    """The Event of one node. Not thread-safe."""

    def __init__(
        self,
        client: EventClient,
        node: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """Prepare the Event; `clock` returns the seconds of a monotonic clock, `now` the time of day."""
        self._event = NodeEvent(_IDENTITY, client, node, clock, now)

    def note(self, change: ForeignChange, count: int) -> None:
        """Note a repair, the `count`th within WINDOW; write the Event from the first repair that has to wait.

        An Event that cannot be written is logged and retried at the next repair.
        """
        self._event.count(anew=count == 1)  # the first repair after a quiet WINDOW starts a new count
        if count > AT_ONCE and self._event.is_due:
            self._event.write(_message(change, count))


def _message(change: ForeignChange, count: int) -> str:
    client = f"the field manager {change.manager}" if change.manager else "another client"
    return (
        f"zonewise: the NodeResourceTopology of this node was {change.cause} by {client} and repaired, {count} times "
        f"within {WINDOW:.0f} s. Later repairs are delayed, and schedulers read a wrong report until then."
    )
