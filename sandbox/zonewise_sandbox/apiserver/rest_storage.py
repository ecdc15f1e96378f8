"""The verbs that write: create, replace, patch, apply, bind, delete. Each is one step under the store's lock."""

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
    kind_shape,
    served_version,
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
    """All objects, and the rules of writing them. Every method raises StatusError."""

    def __init__(self, store: Store, registry: Registry) -> None:
        """Write objects of the registry's kinds to a store."""
        self._store = store
        self._objects = CascadingStore(store, registry)

    def get(self, target: Target) -> Object:
        """Return an object."""
        return self._objects.get(target).object

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
        """Apply a configuration (server-side apply); return the object, and true for a new one."""
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
                self._objects.write(POD, target.key, {**new, "metadata": dict(new["metadata"])})

    def delete(self, target: Target, deletion: DeleteOptions) -> Object | None:
        """Delete an object; return it where its kind returns deleted objects or it has finalizers, None otherwise."""
        with self._store.lock:
            return self._objects.delete(target, deletion)

    def _create(self, obj: Object, target: Target, options: WriteOptions, managed: list[Object] | None) -> Object:
        """Complete, check and store a new object. `managed` has the managedFields of an apply."""
        kind, metadata = target.kind, obj["metadata"]
        check_metadata(kind, metadata)
        key = (target.namespace, metadata["name"])
        if self._store.get(kind.resource, key):
            raise already_exists(kind, metadata["name"])
        obj = complete(kind, obj, options)
        if managed is None:
            manager = Manager(options.manager, "Update", kind.api_version)
            managed = update({}, obj, kind_shape(kind), manager, meta.timestamp(), foreign_fields(target))
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
        """Complete, check and store a change. `managed` has the managedFields of an apply."""
        kind, metadata = target.kind, object_in(new, "metadata")
        new = complete(kind, apply_update(target, old, new), options)
        check_metadata(kind, new["metadata"])
        if not target.subresource:
            strategies.validate_update(kind, old, new)
        if managed is None:
            base = with_managed_fields(old, []) if metadata.get("managedFields") in ([], [{}]) else old
            manager = Manager(options.manager, "Update", kind.api_version, target.subresource)
            managed = update(base, new, kind_shape(kind), manager, meta.timestamp(), foreign_fields(target))
        new = with_managed_fields(new, managed)
        if bumps_generation(kind, old, new):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        check_schema(kind, new)
        if new == old:
            return old
        if _is_removable(new) and not options.dry_run:
            self._objects.remove(kind, target.key, new)
            return new
        return self._admit(kind, target.key, new, options)

    def _admit(self, kind: Kind, key: Key, obj: Object, options: WriteOptions) -> Object:
        if kind.resource == DEFINITION.resource:
            check_definition(obj)
            obj = established(obj)
        return obj if options.dry_run else self._objects.write(kind, key, obj)

    def _apply_new(self, target: Target, applied: Object, options: WriteOptions) -> Object:
        kind, applied_metadata = target.kind, applied["metadata"]
        if target.subresource:
            raise not_found(kind, target.name)
        if applied_metadata.get("uid"):
            uid = applied_metadata["uid"]
            detail = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise conflict(kind, target.name, detail)
        self._check_namespace(target, target.name)
        new, managed = self._merge(target, {}, applied, options)
        metadata = meta.new_metadata(kind, new["metadata"], target.namespace)
        return self._create({**new, "metadata": metadata}, target, options, managed)

    @staticmethod
    def _merge(target: Target, live: Object, applied: Object, options: WriteOptions) -> tuple[Object, list[Object]]:
        manager = Manager(options.manager, "Apply", target.kind.api_version, target.subresource)
        shape, foreign = kind_shape(target.kind), foreign_fields(target)
        try:
            return apply(live, applied, shape, manager, meta.timestamp(), foreign, force=options.force)
        except ShapeError as error:
            raise untyped_patch_error(target, str(error)) from None

    def _check_namespace(self, target: Target, name: str) -> None:
        if not target.kind.namespaced:
            return
        namespace = self._store.get(NAMESPACE.resource, ("", target.namespace))
        if namespace is None:
            raise not_found(NAMESPACE, target.namespace)
        if "deletionTimestamp" in namespace.object["metadata"]:
            message = f"namespace {target.namespace} is being terminated"
            detail = f"unable to create new content in namespace {target.namespace} because it is being terminated"
            cause = {"reason": "NamespaceTerminating", "message": message, "field": "metadata.namespace"}
            raise forbidden(target.kind, name, detail, {"causes": [cause]})


def _is_removable(obj: Object) -> bool:
    """Tell whether an object that is being deleted has neither finalizers nor a grace period."""
    metadata = obj["metadata"]
    blocked = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
    return "deletionTimestamp" in metadata and not blocked
