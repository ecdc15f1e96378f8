"""The zone resources that the kubelets are predicted to allocate to the queue's pods."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.nodes.assumed.assumed_state import AssumedState, exhausted
from zonewise_scheduler.tas.zones.kubelet_states import NodeStateOverlay
from zonewise_scheduler.tas.zones.node_filling import predict_admission
from zonewise_scheduler.tas.zones.pod_allocation import memory_zones, pod_allocation, reallocate, release
from zonewise_scheduler.tas.zones.reported_node import is_admitted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable
    from zonewise_scheduler.quota.hierarchy.topology_snapshot import SentPods
    from zonewise_scheduler.tas.zones.kubelet_states import KubeletStates
    from zonewise_scheduler.tas.zones.pod_allocation import Allocation, PodSetKey

_REMOVED_LIMIT = 1 << 16
"""Maximum number of removed pods whose allocations are kept; most were removed by a decision for a trial."""
MIN_REMOVALS = 1024
"""Number of removals that are kept even if fewer pod sets are on nodes. Each may keep two states of a node."""


class PodSetAllocations(NamedTuple):
    """The pods of one pod set on one node."""

    shape: PodShape
    allocations: tuple[Allocation, ...] = ()
    """One allocation for each allocated pod."""
    unallocated: int = 0
    """Number of placed pods that do not fit; while there are any, the node counts as exhausted."""

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
    unclaimed: Mapping[PodSetKey, tuple[Allocation, ...]]
    """Reported pods that are not in `pod_sets`; the resources that they hold are not available in `state`."""
    revision: int
    """Revision of the report (KubeletStates.row_revision)."""

    @property
    def visible_state(self) -> NodeState | None:
        """Return the state that further pods see: exhausted while pods are unallocated."""
        if self.state is not None and any(pods.unallocated for pods in self.pod_sets.values()):
            return exhausted(self.state)
        return self.state


class _RemovedPods(NamedTuple):
    """Pods of a pod set that were removed from a node."""

    allocations: tuple[Allocation, ...]
    revision: int
    """Revision of the node's report."""


class _Removal(NamedTuple):
    """The removal of pods from a node; it is cached because trials repeatedly remove and add the same pods."""

    before: NodeAllocations
    after: NodeAllocations
    removed: tuple[Allocation, ...]


class _Removals:
    """The last removals by row, pod set and number of pods. They are all forgotten once there are too many.

    Each pod set that ends leaves an entry which is never used again. So the limit follows the number of pod sets on
    the nodes: a trial removes each of them at most once.
    """

    def __init__(self) -> None:
        self._by_pods: dict[tuple[int, PodSetKey, int], _Removal] = {}
        self._limit = MIN_REMOVALS

    def get(self, row: int, key: PodSetKey, count: int) -> _Removal | None:
        """Return the last removal of as many pods of a pod set from a node."""
        return self._by_pods.get((row, key, count))

    def put(self, row: int, key: PodSetKey, count: int, removal: _Removal) -> None:
        """Replace the last removal."""
        self._by_pods[row, key, count] = removal

    def limit(self, nodes: Iterable[NodeAllocations]) -> None:
        """Forget all removals if there are too many for the pod sets on the nodes."""
        if len(self._by_pods) >= self._limit:
            self._by_pods.clear()
            self._limit = max(MIN_REMOVALS, 2 * sum(len(node.pod_sets) for node in nodes))


