"""The metadata of objects: names, UIDs, times and generations, and the parts that a writer must not change.

Sources: k8s.io/apiserver/pkg/registry/rest (create.go, update.go) and k8s.io/apimachinery/pkg/api/validation
(objectmeta.go).
"""

from __future__ import annotations

import random
import re
import uuid
from typing import TYPE_CHECKING

from zonewise_common.k8s.labels import is_label_value, is_qualified_name, is_subdomain
from zonewise_sandbox.apiserver.json_values import is_object, list_in, object_in
from zonewise_sandbox.apiserver.status_errors import (
    Cause,
    bad_request,
    forbidden_field,
    internal,
    invalid,
    invalid_value,
    required,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_sandbox.apiserver.json_values import Object, Value
    from zonewise_sandbox.apiserver.kinds import Kind


_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # k8s.io/apimachinery/pkg/util/rand: no vowels, so no words
_SUFFIX_LENGTH = 5
_random = random.SystemRandom()  # not the shared generator: a program that seeds it would get the same names again
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_PATH_NAMES = frozenset({"roles", "rolebindings", "clusterroles", "clusterrolebindings"})
_SYSTEM = ("namespace", "uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def generated_name(prefix: str) -> str:
    """Return a name based on generateName (k8s.io/apiserver/pkg/storage/names/generate.go)."""
    suffix = "".join(_random.choices(_SUFFIX_LETTERS, k=_SUFFIX_LENGTH))
    return prefix[: 63 - _SUFFIX_LENGTH] + suffix


def needs_generated_name(metadata: Object) -> bool:
    """Return whether the server must generate the name of a new object (needsNameGeneration in registry/store.go)."""
    return bool(metadata.get("generateName")) and not metadata.get("name")


def new_metadata(kind: Kind, metadata: Object, namespace: str, now: str) -> Object:
    """Return the metadata of a newly created object.

    Raises StatusError: 400 for a different namespace, 500 if there is a resourceVersion.
    """
    if metadata.get("namespace") and metadata["namespace"] != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if metadata.get("resourceVersion"):
        raise internal("resourceVersion should not be set on objects to be created")
    created: Object = {name: value for name, value in metadata.items() if name not in _SYSTEM and value is not None}
    if needs_generated_name(created):
        created["name"] = generated_name(created["generateName"])
    created |= {"uid": str(uuid.uuid4()), "creationTimestamp": now}
    created.pop("resourceVersion", None)
    if namespace:
        created["namespace"] = namespace
    if kind.generation:
        created["generation"] = 1
    return created


def updated_metadata(old: Object, new: Object) -> Object:
    """Return the metadata after an update, with the system fields of the old object."""
    changed = {name: value for name, value in new.items() if name not in _SYSTEM and value not in (None, {}, [])}
    return {**changed, **{name: old[name] for name in _SYSTEM if name in old}}


def validate_object_meta(kind: Kind, metadata: Object) -> Iterator[Cause]:
    """Yield errors for the invalid names and labels of an object."""
    name = metadata.get("name")
    if not name:
        yield required("metadata.name", "name or generateName is required")
    elif kind.plural == "namespaces" and not (_LABEL.fullmatch(name) and len(name) <= 63):
        yield invalid_value("metadata.name", name, "a lowercase RFC 1123 label must consist of ...")
    elif kind.plural not in _PATH_NAMES and not is_subdomain(name):
        yield invalid_value("metadata.name", name, _SUBDOMAIN_RULE)
    yield from _validate_labels(metadata)
    for number, owner in enumerate(list_in(metadata, "ownerReferences")):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                yield invalid_value(f"metadata.ownerReferences[{number}].{field}", "", f"{field} must not be empty")


def _validate_labels(metadata: Object) -> Iterator[Cause]:
    for key, value in object_in(metadata, "labels").items():
        if not is_qualified_name(key):
            yield invalid_value("metadata.labels", key, "name part must consist of alphanumeric characters")
        if not is_label_value(value):
            yield invalid_value("metadata.labels", value, _VALUE_RULE)
    for key in object_in(metadata, "annotations"):
        if not is_qualified_name(key.lower()):
            yield invalid_value("metadata.annotations", key, "name part must consist of alphanumeric characters")


def check_types(kind: Kind, metadata: Value) -> None:
    """Raise StatusError (400) if metadata, labels or annotations have the wrong type."""
    if metadata is not None and not is_object(metadata):
        raise bad_request(f"{kind.kind} in version {kind.version!r} cannot be handled: metadata is not an object")
    for field in ("labels", "annotations"):
        strings = object_in(metadata or {}, field)
        if not is_object(strings) or any(not isinstance(value, str) for value in strings.values() if value is not None):
            detail = "cannot unmarshal into Go struct field ObjectMeta"
            raise bad_request(
                f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
                f"json: {detail}.metadata.{field} of type string"
            )


def check_update(kind: Kind, old: Object, new: Object) -> None:
    """Raise StatusError if an update would change the identity of an object: 400 for the name, 422 for the UID."""
    if new.get("name") != old["name"]:
        name = new.get("name", "")
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({old['name']})")
    if new.get("namespace") and new["namespace"] != old.get("namespace"):
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    causes = list(_validate_change(old, new))
    if causes:
        raise invalid(kind, old["name"], causes)


def _validate_change(old: Object, new: Object) -> Iterator[Cause]:
    if new.get("uid") and new["uid"] != old["uid"]:
        yield invalid_value("metadata.uid", new["uid"], "field is immutable")
    if new.get("deletionTimestamp") and new["deletionTimestamp"] != old.get("deletionTimestamp"):
        yield invalid_value("metadata.deletionTimestamp", new["deletionTimestamp"], "field is immutable")
    if "deletionTimestamp" in old:
        added = [finalizer for finalizer in list_in(new, "finalizers") if finalizer not in list_in(old, "finalizers")]
        if added:
            listed = ", ".join(f'"{finalizer}"' for finalizer in added)
            message = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{listed}}}"
            )
            yield forbidden_field("metadata.finalizers", message)
