"""Writes to the store with their consequences: it deletes dependents, empties namespaces and serves definitions.

Every cluster runs these controllers: the garbage collector, the namespace controller, and those of
CustomResourceDefinitions. Here they act at the moment of the write, not some time later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_sandbox.apiserver import pod_strategy, strategies
from zonewise_sandbox.apiserver.json_values import list_in, object_in
from zonewise_sandbox.apiserver.kinds import DEFINITION, NAMESPACE, POD
from zonewise_sandbox.apiserver.request_info import DeleteOptions, Target
from zonewise_sandbox.apiserver.schemas.crds import served_kinds
from zonewise_sandbox.apiserver.schemas.validation import check_preconditions
from zonewise_sandbox.apiserver.status_errors import not_found
from zonewise_sandbox.apiserver.storage.garbagecollector import Dependents, blocks_owner, without_owner

if TYPE_CHECKING:
    from zonewise_sandbox.apiserver.json_values import Object
    from zonewise_sandbox.apiserver.kinds import Kind, Registry
    from zonewise_sandbox.apiserver.storage.store import Key, Record, Resource, Store

_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_FOREGROUND = "foregroundDeletion"
_COLLECTED = DeleteOptions(propagation="Background")
_AT_ONCE = _COLLECTED._replace(grace_period_seconds=0)


class CascadingStore:
    """Writes to the store. Every method is called under the store's lock."""

    def __init__(self, store: Store, registry: Registry) -> None:
        """Create a writer of the registry's kinds to a store."""
        self._store = store
        self._registry = registry
        self._dependents = Dependents()
        self._foreground: dict[str, tuple[Kind, Key]] = {}
        """Owners that are deleted after their dependents, by UID."""

    def get(self, target: Target) -> Record:
        """Return an object. Raises StatusError (404)."""
        record = self._store.get(target.kind.resource, target.key)
        if record is None:
            raise not_found(target.kind, target.name)
        return record

    def write(self, kind: Kind, key: Key, obj: Object) -> Object:
        """Store an object and return it. Its metadata must not be shared: the store sets the version there."""
        previous = self._store.get(kind.resource, key)
        self._store.put(kind.resource, key, obj)
        self._dependents.record(kind.resource, key, previous.object if previous else None, obj)
        if kind.resource == DEFINITION.resource:
            self._registry.replace(_defined(obj), served_kinds(obj))
        for uid in self._dependents.removed_owners(obj):
            self._lose_owner(kind.resource, key, uid, orphan=False)
        return obj

    def delete(self, target: Target, deletion: DeleteOptions) -> Object | None:
        """Delete an object; return it if its kind returns deleted objects or it has finalizers, otherwise None.

        Raises StatusError.
        """
        kind, key = target.kind, target.key
        old = self.get(target).object
        check_preconditions(kind, old, deletion)
        seconds = (
            pod_strategy.grace_period_seconds(old, deletion.grace_period_seconds)
            if kind.resource == POD.resource
            else 0
        )
        if deletion.dry_run:
            return old if kind.resource == POD.resource else None
        propagation = deletion.propagation or strategies.default_propagation(kind)
        if propagation == "Orphan":
            self._release_dependents(old["metadata"]["uid"], orphan=True)
        elif propagation == "Foreground" and self._is_blocked(old["metadata"]["uid"]):
            return self._delete_in_foreground(kind, key, old, seconds)
        if old["metadata"].get("finalizers") or seconds:
            return self._mark(kind, key, old, seconds)
        if kind.resource == NAMESPACE.resource:
            return self._delete_namespace(key, old)
        if kind.resource == DEFINITION.resource:
            return self._delete_definition(key, old)
        last = {**old, "metadata": dict(old["metadata"])}
        if kind.resource == POD.resource:
            last["metadata"] |= {"deletionTimestamp": self._store.timestamp(), "deletionGracePeriodSeconds": 0}
        self.remove(kind, key, last)
        return last if kind.resource == POD.resource else None

    def remove(self, kind: Kind, key: Key, last: Object) -> None:
        """Remove an object with its last state, and delete its dependents."""
        self._store.remove(kind.resource, key, last)
        self._dependents.record(kind.resource, key, last, None)
        self._release_dependents(last["metadata"]["uid"], orphan=False)
        for owner in list_in(last["metadata"], "ownerReferences"):
            self._release_owner(owner["uid"])
        if key[0]:
            self._release_namespace(key[0])

    def _release_dependents(self, uid: str, *, orphan: bool) -> None:
        for resource, dependent in self._dependents.dependents(uid):
            self._lose_owner(resource, dependent, uid, orphan=orphan)

    def _is_blocked(self, uid: str) -> bool:
        """Return whether an owner has a dependent that blocks its deletion."""
        records = (self._store.get(resource, key) for resource, key in self._dependents.dependents(uid))
        return any(record is not None and blocks_owner(record.object, uid) for record in records)

    def _delete_in_foreground(self, kind: Kind, key: Key, old: Object, seconds: int) -> Object:
        """Delete the dependents of an object; remove the object after those that block its deletion."""
        uid, finalizers = old["metadata"]["uid"], list_in(old["metadata"], "finalizers")
        if _FOREGROUND not in finalizers:
            old = {**old, "metadata": {**old["metadata"], "finalizers": [*finalizers, _FOREGROUND]}}
        marked = self._mark(kind, key, old, seconds)
        self._foreground[uid] = kind, key
        self._release_dependents(uid, orphan=False)
        self._release_owner(uid)
        return marked

    def _release_owner(self, uid: str) -> None:
        """Remove the finalizer of an owner in foreground deletion, once no dependent blocks it."""
        if uid not in self._foreground or self._is_blocked(uid):
            return
        kind, key = self._foreground.pop(uid)
        record = self._store.get(kind.resource, key)
        if record is None or record.object["metadata"]["uid"] != uid:
            return
        obj = record.object
        finalizers = [name for name in list_in(obj["metadata"], "finalizers") if name != _FOREGROUND]
        released = {**obj, "metadata": {**obj["metadata"], "finalizers": finalizers}}
        if is_removable(released):
            del released["metadata"]["finalizers"]
            self.remove(kind, key, released)
        else:
            self.write(kind, key, released)

    def _mark(self, kind: Kind, key: Key, old: Object, seconds: int) -> Object:
        """Mark an object as deleted. It is removed when its last finalizer is removed, or by its kubelet."""
        before = old["metadata"]
        if "deletionTimestamp" in before and before.get("deletionGracePeriodSeconds", 0) <= seconds:
            return old
        changes: Object = {"deletionTimestamp": self._store.timestamp(seconds), "deletionGracePeriodSeconds": seconds}
        if "generation" in before and "deletionTimestamp" not in before:
            changes["generation"] = before["generation"] + 1
        return self.write(kind, key, {**old, "metadata": {**before, **changes}})

    def _delete_namespace(self, key: Key, old: Object) -> Object:
        """Delete all objects in a namespace, then the namespace."""
        last = {**old, "metadata": {**old["metadata"], "deletionTimestamp": self._store.timestamp()}}
        last["status"] = {**object_in(old, "status"), "phase": "Terminating"}
        self.write(NAMESPACE, key, last)
        for resource, contained, _ in self._store.everything():
            if contained[0] == key[1]:
                self._delete_at_once(resource, contained)
        self._release_namespace(key[1])
        return last

    def _release_namespace(self, name: str) -> None:
        """Remove a namespace that is being deleted, once it is empty."""
        record = self._store.get(NAMESPACE.resource, ("", name))
        if record is None or "deletionTimestamp" not in record.object["metadata"]:
            return
        if not any(key[0] == name for _, key, _ in self._store.everything()):
            obj = record.object
            self._store.remove(NAMESPACE.resource, ("", name), {**obj, "metadata": dict(obj["metadata"])})

    def _delete_definition(self, key: Key, old: Object) -> Object:
        """Delete a definition and all objects of its kind."""
        metadata = {**old["metadata"], "deletionTimestamp": self._store.timestamp(), "finalizers": [_CLEANUP]}
        terminating = self.write(DEFINITION, key, {**old, "metadata": metadata})
        resource = _defined(old)
        for record in self._store.list(resource)[0]:
            child = record.object["metadata"]
            self._delete_at_once(resource, (child.get("namespace", ""), child["name"]))
        self._registry.replace(resource, ())
        last = {name: value for name, value in metadata.items() if name != "finalizers"}
        self.remove(DEFINITION, key, {**old, "metadata": last})
        return terminating

    def _lose_owner(self, resource: Resource, key: Key, uid: str, *, orphan: bool) -> None:
        record = self._store.get(resource, key)
        kind = self._registry.find_resource(resource)
        if record is None or kind is None:
            return
        remaining = without_owner(record.object, uid)
        if orphan or remaining["metadata"].get("ownerReferences"):
            self.write(kind, key, remaining)
        elif "deletionTimestamp" not in remaining["metadata"]:
            self.delete(Target(kind, *key), _COLLECTED)

    def _delete_at_once(self, resource: Resource, key: Key) -> None:
        """Delete an object whose namespace or definition is deleted, without a grace period."""
        kind = self._registry.find_resource(resource)
        if kind is not None and self._store.get(resource, key):
            self.delete(Target(kind, *key), _AT_ONCE)


def is_removable(obj: Object) -> bool:
    """Return whether an object that is being deleted has neither finalizers nor a grace period."""
    metadata = obj["metadata"]
    blocked = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
    return "deletionTimestamp" in metadata and not blocked


def _defined(definition: Object) -> Resource:
    return definition["spec"]["group"], definition["spec"]["names"]["plural"]
