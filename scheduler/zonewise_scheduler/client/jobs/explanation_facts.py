"""The explanation of a pending workload, as returned by the read API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_scheduler.client.time_text import parse_time

if TYPE_CHECKING:
    from collections.abc import Mapping


MAX_BLOCKERS = 20


class ExplanationFacts(NamedTuple):
    """Why a workload waits; empty if nothing is known."""

    waits_for: tuple[str, ...] = ()
    """Workloads that must end first, sorted by deadline, as namespace/name."""
    preempts: tuple[str, ...] = ()
    start: float | None = None
    """When the workload could start or is reserved to start; None if unknown."""
    never_fits: bool = False

    @property
    def shown_blockers(self) -> tuple[str, ...]:
        """Return the workloads to show, at most MAX_BLOCKERS: the preempted ones, and those that end last."""
        preempted = self.preempts[:MAX_BLOCKERS]
        others = [key for key in self.waits_for if key not in preempted]
        room = MAX_BLOCKERS - len(preempted)
        return (*(others[-room:] if room else ()), *preempted)


def read_explanation(row: Mapping[str, Any] | None) -> ExplanationFacts:
    """Return the explanation from a row of the read API; None if there is no row."""
    explanation: Mapping[str, Any] = (row or {}).get("explanation") or {}
    return ExplanationFacts(
        tuple(map(str, explanation.get("waitsFor") or ())),
        tuple(map(str, explanation.get("preempts") or ())),
        parse_time(explanation.get("start")),
        bool(explanation.get("neverFits")),
    )
