"""Keys of objects, and writes to the API server, as values."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from zonewise_common.kube.resources import Resource

Json = dict[str, Any]
"""An object of the API as decoded JSON."""


class ObjectKey(NamedTuple):
    """One object of a cluster."""

    resource: Resource
    namespace: str
    """"": it has no namespace."""
    name: str

    @property
    def namespaced_name(self) -> str:
        """Return "team-a/train" (apimachinery pkg/types NamespacedName)."""
        return f"{self.namespace}/{self.name}"

    def __str__(self) -> str:
        """Return the key as in messages: "Job team-a/train"."""
        return f"{self.resource.kind} {self.namespaced_name}" if self.namespace else self.name


class Verb(Enum):
    """What a write does."""

    CREATE = "create"
    JSON_PATCH = "json-patch"
    MERGE_PATCH = "merge-patch"
    DELETE = "delete"


class Write(NamedTuple):
    """One request that changes an object. A write is conditional: it fails where the object is another one by then."""

    verb: Verb
    key: ObjectKey
    purpose: str
    """What it is for, in metrics and logs: "admit", "start", "stop: suspend"."""
    body: Json | list[Json] = {}  # noqa: RUF012 -- never changed
    """The object, the merge patch, or the operations of the JSON patch; empty for a deletion."""
    subresource: str = ""
    uid: str = ""
    """The object's UID; "": any. A patch carries it as a test or in its metadata; a deletion as a precondition."""
    resource_version: str = ""
    """The object's version; "": any. A merge patch carries it in its metadata."""
    workload: str = ""
    """Key (namespace/name) of the Workload that it is for; "": none."""
