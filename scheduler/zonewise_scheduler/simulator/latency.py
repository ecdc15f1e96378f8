"""What takes time on a live cluster beside the work itself."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable


class Latency(NamedTuple):
    """Seconds, unless said otherwise."""

    start_low: float = 0.0
    """From when a job may start until a pod of it is ready: uniform from here ..."""
    start_high: float = 0.0
    """... to there, for each pod on its own. The work begins when the last pod is ready."""
    rate: float = inf
    """So many admissions a second are written to the API server (an API client's QPS) ..."""
    burst: int = 1
    """... and so many at once after a rest."""
    release: float = 0.0
    """From the end of a job's pods until its quota is known to be free."""
    grace: float = 0.0
    """From when pods are told to stop until they are gone (terminationGracePeriodSeconds)."""
    enforce_deadlines: bool = False
    """Whether a job that outlives its declared run time is killed, and has failed: a live Job is
    (activeDeadlineSeconds, counted from the start: pkg/controller/job/job_controller.go), in logs they run on."""
    seed: int = 0
    """Of all that is drawn by chance."""


NO_LATENCY = Latency()


def pod_start_delays(latency: Latency, pods: Iterable[int]) -> list[float]:
    """Return how long it takes until all pods of each job are ready.

    A job's luck is its own, whatever is decided, so that policies are compared with equal luck. The slowest of n pods
    is drawn at once: the largest of n uniform numbers is distributed as the n-th root of one.
    """
    counts = np.fromiter((max(1, count) for count in pods), np.float64)
    luck = np.random.default_rng(latency.seed).random(len(counts)) ** (1 / counts)
    starts: list[float] = (latency.start_low + (latency.start_high - latency.start_low) * luck).tolist()
    return starts


class TokenBucket:
    """Says when a request may go, first come first served: the rate limit of an API client.

    staging/src/k8s.io/client-go/util/flowcontrol/throttle.go NewTokenBucketRateLimiter; the bucket is full at first.
    Kept as the one time at which it would be full again (the generic cell rate algorithm, ITU-T I.371).
    """

    def __init__(self, rate: float, burst: int) -> None:
        """Let `rate` requests a second go, and `burst` at once after a rest; with an infinite rate, all."""
        self._interval = 1 / rate
        self._tolerance = (burst - 1) / rate
        self._full = -inf

    def reserve(self, now: float) -> float:
        """Return when a request goes that comes now; no request came later."""
        going = max(now, self._full - self._tolerance)
        self._full = max(now, self._full) + self._interval
        return going
