"""What the queue's pods hold of the nodes' zones, as their kubelets are foretold to give it."""

from __future__ import annotations

from collections import OrderedDict
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.nodes.assumed.assumed_state import exhausted
from zonewise_scheduler.tas.zones.node_filling import predict_admission
from zonewise_scheduler.tas.zones.pod_allocation import memory_zones, pod_allocation, reallocate, release

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable
    from zonewise_scheduler.tas.zones.kubelet_states import KubeletStates
    from zonewise_scheduler.tas.zones.pod_allocation import Allocation

PodSetKey = tuple[str, str]
"""The key of a workload, and the name of its pod set."""

_REMEMBERED = 1 << 16
"""Pods of which is known what they had when they left: those that a decision takes out for a while."""


class PodSetAllocations(NamedTuple):
    """Pods of one set on one node."""

    shape: PodShape
    allocations: tuple[Allocation, ...] = ()
    """By pod."""
    unallocated: int = 0
    """How many more are to be there and find no room; nothing is left of the node meanwhile."""

    @property
    def pod_count(self) -> int:
        """Return how many pods."""
        return len(self.allocations) + self.unallocated


class NodeAllocations(NamedTuple):
    """A node with pods of the queue."""

    state: NodeState | None
    """With those that have something; None: there is no report, and all are owed."""
    pod_sets: Mapping[PodSetKey, PodSetAllocations]
    """In the order in which they came."""

    @property
    def visible_state(self) -> NodeState | None:
        """Return the node as others find it."""
        crowded = self.state is not None and any(one.unallocated for one in self.pod_sets.values())
        return exhausted(self.state) if crowded and self.state is not None else self.state


