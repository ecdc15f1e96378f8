"""The state that decisions are made from: the tree, who runs in it, the flavors, and where pods find places.

Decisions try things out on it and undo them, so that it is as before after each; only add() and remove() stay.
"""

from __future__ import annotations

from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING

from zonewise_scheduler.quota.api.amount import minus, plus
from zonewise_scheduler.quota.api.queue_types import Cohort
from zonewise_scheduler.quota.hierarchy.preemption_graph import PreemptionGraph
from zonewise_scheduler.quota.hierarchy.resource_node import ClusterQueueSnapshot, CohortSnapshot
from zonewise_scheduler.quota.hierarchy.topology_snapshot import EmptyTopologySnapshot

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Mapping

    from zonewise_scheduler.quota.api.queue_types import ClusterQueue, ResourceFlavor
    from zonewise_scheduler.quota.api.resource_quota import FlavorResource
    from zonewise_scheduler.quota.api.workload_types import Usage, Workload
    from zonewise_scheduler.quota.hierarchy.resource_node import ResourceNode
    from zonewise_scheduler.quota.hierarchy.topology_snapshot import TopologySnapshot


class Snapshot:
    """Queues by name with their running workloads."""

    def __init__(
        self,
        cluster_queues: Iterable[ClusterQueue],
        cohorts: Iterable[Cohort] = (),
        resource_flavors: Iterable[ResourceFlavor] | None = None,
        workloads: Iterable[Workload] = (),
        tas_snapshot: TopologySnapshot | None = None,
    ) -> None:
        """Build the tree; `flavors` None: all that are named exist.

        A cohort that only a queue or another cohort names has no quota. Workloads without admission, or of no known
        queue, are left out.
        """
        self.resource_flavors: Mapping[str, ResourceFlavor] | None = (
            None if resource_flavors is None else {one.name: one for one in resource_flavors}
        )
        self.tas_snapshot: TopologySnapshot = tas_snapshot or EmptyTopologySnapshot()
        self.cohorts: dict[str, CohortSnapshot] = {}
        self.cluster_queues: dict[str, ClusterQueueSnapshot] = {}
        self.inactive: dict[str, str] = {}
        """Queues that admit nothing now, and why."""
        self.workloads_by_queue: dict[str, dict[str, Workload]] = {}
        """By queue, by key."""
        self.local_queue_usage: dict[str, float] = {}
        """By key of the LocalQueue, where admission follows usage."""
        self.preemption_graph = PreemptionGraph()
        """The planner's; copies share it, since nobody is made to give way in what is only foreseen."""
        self._build(list(cluster_queues), list(cohorts))
        for workload in workloads:
            if workload.admission is not None and workload.admission.cluster_queue in self.cluster_queues:
                self.add_workload(workload)

    def add_workload(self, workload: Workload) -> None:
        """Count a workload that has an admission."""
        queue = self.cluster_queue_of(workload)
        self.workloads_by_queue[queue.name][workload.key] = workload
        queue.count_workload(workload)
        queue.add_usage(workload.usage)
        self.tas_snapshot.add(workload)

    def remove_workload(self, workload: Workload) -> None:
        """Take a workload out."""
        queue = self.cluster_queue_of(workload)
        queue.uncount_workload(self.workloads_by_queue[queue.name].pop(workload.key))
        queue.remove_usage(workload.usage)
        self.tas_snapshot.remove(workload)

    def add_workloads(self, workloads: Collection[Workload]) -> None:
        """Count several; what they use is added up before, queue by queue."""
        for name, found in self._by_queue(workloads).items():
            queue = self.cluster_queues[name]
            for one in found:
                self.workloads_by_queue[name][one.key] = one
                queue.count_workload(one)
            queue.add_usage(_sum(found))
        self.tas_snapshot.add_all(workloads)

    def remove_workloads(self, workloads: Collection[Workload]) -> None:
        """Take several out."""
        for name, found in self._by_queue(workloads).items():
            queue = self.cluster_queues[name]
            for one in found:
                queue.uncount_workload(self.workloads_by_queue[name].pop(one.key))
            queue.remove_usage(_sum(found))
        self.tas_snapshot.remove_all(workloads)

    def _by_queue(self, workloads: Iterable[Workload]) -> dict[str, list[Workload]]:
        found: dict[str, list[Workload]] = {}
        for one in workloads:
            found.setdefault(self.cluster_queue_of(one).name, []).append(one)
        return found

    def cluster_queue_of(self, workload: Workload) -> ClusterQueueSnapshot:
        """Return the queue that a workload is admitted to; raise KeyError where it is not admitted."""
        return self.cluster_queues["" if workload.admission is None else workload.admission.cluster_queue]

    @contextmanager
    def simulate_workload_removal(self, workloads: Iterable[Workload]) -> Generator[None]:
        """Take workloads out for a while; those that run in the tree only, each once."""
        found = ((one.key, self.workloads_by_queue[self.cluster_queue_of(one).name]) for one in workloads)
        gone = {key: running[key] for key, running in found if key in running}
        for one in gone.values():
            self.remove_workload(one)
        try:
            yield
        finally:
            for one in gone.values():
                self.add_workload(one)

    def copy(self) -> Snapshot:
        """Return another that changes on its own."""
        other = copy(self)
        other.tas_snapshot = self.tas_snapshot.copy()
        other.local_queue_usage = dict(self.local_queue_usage)
        other.workloads_by_queue = {name: dict(running) for name, running in self.workloads_by_queue.items()}
        other.cohorts = {name: node.copy() for name, node in self.cohorts.items()}
        other.cluster_queues = {name: node.copy() for name, node in self.cluster_queues.items()}
        for node in (*other.cohorts.values(), *other.cluster_queues.values()):
            node.parent = None if node.parent is None else other.cohorts[node.parent.name]
        for node in other.cohorts.values():
            node.child_cohorts = [other.cohorts[one.name] for one in node.child_cohorts]
            node.child_cqs = [other.cluster_queues[one.name] for one in node.child_cqs]
        return other

    # --- building

    def _build(self, queues: list[ClusterQueue], cohorts: list[Cohort]) -> None:
        for spec in cohorts:
            self.cohorts[spec.name] = CohortSnapshot(spec)
        for spec in cohorts:
            if spec.parent_name:
                self.cohorts[spec.name].parent = self._cohort(spec.parent_name)
        for spec in queues:
            node = self.cluster_queues[spec.name] = ClusterQueueSnapshot(spec)
            self.workloads_by_queue[spec.name] = {}
            node.parent = self._cohort(spec.cohort_name) if spec.cohort_name else None
        self._cut_cycles()
        for node in self.cohorts.values():
            if node.parent is not None:
                node.parent.child_cohorts.append(node)
        for node in self.cluster_queues.values():
            self._place(node)
        below = self._below()
        for node in self.cohorts.values():
            if node.parent is None:
                _gather(node, below)

    def _cohort(self, name: str) -> CohortSnapshot:
        return self.cohorts.setdefault(name, CohortSnapshot(Cohort(name)))

    def _cut_cycles(self) -> None:
        """Have the cohorts of a cycle, and those below, stand alone; their queues admit nothing."""
        cyclic = [node for node in self.cohorts.values() if _is_cyclic(node)]
        for queue in self.cluster_queues.values():
            if queue.parent in cyclic:
                self.inactive[queue.name] = f"cohort {queue.spec.cohort_name} is part of a cycle"
        for node in cyclic:
            node.parent = None

    def _place(self, node: ClusterQueueSnapshot) -> None:
        reason = self._stopped(node.spec)
        if reason:
            self.inactive.setdefault(node.name, reason)
        if node.parent is not None and node.name not in self.inactive:
            node.parent.child_cqs.append(node)

    def _stopped(self, spec: ClusterQueue) -> str:
        if spec.stop_policy != "None":
            return f"stopPolicy is {spec.stop_policy}"
        if self.resource_flavors is not None:
            missing = {
                name
                for group in spec.resource_groups
                for name in group.flavor_names
                if name not in self.resource_flavors
            }
            if missing:
                return f"references missing ResourceFlavors: {', '.join(sorted(missing))}"
        return ""

    def _below(self) -> Mapping[str, list[ClusterQueueSnapshot]]:
        found: dict[str, list[ClusterQueueSnapshot]] = {}
        for node in self.cluster_queues.values():
            if node.parent is not None:
                found.setdefault(node.parent.name, []).append(node)
        return found


