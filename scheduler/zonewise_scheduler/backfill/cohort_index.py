"""Which queues can have what a workload leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot


class CohortIndex:
    """The queues of each queue's tree, those that are held too: their quota is lent on."""

    def __init__(self, snapshot: Snapshot) -> None:
        found: dict[str, list[str]] = {}
        roots = {name: node.root for name, node in snapshot.cluster_queues.items()}
        for name, root in roots.items():
            found.setdefault(name if root is None else f"/{root.name}", []).append(name)
        self._all = tuple(roots)
        self._of = {name: tuple(names) for names in found.values() for name in names}

    def queues_sharing_quota(self, queue: str) -> tuple[str, ...]:
        """Return the queues of a queue's tree."""
        return self._of[queue]

    def queues_affected_by(self, workload: Workload) -> Iterable[str]:
        """Return the queues that can have what a workload leaves: of its tree, or where it has places, all."""
        admission = workload.admission
        if admission is None:
            return ()
        if any(one.topology_assignment is not None for one in admission.pod_sets):
            return self._all
        return self._of[admission.cluster_queue]
