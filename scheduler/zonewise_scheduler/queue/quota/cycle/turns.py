"""In which order the heads of a cycle are decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.queue.quota.share import Share, share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.queue.quota.cycle.values import Entry
    from zonewise_scheduler.queue.quota.model.workload import Settings
    from zonewise_scheduler.queue.quota.tree.node import CohortNode, Node


def in_turn(entries: list[Entry], settings: Settings) -> Iterator[Entry]:
    """Yield the entries; by fair sharing, each by the shares as they are once those before it are decided."""
    return _fair(entries, settings) if settings.fair_sharing else iter(_classical(entries, settings))


def _classical(entries: list[Entry], settings: Settings) -> list[Entry]:
    """Those that have quota and wait for places, the nearer to their own quota, by priority, the longer in the queue.

    scheduler.go makeClassicalIterator.
    """
    return sorted(
        entries,
        key=lambda one: (
            one.head.workload.admission is None,
            one.assignment.borrowing,
            -one.head.workload.priority,
            one.head.workload.queued_at(from_timeout=settings.from_timeout),
        ),
    )


def _fair(entries: list[Entry], settings: Settings) -> Iterator[Entry]:
    """Yield, tree by tree, the winner of a tournament among those left (fair_sharing_iterator.go)."""
    trees: dict[CohortNode | None, list[Entry]] = {}
    for one in entries:
        trees.setdefault(one.queue.root, []).append(one)
    for root, found in trees.items():
        left = list(found)
        while left:
            winner = left[0] if root is None else _winner(root, left, settings)
            left.remove(winner)
            yield winner


class _Contender(NamedTuple):
    entry: Entry
    shares: dict[CohortNode, Share]
    """By cohort: the share of its child that the entry is of, once it were admitted."""


def _winner(root: CohortNode, left: list[Entry], settings: Settings) -> Entry:
    by_queue: dict[Node, list[_Contender]] = {}
    for one in left:
        by_queue.setdefault(one.queue, []).append(_Contender(one, _shares(one)))
    winner = _best(root, by_queue, settings)
    return left[0] if winner is None else winner.entry


def _shares(entry: Entry) -> dict[CohortNode, Share]:
    found: dict[CohortNode, Share] = {}
    usage = entry.usage
    entry.queue.add_usage(usage)
    node: Node = entry.queue
    while node.parent is not None:
        found[node.parent] = share(node)
        node = node.parent
    entry.queue.remove_usage(usage)
    return found


def _best(cohort: CohortNode, by_queue: dict[Node, list[_Contender]], settings: Settings) -> _Contender | None:
    """Return the contender of a cohort: the best of its children's, which borrow least."""
    rivals = [found for child in cohort.cohorts if (found := _best(child, by_queue, settings)) is not None]
    rivals += [one for queue in cohort.queues for one in by_queue.get(queue, ())]
    if not rivals:
        return None

    def rank(one: _Contender) -> tuple[bool, tuple[float, float], int, float]:
        own, new = one.shares[cohort], one.entry.head.workload
        since = new.queued_at(from_timeout=settings.from_timeout)
        return own.borrows_of(one.entry.usage), own.order, -new.priority, since

    return min(rivals, key=rank)
