"""The cost of victims, by which kube-scheduler chooses between sets of victims."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zonewise_scheduler.nodes.preemption.types import RunningPod, Victims

_OFFSET = 1 << 31
"""Added to each priority, so that none is negative and each further victim costs more."""

Cost = tuple[float, int, int, float]


def victims_cost(victims: Sequence[RunningPod]) -> Cost:
    """Return the cost; the set with the lowest cost is preempted.

    It consists of the highest priority, the sum of the priorities, the number of victims, and the latest start among
    the highest-priority victims. Source: pickOneNodeForPreemption of pkg/scheduler/framework/preemption/preemption.go.
    Its first criterion, violations of PodDisruptionBudgets, is 0 here for every set.
    """
    if not victims:
        return (float("-inf"), 0, 0, 0.0)
    highest = max(pod.priority for pod in victims)
    start = min(pod.started for pod in victims if pod.priority == highest)
    return (highest, sum(map(priority_cost, victims)), len(victims), -start)


def priority_cost(pod: RunningPod) -> int:
    """Return the contribution of one victim to the sum of priorities."""
    return pod.priority + _OFFSET


def by_importance(victims: Iterable[RunningPod]) -> tuple[RunningPod, ...]:
    """Return pods, the most important one first: higher priority, then earlier start (MoreImportantPod)."""
    return tuple(sorted(victims, key=lambda pod: (-pod.priority, pod.started, pod.uid)))


def cheapest(candidates: Iterable[Victims]) -> Victims | None:
    """Return the victims that cost least (the first of equal ones), or None without candidates."""
    return min(candidates, key=lambda victims: victims_cost(victims.pods), default=None)
