"""Which writes may be sent now: at most one per object, and none while its object is paused.

A write that ends stale or rejected pauses its object, until another version of it is observed or the pause ends. The
version is that on which the write is based, since a newer one may be observed before the write ends. A creation may
fail because its kind is not installed. Such pauses end once the kind is served.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.controller.types import ObjectKey, Write

PAUSE = 60.0
"""Seconds before a write that the server rejected is tried again, unless the object changes earlier."""


class WriteGate:
    """Pending writes and paused objects."""

    def __init__(self) -> None:
        self._in_flight: dict[ObjectKey, int] = {}
        """Version of the object on which its pending write is based."""
        self._paused: dict[ObjectKey, tuple[int, float]] = {}
        """Version of the object when its write failed, and the end of its pause."""

    def __len__(self) -> int:
        """Return the number of pending writes."""
        return len(self._in_flight)

    def is_in_flight(self, key: ObjectKey) -> bool:
        """Return whether a write of an object is pending."""
        return key in self._in_flight

    @property
    def pause_ends_at(self) -> float:
        """Return when the next pause ends; infinite: there is none."""
        return min((until for _, until in self._paused.values()), default=inf)

    def claim(self, write: Write, version: int, now: float) -> bool:
        """Record that a write is pending. Return False if its object must be observed first.

        `version`: of the observed object; 0: there is none.
        """
        if write.key in self._in_flight:
            return False
        paused_version, until = self._paused.get(write.key, (-1, 0.0))
        if now < until and version == paused_version:
            return False
        self._paused.pop(write.key, None)
        self._in_flight[write.key] = version
        return True

    def claim_all(self, writes: list[Write]) -> None:
        """Record pending writes that need no pause, because their author handles failures."""
        self._in_flight.update((write.key, 0) for write in writes)

    def end(self, write: Write) -> int:
        """Record that a write has ended. Return the version on which it was based, as in claim()."""
        return self._in_flight.pop(write.key, 0)

    def pause(self, write: Write, version: int, now: float) -> None:
        """Pause the object of a failed write; `version`: as in claim()."""
        self._paused[write.key] = (version, now + PAUSE)

    def end_pauses(self, now: float) -> list[ObjectKey]:
        """End the pauses that have expired, and return their objects."""
        return self._end([key for key, (_, until) in self._paused.items() if until <= now])

    def end_pauses_of(self, resource: Resource) -> list[ObjectKey]:
        """End the pauses of a kind that is now served, and return its objects."""
        return self._end([key for key in self._paused if key.resource == resource])

    def end_all_pauses(self) -> None:
        """End all pauses: the writes may have failed only because another replica led."""
        self._paused.clear()

    def _end(self, keys: list[ObjectKey]) -> list[ObjectKey]:
        for key in keys:
            del self._paused[key]
        return keys
