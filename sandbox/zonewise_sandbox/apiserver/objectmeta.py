"""The metadata that the server keeps: names, UIDs, times, generations; and which of it a writer may not change.

Sources: k8s.io/apiserver/pkg/registry/rest (create.go, update.go) and k8s.io/apimachinery/pkg/api/validation
(objectmeta.go).
"""

from __future__ import annotations

import random
import re
import uuid
from datetime import UTC, datetime, timedelta
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


_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # k8s.io/apimachinery/pkg/util/rand: no vowels, hence no words
_SUFFIX_LENGTH = 5
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


def timestamp(after: float = 0) -> str:
    """Return the time now, or so many seconds later, as metav1.Time says it."""
    return (datetime.now(UTC) + timedelta(seconds=after)).strftime("%Y-%m-%dT%H:%M:%SZ")


def generated_name(prefix: str) -> str:
    """Return a name from generateName (k8s.io/apiserver/pkg/storage/names/generate.go)."""
    suffix = "".join(random.choices(_SUFFIX_LETTERS, k=_SUFFIX_LENGTH))  # noqa: S311 -- a name, no secret
    return prefix[: 63 - _SUFFIX_LENGTH] + suffix


def new_metadata(kind: Kind, metadata: Object, namespace: str) -> Object:
    """Return the metadata of a new object. Raises Refusal: 400 for another namespace, 500 for a resourceVersion."""
    if metadata.get("namespace") and metadata["namespace"] != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if metadata.get("resourceVersion"):
        raise internal("resourceVersion should not be set on objects to be created")
    kept = {name: value for name, value in metadata.items() if name not in _SYSTEM and value is not None}
    if not kept.get("name") and kept.get("generateName"):
        kept["name"] = generated_name(kept["generateName"])
    made: Object = {**kept, "uid": str(uuid.uuid4()), "creationTimestamp": timestamp()}
    made.pop("resourceVersion", None)
    if namespace:
        made["namespace"] = namespace
    if kind.generation:
        made["generation"] = 1
    return made


def updated_metadata(old: Object, new: Object) -> Object:
    """Return the metadata of an update: what the server keeps stays."""
    kept = {name: value for name, value in new.items() if name not in _SYSTEM and value not in (None, {}, [])}
    return {**kept, **{name: old[name] for name in _SYSTEM if name in old}}


def validate_object_meta(kind: Kind, metadata: Object) -> Iterator[Cause]:
    """Tell what is wrong with the names and labels of an object."""
    name = metadata.get("name")
    if not name:
        yield required("metadata.name", "name or generateName is required")
    elif kind.plural == "namespaces" and not (_LABEL.fullmatch(name) and len(name) <= 63):
        yield invalid_value("metadata.name", name, "a lowercase RFC 1123 label must consist of ...")
    elif kind.plural not in _PATH_NAMES and not is_subdomain(name):
        yield invalid_value("metadata.name", name, _SUBDOMAIN_RULE)
    yield from _faults_of_labels(metadata)
    for number, owner in enumerate(list_in(metadata, "ownerReferences")):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                yield invalid_value(f"metadata.ownerReferences[{number}].{field}", "", f"{field} must not be empty")


def _faults_of_labels(metadata: Object) -> Iterator[Cause]:
    for key, value in object_in(metadata, "labels").items():
        if not is_qualified_name(key):
            yield invalid_value("metadata.labels", key, "name part must consist of alphanumeric characters")
        if not is_label_value(value):
            yield invalid_value("metadata.labels", value, _VALUE_RULE)
    for key in object_in(metadata, "annotations"):
        if not is_qualified_name(key.lower()):
            yield invalid_value("metadata.annotations", key, "name part must consist of alphanumeric characters")


def check_types(kind: Kind, metadata: Value) -> None:
    """Raise Refusal (400) where metadata has a type that it cannot have."""
    if metadata is not None and not is_object(metadata):
        raise bad_request(f"{kind.kind} in version {kind.version!r} cannot be handled: metadata is no object")
    for field in ("labels", "annotations"):
        found = object_in(metadata or {}, field)
        if not is_object(found) or any(not isinstance(one, str) for one in found.values() if one is not None):
            told = "cannot unmarshal into Go struct field ObjectMeta"
            raise bad_request(
                f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
                f"json: {told}.metadata.{field} of type string"
            )


def check_update(kind: Kind, old: Object, new: Object) -> None:
    """Raise Refusal where an update would change what names an object: 400 for the name, 422 for the UID."""
    if new.get("name") != old["name"]:
        given = new.get("name", "")
        raise bad_request(f"the name of the object ({given}) does not match the name on the URL ({old['name']})")
    if new.get("namespace") and new["namespace"] != old.get("namespace"):
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    causes = list(_changed(old, new))
    if causes:
        raise invalid(kind, old["name"], causes)


def _changed(old: Object, new: Object) -> Iterator[Cause]:
    if new.get("uid") and new["uid"] != old["uid"]:
        yield invalid_value("metadata.uid", new["uid"], "field is immutable")
    if new.get("deletionTimestamp") and new["deletionTimestamp"] != old.get("deletionTimestamp"):
        yield invalid_value("metadata.deletionTimestamp", new["deletionTimestamp"], "field is immutable")
    if "deletionTimestamp" in old:
        added = [one for one in list_in(new, "finalizers") if one not in list_in(old, "finalizers")]
        if added:
            listed = ", ".join(f'"{one}"' for one in added)
            told = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{listed}}}"
            )
            yield forbidden_field("metadata.finalizers", told)
