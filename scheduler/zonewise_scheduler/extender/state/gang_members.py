"""Tracks the members of each gang, and how many of them have nodes.

Each living pod of a PodGroup is in one of these states. "-" means no change.

| state   | assume  | forget  | API: unbound | API: bound | API: terminated or deleted |
|---------|---------|---------|--------------|------------|----------------------------|
| waiting | assumed | -       | -            | bound      | no member                  |
| assumed | -       | waiting | -            | bound      | no member                  |
| bound   | -       | -       | -            | -          | no member                  |

A terminated pod does not count, as in the Coscheduling plugin (pkg/coscheduling/core/core.go CalculateAssignedPods).
Its replacement is a waiting member of a group that lacks one.
"""

from __future__ import annotations

from enum import Enum
from itertools import count
from typing import TYPE_CHECKING

from zonewise_scheduler.extender.objects.served import Served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.extender.objects.pod_group import PodGroup
    from zonewise_scheduler.quota.api.pod_group_key import GroupKey


class MemberState(Enum):
    """The state of a living pod of a group."""

    WAITING = "waiting"
    ASSUMED = "assumed"
    BOUND = "bound"


_VERSIONS = count()
"""Source of versions, so that a gang that is removed and recreated has a different version."""


class _Gang:
    __slots__ = ("group", "members", "scheduler", "version")

    def __init__(self) -> None:
        self.group: PodGroup | None = None
        self.members: dict[str, MemberState] = {}
        self.scheduler = ""
        self.version = next(_VERSIONS)


