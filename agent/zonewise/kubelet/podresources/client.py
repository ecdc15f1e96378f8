"""Client of the PodResources API: allocations of pods, and allocatable resources."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from typing import TYPE_CHECKING

from zonewise.kubelet.channel import Channel
from zonewise.kubelet.errors import KubeletTimeout, KubeletUnavailable, Throttled
from zonewise.kubelet.podresources.responses import decode_allocatable, decode_list
from zonewise.kubelet.podresources.v1 import podresources_pb2 as pb
from zonewise_common.token_bucket import TokenBucket

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise.kubelet.types import Allocatable, PodResources

log = logging.getLogger(__name__)

SERVICE = "v1.PodResourcesLister"

RATE = 50.0
"""Calls a second. The kubelet accepts 100 a second and 10 at once from all clients of the node together, and rejects
the rest (pkg/kubelet/apis/podresources/constants.go). Half of that leaves enough for GPU exporters, which call about
every ten seconds, and covers 20 pod starts a second at two calls each."""

BURST = 6
"""Calls at once: just over half of the kubelet's limit."""

_FIRST_PAUSE = 0.05  # seconds; a throttled call may succeed within a tenth of a second
_LONGEST_PAUSE = 1.0


SocketIdentity = tuple[int, int, int]
"""Device, inode and time of the last change in nanoseconds."""


class PodResourcesClient:
    """One kubelet's PodResources API; thread-safe.

    Every call ends within `timeout` seconds, including waits and repetitions. A restarting kubelet re-creates its
    socket. So a call is repeated for at most `retry_timeout` seconds if the socket is absent, the connection broke, or
    the kubelet throttles. All calls only read, so a repetition is harmless.

    Raises KubeletUnavailable, KubeletTimeout, Throttled or BadResponse.
    """

    def __init__(
        self,
        socket_path: str,
        *,
        timeout: float = 10.0,
        retry_timeout: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        """Prepare to connect at the first call. `clock` and `wait` are in seconds; by default close() ends a wait."""
        self._socket = socket_path
        self._timeout = timeout
        self._retry_timeout = min(retry_timeout, timeout)
        self._clock = clock
        self._closed = threading.Event()
        self._wait = wait or self._closed.wait
        self._bucket = TokenBucket(RATE, BURST, clock)
        self._problems: dict[str, tuple[str, ...]] = {}
        self._channel = Channel(socket_path, SERVICE)

    def list(self) -> tuple[PodResources, ...]:
        """Return the active pods by namespace and name, including pods without exclusive resources."""
        pods, problems = decode_list(self._call("List", pb.ListPodResourcesRequest().SerializeToString()))
        self._keep_problems("List", problems)
        return pods

    def allocatable(self) -> Allocatable:
        """Return the allocatable resources; they are empty for a while after the kubelet's start."""
        response = self._call("GetAllocatableResources", pb.AllocatableResourcesRequest().SerializeToString())
        allocatable, problems = decode_allocatable(response)
        self._keep_problems("GetAllocatableResources", problems)
        return allocatable

    def socket_identity(self) -> SocketIdentity | None:
        """Return the identity of the socket; None if there is none. A kubelet creates a new socket at its start."""
        try:
            status = os.stat(self._socket)
        except OSError:
            return None
        return status.st_dev, status.st_ino, status.st_ctime_ns

    @property
    def problems(self) -> tuple[str, ...]:
        """Return the problems in the last responses to list() and allocatable(), and how they were resolved."""
        return tuple(problem for problems in self._problems.values() for problem in problems)

    def close(self) -> None:
        """End every call in progress and the connection; later calls raise KubeletUnavailable."""
        self._closed.set()
        self._channel.close()

    # --- calls

    def _call(self, name: str, request: bytes) -> bytes:
        started = self._clock()
        end, last_try = started + self._timeout, started + self._retry_timeout
        pause = _FIRST_PAUSE
        while True:
            self._wait_until_allowed(name, end)
            try:
                return self._call_once(name, request, end)
            except (KubeletUnavailable, Throttled) as error:
                if self._closed.is_set() or self._clock() + pause >= last_try:
                    raise
                log.debug("%s; trying again in %.2f s", error, pause)
            self._wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _wait_until_allowed(self, name: str, end: float) -> None:
        delay = self._bucket.reserve()
        if self._clock() + delay >= end:
            raise Throttled(
                f"{name} on {self._socket}: not sent, because too many of the agent's calls are already waiting"
            )
        if delay:
            self._wait(delay)

    def _call_once(self, name: str, request: bytes, end: float) -> bytes:
        left = end - self._clock()
        if left <= 0:
            raise KubeletTimeout(f"{name} on {self._socket}: no response within {self._timeout:g} s")
        return self._channel.call(name, request, left)

    def _keep_problems(self, name: str, problems: tuple[str, ...]) -> None:
        self._problems[name] = tuple(f"{name} on {self._socket}: {problem}" for problem in problems)
