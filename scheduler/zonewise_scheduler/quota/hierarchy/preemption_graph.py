"""The preemption graph: which workload has preempted which, so that preemptions never go round for ever.

Kueue's policies allow a ring: a preempts b, b preempts c, and c preempts a. A queue reclaims its nominal quota from a
borrower, whatever the priorities (reclaimWithinCohort: Any). It gives that quota to a workload of higher priority that
borrows. No workload of the ring would ever finish. Kueue has no guard against this.

Invariant: a workload never preempts a victim for the second time if that victim has preempted it in the meantime,
directly or through others. An edge stays until one of its two workloads has ended, or has another priority.

Preemptions end, if each preemptor runs once its victims have ended. Proof:

1. Assume that finitely many workloads preempt each other again and again.
2. Each preemptor among them is preempted again and again too, or it would run to its end.
3. So their preemptions contain a ring. Once each has happened, the graph has all edges of the ring.
4. The next preemption of the ring would be a second one whose victim leads back to the preemptor. It is forbidden.

The cycle makes the premise likely, not certain: it holds the quota of the victims for the preemptor, against entries
behind it (scheduling_cycle.py _admit_or_preempt()). An entry before it may take that quota. The preemptor then waits,
and may choose other victims. Without the premise, the graph prevents rings only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Set


class PreemptionGraph:
    """Preemptions among workloads that still exist, by key."""

    def __init__(self) -> None:
        self._victims: dict[str, set[str]] = {}
        """By preemptor."""
        self._preemptors: dict[str, set[str]] = {}
        """By victim."""

    def copy(self) -> PreemptionGraph:
        """Return a copy that changes independently."""
        graph = PreemptionGraph()
        graph._victims = {key: set(victims) for key, victims in self._victims.items()}
        graph._preemptors = {key: set(preemptors) for key, preemptors in self._preemptors.items()}
        return graph

    def add(self, preemptor: str, victim: str) -> None:
        """Record a preemption."""
        self._victims.setdefault(preemptor, set()).add(victim)
        self._preemptors.setdefault(victim, set()).add(preemptor)

    def forget(self, key: str) -> bool:
        """Forget a workload that has ended, or has changed; tell whether it had any edge."""
        victims, preemptors = self._victims.pop(key, set()), self._preemptors.pop(key, set())
        for victim in victims:
            _discard(self._preemptors, victim, key)
        for preemptor in preemptors:
            _discard(self._victims, preemptor, key)
        return bool(victims or preemptors)

    def forbidden(self, preemptor: str) -> Set[str]:
        """Return the victims that a workload must not preempt once more, since that would close a ring."""
        if preemptor not in self._preemptors or preemptor not in self._victims:
            return frozenset()
        return {victim for victim in self._victims[preemptor] if self._leads_back(preemptor, victim)}

    def _leads_back(self, preemptor: str, candidate: str) -> bool:
        """Tell whether the candidate has preempted the preemptor, directly or through others."""
        visited, stack = {candidate}, [candidate]
        while stack:
            victims = self._victims.get(stack.pop(), set())
            if preemptor in victims:
                return True
            stack.extend(victims - visited)
            visited |= victims
        return False


def _discard(edges: dict[str, set[str]], key: str, neighbor: str) -> None:
    edges[key].discard(neighbor)
    if not edges[key]:
        del edges[key]
