"""Follows the API server: nodes, their reports and all pods, each by a reflector of its own, into the cluster."""

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
"""Seconds that each thread gets to end, which one that waits for a silent API server does not: together they must stay
well below the grace of a pod."""
TICK_PERIOD = 1.0
"""Seconds between looks at what time alone changes: promises that run out, reports that grow stale."""


class Informers:
    """Keeps a cluster as the API server has it, in threads of its own as long as it is entered."""

    def __init__(self, client: Client, cache: ExtenderCache) -> None:
        def report(raw: msgspec.Raw) -> PublishedReport:
            return decode_report(raw, cache.kinds, cache.kubelet_release)

        self._nodes = Reflector(client, NODES, decode_node, cache.update_node)
        self._reports = Reflector(client, NODE_RESOURCE_TOPOLOGIES, report, cache.update_report)
        self._pods = Reflector(client, PODS, decode_pod, cache.update_pod)
        self._cluster = cache
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watching", daemon=True)

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
        """Return of what not everything is known yet that there was at the start."""
        known = {"nodes": self._nodes, "reports": self._reports, "pods": self._pods}
        return [name for name, reflector in known.items() if not reflector.has_synced]

    def _run(self) -> None:
        # nodes first: how a report is read depends on the release of the node's kubelet
        self._nodes.start()
        while not self._nodes.wait_synced(0.1) and not self._stopping.is_set():
            pass
        self._reports.start()
        self._pods.start()
        while self.unsynced and not self._stopping.wait(0.1):
            pass
        gc.freeze()  # to search all of this for garbage takes up to half a second, and there is none in it
        while not self._stopping.wait(TICK_PERIOD):
            try:
                self._cluster.tick()
            except Exception:  # a fault of ours must not end the ticking
                log.exception("a look at what time changes went wrong")
