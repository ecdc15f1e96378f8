"""An Event on the Node while rules fail on it: one for each node, which names the first of them."""

from __future__ import annotations

import logging
import math
import time
from typing import TYPE_CHECKING

from zonewise.publish.nrt_publisher import FIELD_MANAGER
from zonewise_common.kube.errors import KubeError
from zonewise_common.kube.events import Occurrences, event, node_reference, utc_now
from zonewise_common.kube.resources import EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from zonewise.publish.repair_event import EventClient
    from zonewise.rules.types import RuleOutcome

log = logging.getLogger(__name__)

REASON = "NodeFeatureRuleFailed"
SUFFIX = "zonewise-rules"
WRITE_INTERVAL = 1800.0
"""Seconds after which an Event of lasting failures is written again. API servers keep it for an hour (--event-ttl)."""
_SHOWN = 5


class RuleEvent:
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
        self._failures: tuple[RuleOutcome, ...] = ()
        self._seen = Occurrences(now(), now(), 0)
        self._written_at = -math.inf

    def note(self, failures: Sequence[RuleOutcome]) -> None:
        """Note the rules that fail now; write the Event where they are others than before, or it is due again.

        An Event that cannot be written is logged, and tried again the next time.
        """
        now, changed = self._now(), tuple(failures) != self._failures
        self._failures = tuple(failures)
        if not failures or (not changed and self._clock() - self._written_at < WRITE_INTERVAL):
            return
        self._seen = self._seen._replace(last=now, total=self._seen.total + 1)
        try:
            self._client.apply(EVENTS, self._event(), field_manager=FIELD_MANAGER)
        except KubeError as error:
            self._failures = ()
            log.warning("no event on the Node names the rules that fail: %s", error)
        else:
            self._written_at = self._clock()

    def _event(self) -> dict[str, object]:
        count = len(self._failures)
        described = "; ".join(f"{one.object}, rule {one.rule!r}: {one.error}" for one in self._failures[:_SHOWN])
        more = f"; and {count - _SHOWN} more" if count > _SHOWN else ""
        message = f"zonewise: {count} rule{'s'[: count != 1]} of NodeFeatureRules failed: {described}{more}"
        return event(
            node_reference(self._node), SUFFIX, FIELD_MANAGER, REASON, message, event_type="Warning", seen=self._seen
        )
