"""The connections of one HTTP server: which are silent, and in which order they are closed.

A connection is active while its request waits for the response; otherwise it is silent. Only silent ones are closed in
favour of new ones: first those of strangers, which have completed no request, then established ones. In both groups,
the one that has been silent longest is closed first. Sending does not change a stranger's position: a client that sends
one byte at a time counts as silent.

No operation iterates over all connections, so their number delays no request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.service.deadlines import Deadlines

if TYPE_CHECKING:
    from zonewise_common.service.connection import Connection

LARGE = 64 << 10
"""Size in bytes from which a connection is closed if all connections together exceed their budget."""


class ConnectionTable:
    """Connections by file descriptor."""

    def __init__(self, limit: int) -> None:
        """Create a table of at most `limit` connections."""
        self._limit = limit
        self._strangers: dict[int, Connection] = {}  # in the order in which they became silent, as _established is
        self._established: dict[int, Connection] = {}
        self._active: dict[int, Connection] = {}
        self._deadlines = Deadlines()
        self._sizes: dict[int, int] = {}
        self._size = 0
        self._large: dict[int, Connection] = {}

    def __len__(self) -> int:
        return len(self._sizes)

    @property
    def full(self) -> bool:
        """Return whether a new connection requires another one to be closed."""
        return len(self) >= self._limit

    def silent(self, fd: int) -> Connection | None:
        """Return a silent connection; None for an active or an unknown one."""
        return self._strangers.get(fd) or self._established.get(fd)

    def release(self, connection: Connection) -> None:
        """Record a new connection, or one whose response is sent, as the one that became silent last.

        A connection that is already silent keeps its position; its size and deadline are updated.
        """
        group = self._established if connection.established else self._strangers
        if group.get(connection.fd) is not connection:
            self.remove(connection)
            group[connection.fd] = connection
        self._deadlines.set(connection)
        if self._measure(connection) >= LARGE:
            self._large[connection.fd] = connection
        else:
            self._large.pop(connection.fd, None)

    def activate(self, connection: Connection) -> None:
        """Mark a connection as active, which protects it while its request waits for the response."""
        self.remove(connection)
        self._active[connection.fd] = connection
        self._measure(connection)

    def remove(self, connection: Connection) -> None:
        """Forget a connection."""
        for group in (self._strangers, self._established, self._active):
            if group.get(connection.fd) is connection:
                del group[connection.fd]
                self._deadlines.discard(connection)
                self._size -= self._sizes.pop(connection.fd)
                self._large.pop(connection.fd, None)

    def longest_silent(self) -> Connection | None:
        """Return the connection to close in favour of a new one, or None if all are active."""
        return next(iter(self._strangers.values()), None) or next(iter(self._established.values()), None)

    def take_expired(self, now: float, most: int) -> list[Connection]:
        """Remove and return up to `most` silent connections whose deadline has passed."""
        expired = self._deadlines.take_passed(now, most)
        for connection in expired:
            self.remove(connection)
        return expired

    def over_budget(self, budget: int) -> list[Connection]:
        """Return silent connections to close, so that all together have at most `budget` bytes in memory.

        They are large ones, those of strangers first. The last one is not closed: a single response may be larger than
        the budget.
        """
        excess = self._size - budget
        if excess <= 0:
            return []
        victims: list[Connection] = []
        for connection in sorted(self._large.values(), key=lambda one: one.established)[:-1]:
            if excess <= 0:
                break
            victims.append(connection)
            excess -= self._sizes[connection.fd]
        return victims

    def all(self) -> list[Connection]:
        """Return every connection."""
        return [*self._strangers.values(), *self._established.values(), *self._active.values()]

    def _measure(self, connection: Connection) -> int:
        size = connection.size
        self._size += size - self._sizes.get(connection.fd, 0)
        self._sizes[connection.fd] = size
        return size
