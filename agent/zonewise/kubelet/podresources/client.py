"""Asks the kubelet who holds what, and what there is to hold, over the PodResources API."""

from __future__ import annotations

import logging
import math
import threading
import time
from typing import TYPE_CHECKING

import grpc

from zonewise.kubelet.channel import kubelet_error, open_channel
from zonewise.kubelet.errors import BadAnswer, KubeletTimeout, KubeletUnavailable, Throttled
from zonewise.kubelet.podresources.responses import decode_allocatable, decode_get, decode_list
from zonewise.kubelet.podresources.token_bucket import TokenBucket
from zonewise.kubelet.podresources.v1 import podresources_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise.kubelet.types import Allocatable, PodResources

log = logging.getLogger(__name__)

SERVICE = "v1.PodResourcesLister"

RATE = 50.0
"""Calls a second. The kubelet takes 100 a second and 10 at once from all clients of the node together, and refuses the
rest (pkg/kubelet/apis/podresources/constants.go): half of that for us leaves the exporters of GPU vendors, which ask
every ten seconds or so, far more than they need, and follows 20 pod starts a second at two calls each."""

BURST = 6
"""Calls at once: more than half of the kubelet's."""

_FIRST_PAUSE = 0.05  # seconds; what was refused for its number may come again within a tenth of a second
_LONGEST_PAUSE = 1.0


class PodResourcesClient:
    """One kubelet's PodResources API; safe to share among threads.

    Every call ends within `timeout` seconds, waits and repetitions included. A kubelet that restarts re-creates its
    socket, so a call is tried again where the socket is absent or the connection broke, and where the kubelet refuses
    for the number of calls, for `patience` seconds of these. All calls only read: to repeat one is harmless.

    Raises KubeletUnavailable, KubeletTimeout, Throttled or BadAnswer.
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
        """Connect at the first call. `clock` and `wait` are in seconds; by default, waiting ends when it is closed."""
        self._socket = socket_path
        self._timeout = timeout
        self._patience = min(retry_timeout, timeout)
        self._clock = clock
        self._closed = threading.Event()
        self._wait = wait or self._closed.wait
        self._bucket = TokenBucket(RATE, BURST, clock)
        self._problems: dict[str, tuple[str, ...]] = {}
        self._channel = open_channel(socket_path)
        self._methods = {name: self._method(name) for name in ("List", "GetAllocatableResources", "Get")}

    def list(self) -> tuple[PodResources, ...]:
        """Return the active pods by namespace and name, those that hold nothing too."""
        pods, problems = decode_list(self._call("List", pb.ListPodResourcesRequest().SerializeToString()))
        self._note("List", problems)
        return pods

    def allocatable(self) -> Allocatable:
        """Return what can be given to pods; it is empty for a while after the kubelet's start."""
        answer = self._call("GetAllocatableResources", pb.AllocatableResourcesRequest().SerializeToString())
        allocatable, problems = decode_allocatable(answer)
        self._note("GetAllocatableResources", problems)
        return allocatable

    def get(self, namespace: str, name: str) -> PodResources | None:
        """Return one active pod; None where there is none."""
        request = pb.GetPodResourcesRequest(pod_namespace=namespace, pod_name=name)
        try:
            pods, problems = decode_get(self._call("Get", request.SerializeToString()))
        except BadAnswer as error:
            if isinstance(error.__cause__, grpc.RpcError) and _says_not_found(error.__cause__):
                return None
            raise
        for problem in problems:
            log.warning("Get on %s: %s", self._socket, problem)
        return pods[0] if pods else None

    @property
    def problems(self) -> tuple[str, ...]:
        """What made no sense in the last answers to list() and allocatable(), and what was done about it."""
        return tuple(problem for problems in self._problems.values() for problem in problems)

    def close(self) -> None:
        """End every call under way, and the connection; later calls raise KubeletUnavailable."""
        self._closed.set()
        self._channel.close()

    # --- calls

    def _method(self, name: str) -> grpc.UnaryUnaryMultiCallable[bytes, bytes]:
        # bytes in and out: gRPC logs a traceback of its own for a message that it cannot decode
        return self._channel.unary_unary(f"/{SERVICE}/{name}", request_serializer=None, response_deserializer=None)

    def _call(self, name: str, request: bytes) -> bytes:
        begun = self._clock()
        end, last_try = begun + self._timeout, begun + self._patience
        pause = _FIRST_PAUSE
        while True:
            self._wait_until_allowed(name, end)
            try:
                return self._try(name, request, end)
            except (KubeletUnavailable, Throttled) as error:
                if self._closed.is_set() or self._clock() + pause >= last_try:
                    raise
                log.debug("%s; trying again in %.2f s", error, pause)
            self._wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _wait_until_allowed(self, name: str, end: float) -> None:
        delay = self._bucket.reserve()
        if self._clock() + delay >= end:
            raise Throttled(f"{name} on {self._socket}: not sent, too many calls of our own wait already")
        if delay:
            self._wait(delay)

    def _try(self, name: str, request: bytes, end: float) -> bytes:
        what = f"{name} on {self._socket}"
        if self._closed.is_set():
            raise KubeletUnavailable(f"{what}: the client is closed")
        left = end - self._clock()
        if left <= 0:
            raise KubeletTimeout(f"{what}: no answer within {self._timeout:g} s")
        try:
            return self._methods[name](request, timeout=left)
        except grpc.RpcError as error:
            raise kubelet_error(error, what) from error
        except ValueError as error:  # what a closed channel raises, where close() came between
            raise KubeletUnavailable(f"{what}: {error}") from error

    def _note(self, name: str, problems: tuple[str, ...]) -> None:
        self._problems[name] = tuple(f"{name} on {self._socket}: {problem}" for problem in problems)


def _says_not_found(error: grpc.RpcError) -> bool:
    """Tell whether Get answered that there is no such pod.

    The kubelet returns a bare Go error, which gRPC sends as UNKNOWN (pkg/kubelet/apis/podresources/server_v1.go); a
    server with manners would say NOT_FOUND.
    """
    code = error.code()
    return code is grpc.StatusCode.NOT_FOUND or (
        code is grpc.StatusCode.UNKNOWN and (error.details() or "").endswith("not found")
    )
