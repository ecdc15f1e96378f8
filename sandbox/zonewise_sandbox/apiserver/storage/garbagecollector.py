"""The dependents of objects through ownerReferences, which the garbage collector deletes.

A dependent is deleted with its last owner (pkg/controller/garbagecollector). A dependent that gets a deleted owner is
deleted as well: a controller may not know yet that the owner was deleted (graph_builder.go absentOwnerCache).
Dependents of owners that never existed remain: tests use such objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_sandbox.apiserver.json_values import list_in

if TYPE_CHECKING:
    from zonewise_sandbox.apiserver.json_values import Object
    from zonewise_sandbox.apiserver.storage.store import Key, Resource


_MAX_REMOVED = 100_000
"""Maximum UIDs of removed objects that are remembered, the most recent ones."""


class Dependents:
    """An index of dependents by the UIDs of their owners. Use it under the store's lock."""

    def __init__(self) -> None:
        """Create an empty index."""
        self._by_owner: dict[str, set[tuple[Resource, Key]]] = {}
        self._removed: dict[str, None] = {}
        """UIDs of removed objects, in order of removal."""

    def record(self, resource: Resource, key: Key, before: Object | None, after: Object | None) -> None:
        """Record a write by an object's state before and after; None if it does not exist."""
        old, new = _owners(before), _owners(after)
        for uid in old - new:
            entries = self._by_owner.get(uid, set())
            entries.discard((resource, key))
            if not entries:
                self._by_owner.pop(uid, None)
        for uid in new - old:
            self._by_owner.setdefault(uid, set()).add((resource, key))
        if before is not None and after is None:
            self._removed[before["metadata"]["uid"]] = None
            if len(self._removed) > _MAX_REMOVED:
                del self._removed[next(iter(self._removed))]

    def removed_owners(self, obj: Object) -> list[str]:
        """Return the UIDs of an object's owners that have been removed."""
        return sorted(uid for uid in _owners(obj) if uid in self._removed)

    def dependents(self, uid: str) -> list[tuple[Resource, Key]]:
        """Return the dependents of an owner."""
        return sorted(self._by_owner.get(uid, ()))


def without_owner(obj: Object, uid: str) -> Object:
    """Return an object without one of its owners."""
    metadata = dict(obj["metadata"])
    owners = [owner for owner in list_in(metadata, "ownerReferences") if owner["uid"] != uid]
    if owners:
        metadata["ownerReferences"] = owners
    else:
        metadata.pop("ownerReferences", None)
    return {**obj, "metadata": metadata}


def blocks_owner(obj: Object, uid: str) -> bool:
    """Return whether an owner in foreground deletion waits for this dependent (blockOwnerDeletion)."""
    owners = list_in(obj["metadata"], "ownerReferences")
    return any(owner["uid"] == uid and owner.get("blockOwnerDeletion") for owner in owners)


def _owners(obj: Object | None) -> set[str]:
    if obj is None:
        return set()
    return {owner["uid"] for owner in list_in(obj["metadata"], "ownerReferences")}
