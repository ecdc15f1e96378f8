"""Publishes the NodeResourceTopology: the smallest patch of a change, and nothing without one.

The API server's copy is read at the start, every VERIFY_EVERY seconds, and when a patch does not fit because another
client wrote or removed the object. An absent object is applied whole. Each patch begins with a test of the resource
version, so that it can only apply to the copy for which it was made. A restart of the agent writes nothing.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from zonewise.publish.json_patch import json_patch
from zonewise_common.kube.client import PatchKind
from zonewise_common.kube.errors import Conflict, Invalid, NotFound
from zonewise_common.kube.resources import NODE_RESOURCE_TOPOLOGIES, NODES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zonewise_common.kube.resources import Resource


class WriteResult(NamedTuple):
    """What one publish sent to the API server."""

    operation: str
    """"apply", "patch" or "none"."""
    bytes: int = 0
    """Of the request's body."""


NO_WRITE = WriteResult("none")


log = logging.getLogger(__name__)

FIELD_MANAGER = "zonewise-agent"
VERIFY_EVERY = 600.0
"""Seconds after which the API server's copy is read again. Another client may have removed or changed it, or the Node
may be a new one of the old name. That is one GET of a few KB a node in ten minutes, and no watch to keep open."""

Object = dict[str, Any]


class ObjectClient(Protocol):
    """The part of a zonewise.kube Client that is needed."""

    def get(self, resource: Resource, name: str) -> Object:
        """Return an object."""
        ...

    def apply(self, resource: Resource, obj: Object, *, field_manager: str) -> Object:
        """Apply a whole object, and return the result."""
        ...

    def patch(
        self, resource: Resource, name: str, patch: Object | Sequence[Object], *, kind: PatchKind, field_manager: str
    ) -> Object:
        """Patch an object, and return the result."""
        ...


class _ServerCopy(NamedTuple):
    """The API server's copy."""

    object: Object
    """The fields that we manage."""
    resource_version: str


class NrtPublisher:
    """Publishes the object of one node. Not for several threads at once."""

    def __init__(self, client: ObjectClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._known: _ServerCopy | None = None
        self._owner: Object | None = None
        self._verified_at = -VERIFY_EVERY

    def publish(self, desired: Object) -> WriteResult:
        """Make the API server's copy equal to the object. Raises KubeError; the next call then continues."""
        name = desired["metadata"]["name"]
        if self._clock() - self._verified_at >= VERIFY_EVERY:
            self._owner = self._read_node(name)
            self._known = self._read_copy(name)
            self._verified_at = self._clock()
        try:
            return self._write(name, desired)
        except (Conflict, Invalid, NotFound) as error:
            log.info("the NodeResourceTopology %s was changed by another client: %s", name, error)
            self._known = self._read_copy(name)
            return self._write(name, desired)

    def _read_copy(self, name: str) -> _ServerCopy | None:
        try:
            current = self._client.get(NODE_RESOURCE_TOPOLOGIES, name)
        except NotFound:
            return None
        return _ServerCopy(_managed_fields(current), current["metadata"]["resourceVersion"])

    def _read_node(self, name: str) -> Object | None:
        try:
            uid = self._client.get(NODES, name)["metadata"]["uid"]
        except NotFound:
            log.warning("there is no Node %s: the NodeResourceTopology has no owner, and outlives the node", name)
            return None
        return {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}

    def _write(self, name: str, desired: Object) -> WriteResult:
        known = self._known
        if known is None:
            owned = _with_owner(desired, [], self._owner)
            self._client.apply(NODE_RESOURCE_TOPOLOGIES, owned, field_manager=FIELD_MANAGER)
            self._known = self._read_copy(name)
            return WriteResult("apply", len(msgspec.json.encode(owned)))
        owned = _with_owner(desired, known.object["metadata"].get("ownerReferences", []), self._owner)
        operations = json_patch(known.object, owned)
        if not operations:
            return NO_WRITE
        patch = [{"op": "test", "path": "/metadata/resourceVersion", "value": known.resource_version}, *operations]
        written = self._client.patch(
            NODE_RESOURCE_TOPOLOGIES, name, patch, kind=PatchKind.JSON, field_manager=FIELD_MANAGER
        )
        self._known = _ServerCopy(owned, written["metadata"]["resourceVersion"])
        return WriteResult("patch", len(msgspec.json.encode(patch)))


def _managed_fields(obj: Object) -> Object:
    """Return the fields of an object that we manage: owners, attributes and zones."""
    metadata = {key: obj["metadata"][key] for key in ("name", "ownerReferences") if key in obj["metadata"]}
    content = {key: obj[key] for key in ("attributes", "zones") if key in obj}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata, **content}


def _with_owner(desired: Object, owners: list[Object], node: Object | None) -> Object:
    """Return the object with its Node as owner, so that both are deleted together, and with its other owners."""
    if node is not None and node not in owners:
        # an owner of the same name is a deleted Node: its garbage collection would remove the object
        owners = [owner for owner in owners if (owner["kind"], owner["name"]) != ("Node", node["name"])] + [node]
    return {**desired, "metadata": {**desired["metadata"], **({"ownerReferences": owners} if owners else {})}}
