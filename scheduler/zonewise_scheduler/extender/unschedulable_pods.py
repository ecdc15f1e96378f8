"""The pods that no node took; which of them are to be woken when.

Pods of a shape stand in a line, the one first of which nothing has been heard and that has not been woken for longest.
Each look goes to some lines in turn and wakes from the front. So whoever stands in a line comes to its front, and is
woken as long as some node that may take it has changed since it was refused.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from zonewise_scheduler.nodes.score.fragmentation import PendingShape

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.nodes.assumed.types import PendingPod

INITIAL_BACKOFF = 1.0
"""Seconds before a pod is woken again; kube-scheduler itself waits as long after a first failure. For as long a node
that a pod was woken for wakes no other of its shape, unless the pod is heard of before."""
MAX_BACKOFF = 60.0
MAX_REQUEUED = 64
"""Pods woken together: each costs a write, and the next look comes soon."""
MAX_SHAPES = 8
"""Shapes that one look asks all nodes about, so that no call of kube-scheduler waits for long."""
MAX_SCANNED = 2000
"""Pods of a line that one look passes by."""


class _UnschedulablePod:
    __slots__ = ("pause", "pod", "quiet_until", "refused")

    def __init__(self, pod: PendingPod) -> None:
        self.pod = pod
        self.refused = 0
        self.pause = 0.0
        self.quiet_until = 0.0


class _ShapeQueue:
    """The pods of one shape."""

    __slots__ = ("pods", "woken")

    def __init__(self) -> None:
        self.pods: dict[str, _UnschedulablePod] = {}
        self.woken: dict[str, float] = {}  # when; those of which nothing was heard since

    def due(self, at: float, changes: list[int], most: int) -> tuple[list[_UnschedulablePod], bool]:
        """Return the pods to be woken, and whether others may have to be; one node wakes one pod."""
        for uid in [uid for uid, woken in self.woken.items() if woken + INITIAL_BACKOFF <= at]:
            del self.woken[uid]
        left = changes[: max(0, len(changes) - len(self.woken))]
        due: list[_UnschedulablePod] = []
        again = bool(self.woken)
        for waiting in islice(self.pods.values(), MAX_SCANNED):
            if not changes or changes[-1] <= waiting.refused:
                continue
            again = True
            if not left or left[-1] <= waiting.refused or len(due) == most:
                break
            if at >= waiting.quiet_until:
                left.pop()
                due.append(waiting)
        return due, again

    def wake(self, uid: str, at: float) -> None:
        """Take that a pod is woken: it goes to the end of the line, for longer and longer."""
        waiting = self.pods[uid] = self.pods.pop(uid)
        waiting.pause = min(max(2 * waiting.pause, INITIAL_BACKOFF), MAX_BACKOFF)
        waiting.quiet_until = at + waiting.pause
        self.woken[uid] = at


class UnschedulablePods:
    """See the module. Times are seconds of one clock; revisions count the changes of nodes."""

    def __init__(self) -> None:
        self._shapes: dict[str, PodShape] = {}
        self._lines: dict[PodShape, _ShapeQueue] = {}
        self._next: dict[PodShape, None] = {}  # the lines that are to be looked at, in turn

    def __contains__(self, uid: str) -> bool:
        return uid in self._shapes

    def add(self, pod: PendingPod, revision: int) -> None:
        """Take in a pod that all nodes refused as they are, at the end of its line."""
        line = self._lines.get(pod.shape)
        waiting = line.pods.pop(pod.uid, None) if line is not None else None
        if line is None or waiting is None:
            self.remove(pod.uid)
            line, waiting = self._lines.setdefault(pod.shape, _ShapeQueue()), _UnschedulablePod(pod)
            self._shapes[pod.uid] = pod.shape
        waiting.refused = revision
        line.pods[pod.uid] = waiting
        line.woken.pop(pod.uid, None)

    def remove(self, uid: str) -> None:
        """Let a pod go that waits no more."""
        shape = self._shapes.pop(uid, None)
        if shape is None:
            return
        line = self._lines[shape]
        del line.pods[uid]
        line.woken.pop(uid, None)
        if not line.pods:
            del self._lines[shape]
            self._next.pop(shape, None)

    def most_common_shapes(self, limit: int) -> tuple[PendingShape, ...]:
        """Return the shapes that most of them have, with how many, as a power of two: what is kept for it lasts."""
        lines = self._lines.items()
        if len(lines) > limit:
            kept = set(sorted(self._lines, key=lambda shape: -len(self._lines[shape].pods))[:limit])
            lines = [(shape, line) for shape, line in lines if shape in kept]
        return tuple(PendingShape(shape, 1 << len(line.pods).bit_length() - 1) for shape, line in lines)

    def recheck_all(self) -> None:
        """Have all of them looked at: nodes have changed."""
        for shape in self._lines:
            self._next.setdefault(shape)

    def pop_due(self, at: float, node_changes: Callable[[PodShape], list[int]]) -> list[PendingPod]:
        """Return the pods to be woken, of the lines that are next to be looked at; none once all were since stir().

        `places` tells, ascending, when the nodes that may take a pod last changed, the latest of them. A pod is woken
        for a node that has changed since it was refused: those that would have taken it then are ruled out by something
        that only kube-scheduler knows. One node wakes one pod of a shape, since it may have room for no more; another
        one a second later, if nothing is heard of the first. Pods that were not heard of are woken again, after longer
        and longer pauses.
        """
        found: list[PendingPod] = []
        for shape in list(islice(self._next, MAX_SHAPES)):
            line = self._lines[shape]
            due, again = line.due(at, node_changes(shape), MAX_REQUEUED - len(found))
            for waiting in due:
                line.wake(waiting.pod.uid, at)
                found.append(waiting.pod)
            del self._next[shape]
            if again:
                self._next[shape] = None
        return found
