"""Watches the kubelet's pods if the kubelet has the Pods API: each change of a pod is an event.

The API is alpha (KEP-4188, off by default in 1.36), so it is usually absent. The watch then retries from time to time,
and logs the absence once. No code may depend on an event. Facts are read on demand, and an event only means that now is
a good time to read them.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from zonewise.kubelet.channel import Channel
from zonewise.kubelet.errors import KubeletError
from zonewise.kubelet.pods.v1alpha1 import pods_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

SERVICE = "v1alpha1.Pods"

FIRST_PAUSE = 1.0
"""Seconds until the next attempt after a working stream has ended."""
LONGEST_PAUSE = 300.0
"""Seconds: each failed attempt doubles the pause up to this value. A kubelet gets the API only by a restart with
another configuration, which is rare, and the node is scanned periodically anyway."""


class PodWatch:
    """A thread that passes each event to a callback, reconnects, and retries while the API is absent."""

    def __init__(
        self,
        socket_path: str,
        on_event: Callable[[bytes], object],
        *,
        first_pause: float = FIRST_PAUSE,
        longest_pause: float = LONGEST_PAUSE,
    ) -> None:
        """Set the callback, which gets a WatchPodsEvent in the watch's own thread. Nothing happens before start()."""
        self._socket = socket_path
        self._on_event = on_event
        self._first_pause = first_pause
        self._longest_pause = longest_pause
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pods-watch", daemon=True)
        self._channel = Channel(socket_path, SERVICE)

    def start(self) -> None:
        """Start the thread; call it once."""
        self._thread.start()

    def stop(self) -> None:
        """End the stream and the thread, and wait for it; no event is delivered afterwards."""
        self._stopped.set()
        self._channel.close()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    # --- the thread

    def _run(self) -> None:
        pause = self._first_pause
        logged = False
        while not self._stopped.is_set():
            worked = self._watch_once(logged=logged)
            logged = not worked
            pause = self._first_pause if worked else min(2 * pause, self._longest_pause)
            self._stopped.wait(pause)

    def _watch_once(self, *, logged: bool) -> bool:
        """Follow one stream to its end; return whether it delivered anything."""
        count = 0
        try:
            for event in self._channel.stream("WatchPods", pb.WatchPodsRequest().SerializeToString()):
                if self._stopped.is_set():
                    break
                count += 1
                self._on_event(event)
        except KubeletError as error:
            if not self._stopped.is_set():
                log.log(logging.DEBUG if logged else logging.INFO, "pods cannot be watched, will retry: %s", error)
        except Exception:  # the top of the thread: a callback that raises must not end the watch unnoticed
            log.exception("the watch of pods ended and will be restarted")
        return count > 0
