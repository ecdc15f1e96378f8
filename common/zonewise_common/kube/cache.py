"""The objects of a watch: a cache that only moves forward. It does no I/O.

Resource versions are compared as numbers. Kubernetes guarantees their order since 1.35 (KEP-5504); earlier releases
kept the order as well. The events of one watch are ordered, so one number separates known events from new ones.

A restore of etcd from a backup breaks the order: versions go back, and one version may name two states of an object.
Listings are therefore compared by value as well, and `force` accepts an older one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")


class StaleListing(Exception):
    """The listing is older than the cache; the cache is unchanged."""


class ReceivedObject(NamedTuple, Generic[T]):
    """An object from a listing or an event."""

    key: tuple[str, str]
    """Namespace (empty for a cluster-wide object) and name."""
    uid: str
    version: int
    value: T | None
    """None if the object could not be decoded: the cache keeps its last known value."""


class Change(NamedTuple, Generic[T]):
    """The change of an object: `old` is None if it was added, `new` is None if it was removed."""

    old: T | None
    new: T | None


class _CachedObject(NamedTuple, Generic[T]):
    uid: str
    version: int
    value: T


class Cache(Generic[T]):
    """Objects by namespace and name, at one resource version."""

    def __init__(self) -> None:
        self.version = 0
        """The cache includes every event up to this resource version; 0 before the first listing."""
        self._cached: dict[tuple[str, str], _CachedObject[T]] = {}

    def copy(self) -> Cache[T]:
        """Return an independent cache with the same objects."""
        copied: Cache[T] = Cache()
        copied.version, copied._cached = self.version, dict(self._cached)
        return copied

    def get(self, key: tuple[str, str]) -> T | None:
        """Return an object, or None if there is none."""
        cached = self._cached.get(key)
        return cached.value if cached else None

    def values(self) -> list[T]:
        """Return all objects."""
        return [cached.value for cached in self._cached.values()]

    def put(self, item: ReceivedObject[T]) -> Change[T] | None:
        """Store an added or changed object; return None for an old event or an object without a value."""
        if item.version <= self.version:
            return None
        self.version = item.version
        return self._set(item)

    def remove(self, item: ReceivedObject[T]) -> Change[T] | None:
        """Remove an object; return None for an old event or an unknown object."""
        if item.version <= self.version:
            return None
        self.version = item.version
        cached = self._cached.pop(item.key, None)
        return Change(cached.value, None) if cached else None

    def advance(self, version: int) -> None:
        """Record a bookmark: there are no further events up to this version."""
        self.version = max(self.version, version)

    def replace(self, listed: Iterable[ReceivedObject[T]], version: int, *, force: bool = False) -> list[Change[T]]:
        """Store a complete listing and return its changes.

        Raises StaleListing if it is older than the cache, unless `force` is true.
        """
        if version < self.version and not force:
            raise StaleListing(f"resource version {version} is from before {self.version}")
        self.version = version
        items = {item.key: item for item in listed}
        removed = [key for key, cached in self._cached.items() if key not in items or items[key].uid != cached.uid]
        changes: list[Change[T]] = [Change(self._cached.pop(key).value, None) for key in removed]
        for item in items.values():
            cached = self._cached.get(item.key)
            if cached is None or cached.version != item.version or cached.value != item.value:
                change = self._set(item)
                changes += [change] if change else []
        return changes

    def _set(self, item: ReceivedObject[T]) -> Change[T] | None:
        if item.value is None:
            return None
        cached = self._cached.get(item.key)
        self._cached[item.key] = _CachedObject(item.uid, item.version, item.value)
        return Change(cached.value if cached else None, item.value)
