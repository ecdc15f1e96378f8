"""The state on which decisions are based: the quota tree, running workloads, flavors and topologies.

pkg/cache/scheduler/snapshot.go. Decisions try changes and undo them, so the snapshot is the same after each decision.
Only add_workload() and remove_workload(), and their variants for several workloads, change it permanently.
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
    """ClusterQueues by name, with their running workloads."""

    def __init__(
        self,
        cluster_queues: Iterable[ClusterQueue],
        cohorts: Iterable[Cohort] = (),
        resource_flavors: Iterable[ResourceFlavor] | None = None,
        workloads: Iterable[Workload] = (),
        tas_snapshot: TopologySnapshot | None = None,
    ) -> None:
        """Build the tree; `resource_flavors`: None if all flavors that queues name exist.

        A cohort that is only named by a queue or another cohort has no quota. Workloads without an admission, or
        admitted to an unknown queue, are left out.
        """
        self.resource_flavors: Mapping[str, ResourceFlavor] | None = (
            None if resource_flavors is None else {flavor.name: flavor for flavor in resource_flavors}
        )
        self.tas_snapshot: TopologySnapshot = tas_snapshot or EmptyTopologySnapshot()
        self.cohorts: dict[str, CohortSnapshot] = {}
        self.cluster_queues: dict[str, ClusterQueueSnapshot] = {}
        self.inactive: dict[str, str] = {}
        """Queues that currently admit no workloads, with the reason."""
        self.workloads_by_queue: dict[str, dict[str, Workload]] = {}
        """Running workloads by queue and by key."""
        self.local_queue_usage: dict[str, float] = {}
        """Usage by LocalQueue key, if admission follows usage."""
        self.preemption_graph = PreemptionGraph()
        """Owned by the planner. Copies share it, since forecasts and reservations record no preemptions."""
        self.not_preempted: set[str] = set()
        """Keys of running workloads that are not candidates. Owned by the planner; copies share it."""
        self._build(list(cluster_queues), list(cohorts))
        for workload in workloads:
            if workload.admission is not None and workload.admission.cluster_queue in self.cluster_queues:
                self.add_workload(workload)

    def add_workload(self, workload: Workload) -> None:
        """Add a workload that has an admission."""
        queue = self.cluster_queue_of(workload)
        self.workloads_by_queue[queue.name][workload.key] = workload
        queue.count_workload(workload)
        queue.add_usage(workload.usage)
        self.tas_snapshot.add(workload)

    def remove_workload(self, workload: Workload) -> None:
        """Remove a workload that was added, with its usage and placement."""
        queue = self.cluster_queue_of(workload)
        queue.uncount_workload(self.workloads_by_queue[queue.name].pop(workload.key))
        queue.remove_usage(workload.usage)
        self.tas_snapshot.remove(workload)

    def add_workloads(self, workloads: Collection[Workload]) -> None:
        """Add several workloads, after summing their usage by queue."""
        self.add_placed_workloads(workloads)
        self.tas_snapshot.add_all(workloads)

    def add_placed_workloads(self, workloads: Iterable[Workload]) -> None:
        """Add several workloads whose placements are already in the topologies."""
        for name, queue_workloads in self._by_queue(workloads).items():
            queue = self.cluster_queues[name]
            for workload in queue_workloads:
                self.workloads_by_queue[name][workload.key] = workload
                queue.count_workload(workload)
            queue.add_usage(_sum_usage(queue_workloads))

    def remove_workloads(self, workloads: Collection[Workload]) -> None:
        """Remove several workloads."""
        for name, queue_workloads in self._by_queue(workloads).items():
            queue = self.cluster_queues[name]
            for workload in queue_workloads:
                queue.uncount_workload(self.workloads_by_queue[name].pop(workload.key))
            queue.remove_usage(_sum_usage(queue_workloads))
        self.tas_snapshot.remove_all(workloads)

    def _by_queue(self, workloads: Iterable[Workload]) -> dict[str, list[Workload]]:
        by_queue: dict[str, list[Workload]] = {}
        for workload in workloads:
            by_queue.setdefault(self.cluster_queue_of(workload).name, []).append(workload)
        return by_queue

    def cluster_queue_of(self, workload: Workload) -> ClusterQueueSnapshot:
        """Return the queue that a workload is admitted to; raise KeyError if it is not admitted."""
        return self.cluster_queues["" if workload.admission is None else workload.admission.cluster_queue]

    @contextmanager
    def simulate_workload_removal(self, workloads: Iterable[Workload]) -> Generator[None]:
        """Temporarily remove the workloads that are in the snapshot, each once."""
        running_by_key = (
            (workload.key, self.workloads_by_queue[self.cluster_queue_of(workload).name]) for workload in workloads
        )
        removed = {key: running[key] for key, running in running_by_key if key in running}
        for workload in removed.values():
            self.remove_workload(workload)
        try:
            yield
        finally:
            for workload in removed.values():
                self.add_workload(workload)

    def copy(self) -> Snapshot:
        """Return a copy that changes independently."""
        snapshot = copy(self)
        snapshot.tas_snapshot = self.tas_snapshot.copy()
        snapshot.local_queue_usage = dict(self.local_queue_usage)
        snapshot.workloads_by_queue = {name: dict(running) for name, running in self.workloads_by_queue.items()}
        snapshot.cohorts = {name: node.copy() for name, node in self.cohorts.items()}
        snapshot.cluster_queues = {name: node.copy() for name, node in self.cluster_queues.items()}
        for node in (*snapshot.cohorts.values(), *snapshot.cluster_queues.values()):
            node.parent = None if node.parent is None else snapshot.cohorts[node.parent.name]
        for node in snapshot.cohorts.values():
            node.child_cohorts = [snapshot.cohorts[child.name] for child in node.child_cohorts]
            node.child_cqs = [snapshot.cluster_queues[child.name] for child in node.child_cqs]
        return snapshot

    # --- building

    def _build(self, queues: list[ClusterQueue], cohorts: list[Cohort]) -> None:
        for spec in cohorts:
            self.cohorts[spec.name] = CohortSnapshot(spec)
        for spec in cohorts:
            if spec.parent_name:
                self.cohorts[spec.name].parent = self._get_or_create_cohort(spec.parent_name)
        for spec in queues:
            node = self.cluster_queues[spec.name] = ClusterQueueSnapshot(spec)
            self.workloads_by_queue[spec.name] = {}
            node.parent = self._get_or_create_cohort(spec.cohort_name) if spec.cohort_name else None
        self._cut_cycles()
        for node in self.cohorts.values():
            if node.parent is not None:
                node.parent.child_cohorts.append(node)
        for node in self.cluster_queues.values():
            self._attach(node)
        queues_by_cohort = self._queues_by_cohort()
        for node in self.cohorts.values():
            if node.parent is None:
                _accumulate_from_children(node, queues_by_cohort)

    def _get_or_create_cohort(self, name: str) -> CohortSnapshot:
        return self.cohorts.setdefault(name, CohortSnapshot(Cohort(name)))

    def _cut_cycles(self) -> None:
        """Make all cohorts in or below a cycle roots. Their queues admit no workloads."""
        cyclic = [node for node in self.cohorts.values() if _has_cycle(node)]
        for queue in self.cluster_queues.values():
            if queue.parent in cyclic:
                self.inactive[queue.name] = f"cohort {queue.spec.cohort_name} is part of a cycle"
        for node in cyclic:
            node.parent = None

    def _attach(self, node: ClusterQueueSnapshot) -> None:
        """Attach a queue to its cohort, unless it is inactive."""
        reason = self._inactive_reason(node.spec)
        if reason:
            self.inactive.setdefault(node.name, reason)
        if node.parent is not None and node.name not in self.inactive:
            node.parent.child_cqs.append(node)

    def _inactive_reason(self, spec: ClusterQueue) -> str:
        """Return all reasons in the order of Kueue's pkg/cache/scheduler/clusterqueue.go inactiveReason; "" if none."""
        stopped = f"stopPolicy is {spec.stop_policy}" if spec.stop_policy != "None" else ""
        problems = (stopped, self._flavor_problem(spec), _check_problem(spec), self._topology_problem(spec))
        return ", ".join(filter(None, problems))

    def _flavor_problem(self, spec: ClusterQueue) -> str:
        if self.resource_flavors is None:
            return ""
        missing = _flavor_names(spec) - self.resource_flavors.keys()
        return f"references missing ResourceFlavors: {', '.join(sorted(missing))}" if missing else ""

    def _topology_problem(self, spec: ClusterQueue) -> str:
        """Return which Topologies of a queue's flavors are missing; "" if none."""
        flavors = [(self.resource_flavors or {}).get(name) for name in sorted(_flavor_names(spec))]
        return ", ".join(
            f"there is no Topology {flavor.topology_name} for ResourceFlavor {flavor.name}"
            for flavor in flavors
            if flavor is not None and self.tas_snapshot.lacks_topology(flavor)
        )

    def _queues_by_cohort(self) -> Mapping[str, list[ClusterQueueSnapshot]]:
        """Return all queues, including inactive ones, by the name of their cohort."""
        by_cohort: dict[str, list[ClusterQueueSnapshot]] = {}
        for node in self.cluster_queues.values():
            if node.parent is not None:
                by_cohort.setdefault(node.parent.name, []).append(node)
        return by_cohort


