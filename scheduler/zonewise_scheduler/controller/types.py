"""Values for the keys of objects, and for writes to the API server."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from zonewise_common.kube.resources import Resource

Json = dict[str, Any]
"""An object of the API as decoded JSON."""


class ObjectKey(NamedTuple):
    """The key of an object in the cluster."""

    resource: Resource
    namespace: str
    """Namespace; "": the object is not namespaced."""
    name: str

    @property
    def namespaced_name(self) -> str:
        """Return a name such as "team-a/train" (apimachinery pkg/types NamespacedName)."""
        return f"{self.namespace}/{self.name}"

    def __str__(self) -> str:
        """Return the key in the form used in messages, such as "Job team-a/train"."""
        return f"{self.resource.kind} {self.namespaced_name}" if self.namespace else self.name


class Verb(Enum):
    """The kind of request that a write makes."""

    CREATE = "create"
    JSON_PATCH = "json-patch"
    MERGE_PATCH = "merge-patch"
    DELETE = "delete"


class Write(NamedTuple):
    """One request that changes an object. A write is conditional: it fails if the object was replaced meanwhile."""

    verb: Verb
    key: ObjectKey
    purpose: str
    """Purpose in metrics and logs: "admit", "start", "stop: suspend"."""
    body: Json | list[Json] = {}  # noqa: RUF012 -- never changed
    """The object, the merge patch, or the operations of the JSON patch; empty for a deletion."""
    subresource: str = ""
    uid: str = ""
    """UID of the object; "": any. A patch carries it as a test or in its metadata, a deletion as a precondition."""
    resource_version: str = ""
    """Resource version of the object; "": any. A merge patch carries it in its metadata."""
    workload: str = ""
    """Key (namespace/name) of the Workload for which the write is made; "": none."""
    needs: Resource | None = None
    """A kind of which an object must be created next. The write is rejected if none can be created."""
