"""Delays of a live cluster beside the work itself."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable


class Latency(NamedTuple):
    """Seconds, unless stated otherwise."""

    start_low: float = 0.0
    """Least time from the admission of a job until a pod of it is ready."""
    start_high: float = 0.0
    """Greatest such time. It is uniform, for each pod on its own. The work begins when the last pod is ready."""
    rate: float = inf
    """Admissions per second written to the API server (an API client's QPS)."""
    burst: int = 1
    """Admissions written at once after a rest."""
    release: float = 0.0
    """From the end of a job's pods until its quota is known to be free."""
    grace: float = 0.0
    """Termination grace period of pods (terminationGracePeriodSeconds)."""
    enforce_deadlines: bool = False
    """Whether a job is killed at its deadline, and has failed. A live Job is (activeDeadlineSeconds, counted from the
    start: pkg/controller/job/job_controller.go); in logs, jobs run on."""
    seed: int = 0
    """Seed of all random numbers."""


NO_LATENCY = Latency()


def pod_start_delays(latency: Latency, pods: Iterable[int]) -> list[float]:
    """Return for each job the time until all its pods are ready.

    The random number of a job does not depend on decisions, so that policies are compared with equal delays. The
    slowest of n pods is drawn at once: the largest of n uniform numbers is distributed as the n-th root of one.
    """
    counts = np.fromiter((max(1, count) for count in pods), np.float64)
    random_numbers = np.random.default_rng(latency.seed).random(len(counts)) ** (1 / counts)
    delays: list[float] = (latency.start_low + (latency.start_high - latency.start_low) * random_numbers).tolist()
    return delays


class TokenBucket:
    """The rate limit of an API client, first come, first served.

    Source: staging/src/k8s.io/client-go/util/flowcontrol/throttle.go NewTokenBucketRateLimiter; the bucket is full at
    first. The state is the one time at which it would be full again (generic cell rate algorithm, ITU-T I.371).
    """

    def __init__(self, rate: float, burst: int) -> None:
        """Allow `rate` requests a second, and `burst` at once after a rest; an infinite rate allows all."""
        self._interval = 1 / rate
        self._tolerance = (burst - 1) / rate
        self._full = -inf

    def reserve(self, now: float) -> float:
        """Return when a request goes that comes now. Calls come in order of time."""
        allowed_at = max(now, self._full - self._tolerance)
        self._full = max(now, self._full) + self._interval
        return allowed_at
