"""Objects in memory, with versions like etcd's, and the recent history for watches.

As in a single etcd, one counter serves all resources: versions of different resources are comparable. A stored object
is immutable: a write stores a new one. Readers can therefore share objects without copies, and an object's JSON is
encoded only once.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_sandbox.apiserver.json_values import Object

Resource = tuple[str, str]
"""Group and plural."""
Key = tuple[str, str]
"""Namespace ("" for cluster-wide objects) and name."""

HISTORY = 20_000
"""Default number of events in the history. kube-apiserver keeps those of 75 s, 100 to 102,400 per resource
(watch_cache.go)."""


class Record:
    """A stored object and, after its first use, its JSON."""

    __slots__ = ("_encoded", "object", "version")

    def __init__(self, version: int, obj: Object) -> None:
        """Create a record of the object, which is immutable from now on."""
        self.version = version
        self.object = obj
        self._encoded: bytes | None = None

    @property
    def encoded(self) -> bytes:
        """Return the object as JSON."""
        if self._encoded is None:
            self._encoded = msgspec.json.encode(self.object)
        return self._encoded


class Event(NamedTuple):
    """One change."""

    version: int
    type: str
    """ADDED, MODIFIED or DELETED."""
    resource: Resource
    key: Key
    record: Record
    """The new state; for a deletion, the last state with the version of the deletion."""
    previous: Record | None


Subscription = SimpleQueue[Event | None]
"""Events in order, then None at the end."""


class TooOld(Exception):
    """The history does not contain the events since a version."""

    def __init__(self, version: int, oldest: int) -> None:
        """Create the error from the requested version, and the oldest version from which a watch can start."""
        super().__init__(f"too old resource version: {version} ({oldest})")


class Store:
    """All objects. Every method acquires the lock; hold it around a read on which a write depends."""

    def __init__(self, history: int = HISTORY, clock: Callable[[], float] = time.time) -> None:
        """Create an empty store with a history of `history` events; `clock` returns seconds since 1970."""
        self._clock = clock
        self.lock = threading.RLock()
        self.version = 1
        self._objects: dict[Resource, dict[Key, Record]] = {}
        self._sorted: dict[Resource, list[Key]] = {}
        self._events: deque[Event] = deque(maxlen=history)
        self._forgotten = 1
        self._subscriptions: dict[Resource, set[Subscription]] = {}

    def now(self) -> float:
        """Return the server's time in seconds since 1970."""
        return self._clock()

    def timestamp(self, after: float = 0) -> str:
        """Return the time `after` seconds from now in the notation of metav1.Time."""
        return datetime.fromtimestamp(self._clock() + after, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def get(self, resource: Resource, key: Key) -> Record | None:
        """Return an object, or None."""
        with self.lock:
            return self._objects.get(resource, {}).get(key)

    def list(self, resource: Resource, namespace: str = "") -> tuple[list[Record], int]:
        """Return the objects of a resource in one namespace or all, sorted by namespace and name, and the version."""
        with self.lock:
            objects = self._objects.get(resource, {})
            keys = self._sorted.get(resource)
            if keys is None:
                keys = self._sorted[resource] = sorted(objects)
            return [objects[key] for key in keys if not namespace or key[0] == namespace], self.version

    def everything(self) -> list[tuple[Resource, Key, Record]]:
        """Return all objects of all resources."""
        with self.lock:
            by_resource = [(resource, list(objects.items())) for resource, objects in self._objects.items()]
            return [(resource, key, record) for resource, items in by_resource for key, record in items]

    def put(self, resource: Resource, key: Key, obj: Object) -> Record:
        """Store an object under the next version. Its metadata must not be shared: the version is set there."""
        with self.lock:
            objects = self._objects.setdefault(resource, {})
            previous = objects.get(key)
            record = self._next(obj)
            objects[key] = record
            if previous is None:
                self._sorted.pop(resource, None)
            self._publish(Event(record.version, "MODIFIED" if previous else "ADDED", resource, key, record, previous))
            return record

    def remove(self, resource: Resource, key: Key, last: Object) -> Record:
        """Remove an object; watches receive its last state. Its metadata must not be shared."""
        with self.lock:
            previous = self._objects[resource].pop(key)
            self._sorted.pop(resource, None)
            record = self._next(last)
            self._publish(Event(record.version, "DELETED", resource, key, record, previous))
            return record

    def subscribe(self, resource: Resource, since: int | None) -> tuple[list[Event], int, Subscription]:
        """Return the events after a version (None: all objects as ADDED), the current version, and a subscription.

        Raises TooOld.
        """
        with self.lock:
            if since is None:
                backlog = [self._as_added(resource, record) for record in self.list(resource)[0]]
            elif since < self._forgotten:
                raise TooOld(since, self._forgotten)
            else:
                backlog = self._since(resource, since)
            queue: Subscription = SimpleQueue()
            self._subscriptions.setdefault(resource, set()).add(queue)
            return backlog, self.version, queue

    def unsubscribe(self, resource: Resource, queue: Subscription) -> None:
        """End a subscription."""
        with self.lock:
            self._subscriptions.get(resource, set()).discard(queue)

    def end_subscriptions(self) -> None:
        """End every subscription."""
        with self.lock:
            for queues in self._subscriptions.values():
                for queue in queues:
                    queue.put(None)

    def forget(self) -> None:
        """Drop the history, as etcd's compaction does: watches can then start only from the current version."""
        with self.lock:
            self._events.clear()
            self._forgotten = self.version

    def _since(self, resource: Resource, since: int) -> list[Event]:
        events: list[Event] = []
        for event in reversed(self._events):
            if event.version <= since:
                break
            if event.resource == resource:
                events.append(event)
        return events[::-1]

    def _next(self, obj: Object) -> Record:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        return Record(self.version, obj)

    def _publish(self, event: Event) -> None:
        if len(self._events) == self._events.maxlen:
            self._forgotten = self._events[0].version
        self._events.append(event)
        for queue in self._subscriptions.get(event.resource, ()):
            queue.put(event)

    @staticmethod
    def _as_added(resource: Resource, record: Record) -> Event:
        metadata = record.object["metadata"]
        return Event(record.version, "ADDED", resource, (metadata.get("namespace", ""), metadata["name"]), record, None)
