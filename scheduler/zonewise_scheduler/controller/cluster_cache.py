"""The newest known state of each object on which the live queue bases decisions.

An object comes from a watch, or from the response to a write, which often arrives earlier. So the cache only moves
forward: an object from a watch is skipped if it is older than the result of a write. Such an object counts again once
the watch has caught up. It also counts after a while, since an etcd that was restored from a backup has lower versions.

The watch later shows the result of each write again. Like any state that is already known, this counts as no change.

A watch may show an object and its deletion before the response to the write that created it. So the UIDs of removed
objects are remembered for a while, and a response with one of these UIDs is skipped.

A watch that was interrupted lists all objects again. If a write created an object that was deleted meanwhile, no
listing contains it and no watch shows its deletion. It counts as deleted after the first listing that is as new as the
write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.kube.resources import LEADER_WORKER_SETS, STATEFUL_SETS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.controller.types import Json, ObjectKey

_SETS = frozenset({LEADER_WORKER_SETS.kind, STATEFUL_SETS.kind})
CATCH_UP = 30.0
"""Maximum seconds between a write's response and its result in the watch. If the watch has not shown the result by
then, the watch is believed anyway."""


class ObjectCache:
    """Objects by key."""

    def __init__(self) -> None:
        self._objects: dict[ObjectKey, Json] = {}
        self._written: dict[ObjectKey, tuple[int, float]] = {}
        """Version and time of each result of a write that the watch has not shown yet."""
        self._removed: dict[str, float] = {}
        """UIDs of removed objects with the time of their removal, oldest first. They are kept for CATCH_UP."""
        self._listed: dict[Resource, int] = {}
        """Resource version of the newest complete listing of each kind."""

    def get(self, key: ObjectKey) -> Json | None:
        """Return an object; None if it does not exist."""
        return self._objects.get(key)

    def observe(self, key: ObjectKey, obj: Json | None, now: float) -> bool:
        """Record an object from a watch; None: it was deleted. Return False if this or a later state is known."""
        version, at = self._written.get(key, (0, now))
        if obj is not None and object_version(obj) < version and now < at + CATCH_UP:
            return False
        self._written.pop(key, None)
        if obj is None and (known := self._objects.get(key)) is not None:
            self._note_removed(uid_of(known), now)
        return self._set(key, obj)

    def written(self, key: ObjectKey, obj: Json, now: float) -> bool:
        """Record the object that a write returned. Return False if it, a later state or its deletion is known."""
        known = self._objects.get(key)
        is_listed = object_version(obj) <= self._listed.get(key.resource, 0)
        if uid_of(obj) in self._removed or (known is None and is_listed):
            return False
        if known is not None and uid_of(known) == uid_of(obj) and object_version(known) >= object_version(obj):
            return False
        if not self._set(key, obj):
            return False
        self._written[key] = (object_version(obj), now)
        return True

    def has_listed(self, resource: Resource) -> bool:
        """Return whether a kind was ever listed completely, which means that it was served then."""
        return resource in self._listed

    def unlisted(self, resource: Resource, version: int) -> list[ObjectKey]:
        """Return the objects that a complete listing of this version lacks, although an earlier write returned them."""
        self._listed[resource] = version
        return [key for key, (own, _) in self._written.items() if key.resource == resource and own <= version]

    def _note_removed(self, uid: str, now: float) -> None:
        """Remember the UID of a removed object, and forget UIDs that were removed long ago."""
        self._removed[uid] = now
        while self._removed and self._removed[oldest := next(iter(self._removed))] + CATCH_UP < now:
            del self._removed[oldest]

    def _set(self, key: ObjectKey, obj: Json | None) -> bool:
        """Replace an object, and return whether this changes it."""
        if obj is None:
            return self._objects.pop(key, None) is not None
        is_new = self._objects.get(key) != obj
        self._objects[key] = obj
        return is_new


class WorkloadIndex:
    """Workloads by their key (namespace/name), and by the UID of the job that owns them."""

    def __init__(self) -> None:
        self.by_key: dict[str, Json] = {}
        self._keys_by_owner: dict[str, set[str]] = {}

    def set(self, key: str, workload: Json | None) -> None:
        """Replace a Workload; None: it was deleted."""
        old = self.by_key.pop(key, None)
        if old is not None:
            owner = workload_owner_uid(old)
            self._keys_by_owner.get(owner, set()).discard(key)
            if not self._keys_by_owner.get(owner):
                self._keys_by_owner.pop(owner, None)
        if workload is not None:
            self.by_key[key] = workload
            if owner := workload_owner_uid(workload):
                self._keys_by_owner.setdefault(owner, set()).add(key)

    def owned_by(self, uid: str) -> Mapping[str, Json]:
        """Return the Workloads of a job by key, sorted by key."""
        return {key: self.by_key[key] for key in sorted(self._keys_by_owner.get(uid, ()))}


def uid_of(obj: Json) -> str:
    """Return the UID of an object."""
    return obj["metadata"].get("uid", "")


def observed_labels(obj: Json) -> Json:
    """Return the labels of an object."""
    return obj["metadata"].get("labels") or {}


def object_version(obj: Json) -> int:
    """Return the resource version of an object as a number; 0 if it is not a number."""
    text: str = obj["metadata"].get("resourceVersion", "")
    return int(text) if text.isdecimal() else 0


def owner_uid(obj: Json) -> str:
    """Return the UID of the controller that owns an object; "": none."""
    references: list[Json] = obj["metadata"].get("ownerReferences") or []
    return next((str(entry.get("uid", "")) for entry in references if entry.get("controller")), "")


def workload_owner_uid(workload: Json) -> str:
    """Return the UID of the job that owns a Workload; "": none. Kueue lists sets as plain owners."""
    references: list[Json] = workload["metadata"].get("ownerReferences") or []
    sets = (str(entry.get("uid", "")) for entry in references if entry.get("kind") in _SETS)
    return owner_uid(workload) or next(sets, "")


def drop_managed_fields(obj: Json) -> Json:
    """Remove the managed fields of an object. Nothing reads them here, and they take up half of many objects."""
    obj.get("metadata", {}).pop("managedFields", None)
    return obj
