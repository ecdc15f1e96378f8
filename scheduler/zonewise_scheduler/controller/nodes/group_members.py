"""The status of NodeFeatureGroups: the nodes that belong to each group, as recorded by their agents.

Agents evaluate the groups, and each records the groups of its Node in an annotation of that Node. So no agent writes
the status, which names every node. If N agents wrote and watched one object, they would cause N * N events of an object
with N entries. Deleted nodes leave the groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from zonewise_common.kube.resources import NODE_FEATURE_GROUPS
from zonewise_scheduler.controller.types import ObjectKey, Verb, Write

if TYPE_CHECKING:
    from collections.abc import Iterable

PURPOSE = "group status"
SETTLED = 1.0
"""Seconds from a change to its write, to collect further changes."""
SECONDS_PER_NODE = 0.02
"""Seconds between two writes of a group, for each node in it. Each write goes to every agent, which watches the groups
for their rules. An entry takes 76 bytes with its managed fields. So while a group changes, N agents read at most
N * 76 / 0.02 bytes per second: 19 MB per second for 5,000 nodes."""


class ObservedGroup(NamedTuple):
    """The tracked fields of a NodeFeatureGroup."""

    name: str
    """Name of the group (namespace/name)."""
    version: str
    nodes: tuple[str, ...]
    """Nodes in its status."""


class _GroupMetadata(msgspec.Struct, rename="camel", gc=False):
    name: str
    namespace: str
    resource_version: str


class _GroupNode(msgspec.Struct, gc=False):
    name: str


class _Status(msgspec.Struct, gc=False):
    nodes: list[_GroupNode] | None = None


class _NodeFeatureGroup(msgspec.Struct, gc=False):
    metadata: _GroupMetadata
    status: _Status = msgspec.field(default_factory=_Status)


_GROUP = msgspec.json.Decoder(_NodeFeatureGroup)


def decode_group(raw: msgspec.Raw | bytes) -> ObservedGroup:
    """Decode a NodeFeatureGroup. Raises msgspec.DecodeError."""
    group = _GROUP.decode(raw)
    metadata, nodes = group.metadata, group.status.nodes or ()
    name = f"{metadata.namespace}/{metadata.name}"
    return ObservedGroup(name, metadata.resource_version, tuple(node.name for node in nodes))


class GroupMembers:
    """Observed and recorded members of each group. Not safe for concurrent use by several threads."""

    def __init__(self) -> None:
        self._groups: dict[str, ObservedGroup] = {}
        self._by_node: dict[str, frozenset[str]] = {}
        self._members: dict[str, set[str]] = {}
        """Members by group. Groups without members are omitted."""
        self._is_evaluated = False
        """Whether any agent has evaluated groups. Otherwise another program writes the statuses."""

    def observe_node(self, name: str, groups: frozenset[str] | None) -> Iterable[str]:
        """Record the groups of a node, and return the groups whose members changed; None: deleted, or not evaluated."""
        if groups is not None and not self._is_evaluated:
            self._is_evaluated = True
            self._set_groups(name, groups)
            return tuple(self._groups)
        return self._set_groups(name, groups or frozenset())

    def observe_group(self, name: str, group: ObservedGroup | None) -> None:
        """Record a NodeFeatureGroup; None: it was deleted."""
        if group is None:
            self._groups.pop(name, None)
        else:
            self._groups[name] = group

    def status_write(self, name: str) -> Write | None:
        """Return the write that corrects the status of a group; None: it is correct, or there is no such group."""
        group, members = self._groups.get(name), sorted(self._members.get(name, ()))
        if group is None or not self._is_evaluated or sorted(group.nodes) == members:
            return None
        namespace, _, base = name.partition("/")
        body = {"status": {"nodes": [{"name": node} for node in members]}}
        key = ObjectKey(NODE_FEATURE_GROUPS, namespace, base)
        return Write(Verb.MERGE_PATCH, key, PURPOSE, body, subresource="status", resource_version=group.version)

    def interval(self, name: str) -> float:
        """Return the minimum number of seconds between two writes of a group's status."""
        return SECONDS_PER_NODE * len(self._members.get(name, ()))

    def _set_groups(self, node: str, groups: frozenset[str]) -> frozenset[str]:
        before = self._by_node.pop(node, frozenset[str]())
        if groups:
            self._by_node[node] = groups
        for group in groups - before:
            self._members.setdefault(group, set()).add(node)
        for group in before - groups:
            self._members[group].discard(node)
            if not self._members[group]:
                del self._members[group]
        return before ^ groups
