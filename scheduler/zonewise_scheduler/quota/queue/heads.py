"""The heads of a cycle: one pending workload of each active ClusterQueue (pkg/cache/queue/manager.go Heads)."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from zonewise_common.k8s.labels import selects

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_scheduler.quota.api.queue_types import ClusterQueue
    from zonewise_scheduler.quota.cycle.entry import Head
    from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
    from zonewise_scheduler.quota.queue.pending_workloads import PendingWorkloads

NO_SELECTED_HEADS: Mapping[str, str] = MappingProxyType({})


def pop_heads(
    pending: Iterable[PendingWorkloads],
    snapshot: Snapshot,
    namespaces: Mapping[str, Mapping[str, str]] | None = None,
    cycle: int = 0,
    selected_heads: Mapping[str, str] = NO_SELECTED_HEADS,
) -> list[Head]:
    """Remove and return the heads of the queues, one per queue.

    `namespaces`: labels by name; None if every namespace matches. `cycle`: the number of the cycle. `selected_heads`:
    by queue, the key of a workload that is its head regardless of the order.
    """
    heads: list[Head] = []
    for queue in pending:
        if queue.spec.name not in snapshot.cluster_queues or queue.spec.name in snapshot.inactive:
            continue
        head = queue.pop(snapshot.local_queue_usage, cycle, selected_heads.get(queue.spec.name, ""))
        if head is not None:
            if head.workload.failed_checks:
                head = head._replace(inadmissible_reason="checks")
            elif not admits_namespace(queue.spec, head.workload.namespace, namespaces):
                head = head._replace(inadmissible_reason="namespace")
            heads.append(head)
    return heads


def admits_namespace(spec: ClusterQueue, namespace: str, namespaces: Mapping[str, Mapping[str, str]] | None) -> bool:
    """Return whether a queue admits workloads of a namespace. `namespaces`: as for pop_heads()."""
    return matches_namespace(spec, None if namespaces is None else namespaces.get(namespace, {}))


def matches_namespace(spec: ClusterQueue, labels: Mapping[str, str] | None) -> bool:
    """Return whether a queue admits workloads of a namespace with these labels; None if every namespace matches."""
    if spec.namespace_selector is None:
        return False
    return labels is None or selects(spec.namespace_selector, labels)
