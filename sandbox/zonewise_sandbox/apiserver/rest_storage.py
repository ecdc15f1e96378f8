"""The verbs that write: create, replace, patch, apply, bind, delete.

Webhooks are called without the store's lock, so an update is computed from the stored object without the lock. It is
written under the lock if that object is still the stored one; otherwise it is computed again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_sandbox.apiserver import objectmeta as meta
from zonewise_sandbox.apiserver import pod_strategy, strategies
from zonewise_sandbox.apiserver.cascading_store import CascadingStore, is_removable
from zonewise_sandbox.apiserver.json_values import object_in
from zonewise_sandbox.apiserver.kinds import DEFINITION, NAMESPACE, POD
from zonewise_sandbox.apiserver.patches.fieldmanager import Manager, apply, update
from zonewise_sandbox.apiserver.patches.fieldset import ShapeError
from zonewise_sandbox.apiserver.request_info import WriteOptions
from zonewise_sandbox.apiserver.schemas.crds import check_definition, established
from zonewise_sandbox.apiserver.schemas.validation import (
    apply_update,
    bumps_generation,
    check_applied,
    check_body,
    check_metadata,
    check_preconditions,
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
from zonewise_sandbox.apiserver.status_errors import (
    StatusError,
    already_exists,
    conflict,
    forbidden,
    invalid,
    not_found,
)
from zonewise_sandbox.apiserver.webhook_client import no_resolver
from zonewise_sandbox.apiserver.webhook_configurations import AdmissionRequest, is_configuration, validate_configuration
from zonewise_sandbox.apiserver.webhooks import Webhooks

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_sandbox.apiserver.json_values import Object
    from zonewise_sandbox.apiserver.kinds import Kind, Registry
    from zonewise_sandbox.apiserver.request_info import DeleteOptions, Target
    from zonewise_sandbox.apiserver.storage.store import Store
    from zonewise_sandbox.apiserver.webhook_client import Resolver

_NAME_ATTEMPTS = 8
"""Names generated for one object before giving up (maxNameGenerationCreateAttempts in
registry/generic/registry/store.go)."""


class RestStorage:
    """All objects, and the rules for writing them. Every method raises StatusError."""

    def __init__(self, store: Store, registry: Registry, resolve: Resolver = no_resolver) -> None:
        """Create a writer of the registry's kinds to a store; `resolve` returns the addresses of webhook services."""
        self._store = store
        self._webhooks = Webhooks(store, resolve)
        self._objects = CascadingStore(store, registry)

    def get(self, target: Target) -> Object:
        """Return an object."""
        return self._objects.get(target).object

    def create(self, target: Target, body: Object, options: WriteOptions) -> Object:
        """Create an object."""
        obj = check_body(target.kind, body)
        self._check_namespace(target, str(object_in(obj, "metadata").get("name") or ""))
        if target.namespace:
            obj = {**obj, "metadata": {**object_in(obj, "metadata"), "namespace": _namespace_of(obj, target)}}
        request = _request("CREATE", target, None, options)
        obj = self._webhooks.mutate(request, complete(target.kind, obj, options)) or obj
        attempts = _NAME_ATTEMPTS if meta.needs_generated_name(object_in(obj, "metadata")) else 1
        return self._create_named(obj, request, options, attempts)

    def replace(self, target: Target, body: Object, options: WriteOptions) -> Object:
        """Replace an object, or the part that the subresource covers."""
        obj = check_body(target.kind, body)

        def replaced(old: Object) -> tuple[Object, None]:
            check_versions(target, old, object_in(obj, "metadata"))
            return obj, None

        return self._update(target, replaced, options)

    def patch(self, target: Target, change: Callable[[Object], Object], options: WriteOptions) -> Object:
        """Change an object with a patch."""

        def patched(old: Object) -> tuple[Object, None]:
            new = change(served_version(target.kind, old))
            check_same_kind(target.kind, target.name, new)
            return new, None

        return self._update(target, patched, options)

    def apply(self, target: Target, body: Object, options: WriteOptions) -> tuple[Object, bool]:
        """Apply a configuration (server-side apply); return the object, and whether it is new."""
        applied = check_applied(target, body)
        if self._store.get(target.kind.resource, target.key) is None:
            return self._apply_new(target, applied, options), True

        def merged(old: Object) -> tuple[Object, list[Object]]:
            return self._merge(target, served_version(target.kind, old), applied, options)

        return self._update(target, merged, options), False

    def bind(self, target: Target, binding: Object, options: WriteOptions) -> None:
        """Bind a pod to a node."""
        with self._store.lock:
            pod = self.get(target)
            new = pod_strategy.bind_pod(pod, binding, self._store.timestamp())
            if not options.dry_run:
                self._objects.write(POD, target.key, {**new, "metadata": dict(new["metadata"])})

    def evict(self, target: Target, deletion: DeleteOptions) -> None:
        """Delete a pod after it has got the condition DisruptionTarget."""
        if not deletion.dry_run:
            with self._store.lock:
                pod = self.get(target)
                check_preconditions(target.kind, pod, deletion)
                new = pod_strategy.disrupted_pod(pod, self._store.timestamp())
                self._objects.write(POD, target.key, {**new, "metadata": dict(new["metadata"])})
        self.delete(target, deletion)

    def delete(self, target: Target, deletion: DeleteOptions) -> Object | None:
        """Delete an object; return it if its kind returns deleted objects or it has finalizers, otherwise None."""
        options = WriteOptions(dry_run=deletion.dry_run)
        request = _request("DELETE", target, self.get(target), options)
        self._webhooks.mutate(request, None)
        self._webhooks.validate(request, None)
        with self._store.lock:
            return self._objects.delete(target, deletion)

    def _create_named(self, obj: Object, request: AdmissionRequest, options: WriteOptions, attempts: int) -> Object:
        target = request.target
        metadata = meta.new_metadata(target.kind, object_in(obj, "metadata"), target.namespace, self._store.timestamp())
        try:
            return self._create({**obj, "metadata": metadata}, request, options, None)
        except StatusError as error:
            if error.reason != "AlreadyExists" or attempts == 1:
                raise
            return self._create_named(obj, request, options, attempts - 1)

    def _create(
        self, obj: Object, request: AdmissionRequest, options: WriteOptions, managed: list[Object] | None
    ) -> Object:
        """Complete, check and store a new object. `managed` is the managedFields of an apply."""
        target, kind, metadata = request.target, request.target.kind, obj["metadata"]
        check_metadata(kind, metadata)
        key = (target.namespace, metadata["name"])
        obj = complete(kind, obj, options)
        if managed is None:
            manager = Manager(options.manager, "Update", kind.api_version)
            managed = update({}, obj, kind_shape(kind), manager, self._store.timestamp(), foreign_fields(target))
        if self._store.get(kind.resource, key):
            raise already_exists(kind, metadata["name"])
        if not kind.custom:
            obj = strategies.prepare_for_create(kind, obj, self._store.timestamp())
        elif kind.status:
            obj = without_status(obj)
        obj = with_managed_fields(obj, managed)
        check_schema(kind, obj)
        obj = _admitted(kind, obj, self._store.timestamp())
        self._webhooks.validate(request, obj)
        with self._store.lock:
            self._check_namespace(target, metadata["name"])
            if self._store.get(kind.resource, key):
                raise already_exists(kind, metadata["name"])
            return obj if options.dry_run else self._objects.write(kind, key, obj)

    def _update(
        self, target: Target, change: Callable[[Object], tuple[Object, list[Object] | None]], options: WriteOptions
    ) -> Object:
        """Change an object; repeat this while another writer is faster (etcd3 store.go GuaranteedUpdate).

        `change` returns the new object, and for an apply also the managedFields.
        """
        while True:
            record = self._objects.get(target)
            request = _request("UPDATE", target, record.object, options)
            new, managed = change(record.object)
            new = self._webhooks.mutate(request, complete(target.kind, new, options)) or new
            new = self._checked_update(target, record.object, new, options, managed)
            if new == record.object:
                return record.object
            self._webhooks.validate(request, new)
            with self._store.lock:
                if self._objects.get(target) is record:
                    return self._write_update(target, new, options)

    def _checked_update(
        self, target: Target, old: Object, new: Object, options: WriteOptions, managed: list[Object] | None
    ) -> Object:
        """Return the object to be stored in place of the old one."""
        kind, metadata = target.kind, object_in(new, "metadata")
        new = complete(kind, apply_update(target, old, new), options)
        check_metadata(kind, new["metadata"])
        strategies.validate_update(kind, old, new, target.subresource)
        if managed is None:
            base = with_managed_fields(old, []) if metadata.get("managedFields") in ([], [{}]) else old
            manager = Manager(options.manager, "Update", kind.api_version, target.subresource)
            managed = update(base, new, kind_shape(kind), manager, self._store.timestamp(), foreign_fields(target))
        new = with_managed_fields(new, managed)
        if bumps_generation(kind, old, new):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        check_schema(kind, new)
        return new

    def _write_update(self, target: Target, new: Object, options: WriteOptions) -> Object:
        if is_removable(new) and not options.dry_run:
            self._objects.remove(target.kind, target.key, new)
            return new
        new = _admitted(target.kind, new, self._store.timestamp())
        return new if options.dry_run else self._objects.write(target.kind, target.key, new)

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
        request = _request("CREATE", target, None, options)
        new = self._webhooks.mutate(request, new) or new
        metadata = meta.new_metadata(kind, new["metadata"], target.namespace, self._store.timestamp())
        return self._create({**new, "metadata": metadata}, request, options, managed)

    def _merge(
        self, target: Target, live: Object, applied: Object, options: WriteOptions
    ) -> tuple[Object, list[Object]]:
        manager = Manager(options.manager, "Apply", target.kind.api_version, target.subresource)
        shape, foreign = kind_shape(target.kind), foreign_fields(target)
        try:
            return apply(live, applied, shape, manager, self._store.timestamp(), foreign, force=options.force)
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


def _admitted(kind: Kind, obj: Object, now: str) -> Object:
    if is_configuration(kind) and (causes := list(validate_configuration(obj))):
        raise invalid(kind, obj["metadata"]["name"], causes)
    if kind.resource != DEFINITION.resource:
        return obj
    check_definition(obj)
    return established(obj, now)


def _namespace_of(obj: Object, target: Target) -> str:
    return object_in(obj, "metadata").get("namespace") or target.namespace


def _request(operation: str, target: Target, old: Object | None, options: WriteOptions) -> AdmissionRequest:
    described: Object = {"kind": f"{operation.title()}Options", "apiVersion": "meta.k8s.io/v1"}
    if operation != "DELETE":
        described["fieldManager"] = options.manager
    return AdmissionRequest(operation, target, old, options.dry_run, described, options.user)
