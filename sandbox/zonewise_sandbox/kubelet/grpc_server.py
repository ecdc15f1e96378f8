"""The gRPC side of a simulated kubelet: unix sockets, methods, the rate limit, and faults on demand."""

from __future__ import annotations

import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

import grpc
from google.protobuf.message import Message

from zonewise_common.token_bucket import TokenBucket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

_SUN_PATH = 107  # maximum bytes of a socket's path: sockaddr_un of unix(7), without the final zero
_WORKERS = 16  # each watch occupies one


class Faults(NamedTuple):
    """The faults and limits of a simulated kubelet; a restart resets the counts."""

    empty_allocatable: int = 0
    """Number of initial responses to GetAllocatableResources that are empty: the socket is served before the managers
    run."""
    empty_lists: int = 0
    """Number of initial responses to List that are empty: a restarted kubelet serves before it knows its pods, while
    all resources are already allocatable."""
    failing_lists: int = 0
    """Number of initial calls of List that fail."""
    garbled_lists: int = 0
    """Number of initial responses to List that are not valid messages."""
    ballast: int = 0
    """Approximate bytes of repeated claims in the first pod of each List (kubernetes#141335)."""
    delay: float = 0.0
    """Seconds before every response."""
    rate: float = 100.0
    """Calls per second (pkg/kubelet/apis/podresources/constants.go)."""
    burst: int = 10
    """Maximum number of calls at once, from the same file."""
    late_plugins: frozenset[str] = frozenset()
    """Resources whose plugins register neither at the start nor after a restart."""


def serve(socket: Path, service: str, handlers: Mapping[str, grpc.RpcMethodHandler[bytes, bytes]]) -> grpc.Server:
    """Serve methods of one service on a socket; an existing file is replaced.

    Raises ValueError if the path is too long for a socket, RuntimeError if it cannot be bound.
    """
    if len(bytes(socket)) > _SUN_PATH:
        raise ValueError(f"{socket} is longer than the {_SUN_PATH} bytes that a socket's path may have")
    socket.parent.mkdir(parents=True, exist_ok=True)
    socket.unlink(missing_ok=True)
    server = grpc.server(ThreadPoolExecutor(_WORKERS, thread_name_prefix="simulated-kubelet"))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, dict(handlers)),))
    server.add_insecure_port(f"unix:{quote(str(socket))}")
    server.start()
    return server


class Calls:
    """Counts and limits the calls during one run of a simulated kubelet."""

    def __init__(self, faults: Faults) -> None:
        """Create counters without calls."""
        self._faults = faults
        self._bucket = TokenBucket(faults.rate, faults.burst)
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self.counts: dict[str, int] = {}
        """Accepted calls by method."""

    def unary(self, name: str, respond: Callable[[bytes, int], Message | bytes]) -> grpc.RpcMethodHandler[bytes, bytes]:
        """Return a handler that responds with `respond`, a function of the request and the call's number from 1.

        A LookupError becomes the kubelet's status: UNKNOWN, with its text.
        """

        def handle(request: bytes, context: grpc.ServicerContext) -> bytes:
            if not self._bucket.try_acquire():
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
            self._stopped.wait(self._faults.delay)
            try:
                message = respond(request, self._count(name))
            except LookupError as error:
                context.abort(grpc.StatusCode.UNKNOWN, str(error.args[0]))
            return message.SerializeToString() if isinstance(message, Message) else message

        return grpc.unary_unary_rpc_method_handler(handle)

    def end(self) -> None:
        """Send delayed responses at once."""
        self._stopped.set()

    def _count(self, name: str) -> int:
        with self._lock:
            self.counts[name] = self.counts.get(name, 0) + 1
            return self.counts[name]


class Broadcast:
    """Events for all watchers."""

    def __init__(self, lock: threading.RLock) -> None:
        """Create a broadcast without watchers. The lock guards the state behind the events, so watchers miss none."""
        self._lock = lock
        self._watchers: list[queue.SimpleQueue[bytes | None]] = []

    def send(self, *events: Message) -> None:
        """Send events to all current watchers."""
        with self._lock:
            for watcher in self._watchers:
                for event in events:
                    watcher.put(event.SerializeToString())

    def stream(self, first: Callable[[], list[bytes]]) -> grpc.RpcMethodHandler[bytes, bytes]:
        """Return a handler that streams the events of `first`, followed by every event that is sent."""

        def handle(_request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
            events: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
            with self._lock:
                for event in first():
                    events.put(event)
                self._watchers.append(events)
            context.add_callback(lambda: events.put(None))
            try:
                yield from iter(events.get, None)
            finally:
                with self._lock:
                    self._watchers.remove(events)

        return grpc.unary_stream_rpc_method_handler(handle)

    def end(self) -> None:
        """End every stream."""
        with self._lock:
            for watcher in self._watchers:
                watcher.put(None)