def _is_cyclic(node: CohortSnapshot) -> bool:
    seen = {node.name}
    for one in node.path_parent_to_root():
        if one.name in seen:
            return True
        seen.add(one.name)
    return False


def _gather(cohort: CohortSnapshot, queues: Mapping[str, list[ClusterQueueSnapshot]]) -> None:
    """Add what the children lend to the quotas of their cohorts, the lowest first."""
    for one in cohort.child_cohorts:
        _gather(one, queues)
    children: list[ResourceNode] = [*cohort.child_cohorts, *queues.get(cohort.name, [])]
    for child in children:
        for key, amount in child.subtree_quota.items():
            cohort.subtree_quota[key] = plus(cohort.subtree_quota.get(key, 0), minus(amount, child.local_quota(key)))


def _sum(workloads: Iterable[Workload]) -> Usage:
    """Return what workloads hold together."""
    found: dict[FlavorResource, int] = {}
    for one in workloads:
        for key, amount in one.usage.items():
            found[key] = plus(found.get(key, 0), amount)
    return found


def fits(queue: ClusterQueueSnapshot, usage: Usage) -> bool:
    """Tell whether there is room for so much more in a queue; available quota below 0 counts as 0."""
    return all(amount <= max(0, queue.available(key)) for key, amount in usage.items())
