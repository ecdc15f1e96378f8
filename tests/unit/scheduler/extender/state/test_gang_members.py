"""Membership of pods in gangs: examples, and random events compared with a model."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from zonewise_scheduler.extender.objects.pod_group import PodGroup
from zonewise_scheduler.extender.objects.served import Served
from zonewise_scheduler.extender.state.gang_members import GangMembers, MemberState
from zonewise_scheduler.quota.api.pod_group_key import GroupKey

API = "scheduling.x-k8s.io"
KEY = GroupKey(API, "lab", "trainer")
OTHER = GroupKey(API, "lab", "server")
WAITING, ASSUMED, BOUND = MemberState.WAITING, MemberState.ASSUMED, MemberState.BOUND


def members(count: int, **group: Any) -> GangMembers:
    """Return a group with waiting pods p0, p1, ..."""
    gangs = GangMembers()
    gangs.set_served(API, Served.YES)
    gangs.set_group(PodGroup(KEY, **group))
    for index in range(count):
        gangs.observe(f"p{index}", KEY, bound=False)
    return gangs


def test_incomplete() -> None:
    gangs = members(2, min_member=4)
    assert gangs.rejection(KEY, 2) == "waits for 2 more pods of PodGroup lab/trainer"
    gangs.observe("p2", KEY, bound=True)
    assert gangs.rejection(KEY, 2) == "waits for 1 more pod of PodGroup lab/trainer"


def test_complete() -> None:
    gangs = members(4, min_member=4)
    assert gangs.rejection(KEY, 4) is None
    assert gangs.required(KEY) == 4
    assert not gangs.is_single(KEY)
    assert gangs.members(KEY, WAITING) == ["p0", "p1", "p2", "p3"]


def test_requested() -> None:
    """A gang is to be placed after kube-scheduler has filtered a member, until enough members have nodes."""
    gangs = members(2, min_member=2)
    assert list(gangs.requested_gangs()) == []
    gangs.request(KEY, "zonewise")
    assert [group.key for group in gangs.requested_gangs()] == [KEY]
    assert gangs.scheduler(KEY) == "zonewise"
    gangs.assume("p0")
    gangs.assume("p1")
    assert list(gangs.requested_gangs()) == []
    assert gangs.assumed() == ["p0", "p1"]


def test_unready_members() -> None:
    """Members with scheduling gates do not count, although they wait."""
    assert members(4, min_member=4).rejection(KEY, 3) == "waits for 1 more pod of PodGroup lab/trainer"


def test_replacement() -> None:
    """When enough members have nodes, further ones are placed one by one; a lost member is required again."""
    gangs = members(3, min_member=3)
    for uid in ("p0", "p1", "p2"):
        gangs.assume(uid)
    gangs.observe("p3", KEY, bound=False)
    assert gangs.is_single(KEY)
    gangs.remove("p1")
    assert not gangs.is_single(KEY)
    assert gangs.required(KEY) == 1
    assert gangs.rejection(KEY, 1) is None
    gangs.forget("p0")
    assert gangs.required(KEY) == 2
    assert gangs.members(KEY, WAITING) == ["p0", "p3"]


def test_group_for_single_pods() -> None:
    assert members(1, min_member=1).is_single(KEY)


def test_topology_of_single_pods() -> None:
    """If all pods must share a domain, none of them is placed as a single pod."""
    gangs = members(2, min_member=1, level="rack")
    assert gangs.required(KEY) == 1
    gangs.assume("p0")
    assert not gangs.is_single(KEY)
    assert gangs.required(KEY) == 1
    assert gangs.members(KEY, ASSUMED, BOUND) == ["p0"]


def test_missing_group() -> None:
    gangs = GangMembers()
    gangs.observe("p0", KEY, bound=False)
    assert gangs.rejection(KEY, 1) == "waits for the first list of PodGroups; the pod names PodGroup lab/trainer"
    gangs.set_served(API, Served.FORBIDDEN)
    assert gangs.rejection(KEY, 1) == (
        "PodGroup lab/trainer cannot be read: the extender lacks the permission to list podgroups.scheduling.x-k8s.io"
    )
    gangs.set_served(API, Served.YES)
    assert gangs.rejection(KEY, 1) == "waits for PodGroup lab/trainer, which does not exist"
    assert not gangs.is_single(KEY)


def test_api_is_not_served() -> None:
    """If the API is not served, the label has no effect, and known groups are removed."""
    gangs = members(1, min_member=4)
    gangs.set_served(API, Served.NO)
    assert gangs.is_single(KEY)
    assert gangs.rejection(KEY, 1) is None
    assert gangs.group(KEY) is None


def test_groups_that_may_no_longer_be_read() -> None:
    """Groups may be deleted while the API is forbidden, so only groups listed afterwards exist."""
    gangs = members(1, min_member=4)
    gangs.set_served(API, Served.FORBIDDEN)
    gangs.set_served(API, Served.YES)
    assert gangs.rejection(KEY, 1) == "waits for PodGroup lab/trainer, which does not exist"


def test_pod_without_group() -> None:
    gangs = members(1, min_member=2)
    gangs.observe("p0", None, bound=False)
    assert gangs.key("p0") is None
    assert gangs.members(KEY, WAITING) == []
    gangs.observe("single", None, bound=True)
    assert gangs.key("single") is None


UIDS = st.sampled_from([f"p{index}" for index in range(6)])
KEYS = st.sampled_from([KEY, OTHER])


class Members(RuleBasedStateMachine):
    """A model of the state of each pod and the size of each group."""

    def __init__(self) -> None:
        super().__init__()
        self.gangs = GangMembers()
        self.gangs.set_served(API, Served.YES)
        self.pods: dict[str, tuple[GroupKey, MemberState]] = {}
        self.sizes: dict[GroupKey, int] = {}

    def change(self, uid: str, before: MemberState, after: MemberState) -> None:
        key, state = self.pods.get(uid, (KEY, None))
        if state is before:
            self.pods[uid] = key, after

    @rule(uid=UIDS, key=KEYS, bound=st.booleans())
    def observe(self, uid: str, key: GroupKey, bound: bool) -> None:
        if self.pods.get(uid, (None, None))[0] != key:
            self.pods[uid] = key, WAITING
        if bound:
            self.pods[uid] = key, BOUND
        self.gangs.observe(uid, key, bound=bound)

    @rule(uid=UIDS)
    def assume(self, uid: str) -> None:
        self.change(uid, WAITING, ASSUMED)
        self.gangs.assume(uid)

    @rule(uid=UIDS)
    def forget(self, uid: str) -> None:
        self.change(uid, ASSUMED, WAITING)
        self.gangs.forget(uid)

    @rule(uid=UIDS)
    def remove(self, uid: str) -> None:
        self.pods.pop(uid, None)
        self.gangs.remove(uid)

    @rule(key=KEYS, size=st.integers(1, 5))
    def set_group(self, key: GroupKey, size: int) -> None:
        self.sizes[key] = size
        self.gangs.set_group(PodGroup(key, size))
        self.gangs.request(key, "zonewise")

    @precondition(lambda self: self.sizes)
    @rule(key=KEYS)
    def remove_group(self, key: GroupKey) -> None:
        self.sizes.pop(key, None)
        self.gangs.remove_group(key)

    @invariant()
    def counts(self) -> None:
        requested = {group.key for group in self.gangs.requested_gangs()}
        for key in (KEY, OTHER):
            uids = {
                state: {uid for uid, pod in self.pods.items() if pod == (key, state)}
                for state in (WAITING, ASSUMED, BOUND)
            }
            for state, expected in uids.items():
                assert set(self.gangs.members(key, state)) == expected
                assert all(self.gangs.state(uid) is state and self.gangs.key(uid) == key for uid in expected)
            size = self.sizes.get(key)
            with_nodes = len(uids[ASSUMED]) + len(uids[BOUND])
            assert self.gangs.required(key) == (0 if size is None else max(size - with_nodes, 0))
            assert (key in requested) == (size is not None and size > 1 and with_nodes < size)
            assert (self.gangs.group(key) is None) == (size is None)


TestMembers = Members.TestCase
TestMembers.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
