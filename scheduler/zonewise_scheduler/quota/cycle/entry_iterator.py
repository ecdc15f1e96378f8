"""The order of the entries of a cycle (pkg/scheduler/scheduler.go makeIterator, fair_sharing_iterator.go)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.quota.hierarchy.fair_sharing import dominant_resource_share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.quota.api.configuration import QuotaSettings
    from zonewise_scheduler.quota.cycle.entry import Entry
    from zonewise_scheduler.quota.hierarchy.drs import DRS
    from zonewise_scheduler.quota.hierarchy.resource_node import CohortSnapshot, ResourceNode


def make_iterator(entries: list[Entry], settings: QuotaSettings) -> Iterator[Entry]:
    """Yield the entries; with fair sharing, the order depends on the shares after the previous decisions."""
    return (
        _fair_sharing_order(entries, settings) if settings.fair_sharing else iter(_classical_order(entries, settings))
    )


def _classical_order(entries: list[Entry], settings: QuotaSettings) -> list[Entry]:
    """Sort: with quota first, then by borrowing level, priority and time in the queue (makeClassicalIterator)."""
    return sorted(
        entries,
        key=lambda entry: (
            entry.head.workload.admission is None,
            entry.assignment.borrows,
            -entry.head.workload.priority,
            entry.head.workload.queue_order_timestamp(requeue_from_eviction=settings.requeue_from_eviction),
        ),
    )


def _fair_sharing_order(entries: list[Entry], settings: QuotaSettings) -> Iterator[Entry]:
    """Yield, tree by tree, the winner of a tournament among the remaining entries."""
    trees: dict[CohortSnapshot | None, list[Entry]] = {}
    for entry in entries:
        trees.setdefault(entry.cq.root, []).append(entry)
    for root, tree_entries in trees.items():
        remaining = list(tree_entries)
        while remaining:
            winner = remaining[0] if root is None else _winner(root, remaining, settings)
            remaining.remove(winner)
            yield winner


class _Contender(NamedTuple):
    entry: Entry
    shares: dict[CohortSnapshot, DRS]
    """For each cohort, the share of its child that contains the entry, as if the entry were admitted."""


def _winner(root: CohortSnapshot, entries: list[Entry], settings: QuotaSettings) -> Entry:
    by_queue: dict[ResourceNode, list[_Contender]] = {}
    for entry in entries:
        by_queue.setdefault(entry.cq, []).append(_Contender(entry, _shares_with(entry)))
    winner = _run_tournament(root, by_queue, settings)
    return entries[0] if winner is None else winner.entry


def _shares_with(entry: Entry) -> dict[CohortSnapshot, DRS]:
    shares: dict[CohortSnapshot, DRS] = {}
    usage = entry.assignment_usage
    entry.cq.add_usage(usage)
    node: ResourceNode = entry.cq
    while node.parent is not None:
        shares[node.parent] = dominant_resource_share(node)
        node = node.parent
    entry.cq.remove_usage(usage)
    return shares


def _run_tournament(
    cohort: CohortSnapshot, by_queue: dict[ResourceNode, list[_Contender]], settings: QuotaSettings
) -> _Contender | None:
    """Return the contender of a cohort: the best of its children's contenders (runTournament)."""
    contenders = [
        contender
        for child in cohort.child_cohorts
        if (contender := _run_tournament(child, by_queue, settings)) is not None
    ]
    contenders += [contender for queue in cohort.child_cqs for contender in by_queue.get(queue, ())]
    if not contenders:
        return None

    def rank(contender: _Contender) -> tuple[bool, tuple[float, float], int, float]:
        share, workload = contender.shares[cohort], contender.entry.head.workload
        timestamp = workload.queue_order_timestamp(requeue_from_eviction=settings.requeue_from_eviction)
        borrows = share.is_borrowing_on(contender.entry.assignment_usage)
        return borrows, share.comparison_key, -workload.priority, timestamp

    return min(contenders, key=rank)
