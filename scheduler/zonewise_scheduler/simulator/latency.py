"""Delays of a live cluster in addition to the work itself."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable


class Latency(NamedTuple):
    """The delays, in seconds unless stated otherwise."""

    start_low: float = 0.0
    """Minimum time from the admission of a job until one of its pods is ready."""
    start_high: float = 0.0
    """Maximum of that time, which is uniformly distributed and independent for each pod. The work begins when the last
    pod is ready."""
    rate: float = inf
    """Admissions per second written to the API server (an API client's QPS)."""
    burst: int = 1
    """Number of admissions written at once after an idle period."""
    release: float = 0.0
    """Time from the end of a job's pods until its quota is known to be free."""
    grace: float = 0.0
    """Termination grace period of pods (terminationGracePeriodSeconds)."""
    enforce_deadlines: bool = False
    """Whether a job is killed at its deadline and counts as failed. A live Job is (activeDeadlineSeconds, counted from
    the start: pkg/controller/job/job_controller.go); in logs, jobs continue to run."""
    seed: int = 0
    """Seed of all random numbers."""


NO_LATENCY = Latency()


def pod_start_delays(latency: Latency, pods: Iterable[int]) -> list[float]:
    """Return the time until all pods of each job are ready.

    The random number of a job does not depend on decisions, so policies are compared with equal delays. The slowest of
    n pods is drawn directly: the largest of n uniform numbers is distributed like the n-th root of one.
    """
    counts = np.fromiter((max(1, count) for count in pods), np.float64)
    random_numbers = np.random.default_rng(latency.seed).random(len(counts)) ** (1 / counts)
    delays: list[float] = (latency.start_low + (latency.start_high - latency.start_low) * random_numbers).tolist()
    return delays


class TokenBucket:
    """The rate limit of an API client, in order of arrival.

    Source: staging/src/k8s.io/client-go/util/flowcontrol/throttle.go NewTokenBucketRateLimiter; the bucket is initially
    full. The only state is the time at which it would be full again (generic cell rate algorithm, ITU-T I.371).
    """

    def __init__(self, rate: float, burst: int) -> None:
        """Allow `rate` requests per second, and `burst` at once after an idle period; an infinite rate allows all."""
        self._interval = 1 / rate
        self._tolerance = (burst - 1) / rate
        self._full = -inf

    def reserve(self, now: float) -> float:
        """Return when a request that arrives now is sent. Calls must be in order of time."""
        allowed_at = max(now, self._full - self._tolerance)
        self._full = max(now, self._full) + self._interval
        return allowed_at
