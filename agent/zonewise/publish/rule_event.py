"""An Event on the Node while rules fail on it: one Event for each node, which names the first failing rules."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from zonewise.publish.node_event import EventIdentity, NodeEvent
from zonewise_common.kube.events import utc_now

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from zonewise.publish.node_event import EventClient
    from zonewise.rules.types import RuleOutcome

REASON = "NodeFeatureRuleFailed"
SUFFIX = "zonewise-rules"
WRITE_INTERVAL = 1800.0
"""Seconds after which an Event of lasting failures is written again."""
_IDENTITY = EventIdentity(SUFFIX, REASON, WRITE_INTERVAL)
_SHOWN = 5


class RuleEvent:
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
        self._failures: tuple[RuleOutcome, ...] = ()

    def note(self, failures: Sequence[RuleOutcome]) -> None:
        """Note the rules that fail now; write the Event if they differ from the previous ones, or if it is due again.

        An Event that cannot be written is logged and retried the next time.
        """
        changed = tuple(failures) != self._failures
        self._failures = tuple(failures)
        if not failures or (not changed and not self._event.is_due):
            return
        self._event.count()
        if not self._event.write(_message(self._failures)):
            self._failures = ()


def _message(failures: Sequence[RuleOutcome]) -> str:
    count = len(failures)
    described = "; ".join(f"{one.kind} {one.object}, rule {one.rule!r}: {one.error}" for one in failures[:_SHOWN])
    more = f"; and {count - _SHOWN} more" if count > _SHOWN else ""
    return f"zonewise: {count} rule{'s'[: count != 1]} failed: {described}{more}"
