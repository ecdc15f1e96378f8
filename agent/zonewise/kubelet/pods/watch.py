"""Watches the kubelet's pods: tells at once when one comes, changes or goes, where the kubelet has the Pods API.

The API is alpha (KEP-4188, off by default in 1.36), so that its absence is the usual case: the watch looks again now
and then, and says so once. Nothing may depend on an event; whoever needs a fact asks for it, and an event only tells
that now is a good time.
"""

from __future__ import annotations

import enum
import logging
import os
import threading
from typing import TYPE_CHECKING, NamedTuple

import grpc
from google.protobuf.message import DecodeError

from zonewise.kubelet.channel import kubelet_error, open_channel
from zonewise.kubelet.pods.v1alpha1 import pods_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

log = logging.getLogger(__name__)

SERVICE = "v1alpha1.Pods"

FIRST_PAUSE = 1.0
"""Seconds until the next try after a stream that worked has ended."""
LONGEST_PAUSE = 300.0
"""Seconds: each try in vain doubles the pause up to here. A kubelet gets the API by a restart with another
configuration, which is rare, and a picture of the node is taken on a slow interval anyway."""


class PodEventType(enum.Enum):
    """What happened to a pod."""

    ADDED = pb.ADDED
    MODIFIED = pb.MODIFIED
    DELETED = pb.DELETED
    SYNCED = pb.INITIAL_SYNC_COMPLETE
    """Nothing: all pods that were there have been told."""


class WatchedPod(NamedTuple):
    """What an event tells of a pod; DELETED ones have no labels and no phase."""

    namespace: str
    name: str
    uid: str
    labels: dict[str, str]
    phase: str
    """"Pending", "Running", "Succeeded", "Failed", or empty where unknown."""


class PodEvent(NamedTuple):
    """One event of the stream."""

    type: PodEventType
    pod: WatchedPod | None
    """None in SYNCED."""


class PodWatch:
    """A thread that passes each event to a callback, reconnects, and looks for the API where it is absent."""

    def __init__(
        self,
        socket_path: str,
        on_event: Callable[[PodEvent], None],
        *,
        first_pause: float = FIRST_PAUSE,
        longest_pause: float = LONGEST_PAUSE,
    ) -> None:
        """Take the callback, which is called in the watch's own thread. Nothing happens before start()."""
        self._socket = socket_path
        self._on_event = on_event
        self._first_pause = first_pause
        self._longest_pause = longest_pause
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pods-watch", daemon=True)
        self._lock = threading.Lock()
        self._stream: grpc.RpcContext | None = None

    def start(self) -> None:
        """Start the thread; once."""
        self._thread.start()

    def stop(self) -> None:
        """End the stream and the thread, and wait for it; no event is passed on afterwards."""
        with self._lock:
            self._stopped.set()
            if self._stream is not None:
                self._stream.cancel()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    # --- the thread

    def _run(self) -> None:
        pause = self._first_pause
        told = False
        while not self._stopped.is_set():
            worked = self._watch_once(told=told)
            told = not worked
            pause = self._first_pause if worked else min(2 * pause, self._longest_pause)
            self._stopped.wait(pause)

    def _watch_once(self, *, told: bool) -> bool:
        """Follow one stream to its end; tell whether it gave anything."""
        if not os.path.exists(self._socket):  # the usual case, in which a channel would cost memory for nothing
            log.log(
                logging.DEBUG if told else logging.INFO,
                "no watch of pods, will look again: there is no %s",
                self._socket,
            )
            return False
        seen = 0
        with open_channel(self._socket) as channel:
            try:
                for answer in self._open(channel):
                    if self._stopped.is_set():
                        break
                    seen += 1
                    self._pass_on(answer)
            except grpc.RpcError as error:
                if not self._stopped.is_set():
                    reason = kubelet_error(error, f"WatchPods on {self._socket}")
                    log.log(logging.DEBUG if told else logging.INFO, "no watch of pods, will look again: %s", reason)
            except Exception:  # whatever the callback raised: a watch that dies is missed by nobody
                log.exception("the watch of pods ended, will begin anew")
            finally:
                with self._lock:
                    self._stream = None
        return seen > 0

    def _open(self, channel: grpc.Channel) -> Iterator[bytes]:
        method: grpc.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(
            f"/{SERVICE}/WatchPods", request_serializer=None, response_deserializer=None
        )
        with self._lock:
            stream = self._stream = method(pb.WatchPodsRequest().SerializeToString())
            if self._stopped.is_set():  # stop() came before there was a stream to cancel
                stream.cancel()
            return stream

    def _pass_on(self, answer: bytes) -> None:
        try:
            event = decode_event(answer)
        except (DecodeError, ValueError) as error:
            log.warning("WatchPods on %s: an event of %d bytes is left out: %s", self._socket, len(answer), error)
            return
        self._on_event(event)


def decode_event(response: bytes) -> PodEvent:
    """Decode a WatchPodsEvent; raise DecodeError where the bytes are none, ValueError for a type that is new to us."""
    message = pb.WatchPodsEvent.FromString(response)
    kind = PodEventType(message.type)
    if kind is PodEventType.SYNCED:
        return PodEvent(kind, None)
    pod = pb.Pod.FromString(message.pod)
    metadata = pod.metadata
    return PodEvent(
        kind, WatchedPod(metadata.namespace, metadata.name, metadata.uid, dict(metadata.labels), pod.status.phase)
    )
