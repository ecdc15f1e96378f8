"""In which order the heads of a cycle are decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.quota.hierarchy.fair_sharing import DRS, dominant_resource_share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.quota.api.workload_types import QuotaSettings
    from zonewise_scheduler.quota.cycle.entry import Entry
    from zonewise_scheduler.quota.hierarchy.resource_node import CohortSnapshot, ResourceNode


def make_iterator(entries: list[Entry], settings: QuotaSettings) -> Iterator[Entry]:
    """Yield the entries; by fair sharing, each by the shares as they are once those before it are decided."""
    return _fair(entries, settings) if settings.fair_sharing else iter(_classical(entries, settings))


def _classical(entries: list[Entry], settings: QuotaSettings) -> list[Entry]:
    """Those that have quota and wait for places, the nearer to their own quota, by priority, the longer in the queue.

    scheduler.go makeClassicalIterator.
    """
    return sorted(
        entries,
        key=lambda one: (
            one.head.workload.admission is None,
            one.assignment.borrows,
            -one.head.workload.priority,
            one.head.workload.queue_order_timestamp(requeue_from_eviction=settings.requeue_from_eviction),
        ),
    )


def _fair(entries: list[Entry], settings: QuotaSettings) -> Iterator[Entry]:
    """Yield, tree by tree, the winner of a tournament among those left (fair_sharing_iterator.go)."""
    trees: dict[CohortSnapshot | None, list[Entry]] = {}
    for one in entries:
        trees.setdefault(one.cq.root, []).append(one)
    for root, found in trees.items():
        left = list(found)
        while left:
            winner = left[0] if root is None else _winner(root, left, settings)
            left.remove(winner)
            yield winner


class _Contender(NamedTuple):
    entry: Entry
    shares: dict[CohortSnapshot, DRS]
    """By cohort: the share of its child that the entry is of, once it were admitted."""


def _winner(root: CohortSnapshot, left: list[Entry], settings: QuotaSettings) -> Entry:
    by_queue: dict[ResourceNode, list[_Contender]] = {}
    for one in left:
        by_queue.setdefault(one.cq, []).append(_Contender(one, _shares(one)))
    winner = _best(root, by_queue, settings)
    return left[0] if winner is None else winner.entry


def _shares(entry: Entry) -> dict[CohortSnapshot, DRS]:
    found: dict[CohortSnapshot, DRS] = {}
    usage = entry.assignment_usage
    entry.cq.add_usage(usage)
    node: ResourceNode = entry.cq
    while node.parent is not None:
        found[node.parent] = dominant_resource_share(node)
        node = node.parent
    entry.cq.remove_usage(usage)
    return found


def _best(
    cohort: CohortSnapshot, by_queue: dict[ResourceNode, list[_Contender]], settings: QuotaSettings
) -> _Contender | None:
    """Return the contender of a cohort: the best of its children's, which borrow least."""
    rivals = [found for child in cohort.child_cohorts if (found := _best(child, by_queue, settings)) is not None]
    rivals += [one for queue in cohort.child_cqs for one in by_queue.get(queue, ())]
    if not rivals:
        return None

    def rank(one: _Contender) -> tuple[bool, tuple[float, float], int, float]:
        own, new = one.shares[cohort], one.entry.head.workload
        since = new.queue_order_timestamp(requeue_from_eviction=settings.requeue_from_eviction)
        return own.is_borrowing_on(one.entry.assignment_usage), own.comparison_key, -new.priority, since

    return min(rivals, key=rank)
