"""What stands between a body and the store: is it the right kind, what of it counts, does it fit its schema.

Every function here is pure and raises Refusal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_sandbox.apiserver import objectmeta as meta
from zonewise_sandbox.apiserver import strategies
from zonewise_sandbox.apiserver.json_values import object_in
from zonewise_sandbox.apiserver.schema import prune, set_defaults, validate
from zonewise_sandbox.apiserver.shapes import BuiltInShape, SchemaShape
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
    from zonewise_sandbox.apiserver.fieldset import Path
    from zonewise_sandbox.apiserver.json_values import Object
    from zonewise_sandbox.apiserver.kinds import Kind
    from zonewise_sandbox.apiserver.request_info import DeleteOptions, Target, WriteOptions
    from zonewise_sandbox.apiserver.shapes import Shape

_ALL_BUT_STATUS: tuple[Path, ...] = (("f:spec",), ("f:metadata",))
_NOT_BY_STATUS: tuple[Path, ...] = (("f:spec",), ("f:metadata", "f:ownerReferences"))
_NOT_STATUS: tuple[Path, ...] = (("f:status",),)


def shape_of(kind: Kind) -> Shape:
    """Return what server-side apply knows of a kind."""
    return SchemaShape(kind.schema or {}, root=True) if kind.custom else BuiltInShape(kind.kind)


def foreign_fields(target: Target) -> tuple[Path, ...]:
    """Return the fields that a write to this place cannot change, and hence not own (GetResetFields)."""
    if target.subresource == "status":
        return _ALL_BUT_STATUS if target.kind.custom else _NOT_BY_STATUS
    return _NOT_STATUS if target.kind.status else ()


def check_body(kind: Kind, body: Object) -> Object:
    """Return a body that says, or where it may leave that unsaid is told, the right kind and version."""
    meta.check_types(kind, body.get("metadata"))
    if kind.custom:
        _check_custom(kind, body)
    given, version = body.get("kind") or kind.kind, body.get("apiVersion") or kind.api_version
    if given != kind.kind:
        told = f'{given} in version "{kind.version}" cannot be handled as a {kind.kind}'
        raise bad_request(f"{told}: converting ({version}.{given}) to ({kind.kind}): unknown conversion")
    if version != kind.api_version:
        told = f"the API version in the data ({version}) does not match the expected API version ({kind.api_version})"
        raise bad_request(told)
    return {"apiVersion": version, "kind": given, **body}


def _check_custom(kind: Kind, body: Object) -> None:
    for field, told in (("kind", "Kind"), ("apiVersion", "apiVersion")):
        if not body.get(field):
            what = f"the object provided is unrecognized (must be of type {kind.kind})"
            raise bad_request(f"{what}: Object '{told}' is missing in '{json_text(body)}'")
    if body["apiVersion"] == kind.api_version:
        check_same_kind(kind, object_in(body, "metadata").get("name") or "", body)


def check_same_kind(kind: Kind, name: str, obj: Object) -> None:
    """Refuse an object that says another kind or version than the place it is written to."""
    for field, wanted in (("kind", kind.kind), ("apiVersion", kind.api_version)):
        found = obj.get(field)
        if found != wanted:
            named = kind._replace(kind=str(obj.get("kind")))
            raise invalid(named, name, [invalid_value(field, found, f"must be {wanted}")])


def check_applied(target: Target, configuration: Object) -> Object:
    """Return a configuration to apply, with the metadata that it may leave unsaid."""
    kind = target.kind
    obj = check_body(kind, configuration)
    metadata: Object = {name: value for name, value in object_in(obj, "metadata").items() if value is not None}
    if metadata.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    metadata.setdefault("name", target.name)
    if metadata["name"] != target.name:
        told = f"the name of the object ({metadata['name']}) does not match the name on the URL ({target.name})"
        raise bad_request(told)
    unknown: list[str] = []
    if kind.custom:
        prune(obj, kind.schema or {}, unknown)
    if unknown:
        raise untyped_patch_error(target, f".{unknown[0]}: field not declared in schema")
    return {**obj, "metadata": metadata}


def untyped_patch_error(target: Target, detail: str) -> StatusError:
    """Return 500 for a configuration that does not fit the types that server-side apply knows."""
    which = f"{target.namespace}/{target.name}; {target.kind.api_version}, Kind={target.kind.kind}"
    return internal(f"failed to create typed patch object ({which}): {detail}")


def complete(kind: Kind, obj: Object, options: WriteOptions) -> Object:
    """Return an object with its defaults, and without what its schema does not know."""
    if not kind.custom:
        return strategies.set_defaults(kind, obj)
    unknown: list[str] = []
    obj = prune(obj, kind.schema or {}, unknown)
    if unknown and options.strict:
        listed = ", ".join(f'unknown field "{field}"' for field in unknown)
        told = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
        raise bad_request(f"{told}: strict decoding error: {listed}")
    return set_defaults(obj, kind.schema or {})


def check_metadata(kind: Kind, metadata: Object) -> None:
    """Refuse names and labels that are none."""
    causes = list(meta.validate_object_meta(kind, metadata))
    if causes:
        raise invalid(kind, metadata.get("name") or "", causes)


def check_schema(kind: Kind, obj: Object) -> None:
    """Refuse an object that does not fit the schema of its kind."""
    causes = list(validate(obj, kind.schema or {})) if kind.custom else []
    if causes:
        raise invalid(kind, obj["metadata"]["name"], causes)


def check_versions(target: Target, old: Object, given: Object) -> None:
    """Refuse a replacement of another object, or of another version of it, than the one that is there."""
    kind = target.kind
    if kind.must_version and not given.get("resourceVersion"):
        cause = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
        raise invalid(kind._replace(kind=kind.plural), target.name, [cause])
    found = old["metadata"]["uid"]
    if given.get("uid") and given["uid"] != found:
        why = f"Precondition failed: UID in precondition: {given['uid']}, UID in object meta: {found}"
        raise conflict(kind, target.name, why)


def check_preconditions(kind: Kind, old: Object, deletion: DeleteOptions) -> None:
    """Refuse a deletion that means another object, or another version of it, than the one that is there."""
    name, found = old["metadata"]["name"], old["metadata"]
    named = kind._replace(plural=kind.kind)
    if deletion.uid is not None and deletion.uid != found["uid"]:
        told = f"the UID in the precondition ({deletion.uid}) does not match the UID in record ({found['uid']})"
        raise conflict(named, name, f"{told}. The object might have been deleted and then recreated")
    if deletion.resource_version is not None and deletion.resource_version != found["resourceVersion"]:
        told = f"the ResourceVersion in the precondition ({deletion.resource_version}) does not match"
        told += f" the ResourceVersion in record ({found['resourceVersion']})"
        raise conflict(named, name, f"{told}. The object might have been modified")


def served_version(kind: Kind, obj: Object) -> Object:
    """Return an object in the version of the kind: versions differ in nothing but their name here."""
    return obj if obj.get("apiVersion") == kind.api_version else {**obj, "apiVersion": kind.api_version}


def apply_update(target: Target, old: Object, new: Object) -> Object:
    """Return the new object as far as the place written to may change it."""
    given = object_in(new, "metadata")
    meta.check_types(target.kind, given)
    if given.get("resourceVersion") and given["resourceVersion"] != old["metadata"]["resourceVersion"]:
        raise modified(target.kind, target.name)
    meta.check_update(target.kind, old["metadata"], given)
    new = {**new, "metadata": meta.updated_metadata(old["metadata"], given)}
    if target.subresource == "status":
        kept = old["metadata"] if target.kind.custom else new["metadata"]
        return _with_status({**old, "apiVersion": new["apiVersion"], "metadata": kept}, new)
    return _with_status(new, old) if target.kind.status else new


def bumps_generation(kind: Kind, old: Object, new: Object) -> bool:
    """Tell whether a change is one of generation: of anything but metadata, and status where that is on its own."""
    apart = {"metadata", "apiVersion"} | ({"status"} if kind.status else set[str]())
    return kind.generation and any(old.get(name) != new.get(name) for name in (old.keys() | new.keys()) - apart)


def without_status(obj: Object) -> Object:
    """Return an object without its status."""
    return {name: value for name, value in obj.items() if name != "status"}


def with_managed_fields(obj: Object, managed: list[Object]) -> Object:
    """Return an object with other managedFields, and metadata of its own."""
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    return {**obj, "metadata": {**metadata, "managedFields": managed} if managed else metadata}


def _with_status(obj: Object, source: Object) -> Object:
    obj = without_status(obj)
    return {**obj, "status": source["status"]} if "status" in source else obj
