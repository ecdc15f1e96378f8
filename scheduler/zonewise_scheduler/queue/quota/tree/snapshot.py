"""The state that decisions are made from: the tree, who runs in it, the flavors, and where pods find places.

Decisions try things out on it and undo them, so that it is as before after each; only add() and remove() stay.
"""

from __future__ import annotations

from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING

from zonewise_scheduler.queue.quota.model.amounts import minus, plus
from zonewise_scheduler.queue.quota.model.queues import Cohort
from zonewise_scheduler.queue.quota.places import Nowhere
from zonewise_scheduler.queue.quota.tree.node import CohortNode, QueueNode
from zonewise_scheduler.queue.quota.tree.yielded import Yielded

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Mapping

    from zonewise_scheduler.queue.quota.model.queues import ClusterQueue, ResourceFlavor
    from zonewise_scheduler.queue.quota.model.quotas import FlavorResource
    from zonewise_scheduler.queue.quota.model.workload import Usage, Workload
    from zonewise_scheduler.queue.quota.places import Places
    from zonewise_scheduler.queue.quota.tree.node import Node


class Snapshot:
    """Queues by name with their running workloads."""

    def __init__(
        self,
        queues: Iterable[ClusterQueue],
        cohorts: Iterable[Cohort] = (),
        flavors: Iterable[ResourceFlavor] | None = None,
        workloads: Iterable[Workload] = (),
        places: Places | None = None,
    ) -> None:
        """Build the tree; `flavors` None: all that are named exist.

        A cohort that only a queue or another cohort names has no quota. Workloads without admission, or of no known
        queue, are left out.
        """
        self.flavors: Mapping[str, ResourceFlavor] | None = (
            None if flavors is None else {one.name: one for one in flavors}
        )
        self.places: Places = places or Nowhere()
        self.cohorts: dict[str, CohortNode] = {}
        self.queues: dict[str, QueueNode] = {}
        self.inactive: dict[str, str] = {}
        """Queues that admit nothing now, and why."""
        self.running: dict[str, dict[str, Workload]] = {}
        """By queue, by key."""
        self.usage_of_local_queues: dict[str, float] = {}
        """By key of the LocalQueue, where admission follows usage."""
        self.yielded = Yielded()
        """The planner's; copies share it, since nobody is made to give way in what is only foreseen."""
        self._build(list(queues), list(cohorts))
        for workload in workloads:
            if workload.admission is not None and workload.admission.cluster_queue in self.queues:
                self.add(workload)

    def add(self, workload: Workload) -> None:
        """Count a workload that has an admission."""
        queue = self.queue_of(workload)
        self.running[queue.name][workload.key] = workload
        queue.enter(workload)
        queue.add_usage(workload.usage)
        self.places.add(workload)

    def remove(self, workload: Workload) -> None:
        """Take a workload out."""
        queue = self.queue_of(workload)
        queue.leave(self.running[queue.name].pop(workload.key))
        queue.remove_usage(workload.usage)
        self.places.remove(workload)

    def add_all(self, workloads: Collection[Workload]) -> None:
        """Count several; what they use is added up before, queue by queue."""
        for name, found in self._by_queue(workloads).items():
            queue = self.queues[name]
            for one in found:
                self.running[name][one.key] = one
                queue.enter(one)
            queue.add_usage(_sum(found))
        self.places.add_all(workloads)

    def remove_all(self, workloads: Collection[Workload]) -> None:
        """Take several out."""
        for name, found in self._by_queue(workloads).items():
            queue = self.queues[name]
            for one in found:
                queue.leave(self.running[name].pop(one.key))
            queue.remove_usage(_sum(found))
        self.places.remove_all(workloads)

    def _by_queue(self, workloads: Iterable[Workload]) -> dict[str, list[Workload]]:
        found: dict[str, list[Workload]] = {}
        for one in workloads:
            found.setdefault(self.queue_of(one).name, []).append(one)
        return found

    def queue_of(self, workload: Workload) -> QueueNode:
        """Return the queue that a workload is admitted to; raise KeyError where it is not admitted."""
        return self.queues["" if workload.admission is None else workload.admission.cluster_queue]

    @contextmanager
    def without(self, workloads: Iterable[Workload]) -> Generator[None]:
        """Take workloads out for a while; those that run in the tree only, each once."""
        found = ((one.key, self.running[self.queue_of(one).name]) for one in workloads)
        gone = {key: running[key] for key, running in found if key in running}
        for one in gone.values():
            self.remove(one)
        try:
            yield
        finally:
            for one in gone.values():
                self.add(one)

    def copy(self) -> Snapshot:
        """Return another that changes on its own."""
        other = copy(self)
        other.places = self.places.copy()
        other.usage_of_local_queues = dict(self.usage_of_local_queues)
        other.running = {name: dict(running) for name, running in self.running.items()}
        other.cohorts = {name: node.copy() for name, node in self.cohorts.items()}
        other.queues = {name: node.copy() for name, node in self.queues.items()}
        for node in (*other.cohorts.values(), *other.queues.values()):
            node.parent = None if node.parent is None else other.cohorts[node.parent.name]
        for node in other.cohorts.values():
            node.cohorts = [other.cohorts[one.name] for one in node.cohorts]
            node.queues = [other.queues[one.name] for one in node.queues]
        return other

    # --- building

    def _build(self, queues: list[ClusterQueue], cohorts: list[Cohort]) -> None:
        for spec in cohorts:
            self.cohorts[spec.name] = CohortNode(spec)
        for spec in cohorts:
            if spec.parent:
                self.cohorts[spec.name].parent = self._cohort(spec.parent)
        for spec in queues:
            node = self.queues[spec.name] = QueueNode(spec)
            self.running[spec.name] = {}
            node.parent = self._cohort(spec.cohort) if spec.cohort else None
        self._cut_cycles()
        for node in self.cohorts.values():
            if node.parent is not None:
                node.parent.cohorts.append(node)
        for node in self.queues.values():
            self._place(node)
        below = self._below()
        for node in self.cohorts.values():
            if node.parent is None:
                _gather(node, below)

    def _cohort(self, name: str) -> CohortNode:
        return self.cohorts.setdefault(name, CohortNode(Cohort(name)))

    def _cut_cycles(self) -> None:
        """Have the cohorts of a cycle, and those below, stand alone; their queues admit nothing."""
        cyclic = [node for node in self.cohorts.values() if _is_cyclic(node)]
        for queue in self.queues.values():
            if queue.parent in cyclic:
                self.inactive[queue.name] = f"cohort {queue.spec.cohort} is part of a cycle"
        for node in cyclic:
            node.parent = None

    def _place(self, node: QueueNode) -> None:
        reason = self._stopped(node.spec)
        if reason:
            self.inactive.setdefault(node.name, reason)
        if node.parent is not None and node.name not in self.inactive:
            node.parent.queues.append(node)

    def _stopped(self, spec: ClusterQueue) -> str:
        if spec.stop != "None":
            return f"stopPolicy is {spec.stop}"
        if self.flavors is not None:
            missing = {name for group in spec.groups for name in group.names if name not in self.flavors}
            if missing:
                return f"references missing ResourceFlavors: {', '.join(sorted(missing))}"
        return ""

    def _below(self) -> Mapping[str, list[QueueNode]]:
        found: dict[str, list[QueueNode]] = {}
        for node in self.queues.values():
            if node.parent is not None:
                found.setdefault(node.parent.name, []).append(node)
        return found


def _is_cyclic(node: CohortNode) -> bool:
    seen = {node.name}
    for one in node.ancestors():
        if one.name in seen:
            return True
        seen.add(one.name)
    return False


def _gather(cohort: CohortNode, queues: Mapping[str, list[QueueNode]]) -> None:
    """Add what the children lend to the quotas of their cohorts, the lowest first."""
    for one in cohort.cohorts:
        _gather(one, queues)
    children: list[Node] = [*cohort.cohorts, *queues.get(cohort.name, [])]
    for child in children:
        for key, amount in child.subtree.items():
            cohort.subtree[key] = plus(cohort.subtree.get(key, 0), minus(amount, child.local(key)))


def _sum(workloads: Iterable[Workload]) -> Usage:
    """Return what workloads hold together."""
    found: dict[FlavorResource, int] = {}
    for one in workloads:
        for key, amount in one.usage.items():
            found[key] = plus(found.get(key, 0), amount)
    return found


def fits(queue: QueueNode, usage: Usage) -> bool:
    """Tell whether there is room for so much more in a queue; available quota below 0 counts as 0."""
    return all(amount <= max(0, queue.available(key)) for key, amount in usage.items())
