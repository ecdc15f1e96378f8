"""The pods that no node took, in the order in which they came; which of them are to be woken when."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from zonewise_scheduler.fit.score.remains import Waiting

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_scheduler.fit.ledger.values import Promise
    from zonewise_scheduler.fit.model.pod import PodShape

FIRST_PAUSE = 1.0
"""Seconds before a pod is woken again; kube-scheduler itself waits as long after a first failure."""
LONGEST_PAUSE = 60.0
MOST_AT_ONCE = 64
"""Pods woken together: each costs a write, and the next look comes soon."""


class _Pod:
    __slots__ = ("pause", "pod", "quiet_until", "refused")

    def __init__(self, pod: Promise) -> None:
        self.pod = pod
        self.refused = 0.0
        self.pause = 0.0
        self.quiet_until = 0.0


class WaitingPods:
    """See the module. Times are seconds of one clock."""

    def __init__(self) -> None:
        self._pods: dict[str, _Pod] = {}

    def add(self, pod: Promise, at: float) -> None:
        """Take in a pod that was refused by all; one that is here keeps its place."""
        waiting = self._pods.get(pod.uid)
        if waiting is None or waiting.pod.shape != pod.shape:
            waiting = self._pods[pod.uid] = _Pod(pod)
        waiting.refused = at

    def remove(self, uid: str) -> None:
        """Let a pod go that waits no more."""
        self._pods.pop(uid, None)

    def commonest(self, most: int) -> tuple[Waiting, ...]:
        """Return the shapes that most of them have, with how many."""
        counted = Counter(waiting.pod.shape for waiting in self._pods.values())
        return tuple(Waiting(shape, count) for shape, count in counted.most_common(most))

    def due(self, at: float, places: Callable[[PodShape], list[float]]) -> tuple[list[Promise], bool]:
        """Return the pods to be woken, and whether others may have to be soon.

        `places` tells for each node that would take a pod when that node last changed. A pod is woken for a node that
        has changed since it was refused: those that would have taken it then are ruled out by something that only
        kube-scheduler knows. One node wakes one pod of a shape, since it may have room for no more.
        """
        changes: dict[PodShape, list[float]] = {}
        due: list[Promise] = []
        resting = False
        for waiting in self._pods.values():
            shape = waiting.pod.shape
            if shape not in changes:
                changes[shape] = sorted(places(shape))
            if not changes[shape] or changes[shape][-1] <= waiting.refused:
                continue
            if at < waiting.quiet_until or len(due) == MOST_AT_ONCE:
                resting = True
                continue
            changes[shape].pop()
            waiting.pause = min(max(2 * waiting.pause, FIRST_PAUSE), LONGEST_PAUSE)
            waiting.quiet_until = at + waiting.pause
            due.append(waiting.pod)
        return due, resting