class GangMembers:
    """See the module. UIDs identify the members."""

    def __init__(self) -> None:
        self._gangs: dict[GroupKey, _Gang] = {}
        self._keys: dict[str, GroupKey] = {}
        self._served: dict[str, Served] = {}

    # --- events

    def set_served(self, api_group: str, served: Served) -> None:
        """Set whether an API is served; if it is not, or may not be read, its groups are unknown."""
        if self._served.get(api_group) == served:
            return
        self._served[api_group] = served
        if served in (Served.NO, Served.FORBIDDEN):
            for key in [key for key in self._gangs if key.api_group == api_group]:
                self.remove_group(key)

    def set_group(self, group: PodGroup) -> None:
        """Add a PodGroup, or update it."""
        gang = self._gangs.setdefault(group.key, _Gang())
        gang.group = group
        gang.version = next(_VERSIONS)

    def remove_group(self, key: GroupKey) -> None:
        """Remove a PodGroup; its pods remain known."""
        gang = self._gangs.get(key)
        if gang is not None:
            gang.group = None
            gang.version = next(_VERSIONS)
            self._drop_empty(key, gang)

    def request(self, key: GroupKey, scheduler: str) -> None:
        """Record that kube-scheduler has filtered a member; `scheduler`: the name of the pod's scheduler."""
        gang = self._gangs.get(key)
        if gang is not None and gang.scheduler != scheduler:
            gang.scheduler = scheduler
            gang.version = next(_VERSIONS)

    def observe(self, uid: str, key: GroupKey | None, *, bound: bool) -> None:
        """Add or update a living pod from the API; `key`: None if the pod names no group."""
        if self._keys.get(uid) != key:
            self.remove(uid)
        if key is None:
            return
        self._keys[uid] = key
        if bound:
            self._set(uid, MemberState.BOUND)
        elif uid not in self._gangs.setdefault(key, _Gang()).members:
            self._set(uid, MemberState.WAITING)

    def assume(self, uid: str) -> None:
        """Record that a member has a node."""
        if self.state(uid) is MemberState.WAITING:
            self._set(uid, MemberState.ASSUMED)

    def forget(self, uid: str) -> None:
        """Record that a member that was assumed has no node."""
        if self.state(uid) is MemberState.ASSUMED:
            self._set(uid, MemberState.WAITING)

    def remove(self, uid: str) -> None:
        """Remove a pod that has terminated or was deleted, if it is a member."""
        key = self._keys.pop(uid, None)
        if key is not None:
            gang = self._gangs[key]
            del gang.members[uid]
            gang.version = next(_VERSIONS)
            self._drop_empty(key, gang)

    def touch(self, uid: str) -> None:
        """Record that something else about a member has changed, such as its scheduling gates."""
        key = self._keys.get(uid)
        if key is not None:
            self._gangs[key].version = next(_VERSIONS)

    def _set(self, uid: str, state: MemberState) -> None:
        gang = self._gangs.setdefault(self._keys[uid], _Gang())
        if gang.members.get(uid) is not state:
            gang.members[uid] = state
            gang.version = next(_VERSIONS)

    def _drop_empty(self, key: GroupKey, gang: _Gang) -> None:
        if gang.group is None and not gang.members:
            del self._gangs[key]

    # --- queries

    def key(self, uid: str) -> GroupKey | None:
        """Return the group that a member names, or None for other pods."""
        return self._keys.get(uid)

    def state(self, uid: str) -> MemberState | None:
        """Return the state of a member, or None for other pods."""
        key = self._keys.get(uid)
        return None if key is None else self._gangs[key].members[uid]

    def version(self, key: GroupKey) -> int:
        """Return a number that changes with a PodGroup and its members, or -1 if neither exists."""
        gang = self._gangs.get(key)
        return -1 if gang is None else gang.version

    def group(self, key: GroupKey) -> PodGroup | None:
        """Return a PodGroup, or None if it does not exist."""
        gang = self._gangs.get(key)
        return None if gang is None else gang.group

    def scheduler(self, key: GroupKey) -> str:
        """Return the scheduler name of the member that kube-scheduler filtered last, or "" if it filtered none."""
        gang = self._gangs.get(key)
        return "" if gang is None else gang.scheduler

    def members(self, key: GroupKey, *states: MemberState) -> list[str]:
        """Return the members in the given states, in the order of their observation."""
        gang = self._gangs.get(key)
        return [] if gang is None else [uid for uid, state in gang.members.items() if state in states]

    def assumed(self) -> list[str]:
        """Return the assumed members of all groups."""
        return [
            uid for gang in self._gangs.values() for uid, state in gang.members.items() if state is MemberState.ASSUMED
        ]

    def is_single(self, key: GroupKey) -> bool:
        """Return whether the next waiting pod of a group is placed by itself.

        This is the case if the API of the group is not served, the group is not a gang, or enough members have nodes.
        """
        group = self.group(key)
        if group is None:
            return self._served.get(key.api_group) is Served.NO
        return not group.is_gang or (not group.level and self.required(key) == 0)

    def required(self, key: GroupKey) -> int:
        """Return the number of waiting members that must be placed together; 0 if enough members have nodes."""
        group = self.group(key)
        if group is None:
            return 0
        with_nodes = len(self.members(key, MemberState.ASSUMED, MemberState.BOUND))
        # if all nodes must share a domain, no member is placed by itself
        least = 1 if group.level and self.members(key, MemberState.WAITING) else 0
        return max(group.min_member - with_nodes, least)

    def rejection(self, key: GroupKey, ready: int) -> str | None:
        """Return why no member of a group can be placed on any nodes, or None if members can be placed.

        `ready`: the number of waiting members that a scheduler may bind.
        """
        if self.is_single(key):
            return None
        if self.group(key) is not None:
            missing = self.required(key) - ready
            return f"waits for {missing} more pod{'s' if missing > 1 else ''} of {key}" if missing > 0 else None
        served = self._served.get(key.api_group, Served.UNKNOWN)
        if served is Served.UNKNOWN:
            return f"waits for the first list of PodGroups; the pod names {key}"
        if served is Served.FORBIDDEN:
            return f"{key} cannot be read: the extender lacks the permission to list podgroups.{key.api_group}"
        return f"waits for {key}, which does not exist"

    def requested_gangs(self) -> Iterator[PodGroup]:
        """Yield the gangs that need nodes for some members, and one of whose members kube-scheduler has filtered."""
        for gang in self._gangs.values():
            if gang.group is not None and gang.scheduler and not self.is_single(gang.group.key):
                yield gang.group
