"""What the queue's pods are allocated of the nodes' zones, as predicted for their kubelets."""

from __future__ import annotations

from collections import OrderedDict
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.nodes.assumed.assumed_state import exhausted
from zonewise_scheduler.tas.zones.kubelet_states import NodeStateOverlay
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
"""A workload's key, and the name of its pod set."""

_REMOVED_LIMIT = 1 << 16
"""Pods whose allocations are kept after their removal; most are pods that a decision removes for a trial."""


class PodSetAllocations(NamedTuple):
    """The pods of one pod set on one node."""

    shape: PodShape
    allocations: tuple[Allocation, ...] = ()
    """By pod."""
    unallocated: int = 0
    """Pods that the node should have and that do not fit; meanwhile it counts as exhausted."""

    @property
    def pod_count(self) -> int:
        """Return the number of pods with and without an allocation."""
        return len(self.allocations) + self.unallocated


class NodeAllocations(NamedTuple):
    """A node with pods of the queue."""

    state: NodeState | None
    """The node with its allocated pods; None: it has no report, so all pods are unallocated."""
    pod_sets: Mapping[PodSetKey, PodSetAllocations]
    """In order of arrival."""

    @property
    def visible_state(self) -> NodeState | None:
        """Return the state that further pods see: exhausted while pods are unallocated."""
        if self.state is not None and any(pods.unallocated for pods in self.pod_sets.values()):
            return exhausted(self.state)
        return self.state


