"""Measurements of the pods of gangs: waits, working CPUs, and how soon a gang runs once it fits.

A gang fits once the free CPUs of the nodes suffice for all of its pods. Another gang may start instead, so only the
time directly before the gang's own start counts.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from benchmarks.live_jobs import GangJob

_ENDED, _SUBMITTED, _BOUND = range(3)
"""Kinds of simultaneous events, in the order in which they are processed."""


class PodSpan(NamedTuple):
    """The life of a pod, in seconds after the first submission."""

    job: str
    node: str
    bound: float
    running: float
    ended: float


class GangSpan(NamedTuple):
    """The life of a gang, in seconds after the first submission."""

    job: GangJob
    bound: float
    """When the first of its pods was bound."""
    running: float
    """When all of its pods ran."""
    ended: float
    """When the last of its pods ended."""

    @property
    def wait(self) -> float:
        """Return the seconds from the gang's submission until all of its pods run."""
        return self.running - self.job.submitted


def gang_spans(jobs: Iterable[GangJob], pods: Iterable[PodSpan]) -> list[GangSpan]:
    """Return the spans of the gangs all of whose pods have run, sorted by submission."""
    by_job: dict[str, list[PodSpan]] = {}
    for pod in pods:
        by_job.setdefault(pod.job, []).append(pod)
    spans: list[GangSpan] = []
    for job in jobs:
        members = by_job.get(job.name, [])
        if len(members) == job.pods:
            bound = min(pod.bound for pod in members)
            running = max(pod.running for pod in members)
            spans.append(GangSpan(job, bound, running, max(pod.ended for pod in members)))
    return spans


def working_cpus(spans: Iterable[GangSpan], begin: float, end: float) -> float:
    """Return the mean number of CPUs of gangs all of whose pods run, from `begin` to `end`."""
    return working_amount(spans, begin, end, lambda job: job.pods * job.cpus)


def working_amount(spans: Iterable[GangSpan], begin: float, end: float, amount: Callable[[GangJob], int]) -> float:
    """Return the mean of what gangs use, from `begin` to `end`, while all of their pods run."""
    seconds = sum(max(0.0, min(span.ended, end) - max(span.running, begin)) * amount(span.job) for span in spans)
    return seconds / (end - begin)


def turnovers(spans: Iterable[GangSpan]) -> list[float]:
    """Return the seconds from the end of each gang until the next one runs, for gangs that run one after another."""
    ordered = sorted(spans, key=lambda span: span.running)
    return [following.running - span.ended for span, following in pairwise(ordered)]


def seconds_from_room(
    spans: Sequence[GangSpan], pods: Iterable[PodSpan], free: Mapping[str, int]
) -> tuple[list[float], float]:
    """Return the seconds that each gang fits before all its pods run, and the seconds in which any waiting gang fits.

    `free` is the number of CPUs of each node at the beginning. The time of a gang begins when it last starts to fit
    before its first pod is bound.
    """
    sweep, jobs = _Sweep(free), {span.job.name: span.job for span in spans}
    moments = [(job.submitted, _SUBMITTED, job.name, "") for job in jobs.values()]
    for pod in pods:
        if pod.job in jobs:
            moments += [(pod.ended, _ENDED, pod.job, pod.node), (pod.bound, _BOUND, pod.job, pod.node)]
    for time, kind, name, node in sorted(moments):
        sweep.advance(time)
        if kind == _SUBMITTED:
            sweep.waiting[name] = jobs[name]
        elif kind == _BOUND:
            sweep.bind(jobs[name], node)
        else:
            sweep.release(jobs[name], node)
        sweep.look()
    return [span.running - sweep.room_of[span.job.name] for span in spans], sweep.seconds


class _Sweep:
    """The free CPUs of nodes and the waiting gangs at a moment."""

    def __init__(self, free: Mapping[str, int]) -> None:
        self._free = dict(free)
        self._time = 0.0
        self._room_since: dict[str, float] = {}
        self.waiting: dict[str, GangJob] = {}
        self.room_of: dict[str, float] = {}
        """Time since which each started gang fitted when it started."""
        self.seconds = 0.0
        """Seconds in which a waiting gang fitted."""

    def advance(self, time: float) -> None:
        if self._room_since:
            self.seconds += time - self._time
        self._time = time

    def bind(self, job: GangJob, node: str) -> None:
        """Record a pod of a gang on a node; with its first pod, the gang has started."""
        if self.waiting.pop(job.name, None) is not None:
            self.room_of[job.name] = self._room_since.pop(job.name, self._time)
        self._free[node] -= job.cpus

    def release(self, job: GangJob, node: str) -> None:
        """Record the end of a pod of a gang on a node."""
        self._free[node] += job.cpus

    def look(self) -> None:
        """Record the waiting gangs that fit."""
        slots: Counter[int] = Counter()
        for cpus in {job.cpus for job in self.waiting.values()}:
            slots[cpus] = sum(max(0, free) // cpus for free in self._free.values())
        for name, job in self.waiting.items():
            if slots[job.cpus] >= job.pods:
                self._room_since.setdefault(name, self._time)
            else:
                self._room_since.pop(name, None)
