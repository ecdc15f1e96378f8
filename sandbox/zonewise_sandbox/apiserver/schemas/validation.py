"""The checks of a body before it is stored: its kind, the fields that the target may change, its schema.

Every function is pure and raises StatusError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_sandbox.apiserver import objectmeta as meta
from zonewise_sandbox.apiserver import strategies
from zonewise_sandbox.apiserver.json_values import object_in
from zonewise_sandbox.apiserver.patches.shapes import BuiltInShape, SchemaShape
from zonewise_sandbox.apiserver.schemas.schema import prune, set_defaults, validate
from zonewise_sandbox.apiserver.status_errors import (
    StatusError,
    bad_request,
    conflict,
    internal,
    invalid,
    invalid_value,
    json_text,
    modified,
)

if TYPE_CHECKING:
    from zonewise_sandbox.apiserver.json_values import Object
    from zonewise_sandbox.apiserver.kinds import Kind
    from zonewise_sandbox.apiserver.patches.fieldset import Path
    from zonewise_sandbox.apiserver.patches.shapes import Shape
    from zonewise_sandbox.apiserver.request_info import DeleteOptions, Target, WriteOptions

_ALL_BUT_STATUS: tuple[Path, ...] = (("f:spec",), ("f:metadata",))
_NOT_BY_STATUS: tuple[Path, ...] = (("f:spec",), ("f:metadata", "f:ownerReferences"))
_NOT_STATUS: tuple[Path, ...] = (("f:status",),)


def kind_shape(kind: Kind) -> Shape:
    """Return the shape of a kind for server-side apply."""
    return SchemaShape(kind.schema or {}, root=True) if kind.custom else BuiltInShape(kind.kind)


def foreign_fields(target: Target) -> tuple[Path, ...]:
    """Return the fields that a write to this target cannot change, and so cannot own (GetResetFields)."""
    if target.subresource == "status":
        return _ALL_BUT_STATUS if target.kind.custom else _NOT_BY_STATUS
    return _NOT_STATUS if target.kind.status else ()


def check_body(kind: Kind, body: Object) -> Object:
    """Return a body with its kind and version, which may be absent for a built-in kind."""
    meta.check_types(kind, body.get("metadata"))
    if kind.custom:
        _check_custom(kind, body)
    kind_name, version = body.get("kind") or kind.kind, body.get("apiVersion") or kind.api_version
    if kind_name != kind.kind:
        detail = f'{kind_name} in version "{kind.version}" cannot be handled as a {kind.kind}'
        raise bad_request(f"{detail}: converting ({version}.{kind_name}) to ({kind.kind}): unknown conversion")
    if version != kind.api_version:
        detail = f"the API version in the data ({version}) does not match the expected API version ({kind.api_version})"
        raise bad_request(detail)
    return {"apiVersion": version, "kind": kind_name, **body}


def _check_custom(kind: Kind, body: Object) -> None:
    for field, name in (("kind", "Kind"), ("apiVersion", "apiVersion")):
        if not body.get(field):
            detail = f"the object provided is unrecognized (must be of type {kind.kind})"
            raise bad_request(f"{detail}: Object '{name}' is missing in '{json_text(body)}'")
    if body["apiVersion"] == kind.api_version:
        check_same_kind(kind, object_in(body, "metadata").get("name") or "", body)


def check_same_kind(kind: Kind, name: str, obj: Object) -> None:
    """Reject an object whose kind or version differs from its target's."""
    for field, expected in (("kind", kind.kind), ("apiVersion", kind.api_version)):
        actual = obj.get(field)
        if actual != expected:
            named_kind = kind._replace(kind=str(obj.get("kind")))
            raise invalid(named_kind, name, [invalid_value(field, actual, f"must be {expected}")])


def check_applied(target: Target, configuration: Object) -> Object:
    """Return a configuration to apply, completed with the metadata that it may omit."""
    kind = target.kind
    obj = check_body(kind, configuration)
    metadata: Object = {name: value for name, value in object_in(obj, "metadata").items() if value is not None}
    if metadata.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    metadata.setdefault("name", target.name)
    if metadata["name"] != target.name:
        detail = f"the name of the object ({metadata['name']}) does not match the name on the URL ({target.name})"
        raise bad_request(detail)
    unknown: list[str] = []
    if kind.custom:
        prune(obj, kind.schema or {}, unknown)
    if unknown:
        raise untyped_patch_error(target, f".{unknown[0]}: field not declared in schema")
    return {**obj, "metadata": metadata}