class ZoneAllocations:
    """The pods of the queue on each node, and the allocation of each pod.

    Pods get the predicted assignments of their kubelets, in the order in which they are added. Allocations are computed
    only when the table, a version or zones are requested.

    Invariant: a trial that removes and adds pods, and then undoes these changes, leaves the allocated pods unchanged.
    1. A removed pod releases exactly its allocation, which is kept under its row and key.
    2. An added pod first gets a kept allocation of its row and key, unless another pod has part of it.
    3. Undoing a trial first removes the pods that the trial added; by 1, they then hold no part of that allocation.
    4. Adding removed pods to a node that is unchanged since their removal restores the node from before the removal.
    An unallocated pod may get the released resources. Then the removed pod gets the next assignment of its kubelet.

    Invariant: each added pod and each reported pod counts once, whichever comes first.
    1. The initial state of a node excludes the resources that its reported pods hold. All these pods are unclaimed.
    2. An added pod claims an unclaimed pod of its pod set that holds all its requests; the state does not change.
    3. Any other added pod gets an allocation of its own.
    4. A new report repeats this with all added pods, so the pods in the report have the resources that they hold.
    A pod that a report shows only in part counts twice, as reported and as predicted, until a report shows all of it.
    """

    def __init__(self, kubelet_states: KubeletStates) -> None:
        self.kubelet_states = kubelet_states
        self._overlay = NodeStateOverlay({}, ())
        """The visible states after the last computation of allocations."""
        self._nodes: dict[int, NodeAllocations] = {}
        self._pending_rows: set[int] = set()
        """Rows whose pods have changed since that computation."""
        self._removed: OrderedDict[tuple[int, PodSetKey], _RemovedPods] = OrderedDict()
        self._removed_count = 0
        self._removals = _Removals()
        """Copies share it."""
        self._version = next(kubelet_states.versions)
        self._revision = kubelet_states.revision
        """Revision of the last report that the overlay contains."""

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
        copied = self._copy(self.kubelet_states)
        copied._removals = self._removals
        return copied

    def copy_for_thread(self) -> ZoneAllocations:
        """Return a copy for another thread, with kubelet states of its own."""
        return self._copy(self.kubelet_states.copy())

    def _copy(self, kubelet_states: KubeletStates) -> ZoneAllocations:
        self._allocate_pending()
        copied = ZoneAllocations(kubelet_states)
        copied._nodes = dict(self._nodes)
        copied._overlay = NodeStateOverlay(self._overlay.states, self._overlay.changed_rows)
        copied._version, copied._revision = self._version, self._revision
        return copied

    def predicted_allocations(self, row: int, key: PodSetKey) -> tuple[Allocation, ...]:
        """Return the allocation of each pod of a pod set on a node, even if it has not been computed yet.

        The call changes nothing, so later decisions do not depend on it.
        """
        node = self._allocated_node(row)
        return node.pod_sets[key].allocations if key in node.pod_sets else ()

    def admits_next(self, row: int, key: PodSetKey, sent: Mapping[PodSetKey, SentPods]) -> bool:
        """Return whether a node's kubelet will admit all of its pods if one pod of `key` is sent to it now.

        Sent pods may arrive in any order, and the kubelet assigns each the best zones at that moment. So for every
        order, the kubelet must admit all sent pods, and then all others in the order in which they were added. Then
        the first of the others can be sent once the sent pods have arrived. True for a node without a report. The call
        changes nothing.
        """
        node = self._allocated_node(row)
        if node.state is None or key not in node.pod_sets:
            return True
        if any(pods.unallocated for pods in node.pod_sets.values()):
            return False
        in_flight, held = _not_arrived(node, sent)
        if not held.get(key):
            return True
        shapes = {node.pod_sets[other].shape for other in in_flight}
        if shapes <= {node.pod_sets[key].shape} and key == next(iter(held)):
            return True
        base = node
        for other, count in (*in_flight.items(), *held.items()):
            base = self._removal(row, base, other, count).after
        in_flight[key] = in_flight.get(key, 0) + 1
        held[key] -= 1
        return base.state is not None and _admits_in_any_order(base.state, node, in_flight, held)

    def add(self, row: int, key: PodSetKey, shape: PodShape, count: int) -> None:
        """Add pods to a node."""
        node = self._node(row)
        removal = self._removals.get(row, key, count)
        if removal is not None and removal.after is node and removal.before.pod_sets[key].shape == shape:
            self._take_removed(row, key)
            self._set_node(row, removal.before)
            return
        pods = node.pod_sets.get(key, PodSetAllocations(shape))
        node = _claim(node, key, pods._replace(unallocated=pods.unallocated + count))
        pods, state = node.pod_sets[key], node.state
        removed = self._take_removed(row, key)
        restored: list[Allocation] = []
        for allocation in removed[: min(count, pods.unallocated)]:
            after = None if state is None else reallocate(state, allocation)
            if after is not None:
                state = after
                restored.append(allocation)
        pods = pods._replace(
            allocations=pods.allocations + tuple(restored), unallocated=pods.unallocated - len(restored)
        )
        self._set_node(row, node._replace(state=state, pod_sets={**node.pod_sets, key: pods}))

    def remove(self, row: int, key: PodSetKey, count: int) -> None:
        """Remove pods from a node: first the unallocated ones, then the last to arrive."""
        node = self._node(row)
        pods = node.pod_sets.get(key)
        if pods is None:
            return
        removal = self._removals.get(row, key, count)
        if removal is None or removal.before is not node:
            self._removals.limit(self._nodes.values())
            removal = self._removal(row, node, key, count)
            self._removals.put(row, key, count, removal)
        self._keep_removed(row, key, removal.removed, node.revision)
        self._set_node(row, removal.after)

    def _removal(self, row: int, node: NodeAllocations, key: PodSetKey, count: int) -> _Removal:
        pods = node.pod_sets[key]
        remaining = max(len(pods.allocations) - max(count - pods.unallocated, 0), 0)
        removed = pods.allocations[remaining:]
        pods = pods._replace(allocations=pods.allocations[:remaining], unallocated=max(pods.unallocated - count, 0))
        pod_sets = {**node.pod_sets, key: pods}
        if not pods.pod_count:
            del pod_sets[key]
        state = node.state
        if state is not None:
            state = _release_all(state, removed, self._memory_zones_in_use(row, node._replace(pod_sets=pod_sets)))
        return _Removal(node, node._replace(state=state, pod_sets=pod_sets), removed)

    def _node(self, row: int) -> NodeAllocations:
        """Return a node according to its last report."""
        node, revision = self._nodes.get(row), self.kubelet_states.row_revision(row)
        if node is not None and node.revision == revision:
            return node
        report = self.kubelet_states.last_report(row)
        rebuilt = NodeAllocations(report.state, {}, report.pods, revision)
        if node is not None:
            for key, pods in node.pod_sets.items():
                rebuilt = _claim(rebuilt, key, PodSetAllocations(pods.shape, (), pods.pod_count))
        return rebuilt

    def _allocated_node(self, row: int) -> NodeAllocations:
        """Return a node according to its last report, with its pods allocated as far as they fit; change nothing."""
        node = self._node(row)
        for key, pods in node.pod_sets.items():
            if pods.unallocated:
                node = _allocate(node, key, pods)
        return node

    def _pods(self, row: int, key: PodSetKey) -> PodSetAllocations | None:
        node = self._nodes.get(row)
        return None if node is None else node.pod_sets.get(key)

    def _memory_zones_in_use(self, row: int, node: NodeAllocations) -> int:
        """Return the bitmask of zones in which pods outside the queue, or the node's pods of the queue, have memory."""
        base = self.kubelet_states.last_report(row).base
        zones = 0 if base is None else base.memory_assigned
        for allocations in (*node.unclaimed.values(), *(pods.allocations for pods in node.pod_sets.values())):
            zones |= memory_zones(allocations)
        return zones

    def _take_removed(self, row: int, key: PodSetKey) -> tuple[Allocation, ...]:
        """Return and drop the allocations of removed pods; return none that are based on an earlier report."""
        removed = self._removed.pop((row, key), None)
        if removed is None:
            return ()
        self._removed_count -= len(removed.allocations)
        return removed.allocations if removed.revision == self.kubelet_states.row_revision(row) else ()

    def _keep_removed(self, row: int, key: PodSetKey, allocations: tuple[Allocation, ...], revision: int) -> None:
        """Keep the allocations of removed pods, up to the limit; the oldest are dropped first."""
        if not allocations:
            return
        self._removed[row, key] = _RemovedPods(self._take_removed(row, key) + allocations, revision)
        self._removed_count += len(self._removed[row, key].allocations)
        while self._removed_count > _REMOVED_LIMIT and len(self._removed) > 1:
            _, dropped = self._removed.popitem(last=False)
            self._removed_count -= len(dropped.allocations)

    def _set_node(self, row: int, node: NodeAllocations) -> None:
        self._pending_rows.add(row)
        if node.pod_sets or self.kubelet_states.last_report(row).pods:
            self._nodes[row] = node
        else:
            self._nodes.pop(row, None)

    def _use_reports(self) -> None:
        """Repeat the allocations on the nodes with a new report."""
        if self._revision == self.kubelet_states.revision:
            return
        for row in self.kubelet_states.rows_reported_since(self._revision):
            self._pending_rows.add(row)
            if row in self._nodes:
                self._set_node(row, self._node(row))
        self._revision = self.kubelet_states.revision

    def _allocate_pending(self) -> None:
        """Allocate as many unallocated pods as fit on the changed nodes."""
        self._use_reports()
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


