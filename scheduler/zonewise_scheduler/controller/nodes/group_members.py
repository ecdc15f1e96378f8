"""The status of NodeFeatureGroups: which nodes belong to each, as their agents record it.

Agents evaluate the groups; each records those of its Node in an annotation of that Node. So no agent writes the status,
which names every node. N agents that write one object, and watch it, cost N * N events of an object of N entries. Nodes
that are deleted leave the groups.
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
"""Seconds from a change to the write, for further changes."""
SECONDS_PER_NODE = 0.02
"""Between two writes of a group, by the nodes in it. Each write goes to every agent, which watches the groups for their
rules. An entry has 76 bytes with its managed fields. So while a group changes, N agents read N * 76 / 0.02 bytes a
second at most: 19 MB a second for 5,000 nodes."""


class ObservedGroup(NamedTuple):
    """What is tracked of a NodeFeatureGroup."""

    name: str
    """namespace/name."""
    version: str
    nodes: tuple[str, ...]
    """Of its status."""


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
    """Which nodes belong to which group, observed and recorded. Not safe for use by several threads at once."""

    def __init__(self) -> None:
        self._groups: dict[str, ObservedGroup] = {}
        self._by_node: dict[str, frozenset[str]] = {}
        self._members: dict[str, set[str]] = {}
        """By group, without groups that have none."""
        self._is_evaluated = False
        """Whether any agent has evaluated groups: otherwise the statuses are those of another program."""

    def observe_node(self, name: str, groups: frozenset[str] | None) -> Iterable[str]:
        """Use the groups of a node; None: it is deleted, or not evaluated. Return the groups whose members changed."""
        if groups is not None and not self._is_evaluated:
            self._is_evaluated = True
            self._set_groups(name, groups)
            return tuple(self._groups)
        return self._set_groups(name, groups or frozenset())

    def observe_group(self, name: str, group: ObservedGroup | None) -> None:
        """Use a NodeFeatureGroup; None: it is deleted."""
        if group is None:
            self._groups.pop(name, None)
        else:
            self._groups[name] = group

    def status_write(self, name: str) -> Write | None:
        """Return the write after which the status of a group is right; None: it is, or there is no such group."""
        group, members = self._groups.get(name), sorted(self._members.get(name, ()))
        if group is None or not self._is_evaluated or sorted(group.nodes) == members:
            return None
        namespace, _, base = name.partition("/")
        body = {"status": {"nodes": [{"name": node} for node in members]}}
        key = ObjectKey(NODE_FEATURE_GROUPS, namespace, base)
        return Write(Verb.MERGE_PATCH, key, PURPOSE, body, subresource="status", resource_version=group.version)

    def interval(self, name: str) -> float:
        """Return the seconds between two writes of a group's status."""
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
