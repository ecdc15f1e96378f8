"""The cohort trees of the queues: which queues share quota."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot


class CohortIndex:
    """The queues of each cohort tree. Queues on hold are included, since their quota is still lent."""

    def __init__(self, snapshot: Snapshot) -> None:
        names_by_tree: dict[str, list[str]] = {}
        roots = {name: node.root for name, node in snapshot.cluster_queues.items()}
        for name, root in roots.items():
            names_by_tree.setdefault(name if root is None else f"/{root.name}", []).append(name)
        self._all = tuple(roots)
        self._tree_by_queue = {name: tree for tree in map(tuple, names_by_tree.values()) for name in tree}

    def queues_sharing_quota(self, queue: str) -> tuple[str, ...]:
        """Return the queues of a queue's tree, including the queue itself."""
        return self._tree_by_queue[queue]

    def share_quota(self, queue: str, other: str) -> bool:
        """Return whether two queues are in the same tree."""
        return self._tree_by_queue[queue] is self._tree_by_queue[other]

    def queues_affected_by(self, workload: Workload) -> Iterable[str]:
        """Return the queues that may use what a workload frees: those of its tree, or all if it has a topology."""
        admission = workload.admission
        if admission is None:
            return ()
        if any(pod_set.topology_assignment is not None for pod_set in admission.pod_sets):
            return self._all
        return self._tree_by_queue[admission.cluster_queue]
