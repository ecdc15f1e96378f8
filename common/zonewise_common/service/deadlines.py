"""A timer wheel: it sets and moves a deadline in constant time, and returns expired deadlines in small batches.

Source: Varghese and Lauck, "Hashed and hierarchical timing wheels" (SOSP 1987), scheme 6, with a heap of the slots.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zonewise_common.service.connection import Connection

SLOT = 0.25
"""Seconds of one slot: a deadline expires at the end of its slot."""


class Deadlines:
    """The deadlines of connections; each expires at most SLOT late."""

    def __init__(self) -> None:
        self._slots: dict[int, dict[int, Connection]] = {}  # by the end of the slot, then by file descriptor
        self._ends: list[int] = []  # a heap of the keys of _slots
        self._slot_of: dict[int, int] = {}

    def set(self, connection: Connection) -> None:
        """Set a connection's deadline, in place of its previous one."""
        end = int(connection.deadline / SLOT) + 1
        if self._slot_of.get(connection.fd) == end:
            return
        self.discard(connection)
        if end not in self._slots:
            self._slots[end] = {}
            heapq.heappush(self._ends, end)
        self._slots[end][connection.fd] = connection
        self._slot_of[connection.fd] = end

    def discard(self, connection: Connection) -> None:
        """Forget a connection, if it has a deadline."""
        end = self._slot_of.pop(connection.fd, None)
        if end is not None:
            del self._slots[end][connection.fd]

    def take_passed(self, now: float, most: int) -> list[Connection]:
        """Remove and return up to `most` connections whose deadline has passed, starting with the oldest slot."""
        passed: list[Connection] = []
        while len(passed) < most and self._ends and self._ends[0] * SLOT <= now:
            slot = self._slots[self._ends[0]]
            if slot:
                passed.append(next(iter(slot.values())))
                self.discard(passed[-1])
            else:
                del self._slots[heapq.heappop(self._ends)]
        return passed