class ZoneAllocations:
    """Which pods are on which nodes, and what each of them has.

    Pods are given what kubelets give them in the order in which they are added. One that leaves gives back just that,
    and has it again when it comes back, if nobody has taken it meanwhile: so what is tried out can be undone. What
    kubelets give is worked out only when somebody asks.
    """

    def __init__(self, kubelets: KubeletStates) -> None:
        self.kubelet_states = kubelets
        self.visible_states: dict[int, NodeState | None] = {}
        """By row, where pods of the queue are: as of the last time that somebody asked."""
        self.changed_rows: set[int] = set()
        """Rows that changed since the arrays of Kubelets had them."""
        self._hosts: dict[int, NodeAllocations] = {}
        self._due: set[int] = set()
        """Rows of which somebody has come or gone since."""
        self._left: OrderedDict[tuple[int, PodSetKey], tuple[Allocation, ...]] = OrderedDict()
        self._remembered = 0
        self._stamp = next(kubelets.versions)

    def version(self) -> int:
        """Return a number that is another whenever a node may be; copies that have the same are equal."""
        self._settle()
        return self._stamp

    def table(self) -> NodeStateTable:
        """Return all nodes as they are now."""
        self._settle()
        return self.kubelet_states.table(self)

    def copy(self) -> ZoneAllocations:
        """Return others that change on their own."""
        self._settle()
        made = ZoneAllocations(self.kubelet_states)
        made._hosts, made.visible_states, made.changed_rows = (
            dict(self._hosts),
            dict(self.visible_states),
            set(self.changed_rows),
        )
        made._stamp = self._stamp
        return made

    def zones(self, row: int, key: PodSetKey) -> list[int]:
        """Return the sets of zones that pods have on a node; 0 for one that has none or of which nothing is known."""
        self._settle()
        found = self._pods(row, key)
        return [] if found is None else [one.zones for one in found.allocations] + [0] * found.unallocated

    def add(self, row: int, key: PodSetKey, shape: PodShape, count: int) -> None:
        """Put pods on a node."""
        host = self._hosts.get(row) or NodeAllocations(self.kubelet_states.base_states[row], {})
        left = self._left.pop((row, key), ())
        self._remembered -= len(left)
        back: list[Allocation] = []
        for one in left[:count]:
            state = None if host.state is None else reallocate(host.state, one)
            if state is not None:
                host = host._replace(state=state)
                back.append(one)
        own = host.pod_sets.get(key, PodSetAllocations(shape))
        own = own._replace(allocations=own.allocations + tuple(back), unallocated=own.unallocated + count - len(back))
        self._put(row, host._replace(pod_sets={**host.pod_sets, key: own}))

    def remove(self, row: int, key: PodSetKey, count: int) -> None:
        """Take pods off a node: first those that found no room, then the last to come."""
        host, own = self._hosts.get(row), self._pods(row, key)
        if host is None or own is None:
            return
        stay = len(own.allocations) - max(count - own.unallocated, 0)
        gone = own.allocations[max(stay, 0) :]
        own = own._replace(allocations=own.allocations[: max(stay, 0)], unallocated=max(own.unallocated - count, 0))
        self._remember(row, key, gone)
        pods = {name: own if name == key else one for name, one in host.pod_sets.items()}
        if not own.pod_count:
            del pods[key]
        state = None if host.state is None else _without(host.state, gone, self._assigned(row, pods.values()))
        self._put(row, NodeAllocations(state, pods))

    def report(self, row: int, state: NodeState | None, reported_pods: Mapping[PodSetKey, int]) -> None:
        """Take a new report of a node; `there`: how many of the queue's pods it accounts for; None: there is none.

        Those have what they were foretold; the others are put on the node once more, as if they came now.
        """
        self._settle()
        host = self._hosts.get(row) or NodeAllocations(state, {})
        pods: dict[PodSetKey, PodSetAllocations] = {}
        for who, one in host.pod_sets.items():
            have = () if state is None else one.allocations[: reported_pods.get(who, 0)]
            pods[who] = one._replace(allocations=have, unallocated=one.pod_count - len(have))
        mine = tuple(chain.from_iterable(one.allocations for one in pods.values()))
        self.kubelet_states.set_base(row, None if state is None else _without(state, mine, _others(state, mine)))
        self._put(row, NodeAllocations(state, pods))

    def _pods(self, row: int, who: PodSetKey) -> PodSetAllocations | None:
        host = self._hosts.get(row)
        return None if host is None else host.pod_sets.get(who)

    def _assigned(self, row: int, pods: Iterable[PodSetAllocations]) -> int:
        """Return the zones of which others than the queue, or some pods of it, have memory."""
        bare = self.kubelet_states.base_states[row]
        found = 0 if bare is None else bare.memory_assigned
        for one in pods:
            found |= memory_zones(one.allocations)
        return found

    def _remember(self, row: int, who: PodSetKey, gone: tuple[Allocation, ...]) -> None:
        """Remember what pods had, of as many as were the last to leave."""
        if not gone:
            return
        self._left[row, who] = self._left.pop((row, who), ()) + gone
        self._remembered += len(gone)
        while self._remembered > _REMEMBERED and len(self._left) > 1:
            _, forgotten = self._left.popitem(last=False)
            self._remembered -= len(forgotten)

    def _put(self, row: int, host: NodeAllocations) -> None:
        self._due.add(row)
        if host.pod_sets:
            self._hosts[row] = host
        else:
            self._hosts.pop(row, None)

    def _settle(self) -> None:
        """Give as many of those that are owed as find room what they get."""
        if not self._due:
            return
        self._stamp = next(self.kubelet_states.versions)
        for row in self._due:
            host = self._hosts.get(row)
            if host is None:
                self.visible_states.pop(row, None)
                continue
            for who, one in host.pod_sets.items():
                if one.unallocated:
                    host = _admitted(host, who, one)
            self._hosts[row], self.visible_states[row] = host, host.visible_state
        self.changed_rows |= self._due
        self._due.clear()


def _admitted(host: NodeAllocations, who: PodSetKey, one: PodSetAllocations) -> NodeAllocations:
    """Return a node with as many of those that are owed as it admits."""
    have, owed, state = list(one.allocations), one.unallocated, host.state
    while owed and state is not None:
        verdict = predict_admission(state, one.shape)
        if verdict.after is None:
            break
        have.append(pod_allocation(state, verdict))
        state = verdict.after
        owed -= 1
    return NodeAllocations(state, {**host.pod_sets, who: PodSetAllocations(one.shape, tuple(have), owed)})


def _without(state: NodeState, gone: Sequence[Allocation], assigned: int) -> NodeState:
    for one in gone:
        state = release(state, one, assigned)
    return state


def _others(state: NodeState, mine: Sequence[Allocation]) -> int:
    """Return the set of zones of which others than these pods have memory: where some is missing without them."""
    bare = _without(state, mine, 0)
    rows = zip(state.kind.zones, bare.memory_free, state.kind.allocatable, strict=False)
    return state.memory_assigned & sum(1 << zone for zone, free, most in rows if free != most)