def untyped_patch_error(target: Target, detail: str) -> StatusError:
    """Return a 500 for a configuration that violates the types of server-side apply."""
    target_text = f"{target.namespace}/{target.name}; {target.kind.api_version}, Kind={target.kind.kind}"
    return internal(f"failed to create typed patch object ({target_text}): {detail}")


def complete(kind: Kind, obj: Object, options: WriteOptions) -> Object:
    """Return an object with its defaults, and without fields that its schema lacks."""
    unknown: list[str] = []
    if kind.custom:
        obj = prune(obj, kind.schema or {}, unknown)
    else:
        unknown += strategies.unknown_fields(kind, obj)
    if unknown and options.strict:
        listed = ", ".join(f'unknown field "{field}"' for field in unknown)
        detail = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
        raise bad_request(f"{detail}: strict decoding error: {listed}")
    return set_defaults(obj, kind.schema or {}) if kind.custom else strategies.set_defaults(kind, obj)


def check_metadata(kind: Kind, metadata: Object) -> None:
    """Reject invalid names and labels."""
    causes = list(meta.validate_object_meta(kind, metadata))
    if causes:
        raise invalid(kind, metadata.get("name") or "", causes)


def check_schema(kind: Kind, obj: Object) -> None:
    """Reject an object that violates the schema of its kind."""
    causes = list(validate(obj, kind.schema or {})) if kind.custom else []
    if causes:
        raise invalid(kind, obj["metadata"]["name"], causes)


def check_versions(target: Target, old: Object, metadata: Object) -> None:
    """Reject a replacement that lacks a required version, or whose UID differs from the stored object's."""
    kind = target.kind
    if kind.must_version and not metadata.get("resourceVersion"):
        cause = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
        raise invalid(kind._replace(kind=kind.plural), target.name, [cause])
    uid = old["metadata"]["uid"]
    if metadata.get("uid") and metadata["uid"] != uid:
        detail = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {uid}"
        raise conflict(kind, target.name, detail)


def check_preconditions(kind: Kind, old: Object, deletion: DeleteOptions) -> None:
    """Reject a deletion whose UID or version differs from the stored object's."""
    name, metadata = old["metadata"]["name"], old["metadata"]
    named_kind = kind._replace(plural=kind.kind)
    if deletion.uid is not None and deletion.uid != metadata["uid"]:
        detail = f"the UID in the precondition ({deletion.uid}) does not match the UID in record ({metadata['uid']})"
        raise conflict(named_kind, name, f"{detail}. The object might have been deleted and then recreated")
    if deletion.resource_version is not None and deletion.resource_version != metadata["resourceVersion"]:
        detail = f"the ResourceVersion in the precondition ({deletion.resource_version}) does not match"
        detail += f" the ResourceVersion in record ({metadata['resourceVersion']})"
        raise conflict(named_kind, name, f"{detail}. The object might have been modified")


def served_version(kind: Kind, obj: Object) -> Object:
    """Return an object in the version of the kind. Versions differ only in their name."""
    return obj if obj.get("apiVersion") == kind.api_version else {**obj, "apiVersion": kind.api_version}


def apply_update(target: Target, old: Object, new: Object) -> Object:
    """Return the stored object with the changes that the target allows."""
    metadata = object_in(new, "metadata")
    meta.check_types(target.kind, metadata)
    if metadata.get("resourceVersion") and metadata["resourceVersion"] != old["metadata"]["resourceVersion"]:
        raise modified(target.kind, target.name)
    meta.check_update(target.kind, old["metadata"], metadata)
    new = {**new, "metadata": meta.updated_metadata(old["metadata"], metadata)}
    if target.subresource == "status":
        stored_metadata = old["metadata"] if target.kind.custom else new["metadata"]
        return _with_status({**old, "apiVersion": new["apiVersion"], "metadata": stored_metadata}, new)
    return _with_status(new, old) if target.kind.status else new


def bumps_generation(kind: Kind, old: Object, new: Object) -> bool:
    """Return whether a change increases the generation: any change outside metadata and a status subresource does."""
    excluded = {"metadata", "apiVersion"} | ({"status"} if kind.status else set[str]())
    return kind.generation and any(old.get(name) != new.get(name) for name in (old.keys() | new.keys()) - excluded)


def without_status(obj: Object) -> Object:
    """Return an object without its status."""
    return {name: value for name, value in obj.items() if name != "status"}


def with_managed_fields(obj: Object, managed: list[Object]) -> Object:
    """Return an object with different managedFields, and with metadata that is not shared."""
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    return {**obj, "metadata": {**metadata, "managedFields": managed} if managed else metadata}


def _with_status(obj: Object, source: Object) -> Object:
    obj = without_status(obj)
    return {**obj, "status": source["status"]} if "status" in source else obj
