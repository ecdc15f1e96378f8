"""The CPUs that an ideal scheduler keeps in use, given the same arrivals and removals of pods.

The ideal scheduler follows the kubelets' rules for pods that need one zone each, and adds no delays. Whenever a zone
has free CPUs, it starts the pods that fill the zone best. A removed pod holds its CPUs for as long as the kubelets of
the measured run needed to end one.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class Change(NamedTuple):
    """The creation or deletion of a pod."""

    at: float
    """Time in seconds, on any clock."""
    name: str
    cpus: int | None
    """None if the pod is deleted."""


class _Running(NamedTuple):
    zone: int
    cpus: int


class IdealCluster:
    """The zones of all nodes, with running and waiting pods."""

    def __init__(self, free: Sequence[int], lag: float) -> None:
        """Create a cluster from the free CPUs of each zone, and the seconds from a pod's deletion to its end."""
        self._free = list(free)
        self._lag = lag
        self._running: dict[str, _Running] = {}
        self._waiting: dict[str, int] = {}
        self._ending: list[tuple[float, str]] = []  # a heap

    @property
    def in_use(self) -> int:
        """Return the CPUs of all running pods."""
        return sum(pod.cpus for pod in self._running.values())

    def apply(self, change: Change) -> None:
        """Create or delete a pod. Call it in the order of the changes' times."""
        self.advance(change.at)
        if change.cpus is not None:
            self._waiting[change.name] = change.cpus
        elif self._waiting.pop(change.name, None) is None and change.name in self._running:
            heapq.heappush(self._ending, (change.at + self._lag, change.name))
        self._start_pods()

    def advance(self, now: float) -> None:
        """End the pods whose time is over, and start other pods."""
        while self._ending and self._ending[0][0] <= now:
            pod = self._running.pop(heapq.heappop(self._ending)[1])
            self._free[pod.zone] += pod.cpus
            self._start_pods()

    def _start_pods(self) -> None:
        """Fill the zones, starting with the fullest."""
        for zone in sorted(range(len(self._free)), key=self._free.__getitem__):
            for name in fullest_subset(self._waiting, self._free[zone]):
                cpus = self._waiting.pop(name)
                self._running[name] = _Running(zone, cpus)
                self._free[zone] -= cpus


def fullest_subset(sizes: Mapping[str, int], capacity: int) -> list[str]:
    """Return the names whose sizes have the largest sum up to a capacity; of equal sums, that with the fewest names."""
    best: dict[int, list[str]] = {0: []}
    for name, size in sizes.items():
        for total, names in list(best.items()):
            candidate = total + size
            if candidate <= capacity and (candidate not in best or len(best[candidate]) > len(names) + 1):
                best[candidate] = [*names, name]
    return best[max(best)]


def ideal_mean(changes: Sequence[Change], free: Sequence[int], lag: float, times: Iterable[float]) -> float:
    """Return the mean number of CPUs in use at the given times, which are ascending.

    `free` contains the CPUs of each zone, and `lag` is the time from the deletion of a running pod to its end.
    """
    cluster = IdealCluster(free, lag)
    pending = deque(sorted(changes, key=lambda change: change.at))
    samples: list[int] = []
    for now in times:
        while pending and pending[0].at <= now:
            cluster.apply(pending.popleft())
        cluster.advance(now)
        samples.append(cluster.in_use)
    return sum(samples) / len(samples)
