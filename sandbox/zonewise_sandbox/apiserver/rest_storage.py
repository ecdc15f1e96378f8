"""The verbs that write: create, replace, change, apply, bind, delete. Each is one step under the store's lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_sandbox.apiserver import objectmeta as meta
from zonewise_sandbox.apiserver import pod_strategy, strategies
from zonewise_sandbox.apiserver.cascading_store import CascadingStore
from zonewise_sandbox.apiserver.crds import check_definition, established
from zonewise_sandbox.apiserver.fieldmanager import Manager, apply, update
from zonewise_sandbox.apiserver.fieldset import ShapeError
from zonewise_sandbox.apiserver.json_values import object_in
from zonewise_sandbox.apiserver.kinds import DEFINITION, NAMESPACE, POD
from zonewise_sandbox.apiserver.status_errors import already_exists, conflict, forbidden, not_found
from zonewise_sandbox.apiserver.validation import (
    apply_update,
    bumps_generation,
    check_applied,
    check_body,
    check_metadata,
    check_same_kind,
    check_schema,
    check_versions,
    complete,
    foreign_fields,
    served_version,
    shape_of,
    untyped_patch_error,
    with_managed_fields,
    without_status,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_sandbox.apiserver.json_values import Object
    from zonewise_sandbox.apiserver.kinds import Kind, Registry
    from zonewise_sandbox.apiserver.request_info import DeleteOptions, Target, WriteOptions
    from zonewise_sandbox.apiserver.store import Key, Store


class RestStorage:
    """All objects, and the rules by which they are written. Every method raises Refusal."""

    def __init__(self, store: Store, registry: Registry) -> None:
        """Take where objects are stored, and which kinds there are."""
        self._store = store
        self._keeper = CascadingStore(store, registry)

    def get(self, target: Target) -> Object:
        """Return an object."""
        return self._keeper.get(target).object

    def create(self, target: Target, body: Object, options: WriteOptions) -> Object:
        """Create an object."""
        obj = check_body(target.kind, body)
        with self._store.lock:
            self._check_namespace(target, str(object_in(obj, "metadata").get("name") or ""))
            metadata = meta.new_metadata(target.kind, object_in(obj, "metadata"), target.namespace)
            return self._create({**obj, "metadata": metadata}, target, options, None)

    def replace(self, target: Target, body: Object, options: WriteOptions) -> Object:
        """Replace an object, or the part of it that the subresource is."""
        obj = check_body(target.kind, body)
        with self._store.lock:
            old = self.get(target)
            check_versions(target, old, object_in(obj, "metadata"))
            return self._update(target, old, obj, options, None)

    def patch(self, target: Target, change: Callable[[Object], Object], options: WriteOptions) -> Object:
        """Change an object by a patch."""
        with self._store.lock:
            old = self.get(target)
            new = change(served_version(target.kind, old))
            check_same_kind(target.kind, target.name, new)
            return self._update(target, old, new, options, None)

    def apply(self, target: Target, body: Object, options: WriteOptions) -> tuple[Object, bool]:
        """Apply a configuration (server-side apply); return the object, and whether it is new."""
        applied = check_applied(target, body)
        with self._store.lock:
            record = self._store.get(target.kind.resource, target.key)
            if record is None:
                return self._apply_new(target, applied, options), True
            new, managed = self._merge(target, served_version(target.kind, record.object), applied, options)
            return self._update(target, record.object, new, options, managed), False

    def bind(self, target: Target, binding: Object, options: WriteOptions) -> None:
        """Bind a pod to a node."""
        with self._store.lock:
            pod = self.get(target)
            new = pod_strategy.bind_pod(pod, binding, meta.timestamp())
            if not options.dry_run:
                self._keeper.write(POD, target.key, {**new, "metadata": dict(new["metadata"])})

    def delete(self, target: Target, deletion: DeleteOptions) -> Object | None:
        """Delete an object; return it where its kind tells it or it still waits, None otherwise."""
        with self._store.lock:
            return self._keeper.delete(target, deletion)

    def _create(self, obj: Object, target: Target, options: WriteOptions, managed: list[Object] | None) -> Object:
        """Complete, check and store a new object. `managed`: who owns what, where an apply made it."""
        kind, metadata = target.kind, obj["metadata"]
        check_metadata(kind, metadata)
        key = (target.namespace, metadata["name"])
        if self._store.get(kind.resource, key):
            raise already_exists(kind, metadata["name"])
        obj = complete(kind, obj, options)
        if managed is None:
            who = Manager(options.manager, "Update", kind.api_version)
            managed = update({}, obj, shape_of(kind), who, meta.timestamp(), foreign_fields(target))
        if not kind.custom:
            obj = strategies.prepare_for_create(kind, obj, meta.timestamp())
        elif kind.status:
            obj = without_status(obj)
        obj = with_managed_fields(obj, managed)
        check_schema(kind, obj)
        return self._admit(kind, key, obj, options)

    def _update(
        self, target: Target, old: Object, new: Object, options: WriteOptions, managed: list[Object] | None
    ) -> Object:
        """Complete, check and store a change. `managed`: who owns what, where an apply made it."""
        kind, given = target.kind, object_in(new, "metadata")
        new = complete(kind, apply_update(target, old, new), options)
        check_metadata(kind, new["metadata"])
        if not target.subresource:
            strategies.validate_update(kind, old, new)
        if managed is None:
            base = with_managed_fields(old, []) if given.get("managedFields") in ([], [{}]) else old
            who = Manager(options.manager, "Update", kind.api_version, target.subresource)
            managed = update(base, new, shape_of(kind), who, meta.timestamp(), foreign_fields(target))
        new = with_managed_fields(new, managed)
        if bumps_generation(kind, old, new):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        check_schema(kind, new)
        if new == old:
            return old
        if _is_done_waiting(new) and not options.dry_run:
            self._keeper.remove(kind, target.key, new)
            return new
        return self._admit(kind, target.key, new, options)

    def _admit(self, kind: Kind, key: Key, obj: Object, options: WriteOptions) -> Object:
        if kind.resource == DEFINITION.resource:
            check_definition(obj)
            obj = established(obj)
        return obj if options.dry_run else self._keeper.write(kind, key, obj)

    def _apply_new(self, target: Target, applied: Object, options: WriteOptions) -> Object:
        kind, given = target.kind, applied["metadata"]
        if target.subresource:
            raise not_found(kind, target.name)
        if given.get("uid"):
            why = f"uid mismatch: the provided object specified uid {given['uid']}, and no existing object was found"
            raise conflict(kind, target.name, why)
        self._check_namespace(target, target.name)
        new, managed = self._merge(target, {}, applied, options)
        metadata = meta.new_metadata(kind, new["metadata"], target.namespace)
        return self._create({**new, "metadata": metadata}, target, options, managed)

    @staticmethod
    def _merge(target: Target, live: Object, applied: Object, options: WriteOptions) -> tuple[Object, list[Object]]:
        who = Manager(options.manager, "Apply", target.kind.api_version, target.subresource)
        shape, foreign = shape_of(target.kind), foreign_fields(target)
        try:
            return apply(live, applied, shape, who, meta.timestamp(), foreign, force=options.force)
        except ShapeError as error:
            raise untyped_patch_error(target, str(error)) from None

    def _check_namespace(self, target: Target, name: str) -> None:
        if not target.kind.namespaced:
            return
        namespace = self._store.get(NAMESPACE.resource, ("", target.namespace))
        if namespace is None:
            raise not_found(NAMESPACE, target.namespace)
        if "deletionTimestamp" in namespace.object["metadata"]:
            told = f"namespace {target.namespace} is being terminated"
            why = f"unable to create new content in namespace {target.namespace} because it is being terminated"
            cause = {"reason": "NamespaceTerminating", "message": told, "field": "metadata.namespace"}
            raise forbidden(target.kind, name, why, {"causes": [cause]})


def _is_done_waiting(obj: Object) -> bool:
    """Tell whether an object that is being deleted has lost its last finalizer, and no kubelet holds it."""
    metadata = obj["metadata"]
    held = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
    return "deletionTimestamp" in metadata and not held
