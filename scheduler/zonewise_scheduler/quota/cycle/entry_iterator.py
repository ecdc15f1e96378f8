"""The order of the entries of a cycle (pkg/scheduler/scheduler.go makeIterator, fair_sharing_iterator.go)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.quota.hierarchy.fair_sharing import dominant_resource_share
from zonewise_scheduler.quota.hierarchy.resource_node import CohortSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zonewise_scheduler.quota.api.configuration import QuotaSettings
    from zonewise_scheduler.quota.api.workload_types import Usage
    from zonewise_scheduler.quota.cycle.entry import Entry
    from zonewise_scheduler.quota.hierarchy.resource_node import ResourceNode


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
        if root is None:
            yield from tree_entries
        else:
            yield from _Tournament(tree_entries, settings).winners(root)


class _Contender(NamedTuple):
    """The best of the remaining entries below a node."""

    rank: tuple[bool, tuple[float, float], int, float]
    """Its rank among the contenders of the node's siblings."""
    entry: Entry
    usage_beyond: Usage
    """What it would add to the usage of the node's parent."""


class _Tournament:
    """Selects the next entry of a tree: the best of its children's contenders wins each cohort (runTournament).

    A decision about an entry changes only the usage of its queue and of the cohorts above. The contenders of all other
    nodes remain, so most decisions cost only as much as these cohorts have children.
    """

    def __init__(self, entries: Iterable[Entry], settings: QuotaSettings) -> None:
        self._settings = settings
        self._remaining: dict[ResourceNode, list[Entry]] = {}
        """The entries by queue."""
        self._contenders: dict[ResourceNode, _Contender | None] = {}
        """By node; None if no entry is left below it."""
        for entry in entries:
            self._remaining.setdefault(entry.cq, []).append(entry)

    def winners(self, root: CohortSnapshot) -> Iterator[Entry]:
        """Yield each entry once. The caller decides about an entry before it takes the next one."""
        while (winner := self._best_child(root)) is not None:
            entry = winner.entry
            self._remaining[entry.cq].remove(entry)
            yield entry
            for node in (entry.cq, *entry.cq.path_parent_to_root()):
                self._contenders.pop(node, None)

    def _best_child(self, cohort: CohortSnapshot) -> _Contender | None:
        children: tuple[ResourceNode, ...] = (*cohort.child_cohorts, *cohort.child_cqs)
        contenders = (contender for child in children if (contender := self._contender(child)) is not None)
        return min(contenders, key=_rank_of, default=None)

    def _contender(self, node: ResourceNode) -> _Contender | None:
        if node not in self._contenders:
            self._contenders[node] = self._find_contender(node)
        return self._contenders[node]

    def _find_contender(self, node: ResourceNode) -> _Contender | None:
        if isinstance(node, CohortSnapshot):
            best = self._best_child(node)
            return None if best is None else self._rank(node, best.entry, best.usage_beyond)
        entries = (self._rank(node, entry, entry.assignment_usage) for entry in self._remaining.get(node, ()))
        return min(entries, key=_rank_of, default=None)

    def _rank(self, node: ResourceNode, entry: Entry, usage: Usage) -> _Contender:
        """Return an entry as a contender of a node; `usage`: what it would add to the usage of the node."""
        share, workload = dominant_resource_share(node, usage), entry.head.workload
        timestamp = workload.queue_order_timestamp(requeue_from_eviction=self._settings.requeue_from_eviction)
        borrows = share.is_borrowing_on(entry.assignment_usage)
        rank = borrows, share.comparison_key, -workload.priority, timestamp
        return _Contender(rank, entry, node.usage_beyond(usage))


def _rank_of(contender: _Contender) -> tuple[bool, tuple[float, float], int, float]:
    return contender.rank
