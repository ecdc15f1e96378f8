"""Measurements of the pods of gangs: waits, working CPUs, and the time between two gangs."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from benchmarks.support.live_jobs import GangJob


class PodSpan(NamedTuple):
    """The life of a pod that holds resources of a node, in seconds after the first submission.

    Times that have not been observed are infinite.
    """

    job: str
    node: str
    bound: float
    running: float
    ended: float
    succeeded: bool = True


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
    """Return the spans of the gangs all of whose pods have succeeded, in the order of the jobs."""
    by_job: dict[str, list[PodSpan]] = {}
    for pod in pods:
        if pod.succeeded:
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
    """Return the mean number of CPUs of gangs that work, from `begin` to `end`; see working_amount()."""
    return working_amount(spans, begin, end, lambda job: job.pods * job.cpus)


def working_amount(spans: Iterable[GangSpan], begin: float, end: float, amount: Callable[[GangJob], int]) -> float:
    """Return the mean of what gangs use, from `begin` to `end`, while they work.

    A gang works for its run time once all of its pods run. Later, nodes only end its pods.
    """
    seconds = sum(
        max(0.0, min(span.running + span.job.run, end) - max(span.running, begin)) * amount(span.job) for span in spans
    )
    return seconds / (end - begin)


def end_delays(spans: Iterable[GangSpan]) -> list[float]:
    """Return the seconds from the end of each gang's work until the last of its pods has ended."""
    return [span.ended - span.running - span.job.run for span in spans]


def turnovers(spans: Iterable[GangSpan]) -> list[float]:
    """Return the seconds from the end of each gang until the next one runs, for gangs that run one after another."""
    ordered = sorted(spans, key=lambda span: span.running)
    return [following.running - span.ended for span, following in pairwise(ordered)]
