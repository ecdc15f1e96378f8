"""Who gave way to whom, so that workloads do not preempt each other for ever.

Kueue's policies can be such that a preempts b, b preempts c and c preempts a: a queue takes its nominal quota back from
a borrower, whatever the priorities (reclaimWithinCohort: Any), and gives it to one of its own of higher priority that
borrows. None of these would ever get anything done. So nobody preempts another for the second time who has, himself or
through others, preempted him meanwhile. Who was first stays until one of the two has ended, or has another priority.

That this ends: of finitely many preemptions that would come again and again, each preemptor is preempted again and
again too, so they contain a ring, and all of it is known here once each has happened. The next of the ring is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Set


class PreemptionGraph:
    """Preemptions among workloads that are still there, by key."""

    def __init__(self) -> None:
        self._by: dict[str, set[str]] = {}
        """Who gave way, by preemptor."""
        self._to: dict[str, set[str]] = {}
        """Preemptors, by who gave way to them."""

    def copy(self) -> PreemptionGraph:
        """Return another that changes on its own."""
        other = PreemptionGraph()
        other._by = {key: set(found) for key, found in self._by.items()}
        other._to = {key: set(found) for key, found in self._to.items()}
        return other

    def add(self, preemptor: str, victim: str) -> None:
        """Take note that one was told to give way to another."""
        self._by.setdefault(preemptor, set()).add(victim)
        self._to.setdefault(victim, set()).add(preemptor)

    def forget(self, key: str) -> bool:
        """Forget one that is not there any more, or not as it was; tell whether anything was known of it."""
        victims, preemptors = self._by.pop(key, set()), self._to.pop(key, set())
        for one in victims:
            _discard(self._to, one, key)
        for one in preemptors:
            _discard(self._by, one, key)
        return bool(victims or preemptors)

    def forbidden(self, preemptor: str) -> Set[str]:
        """Return whom one may not preempt once more, since that would go round."""
        if preemptor not in self._to or preemptor not in self._by:
            return frozenset()
        return {one for one in self._by[preemptor] if self._leads_back(preemptor, one)}

    def _leads_back(self, preemptor: str, candidate: str) -> bool:
        """Tell whether the candidate has preempted the preemptor, itself or through others."""
        seen, reached = {candidate}, [candidate]
        while reached:
            victims = self._by.get(reached.pop(), set())
            if preemptor in victims:
                return True
            reached.extend(victims - seen)
            seen |= victims
        return False


def _discard(found: dict[str, set[str]], key: str, one: str) -> None:
    found[key].discard(one)
    if not found[key]:
        del found[key]