class ZoneAllocations:
    """The pods of the queue on each node, and the allocation of each pod.

    Pods get what their kubelets assign, in the order in which they are added. Allocations are computed only when the
    table, a version or zones are requested.

    Invariant: a trial that removes and adds pods, and then undoes this, leaves allocated pods as they were.
    1. A removed pod releases exactly its allocation, which is kept under its row and key.
    2. An added pod first gets a kept allocation of its row and key, unless another pod has part of it.
    3. Undoing a trial first removes the pods that the trial added; by 1 they no longer have part of it.
    A pod that was unallocated may get the released resources; then the removed pod gets what its kubelet assigns next.
    """

    def __init__(self, kubelet_states: KubeletStates) -> None:
        self.kubelet_states = kubelet_states
        self._overlay = NodeStateOverlay({}, ())
        """The visible states as of the last time that the allocations were computed."""
        self._nodes: dict[int, NodeAllocations] = {}
        self._pending_rows: set[int] = set()
        """Rows whose pods have changed since."""
        self._removed: OrderedDict[tuple[int, PodSetKey], tuple[Allocation, ...]] = OrderedDict()
        self._removed_count = 0
        self._version = next(kubelet_states.versions)

    def version(self) -> int:
        """Return a number that changes whenever a node may have changed; copies with the same number are equal."""
        self._allocate_pending()
        return self._version

    def table(self) -> NodeStateTable:
        """Return all nodes with the current pods."""
        self._allocate_pending()
        return self.kubelet_states.table(self._overlay)

    def copy(self) -> ZoneAllocations:
        """Return an independent copy."""
        self._allocate_pending()
        copied = ZoneAllocations(self.kubelet_states)
        copied._nodes = dict(self._nodes)
        copied._overlay = NodeStateOverlay(self._overlay.states, self._overlay.changed_rows)
        copied._version = self._version
        return copied

    def zones(self, row: int, key: PodSetKey) -> list[int]:
        """Return each pod's bitmask of zones on a node; 0 for a pod without an allocation, or without zones."""
        self._allocate_pending()
        pods = self._pods(row, key)
        if pods is None:
            return []
        return [allocation.zones for allocation in pods.allocations] + [0] * pods.unallocated

    def add(self, row: int, key: PodSetKey, shape: PodShape, count: int) -> None:
        """Add pods to a node."""
        node = self._nodes.get(row) or NodeAllocations(self.kubelet_states.base_states[row], {})
        removed = self._removed.pop((row, key), ())
        self._removed_count -= len(removed)
        restored: list[Allocation] = []
        for allocation in removed[:count]:
            state = None if node.state is None else reallocate(node.state, allocation)
            if state is not None:
                node = node._replace(state=state)
                restored.append(allocation)
        pods = node.pod_sets.get(key, PodSetAllocations(shape))
        pods = pods._replace(
            allocations=pods.allocations + tuple(restored), unallocated=pods.unallocated + count - len(restored)
        )
        self._set_node(row, node._replace(pod_sets={**node.pod_sets, key: pods}))

    def remove(self, row: int, key: PodSetKey, count: int) -> None:
        """Remove pods from a node: first unallocated ones, then the last to arrive."""
        node, pods = self._nodes.get(row), self._pods(row, key)
        if node is None or pods is None:
            return
        remaining = max(len(pods.allocations) - max(count - pods.unallocated, 0), 0)
        removed = pods.allocations[remaining:]
        pods = pods._replace(allocations=pods.allocations[:remaining], unallocated=max(pods.unallocated - count, 0))
        self._keep_removed(row, key, removed)
        pod_sets = {**node.pod_sets, key: pods}
        if not pods.pod_count:
            del pod_sets[key]
        state = node.state
        if state is not None:
            state = _release_all(state, removed, self._memory_zones_in_use(row, pod_sets.values()))
        self._set_node(row, NodeAllocations(state, pod_sets))

    def report(self, row: int, state: NodeState | None, reported_pods: Mapping[PodSetKey, int]) -> None:
        """Use a new report of a node; None: it has none. `reported_pods`: the queue's pods that the report contains.

        Reported pods keep their predicted allocations. The others are allocated again on top of the report.
        """
        self._allocate_pending()
        node = self._nodes.get(row) or NodeAllocations(state, {})
        pod_sets: dict[PodSetKey, PodSetAllocations] = {}
        for key, pods in node.pod_sets.items():
            reported = () if state is None else pods.allocations[: reported_pods.get(key, 0)]
            pod_sets[key] = pods._replace(allocations=reported, unallocated=pods.pod_count - len(reported))
        allocations = tuple(chain.from_iterable(pods.allocations for pods in pod_sets.values()))
        base = None
        if state is not None:
            base = _release_all(state, allocations, _foreign_memory_zones(state, allocations))
        self.kubelet_states.set_base(row, base)
        self._set_node(row, NodeAllocations(state, pod_sets))

    def _pods(self, row: int, key: PodSetKey) -> PodSetAllocations | None:
        node = self._nodes.get(row)
        return None if node is None else node.pod_sets.get(key)

    def _memory_zones_in_use(self, row: int, pod_sets: Iterable[PodSetAllocations]) -> int:
        """Return the bitmask of zones of which pods outside the queue, or these pods, have memory."""
        base = self.kubelet_states.base_states[row]
        zones = 0 if base is None else base.memory_assigned
        for pods in pod_sets:
            zones |= memory_zones(pods.allocations)
        return zones

    def _keep_removed(self, row: int, key: PodSetKey, allocations: tuple[Allocation, ...]) -> None:
        """Keep the allocations of removed pods, up to the limit; the oldest are dropped first."""
        if not allocations:
            return
        self._removed[row, key] = self._removed.pop((row, key), ()) + allocations
        self._removed_count += len(allocations)
        while self._removed_count > _REMOVED_LIMIT and len(self._removed) > 1:
            _, dropped = self._removed.popitem(last=False)
            self._removed_count -= len(dropped)

    def _set_node(self, row: int, node: NodeAllocations) -> None:
        self._pending_rows.add(row)
        if node.pod_sets:
            self._nodes[row] = node
        else:
            self._nodes.pop(row, None)

    def _allocate_pending(self) -> None:
        """Allocate as many unallocated pods as fit on the changed nodes."""
        if not self._pending_rows:
            return
        self._version = next(self.kubelet_states.versions)
        for row in self._pending_rows:
            node = self._nodes.get(row)
            if node is None:
                self._overlay.states.pop(row, None)
                continue
            for key, pods in node.pod_sets.items():
                if pods.unallocated:
                    node = _allocate(node, key, pods)
            self._nodes[row], self._overlay.states[row] = node, node.visible_state
        self._overlay.changed_rows |= self._pending_rows
        self._pending_rows.clear()


def _allocate(node: NodeAllocations, key: PodSetKey, pods: PodSetAllocations) -> NodeAllocations:
    """Return the node with as many unallocated pods of a pod set as it admits."""
    allocations, unallocated, state = list(pods.allocations), pods.unallocated, node.state
    while unallocated and state is not None:
        verdict = predict_admission(state, pods.shape)
        if verdict.after is None:
            break
        allocations.append(pod_allocation(state, verdict))
        state = verdict.after
        unallocated -= 1
    pods = PodSetAllocations(pods.shape, tuple(allocations), unallocated)
    return NodeAllocations(state, {**node.pod_sets, key: pods})


def _release_all(state: NodeState, allocations: Sequence[Allocation], zones_in_use: int) -> NodeState:
    for allocation in allocations:
        state = release(state, allocation, zones_in_use)
    return state


def _foreign_memory_zones(state: NodeState, allocations: Sequence[Allocation]) -> int:
    """Return the bitmask of zones of which other pods have memory: without these pods some of it is still missing."""
    base = _release_all(state, allocations, 0)
    rows = zip(state.kind.zones, base.memory_free, state.kind.allocatable, strict=False)
    return state.memory_assigned & sum(1 << zone for zone, free, allocatable in rows if free != allocatable)
