"""Publishes the NodeResourceTopology: the smallest patch for each change, and nothing without a change.

The API server's copy is read at the start, and after another client wrote or removed the object. A watch of this one
object shows that (zonewise.publish.object_watch), or a patch that fails. The copy is also read every VERIFY_EVERY
seconds, and every UNWATCHED_AFTER seconds without a watch. An absent object is applied whole. Each patch begins with a
test of the resource version, so that it applies only to the copy for which it was made. A restart of the agent writes
nothing.
"""

from __future__ import annotations

import logging
import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from zonewise.publish.json_patch import json_patch
from zonewise.publish.object_watch import NEVER_OBSERVED
from zonewise_common.k8s.hardware_conditions import AGENT_COMPONENT
from zonewise_common.kube.client import PatchKind
from zonewise_common.kube.errors import Conflict, Invalid, NotFound
from zonewise_common.kube.resources import NODE_RESOURCE_TOPOLOGIES, NODES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zonewise.publish.object_watch import Observation
    from zonewise_common.kube.resources import Resource


class ForeignChange(NamedTuple):
    """A change of the object by another client."""

    cause: str
    """DELETED or EDITED."""
    manager: str = ""
    """The field manager that edited it; empty if the server does not record it."""


class WriteResult(NamedTuple):
    """The data that one publish sent to the API server, and the change by others that it found."""

    operation: str
    """"apply", "patch" or "none"."""
    bytes: int = 0
    """Bytes of the request's body."""
    repaired: ForeignChange | None = None
    """The change that this write has undone."""
    age: float | None = 0.0
    """Seconds since the object was last seen to be correct; None if it is not."""


NO_WRITE = WriteResult("none")
DELETED, EDITED = "deleted", "edited"

log = logging.getLogger(__name__)

FIELD_MANAGER = AGENT_COMPONENT
VERIFY_EVERY = 600.0
"""Seconds after which the Node and the API server's copy are read again: the Node may be a new one with the
old name."""
UNWATCHED_AFTER = 60.0
"""Seconds after which the copy is read again if no watch shows that it is correct."""

Object = dict[str, Any]


class ObjectClient(Protocol):
    """The part of a zonewise.kube Client that is needed."""

    def get(self, resource: Resource, name: str) -> Object:
        """Return an object."""
        ...

    def apply(self, resource: Resource, obj: Object, *, field_manager: str) -> Object:
        """Apply a whole object and return the result."""
        ...

    def patch(
        self, resource: Resource, name: str, patch: Object | Sequence[Object], *, kind: PatchKind, field_manager: str
    ) -> Object:
        """Patch an object and return the result."""
        ...


class CopyWatch(Protocol):
    """A watch's knowledge of the API server's copy."""

    @property
    def observation(self) -> Observation:
        """Return the newest observation."""
        ...

    @property
    def age(self) -> float:
        """Return the seconds since the observation was last known to be current; infinite before the first
        observation.
        """
        ...


class NoWatch:
    """A watch that observes nothing."""

    observation = NEVER_OBSERVED
    age = math.inf


class _ServerCopy(NamedTuple):
    """The API server's copy."""

    object: Object
    """The fields that we manage."""
    resource_version: str
    manager: str = ""
    """The field manager that last wrote the copy."""


