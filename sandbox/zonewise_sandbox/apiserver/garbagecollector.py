"""Who depends on whom, by ownerReferences: what the garbage collector of a cluster's controllers would delete.

A dependent goes when its last owner is gone (pkg/controller/garbagecollector). Dependents of owners that never were
stay, since nothing deletes their owner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_sandbox.apiserver.json_values import list_in

if TYPE_CHECKING:
    from zonewise_sandbox.apiserver.json_values import Object
    from zonewise_sandbox.apiserver.store import Key, Resource


class Dependents:
    """An index of dependents by the UIDs of their owners. Used under the store's lock."""

    def __init__(self) -> None:
        """Start without any."""
        self._by_owner: dict[str, set[tuple[Resource, Key]]] = {}

    def record(self, resource: Resource, key: Key, before: Object | None, after: Object | None) -> None:
        """Take note of a write: an object's state before and after, None where it was or is not there."""
        old, new = _owners(before), _owners(after)
        for uid in old - new:
            places = self._by_owner.get(uid, set())
            places.discard((resource, key))
            if not places:
                self._by_owner.pop(uid, None)
        for uid in new - old:
            self._by_owner.setdefault(uid, set()).add((resource, key))

    def dependents(self, uid: str) -> list[tuple[Resource, Key]]:
        """Return who names an owner."""
        return sorted(self._by_owner.get(uid, ()))


def without_owner(obj: Object, uid: str) -> Object:
    """Return an object without one of its owners."""
    metadata = dict(obj["metadata"])
    left = [owner for owner in list_in(metadata, "ownerReferences") if owner["uid"] != uid]
    if left:
        metadata["ownerReferences"] = left
    else:
        metadata.pop("ownerReferences", None)
    return {**obj, "metadata": metadata}


def _owners(obj: Object | None) -> set[str]:
    if obj is None:
        return set()
    return {owner["uid"] for owner in list_in(obj["metadata"], "ownerReferences")}