def _claim(node: NodeAllocations, key: PodSetKey, pods: PodSetAllocations) -> NodeAllocations:
    """Return a node on which the unallocated pods of a pod set claim as many reported pods as possible."""
    claimed: list[Allocation] = []
    rest: list[Allocation] = []
    for allocation in node.unclaimed.get(key, ()):
        is_claimed = (
            len(claimed) < pods.unallocated
            and node.state is not None
            and is_admitted(node.state.kind, pods.shape, allocation)
        )
        (claimed if is_claimed else rest).append(allocation)
    unclaimed = {**node.unclaimed, key: tuple(rest)} if claimed else node.unclaimed
    pods = pods._replace(allocations=(*pods.allocations, *claimed), unallocated=pods.unallocated - len(claimed))
    return node._replace(pod_sets={**node.pod_sets, key: pods}, unclaimed=unclaimed)


def _allocate(node: NodeAllocations, key: PodSetKey, pods: PodSetAllocations) -> NodeAllocations:
    """Return the node after allocating as many unallocated pods of a pod set as it admits."""
    allocations, unallocated, state = list(pods.allocations), pods.unallocated, node.state
    while unallocated and state is not None:
        verdict = predict_admission(state, pods.shape)
        if verdict.after is None:
            break
        allocations.append(pod_allocation(state, verdict))
        state = verdict.after
        unallocated -= 1
    pods = PodSetAllocations(pods.shape, tuple(allocations), unallocated)
    return node._replace(state=state, pod_sets={**node.pod_sets, key: pods})


