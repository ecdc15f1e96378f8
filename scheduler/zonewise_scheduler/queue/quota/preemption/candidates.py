"""Candidates of classical preemption (pkg/scheduler/preemption/classical).

Those of other queues are sought cohort by cohort, upwards from the queue. Once a subtree's quota has room for what is
asked, the queue has the nearer claim to it than whoever uses it from outside: those of the cohorts above are then
preempted for the quota that is the subtree's own. Only what is over its nominal quota is sought.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.queue.quota.model.amounts import minus
from zonewise_scheduler.queue.quota.preemption.order import in_order, preemptible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.queue.quota.model.quotas import FlavorResource
    from zonewise_scheduler.queue.quota.model.workload import Workload
    from zonewise_scheduler.queue.quota.preemption.values import Ask, Reason
    from zonewise_scheduler.queue.quota.tree.node import CohortNode, Node, QueueNode


class Kind(Enum):
    """What makes a workload a candidate."""

    WITHIN = auto()
    """It is of the same queue."""
    NEARER_CLAIM = auto()
    WITHOUT_BORROWING = auto()
    """Only if the preemptor's queue will not borrow."""
    WHILE_BORROWING = auto()

    @property
    def reason(self) -> Reason:
        """What the workload is told."""
        if self is Kind.WITHIN:
            return "InClusterQueue"
        return "InCohortReclaimWhileBorrowing" if self is Kind.WHILE_BORROWING else "InCohortReclamation"


class Candidate(NamedTuple):
    """A workload that may be preempted."""

    workload: Workload
    kind: Kind
    below: CohortNode | None
    """The lowest cohort above both queues; None within one queue."""


class Candidates(NamedTuple):
    """All of them, in the order in which they are tried."""

    ordered: tuple[Candidate, ...]
    others: bool
    """Some are of other queues."""
    nearer: bool
    """To some the preemptor has the nearer claim."""


def find_candidates(ask: Ask) -> Candidates:
    """Find them: those already evicted, then the rest; of each, nearer claims, others, and those of the same queue."""
    within = _of_queue(ask, ask.queue, None, nearer=False)
    nearer, others = _of_cohorts(ask)
    lists = [_sorted(ask, found) for found in (nearer, others, within)]
    evicted = [one for found in lists for one in found if one.workload.eviction is not None]
    rest = [one for found in lists for one in found if one.workload.eviction is None]
    return Candidates((*evicted, *rest), bool(nearer or others), bool(nearer))


def still_valid(ask: Ask, candidate: Candidate, *, borrowing: bool) -> bool:
    """Tell whether a candidate is one still after those before it are gone."""
    if candidate.kind is Kind.WITHIN:
        return True
    if borrowing and candidate.kind is Kind.WITHOUT_BORROWING:
        return False
    node: Node | None = ask.snapshot.queue_of(candidate.workload)
    while node is not None and node is not candidate.below:
        if node.within_nominal(ask.contested):
            return False
        node = node.parent
    return True


def _sorted(ask: Ask, found: list[Candidate]) -> list[Candidate]:
    if len(found) < 2:
        return found
    by_key = {one.workload.key: one for one in found}
    usages = ask.snapshot.usage_of_local_queues
    return [by_key[one.key] for one in in_order((one.workload for one in found), ask.queue.name, usages)]


def _of_cohorts(ask: Ask) -> tuple[list[Candidate], list[Candidate]]:
    """Return those of other queues to whom the preemptor has the nearer claim, and the others."""
    nearer: list[Candidate] = []
    others: list[Candidate] = []
    if ask.queue.spec.preemption.reclaim == "Never":
        return nearer, others
    claim, rest = _room(ask.queue, dict(ask.usage))
    seen: CohortNode | None = None
    for cohort in ask.queue.ancestors():
        for queue in _exceeding(ask, cohort, seen):
            (nearer if claim else others).extend(_of_queue(ask, queue, cohort, nearer=claim))
        fits, rest = _room(cohort, rest)
        claim = claim or fits
        seen = cohort
    return nearer, others


def _room(node: Node, usage: dict[FlavorResource, int]) -> tuple[bool, dict[FlavorResource, int]]:
    """Tell whether the subtree's quota has room, and return what is beyond what is local (QuantitiesFitInQuota)."""
    fits = not any(node.exceeds(key, amount) for key, amount in usage.items())
    return fits, {key: max(0, minus(amount, node.local_available(key))) for key, amount in usage.items()}


def _exceeding(ask: Ask, cohort: CohortNode, seen: CohortNode | None) -> Iterator[QueueNode]:
    """Yield the queues below that are over their quota, within cohorts that are so too, but for those seen."""
    for child in cohort.cohorts:
        if child is not seen and not child.within_nominal(ask.contested):
            yield from _exceeding(ask, child, seen)
    for queue in cohort.queues:
        if queue is not ask.queue and not queue.within_nominal(ask.contested):
            yield queue


def _of_queue(ask: Ask, queue: QueueNode, below: CohortNode | None, *, nearer: bool) -> list[Candidate]:
    return [Candidate(one, _kind(ask, one, queue, nearer=nearer), below) for one in preemptible(ask, queue)]


def _kind(ask: Ask, one: Workload, queue: QueueNode, *, nearer: bool) -> Kind:
    if queue is ask.queue:
        return Kind.WITHIN
    if nearer:
        return Kind.NEARER_CLAIM
    rules = ask.queue.spec.preemption
    too_high = one.priority >= ask.workload.priority or (rules.threshold is not None and one.priority > rules.threshold)
    return Kind.WITHOUT_BORROWING if rules.borrow == "Never" or too_high else Kind.WHILE_BORROWING
