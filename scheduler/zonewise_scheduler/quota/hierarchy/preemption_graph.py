"""The preemption graph: records which workload has preempted which, so that preemptions never cycle forever.

Kueue's policies allow a ring: a preempts b, b preempts c, and c preempts a. A queue reclaims its nominal quota from a
borrower regardless of priorities (reclaimWithinCohort: Any). It then loses that quota to a borrowing workload of higher
priority. No workload of the ring would ever finish. Kueue does not prevent this.

Invariant: a workload never preempts a victim for the second time if that victim has preempted it in the meantime,
directly or through others. An edge remains until one of its two workloads has ended or changed its priority.
Preemptions end if each preemptor runs once its victims have ended. Proof:

1. Assume that finitely many workloads preempt each other again and again.
2. Each preemptor among them is preempted again and again too; otherwise, it would run to its end.
3. So their preemptions contain a ring. Once each has happened, the graph contains all edges of the ring.
4. The next preemption of the ring would be a repeated one whose victim leads back to the preemptor, which is forbidden.

The cycle makes the premise likely, but not certain: it holds the victims' quota for the preemptor against later entries
(scheduling_cycle.py _admit_or_preempt()). An earlier entry may take that quota. The preemptor then waits, and may
choose other victims. Without the premise, the graph prevents only rings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Set


class PreemptionGraph:
    """Preemptions among workloads that still exist, by key."""

    def __init__(self) -> None:
        self._victims: dict[str, set[str]] = {}
        """Victims by preemptor."""
        self._preemptors: dict[str, set[str]] = {}
        """Preemptors by victim."""

    def copy(self) -> PreemptionGraph:
        """Return an independent copy."""
        graph = PreemptionGraph()
        graph._victims = {key: set(victims) for key, victims in self._victims.items()}
        graph._preemptors = {key: set(preemptors) for key, preemptors in self._preemptors.items()}
        return graph

    def add(self, preemptor: str, victim: str) -> None:
        """Record a preemption."""
        self._victims.setdefault(preemptor, set()).add(victim)
        self._preemptors.setdefault(victim, set()).add(preemptor)

    def forget(self, key: str) -> bool:
        """Forget a workload that has ended or changed; return whether it had any edges."""
        victims, preemptors = self._victims.pop(key, set()), self._preemptors.pop(key, set())
        for victim in victims:
            _discard(self._preemptors, victim, key)
        for preemptor in preemptors:
            _discard(self._victims, preemptor, key)
        return bool(victims or preemptors)

    def forbidden(self, preemptor: str) -> Set[str]:
        """Return the victims that a workload must not preempt again, since that would close a ring."""
        if preemptor not in self._preemptors or preemptor not in self._victims:
            return frozenset()
        return {victim for victim in self._victims[preemptor] if self._leads_back(preemptor, victim)}

    def _leads_back(self, preemptor: str, candidate: str) -> bool:
        """Return whether the candidate has preempted the preemptor, directly or through others."""
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