def _not_arrived(
    node: NodeAllocations, sent: Mapping[PodSetKey, SentPods]
) -> tuple[dict[PodSetKey, int], dict[PodSetKey, int]]:
    """Return, by pod set, the number of pods on their way to a node, and of held pods; zeros are left out."""
    in_flight: dict[PodSetKey, int] = {}
    held: dict[PodSetKey, int] = {}
    for key, pods in node.pod_sets.items():
        reported = sum(allocation.assignments is None for allocation in pods.allocations)
        count, settled = sent.get(key, (0, 0))
        arrived = min(max(reported, settled), pods.pod_count)
        on_way = min(max(count - arrived, 0), pods.pod_count - arrived)
        if on_way:
            in_flight[key] = on_way
        if pods.pod_count > arrived + on_way:
            held[key] = pods.pod_count - arrived - on_way
    return in_flight, held


def _admits_in_any_order(
    state: NodeState, node: NodeAllocations, in_flight: Mapping[PodSetKey, int], held: Mapping[PodSetKey, int]
) -> bool:
    """Return whether the pods on their way are admitted in any order of arrival, and then the held pods in their order.

    `state`: the node without any of these pods.
    """
    on_way = AssumedState.from_shapes(state, _shapes(node, in_flight), predict_admission)
    states = on_way.final_states(predict_admission)
    shapes = _shapes(node, held)
    return bool(states) and all(
        AssumedState.from_shapes(after, shapes, predict_admission).state is not None for after in states
    )


def _shapes(node: NodeAllocations, counts: Mapping[PodSetKey, int]) -> list[PodShape]:
    return [node.pod_sets[key].shape for key, count in counts.items() for _ in range(count)]


def _release_all(state: NodeState, allocations: Sequence[Allocation], zones_in_use: int) -> NodeState:
    for allocation in allocations:
        state = release(state, allocation, zones_in_use)
    return state
