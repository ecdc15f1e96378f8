"""The cost of victims: which of two sets kube-scheduler would rather preempt."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zonewise_scheduler.nodes.preemption.types import RunningPod, Victims

_OFFSET = 1 << 31
"""Added to each priority, so that none is below 0 and each further victim costs more."""

Cost = tuple[float, int, int, float]


def victims_cost(victims: Sequence[RunningPod]) -> Cost:
    """Return the cost: the lower one is to be preempted.

    Highest priority, sum of the priorities, number of victims, and the latest start of the victims of the highest
    priority. Source: pickOneNodeForPreemption of pkg/scheduler/framework/preemption/preemption.go. Its first
    criterion, violations of PodDisruptionBudgets, is 0 here for every set.
    """
    if not victims:
        return (float("-inf"), 0, 0, 0.0)
    highest = max(pod.priority for pod in victims)
    start = min(pod.started for pod in victims if pod.priority == highest)
    return (highest, sum(map(priority_cost, victims)), len(victims), -start)


def priority_cost(pod: RunningPod) -> int:
    """Return what one victim adds to the sum of priorities."""
    return pod.priority + _OFFSET


def by_importance(victims: Iterable[RunningPod]) -> tuple[RunningPod, ...]:
    """Return pods with the most important one first: the higher priority, then the earlier start (MoreImportantPod)."""
    return tuple(sorted(victims, key=lambda pod: (-pod.priority, pod.started, pod.uid)))


def cheapest(candidates: Iterable[Victims]) -> Victims | None:
    """Return the victims that cost least, of equal ones the first; None without candidates."""
    return min(candidates, key=lambda victims: victims_cost(victims.pods), default=None)
