"""The pods that no node took; which of them are to be woken when."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from zonewise_scheduler.fit.score.remains import Waiting

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_scheduler.fit.ledger.values import Promise
    from zonewise_scheduler.fit.model.pod import PodShape

FIRST_PAUSE = 1.0
"""Seconds before a pod is woken again; kube-scheduler itself waits as long after a first failure. For as long a node
that a pod was woken for wakes no other of its shape, unless the pod is heard of before."""
LONGEST_PAUSE = 60.0
MOST_AT_ONCE = 64
"""Pods woken together: each costs a write, and the next look comes soon."""
MOST_SHAPES = 8
"""Shapes that one look asks all nodes about, so that no call of kube-scheduler waits for long."""
MOST_LOOKED_AT = 2000


class _Pod:
    __slots__ = ("pause", "pod", "quiet_until", "refused")

    def __init__(self, pod: Promise) -> None:
        self.pod = pod
        self.refused = 0
        self.pause = 0.0
        self.quiet_until = 0.0


class WaitingPods:
    """See the module. Times are seconds of one clock; revisions count the changes of nodes."""

    def __init__(self) -> None:
        self._pods: dict[str, _Pod] = {}  # those that were looked at last come last
        self._shapes: Counter[PodShape] = Counter()
        self._woken: dict[str, float] = {}  # when; those of which nothing was heard since
        self._unseen = 0  # how many are still to be looked at since there was news
        self._again = False  # they are to be looked at once more after that

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def add(self, pod: Promise, revision: int) -> None:
        """Take in a pod that all nodes refused as they are; one that is here keeps its place."""
        waiting = self._pods.get(pod.uid)
        if waiting is None or waiting.pod.shape != pod.shape:
            self.remove(pod.uid)
            waiting = self._pods[pod.uid] = _Pod(pod)
            self._shapes[pod.shape] += 1
        waiting.refused = revision
        self._woken.pop(pod.uid, None)

    def remove(self, uid: str) -> None:
        """Let a pod go that waits no more."""
        waiting = self._pods.pop(uid, None)
        if waiting is None:
            return
        self._woken.pop(uid, None)
        shape = waiting.pod.shape
        self._shapes[shape] -= 1
        if not self._shapes[shape]:
            del self._shapes[shape]

    def commonest(self, most: int) -> tuple[Waiting, ...]:
        """Return the shapes that most of them have, with how many, as a power of two: what is kept for it lasts."""
        found = {shape for shape, _ in self._shapes.most_common(most)} if len(self._shapes) > most else self._shapes
        return tuple(
            Waiting(shape, 1 << count.bit_length() - 1) for shape, count in self._shapes.items() if shape in found
        )

    def stir(self) -> None:
        """Have all of them looked at: nodes have changed."""
        self._unseen = len(self._pods)

    def due(self, at: float, places: Callable[[PodShape], list[int]]) -> list[Promise]:
        """Return the pods to be woken, of those that are next to be looked at; none once all were since stir().

        `places` tells, ascending, when the nodes that may take a pod last changed, the latest of them. A pod is woken
        for a node that has changed since it was refused: those that would have taken it then are ruled out by something
        that only kube-scheduler knows. One node wakes one pod of a shape, since it may have room for no more; another
        one a second later, if nothing is heard of the first. Pods that were not heard of are woken again, after longer
        and longer pauses.
        """
        self._unseen = min(self._unseen, len(self._pods))
        if not self._unseen:
            return []
        changes: dict[PodShape, list[int]] = {}
        kept = self._kept(at)
        due: list[Promise] = []
        looked: list[str] = []
        for uid, waiting in islice(self._pods.items(), min(self._unseen, MOST_LOOKED_AT)):
            shape = waiting.pod.shape
            if shape not in changes:
                if len(changes) == MOST_SHAPES:
                    break
                found = places(shape)
                changes[shape] = found[: max(0, len(found) - kept[shape])]
            looked.append(uid)
            if not changes[shape] or changes[shape][-1] <= waiting.refused:
                continue
            self._again = True
            if at >= waiting.quiet_until:
                changes[shape].pop()
                self._wake(waiting, at)
                due.append(waiting.pod)
                if len(due) == MOST_AT_ONCE:
                    break
        self._turn(looked, [pod.uid for pod in due])
        return due

    def _kept(self, at: float) -> Counter[PodShape]:
        """Return how many nodes are kept, by shape, for pods that were woken a moment ago."""
        for uid in [uid for uid, woken in self._woken.items() if woken + FIRST_PAUSE <= at]:
            del self._woken[uid]
        self._again = self._again or bool(self._woken)
        return Counter(self._pods[uid].pod.shape for uid in self._woken)

    def _wake(self, waiting: _Pod, at: float) -> None:
        waiting.pause = min(max(2 * waiting.pause, FIRST_PAUSE), LONGEST_PAUSE)
        waiting.quiet_until = at + waiting.pause
        self._woken[waiting.pod.uid] = at

    def _turn(self, looked: list[str], woken: list[str]) -> None:
        """Put those that were looked at behind the others, and those that were woken behind all."""
        for uid in (*looked, *woken):
            self._pods[uid] = self._pods.pop(uid)
        self._unseen -= len(looked)
        if not self._unseen and self._again:
            self._unseen, self._again = len(self._pods), False
