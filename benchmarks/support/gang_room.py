"""How soon a gang runs once nodes have room for it: while kubelets would admit all of its missing pods.

The pods on nodes hold the zones that kubelets give them by the rules of `admission`. Another gang may take the room, so
only the time since a gang last began to have room counts.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from math import inf
from typing import TYPE_CHECKING

from benchmarks.support.agent_testbed import PROJECT
from benchmarks.support.gang_spans import gang_spans
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.node import idle_node

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.support.gang_spans import PodSpan
    from benchmarks.support.live_jobs import GangJob
    from zonewise_scheduler.admission.node import NodeKind
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.nodes.assumed.types import PendingPod

sys.path.insert(0, str(PROJECT / "tests"))

_ENDED, _SUBMITTED, _BOUND = range(3)
"""Kinds of simultaneous events, in the order in which they are processed."""


def seconds_from_room(
    jobs: Sequence[GangJob],
    pods: Sequence[PodSpan],
    kinds: Mapping[str, NodeKind],
    shape: Callable[[GangJob], PodShape],
) -> tuple[list[float], float]:
    """Return the seconds that each gang has room before all its pods run, and those in which any has room.

    Only gangs that succeed count, in the order of gang_spans(). A gang counts for the second value until its first pod
    is bound. `kinds` are the nodes, idle at the beginning, and `shape` returns what each pod of a gang requests.
    """
    from support.ledger_kubelets import pod as pending_pod

    spans = gang_spans(jobs, pods)
    by_name = {job.name: job for job in jobs}
    sweep = _Sweep(kinds, shape)
    moments = [(span.job.submitted, _SUBMITTED, i) for i, span in enumerate(spans)]
    for i, pod in enumerate(pods):
        moments += [(pod.bound, _BOUND, i), (pod.ended, _ENDED, i)]
    for time, kind, i in sorted(moments):
        if time == inf:
            break
        sweep.advance(time)
        if kind == _SUBMITTED:
            sweep.submit(spans[i].job)
        elif kind == _BOUND:
            sweep.bind(by_name[pods[i].job], pods[i].node, pending_pod(str(i), shape(by_name[pods[i].job])))
        else:
            sweep.nodes.end(pods[i].node, pending_pod(str(i), shape(by_name[pods[i].job])))
        sweep.look()
    return [span.running - sweep.room_of[span.job.name] for span in spans], sweep.seconds


class _Nodes:
    """The zones of all nodes, and the pods that hold them."""

    def __init__(self, kinds: Mapping[str, NodeKind]) -> None:
        from support.ledger_kubelets import Kubelet

        self._kubelets = {name: Kubelet(name, idle_node(kind)) for name, kind in kinds.items()}
        self._slots: defaultdict[str, dict[PodShape, int]] = defaultdict(dict)
        """Number of pods of a shape that a node can admit, computed since its last change."""
        self._late: defaultdict[str, list[PendingPod]] = defaultdict(list)
        """Pods that were seen on a node before the end of those whose resources they got."""

    def start(self, node: str, pod: PendingPod) -> None:
        """Give a pod resources of its node."""
        if not self._kubelets[node].decide(pod).admitted:
            self._late[node].append(pod)
        self._slots[node].clear()

    def end(self, node: str, pod: PendingPod) -> None:
        """Free the resources of a pod."""
        kubelet, late = self._kubelets[node], self._late[node]
        if pod in late:
            late.remove(pod)
        else:
            kubelet.end_pod(pod.uid)
        late[:] = [each for each in late if not kubelet.decide(each).admitted]
        self._slots[node].clear()

    def slots(self, shape: PodShape) -> int:
        """Return how many pods of a shape all kubelets together would admit."""
        return sum(self._slots_of(node, shape) for node in self._kubelets)

    def _slots_of(self, node: str, shape: PodShape) -> int:
        slots = self._slots[node]
        if shape not in slots:
            slots[shape] = 0
            after = admit(self._kubelets[node].state, shape).after
            while after is not None:
                slots[shape] += 1
                after = admit(after, shape).after
        return slots[shape]


class _Sweep:
    """The nodes and the waiting gangs at a moment."""

    def __init__(self, kinds: Mapping[str, NodeKind], shape: Callable[[GangJob], PodShape]) -> None:
        self.nodes = _Nodes(kinds)
        self._shape = shape
        self._time = 0.0
        self._waiting: dict[str, GangJob] = {}
        self._bound: Counter[str] = Counter()
        self._room_since: dict[str, float] = {}
        self.room_of: dict[str, float] = {}
        """Time since which each gang had room when the last of its pods was bound."""
        self.seconds = 0.0
        """Seconds in which a gang without bound pods had room."""

    def advance(self, time: float) -> None:
        if any(not self._bound[name] for name in self._room_since):
            self.seconds += time - self._time
        self._time = time

    def submit(self, job: GangJob) -> None:
        self._waiting[job.name] = job

    def bind(self, job: GangJob, node: str, pod: PendingPod) -> None:
        """Record a pod of a gang on a node."""
        self.nodes.start(node, pod)
        self._bound[job.name] += 1
        if self._bound[job.name] == job.pods and self._waiting.pop(job.name, None) is not None:
            self.room_of[job.name] = self._room_since.pop(job.name, self._time)

    def look(self) -> None:
        """Record the waiting gangs that have room."""
        for name, job in self._waiting.items():
            if self.nodes.slots(self._shape(job)) >= job.pods - self._bound[name]:
                self._room_since.setdefault(name, self._time)
            else:
                self._room_since.pop(name, None)