def _flavor_names(spec: ClusterQueue) -> set[str]:
    return {name for group in spec.resource_groups for name in group.flavor_names}


def _check_problem(spec: ClusterQueue) -> str:
    """Return which admission checks of a queue are not active; "" if all are."""
    for status, adjective in (("NotFound", "missing"), ("Inactive", "inactive")):
        names = sorted({rule.name for rule in spec.admission_checks if rule.status == status})
        if names:
            return f"references {adjective} AdmissionChecks: {', '.join(names)}"
    return ""


def _has_cycle(node: CohortSnapshot) -> bool:
    visited = {node.name}
    for ancestor in node.path_parent_to_root():
        if ancestor.name in visited:
            return True
        visited.add(ancestor.name)
    return False


def _accumulate_from_children(
    cohort: CohortSnapshot, queues_by_cohort: Mapping[str, list[ClusterQueueSnapshot]]
) -> None:
    """Add to each cohort the quota that its children lend, from the leaves upwards (accumulateFromChild)."""
    for child_cohort in cohort.child_cohorts:
        _accumulate_from_children(child_cohort, queues_by_cohort)
    children: list[ResourceNode] = [*cohort.child_cohorts, *queues_by_cohort.get(cohort.name, [])]
    for child in children:
        for key, amount in child.subtree_quota.items():
            lent = minus(amount, child.local_quota(key))
            cohort.subtree_quota[key] = plus(cohort.subtree_quota[key], lent)


def _sum_usage(workloads: Iterable[Workload]) -> Usage:
    """Return the total usage of workloads."""
    usage: dict[FlavorResource, int] = {}
    for workload in workloads:
        for key, amount in workload.usage.items():
            usage[key] = plus(usage.get(key, 0), amount)
    return usage


def fits(queue: ClusterQueueSnapshot, usage: Usage) -> bool:
    """Return whether additional usage fits into a queue; negative available quota counts as 0."""
    return all(amount <= max(0, queue.available(key)) for key, amount in usage.items())
