"""Caches whose events add keys to a queue, and the threads that handle these keys.

Source: controller-runtime pkg/internal/controller/controller.go.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from zonewise_common.kube.client import Client
from zonewise_sandbox.workqueue.delaying_queue import DelayingQueue

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from zonewise_common.kube.config import Config
    from zonewise_common.kube.reflector import Reflector

log = logging.getLogger(__name__)

Key = tuple[str, str]
"""Namespace and name of an object."""


class Controller(ABC):
    """Handles the keys in its queue until it is closed. A context manager."""

    def __init__(self, config: Config, name: str, clock: Callable[[], float], workers: int, speed: float) -> None:
        """Create a controller from the API server, the user agent, and a clock in seconds since 1970.

        `speed` is the number of clock seconds per real second.
        """
        self._name = name
        self._client = Client(config, timeout=60.0, user_agent=name)
        self._clock = clock
        self._speed = speed
        self._queue: DelayingQueue[Key] = DelayingQueue(clock, speed)
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}-{number}", daemon=True) for number in range(workers)
        ]

    @property
    @abstractmethod
    def _caches(self) -> tuple[Reflector[Any], ...]:
        """Return the caches in the order in which they are filled."""

    @abstractmethod
    def _handle(self, key: Key) -> None:
        """Handle a key; only one thread handles a key at a time."""

    def start(self) -> None:
        """Fill the caches and start the workers."""
        for cache in self._caches:
            cache.start()
            cache.wait_synced(60.0)
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End the workers and watches; the objects remain unchanged."""
        self._queue.close()
        for cache in self._caches:
            cache.close()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(5.0)
        self._client.close()

    def wake(self) -> None:
        """Compare the times of keys with the clock again, after it has jumped."""
        self._queue.wake()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _work(self) -> None:
        while (key := self._queue.get()) is not None:
            try:
                self._handle(key)
            except Exception:  # a defect of this program must not end the worker
                log.exception("%s: %s/%s", self._name, *key)
            finally:
                self._queue.done(key)
