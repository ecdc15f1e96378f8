"""Informers: one reflector each for nodes, their reports and pods, which keep the extender's cache up to date."""

from __future__ import annotations

import gc
import logging
import threading
from typing import TYPE_CHECKING

from zonewise_common.kube.reflector import Reflector
from zonewise_common.kube.resources import NODE_RESOURCE_TOPOLOGIES, NODES, PODS
from zonewise_scheduler.extender.api_objects import decode_node, decode_pod, decode_report

if TYPE_CHECKING:
    from typing import Self

    import msgspec

    from zonewise_common.kube.client import Client
    from zonewise_scheduler.extender.api_objects import PublishedReport
    from zonewise_scheduler.extender.cache import ExtenderCache

log = logging.getLogger(__name__)

_STOP_TIMEOUT = 0.3
"""Seconds for which a thread may take to stop; one that waits for a silent API server takes longer and is left behind.
The sum over all threads must stay well below a pod's termination grace period."""
TICK_PERIOD = 1.0
"""Seconds between calls of ExtenderCache.tick: assumed pods expire, reports become stale."""


class Informers:
    """Keeps a cache up to date, in threads that run while the context is entered."""

    def __init__(self, client: Client, cache: ExtenderCache) -> None:
        def report(raw: msgspec.Raw) -> PublishedReport:
            return decode_report(raw, cache.kinds, cache.kubelet_release)

        self._nodes = Reflector(client, NODES, decode_node, cache.update_node)
        self._reports = Reflector(client, NODE_RESOURCE_TOPOLOGIES, report, cache.update_report)
        self._pods = Reflector(client, PODS, decode_pod, cache.update_pod)
        self._cache = cache
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="informers", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for reflector in (self._nodes, self._reports, self._pods):
            reflector.close(_STOP_TIMEOUT)
        self._thread.join(_STOP_TIMEOUT)

    @property
    def unsynced(self) -> list[str]:
        """Return the resources whose first list is not complete yet."""
        reflectors = {"nodes": self._nodes, "reports": self._reports, "pods": self._pods}
        return [name for name, reflector in reflectors.items() if not reflector.has_synced]

    def _run(self) -> None:
        # nodes first: a report is read according to the release of the node's kubelet
        self._nodes.start()
        while not self._nodes.wait_synced(0.1) and not self._stopping.is_set():
            pass
        self._reports.start()
        self._pods.start()
        while self.unsynced and not self._stopping.wait(0.1):
            pass
        gc.freeze()  # a collection over all of these objects takes up to half a second, and finds no garbage
        while not self._stopping.wait(TICK_PERIOD):
            try:
                self._cache.tick()
            except Exception:  # a bug must not end the loop
                log.exception("the periodic update of the cache failed")
