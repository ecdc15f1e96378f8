"""What a watch has told, by object: a cache that only moves forward. Pure but for the state it holds.

Resource versions are compared as numbers, which Kubernetes guarantees since 1.35 (KEP-5504) and did before. All
events of one watch come in their order, so that one number says which of them are known already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")


class StaleListing(Exception):
    """A listing from before what is known already; nothing has been taken from it."""


class ReceivedObject(NamedTuple, Generic[T]):
    """An object as it came."""

    key: tuple[str, str]
    """Namespace (empty for a cluster's own) and name."""
    uid: str
    version: int
    value: T | None
    """None where the object could not be understood: what was known of it before stands."""


class Change(NamedTuple, Generic[T]):
    """What became of an object: `old` is None where it is new, `new` where it is gone."""

    old: T | None
    new: T | None


class _Held(NamedTuple, Generic[T]):
    uid: str
    version: int
    value: T


class Cache(Generic[T]):
    """Objects by namespace and name, as of one resource version."""

    def __init__(self) -> None:
        self.version = 0
        """Everything up to this resource version is known; 0 before the first listing."""
        self._held: dict[tuple[str, str], _Held[T]] = {}

    def get(self, key: tuple[str, str]) -> T | None:
        """Return an object; None where there is none."""
        held = self._held.get(key)
        return held.value if held else None

    def values(self) -> list[T]:
        """Return all objects."""
        return [held.value for held in self._held.values()]

    def put(self, item: ReceivedObject[T]) -> Change[T] | None:
        """Take an object that was added or changed; None where that is old, or changes nothing that we understand."""
        if item.version <= self.version:
            return None
        self.version = item.version
        return self._set(item)

    def remove(self, item: ReceivedObject[T]) -> Change[T] | None:
        """Take that an object is gone."""
        if item.version <= self.version:
            return None
        self.version = item.version
        held = self._held.pop(item.key, None)
        return Change(held.value, None) if held else None

    def advance(self, version: int) -> None:
        """Take a bookmark: up to here nothing else happened."""
        self.version = max(self.version, version)

    def replace(self, listed: Iterable[ReceivedObject[T]], version: int, *, force: bool = False) -> list[Change[T]]:
        """Take a complete listing, and return how it differs from what was known.

        Raises Older where it is from before what is known; with `anew` it counts all the same.
        """
        if version < self.version and not force:
            raise StaleListing(f"resource version {version} is from before {self.version}")
        self.version = version
        found = {one.key: one for one in listed}
        gone = [key for key, held in self._held.items() if key not in found or found[key].uid != held.uid]
        changes: list[Change[T]] = [Change(self._held.pop(key).value, None) for key in gone]
        for one in found.values():
            held = self._held.get(one.key)
            if held is None or held.version != one.version:
                change = self._set(one)
                changes += [change] if change else []
        return changes

    def _set(self, found: ReceivedObject[T]) -> Change[T] | None:
        if found.value is None:
            return None
        held = self._held.get(found.key)
        self._held[found.key] = _Held(found.uid, found.version, found.value)
        return Change(held.value if held else None, found.value)
