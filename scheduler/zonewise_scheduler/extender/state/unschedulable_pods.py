"""The pods that no node admits, and the times when each is requeued.

Pods of one shape share a queue. Invariant: a pod is requeued as long as some node that may admit it has changed since
the pod was rejected.

1. The head of a queue is the pod that was requeued or rejected longest ago: add() and requeue() move a pod to the tail.
2. Each call of pop_due() takes some queues in rotation, and requeues pods from the head.
3. A call skips pods that need no requeueing. If it ends before the tail of its queue, it moves them there.
4. So every pod of a queue reaches its head, and a queue remains in the rotation while such a node exists.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from zonewise_scheduler.nodes.score.fragmentation import PendingShape

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.nodes.assumed.types import PendingPod

INITIAL_BACKOFF = 1.0
"""Seconds before a pod is requeued again, as in kube-scheduler's podInitialBackoffDuration. During this time, a node
for which a pod was requeued requeues no further pod of that shape, unless kube-scheduler tries the pod earlier."""
MAX_BACKOFF = 60.0
"""Seconds."""
MAX_REQUEUED = 64
"""Maximum number of pods that one call requeues: each costs a write, and the next call follows soon."""
MAX_SHAPES = 8
"""Maximum number of shapes that one call compares with all nodes: a bound on the time for which calls of kube-scheduler
wait."""
MAX_SCANNED = 2000
"""Maximum number of pods of a queue that one call examines."""


class _UnschedulablePod:
    __slots__ = ("backoff", "backoff_end", "pod", "rejected_at")

    def __init__(self, pod: PendingPod) -> None:
        self.pod = pod
        self.rejected_at = 0
        self.backoff = 0.0
        self.backoff_end = 0.0


class _ShapeQueue:
    """The pods of one shape."""

    __slots__ = ("pods", "requeued")

    def __init__(self) -> None:
        self.pods: dict[str, _UnschedulablePod] = {}
        self.requeued: dict[str, float] = {}  # time by UID, until kube-scheduler tries the pod

    def due(
        self, now: float, changes: list[int], limit: int, skip: Callable[[str], bool]
    ) -> tuple[list[_UnschedulablePod], bool]:
        """Return the pods to requeue, and whether the queue remains in the rotation; one node requeues one pod."""
        for uid in [uid for uid, time in self.requeued.items() if time + INITIAL_BACKOFF <= now]:
            del self.requeued[uid]
        pending = bool(self.requeued)
        due: list[_UnschedulablePod] = []
        if not changes:
            return due, pending
        unused = changes[: max(0, len(changes) - len(self.requeued))]
        passed_over: list[str] = []
        for entry in islice(self.pods.values(), MAX_SCANNED):
            if changes[-1] <= entry.rejected_at or skip(entry.pod.uid):
                passed_over.append(entry.pod.uid)
                continue
            pending = True
            if not unused or unused[-1] <= entry.rejected_at or len(due) == limit:
                break
            if now >= entry.backoff_end:
                unused.pop()
                due.append(entry)
        else:
            if len(self.pods) > MAX_SCANNED:  # the next call examines the pods behind them
                pending = True
                for uid in passed_over:
                    self._move_to_tail(uid)
        return due, pending

    def requeue(self, uid: str, now: float) -> None:
        """Move a pod to the tail, and double its backoff."""
        entry = self._move_to_tail(uid)
        entry.backoff = min(max(2 * entry.backoff, INITIAL_BACKOFF), MAX_BACKOFF)
        entry.backoff_end = now + entry.backoff
        self.requeued[uid] = now

    def _move_to_tail(self, uid: str) -> _UnschedulablePod:
        entry = self.pods[uid] = self.pods.pop(uid)
        return entry


class UnschedulablePods:
    """See the module. Times are seconds of one clock; revisions count changes of the node table."""

    def __init__(self) -> None:
        self._shapes: dict[str, PodShape] = {}
        self._queues: dict[PodShape, _ShapeQueue] = {}
        self._rotation: dict[PodShape, None] = {}  # the queues to check, in order

    def __contains__(self, uid: str) -> bool:
        return uid in self._shapes

    def add(self, pod: PendingPod, revision: int) -> None:
        """Add a pod that every node rejects at this revision, at the tail of its queue."""
        queue = self._queues.get(pod.shape)
        entry = queue.pods.pop(pod.uid, None) if queue is not None else None
        if queue is None or entry is None:
            self.remove(pod.uid)
            queue, entry = self._queues.setdefault(pod.shape, _ShapeQueue()), _UnschedulablePod(pod)
            self._shapes[pod.uid] = pod.shape
        entry.rejected_at = revision
        queue.pods[pod.uid] = entry
        queue.requeued.pop(pod.uid, None)

    def remove(self, uid: str) -> None:
        """Remove a pod, if present."""
        shape = self._shapes.pop(uid, None)
        if shape is None:
            return
        queue = self._queues[shape]
        del queue.pods[uid]
        queue.requeued.pop(uid, None)
        if not queue.pods:
            del self._queues[shape]
            self._rotation.pop(shape, None)

    def revision_of_due(self, uid: str, now: float) -> int | None:
        """Return the revision at which a pod was rejected, or None if it is unknown or in backoff.

        A pod that has just been requeued counts as due until kube-scheduler tries it.
        """
        shape = self._shapes.get(uid)
        if shape is None:
            return None
        queue = self._queues[shape]
        entry = queue.pods[uid]
        return entry.rejected_at if now >= entry.backoff_end or uid in queue.requeued else None

    def most_common_shapes(self, limit: int) -> tuple[PendingShape, ...]:
        """Return the most common shapes with counts, rounded to a power of two so that cached scores remain valid."""
        queues = self._queues.items()
        if len(queues) > limit:
            shapes = set(sorted(self._queues, key=lambda shape: -len(self._queues[shape].pods))[:limit])
            queues = [(shape, queue) for shape, queue in queues if shape in shapes]
        return tuple(PendingShape(shape, 1 << len(queue.pods).bit_length() - 1) for shape, queue in queues)

    def recheck_all(self) -> None:
        """Put every queue into the rotation because nodes have changed."""
        for shape in self._queues:
            self._rotation.setdefault(shape)

    def due_shapes(self) -> list[PodShape]:
        """Return the shapes of the next queues of the rotation."""
        return list(islice(self._rotation, MAX_SHAPES))

    def pop_due(
        self, now: float, node_changes: Mapping[PodShape, list[int]], skip: Callable[[str], bool] = lambda _: False
    ) -> list[PendingPod]:
        """Return the pods to requeue, for the shapes that due_shapes() has returned.

        `skip` returns by UID whether a pod needs no requeueing. `node_changes` contains, by shape, the latest revisions
        at which nodes that may admit it last changed, ascending. If a node has not changed since the pod was rejected,
        something that only kube-scheduler knows rules it out. One node requeues one pod of a shape, since it may admit
        no more. It requeues the next a second later, or as soon as kube-scheduler has tried the first. A pod that
        kube-scheduler does not try is requeued again after its backoff.
        """
        pods: list[PendingPod] = []
        for shape, changes in node_changes.items():
            queue = self._queues.get(shape)
            if queue is None or shape not in self._rotation:  # its last pod has been removed meanwhile
                continue
            due, pending = queue.due(now, changes, MAX_REQUEUED - len(pods), skip)
            for entry in due:
                queue.requeue(entry.pod.uid, now)
                pods.append(entry.pod)
            del self._rotation[shape]
            if pending:
                self._rotation[shape] = None
        return pods
