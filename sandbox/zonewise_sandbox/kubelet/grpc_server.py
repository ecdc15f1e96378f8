"""The gRPC side of a simulated kubelet: unix sockets, methods, the limit on calls, and faults on demand."""

from __future__ import annotations

import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

import grpc
from google.protobuf.message import Message

from zonewise.kubelet.podresources.token_bucket import TokenBucket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

_SUN_PATH = 107  # bytes of a socket's path: sockaddr_un of unix(7), without the final zero
_WORKERS = 16  # each watch holds one


class Faults(NamedTuple):
    """How a simulated kubelet misbehaves, and its limits; the counts begin anew when it restarts."""

    empty_allocatable: int = 0
    """So many first answers to GetAllocatableResources are empty: the socket is served before the managers run."""
    empty_lists: int = 0
    """So many first answers to List are empty: a kubelet that restarts answers before it has heard of its pods, while
    everything is told as allocatable already."""
    failing_lists: int = 0
    """So many first calls of List fail."""
    garbled_lists: int = 0
    """So many first answers to List are no messages."""
    ballast: int = 0
    """About so many bytes of repeated claims come with the first pod of each List (kubernetes#141335)."""
    delay: float = 0.0
    """Seconds that every answer takes."""
    rate: float = 100.0
    """Calls a second, as the kubelet has it (pkg/kubelet/apis/podresources/constants.go)."""
    burst: int = 10
    """Calls at once, likewise."""
    late_plugins: frozenset[str] = frozenset()
    """Resources whose plugins do not come back by themselves after a restart, nor are there at the start."""


def serve(socket: Path, service: str, handlers: Mapping[str, grpc.RpcMethodHandler[bytes, bytes]]) -> grpc.Server:
    """Serve methods of one service on a socket, in the place of whatever is there.

    Raises ValueError for a path too long for a socket, RuntimeError where it cannot be bound.
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
    """Counts and limits the calls of one run of a simulated kubelet."""

    def __init__(self, faults: Faults) -> None:
        """Start with no call."""
        self._faults = faults
        self._bucket = TokenBucket(faults.rate, faults.burst)
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self.counts: dict[str, int] = {}
        """Calls let through, by method."""

    def unary(self, name: str, respond: Callable[[bytes, int], Message | bytes]) -> grpc.RpcMethodHandler[bytes, bytes]:
        """Return a handler that answers with what `answer` makes of the request and of the number of the call, from 1.

        LookupError is told as the kubelet tells it: UNKNOWN, with its text.
        """

        def handle(request: bytes, context: grpc.ServicerContext) -> bytes:
            if not self._bucket.try_acquire():
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
            self._stopped.wait(self._faults.delay)
            try:
                made = respond(request, self._count(name))
            except LookupError as error:
                context.abort(grpc.StatusCode.UNKNOWN, str(error.args[0]))
            return made.SerializeToString() if isinstance(made, Message) else made

        return grpc.unary_unary_rpc_method_handler(handle)

    def end(self) -> None:
        """Let answers that are delayed go at once."""
        self._stopped.set()

    def _count(self, name: str) -> int:
        with self._lock:
            self.counts[name] = self.counts.get(name, 0) + 1
            return self.counts[name]


class Broadcast:
    """Events for everyone who watches."""

    def __init__(self, lock: threading.RLock) -> None:
        """Start with no watcher. The lock guards what the events tell of, so that a watcher misses none."""
        self._lock = lock
        self._watchers: list[queue.SimpleQueue[bytes | None]] = []

    def send(self, *events: Message) -> None:
        """Send events to all that watch at present."""
        with self._lock:
            for watcher in self._watchers:
                for event in events:
                    watcher.put(event.SerializeToString())

    def stream(self, first: Callable[[], list[bytes]]) -> grpc.RpcMethodHandler[bytes, bytes]:
        """Return a handler that streams what `first` returns at its beginning, and then what is sent."""

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