class NrtPublisher:
    """Publishes the object of one node. Not thread-safe."""

    def __init__(
        self, client: ObjectClient, watch: CopyWatch | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._watch: CopyWatch = watch or NoWatch()
        self._clock = clock
        self._known: _ServerCopy | None = None
        self._foreign_change: ForeignChange | None = None  # not repaired yet
        self._handled = NEVER_OBSERVED
        self._owner: Object | None = None
        self._had_owner = False
        self._verified_at = -math.inf
        self._read_at = -math.inf  # when a response last showed the server's copy

    def publish(self, desired: Object) -> WriteResult:
        """Make the API server's copy equal to the object. Raises KubeError; the next call retries.

        Once a Node of the name has existed, a missing object is created only while the Node exists. The garbage
        collector removes the object of a deleted Node, and the object must not return.
        """
        name = desired["metadata"]["name"]
        self._look(name)
        try:
            result = self._write(name, desired)
        except (Conflict, Invalid, NotFound) as error:
            log.debug("the NodeResourceTopology %s was changed: %s", name, error)
            self._read_copy(name)
            if self._known is None:
                self._read_owner(name)
            result = self._write(name, desired)
        if result.age is None:
            return result
        repaired, self._foreign_change = self._foreign_change, None
        return result._replace(repaired=repaired if result.operation != "none" else None, age=self._age())

    def _look(self, name: str) -> None:
        """Read the copy if it may have changed, and the Node from time to time."""
        observation = self._watch.observation
        is_new = observation is not self._handled
        if self._clock() - self._verified_at >= VERIFY_EVERY:
            self._read_owner(name)
            self._read_copy(name)
            self._verified_at = self._clock()
        elif (is_new and self._is_newer(observation)) or self._age() >= UNWATCHED_AFTER:
            self._read_copy(name)
            if self._known is None:
                self._read_owner(name)  # the garbage collector may have deleted the object
        self._handled = observation  # only now: a read that fails is repeated

    def _is_newer(self, observation: Observation) -> bool:
        """Return whether an observation is of a change after the known copy: neither our own write nor an earlier
        change.
        """
        if self._known is None or observation.version is None:
            return self._known is not None or observation.version is not None
        return observation.version > int(self._known.resource_version)

    def _age(self) -> float:
        """Return the seconds since the known copy was last known to be the server's."""
        return min(self._watch.age, self._clock() - self._read_at)

    def _read_copy(self, name: str) -> None:
        """Read the server's copy, and note changes by other clients since the last read."""
        before = self._known
        self._known = self._current_copy(name)
        self._read_at = self._clock()
        if before is None or (self._known is not None and before.object == self._known.object):
            return
        manager = self._known.manager if self._known is not None else ""
        self._foreign_change = ForeignChange(DELETED if self._known is None else EDITED, manager)

    def _current_copy(self, name: str) -> _ServerCopy | None:
        try:
            return _server_copy(self._client.get(NODE_RESOURCE_TOPOLOGIES, name))
        except NotFound:
            return None

    def _read_owner(self, name: str) -> None:
        try:
            uid = self._client.get(NODES, name)["metadata"]["uid"]
        except NotFound:
            if not self._had_owner:
                log.warning(
                    "there is no Node %s: the NodeResourceTopology has no owner, and remains when the node is deleted",
                    name,
                )
            self._owner = None
        else:
            self._owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
            self._had_owner = True

    def _write(self, name: str, desired: Object) -> WriteResult:
        known = self._known
        if known is None and self._owner is None and self._had_owner:
            self._read_owner(name)
            if self._owner is None:
                log.info("the Node %s no longer exists: its NodeResourceTopology is not created again", name)
                return NO_WRITE._replace(age=None)
        if known is None:
            owned = _with_owner(desired, [], self._owner)
            # uses the response, not a later read: a read would mistake another client's change for our own
            self._known = _server_copy(self._client.apply(NODE_RESOURCE_TOPOLOGIES, owned, field_manager=FIELD_MANAGER))
            self._read_at = self._clock()
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
        self._read_at = self._clock()
        return WriteResult("patch", len(msgspec.json.encode(patch)))


def _server_copy(obj: Object) -> _ServerCopy:
    return _ServerCopy(_managed_fields(obj), obj["metadata"]["resourceVersion"], _last_manager(obj))


def _managed_fields(obj: Object) -> Object:
    """Return the fields of an object that we manage: owners, attributes and zones."""
    metadata = {key: obj["metadata"][key] for key in ("name", "ownerReferences") if key in obj["metadata"]}
    content = {key: obj[key] for key in ("attributes", "zones") if key in obj}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata, **content}


def _last_manager(obj: Object) -> str:
    """Return the field manager that last wrote an object; empty if the server does not record it.

    Times are whole seconds. If two managers wrote in the same second, the one that is not ours is returned.
    """
    entries: list[Object] = obj["metadata"].get("managedFields") or []
    writes = [(str(entry.get("time", "")), str(entry.get("manager", ""))) for entry in entries]
    return max(writes, key=lambda write: (write[0], write[1] != FIELD_MANAGER), default=("", ""))[1]


def _with_owner(desired: Object, owners: list[Object], node: Object | None) -> Object:
    """Return the object with its Node as an owner, so that both are deleted together, and with its other owners."""
    if node is not None and node not in owners:
        # an owner of the same name is a deleted Node: its garbage collection would remove the object
        owners = [owner for owner in owners if (owner["kind"], owner["name"]) != ("Node", node["name"])] + [node]
    return {**desired, "metadata": {**desired["metadata"], **({"ownerReferences": owners} if owners else {})}}
