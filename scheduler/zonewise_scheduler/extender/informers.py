"""Informers that keep the extender's cache up to date: one reflector each for nodes, their reports and pods."""

from __future__ import annotations

import gc
import logging
import threading
from functools import partial
from typing import TYPE_CHECKING

from zonewise_common.kube.reflector import Reflector
from zonewise_common.kube.resources import NODE_RESOURCE_TOPOLOGIES, NODES, PODS
from zonewise_scheduler.extender.objects.api_objects import decode_node, decode_pod, decode_report

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    import msgspec

    from zonewise_common.kube.client import Client
    from zonewise_scheduler.extender.cache import ExtenderCache
    from zonewise_scheduler.extender.objects.api_objects import PublishedReport

log = logging.getLogger(__name__)

_STOP_TIMEOUT = 0.3
"""Seconds that a thread may take to stop; one that waits for a silent API server takes longer and is left behind. The
sum over all threads must be well below a pod's termination grace period."""
TICK_PERIOD = 1.0
"""Seconds between calls of ExtenderCache.tick, which lets assumed pods expire and reports become stale."""


class Informers:
    """Keeps a cache up to date, in threads that run while the context is entered."""

    def __init__(
        self,
        client: Client,
        cache: ExtenderCache,
        watch_stale_after: float,
        on_report: Callable[[PublishedReport | None, PublishedReport | None], object] | None = None,
        avoided: tuple[str, ...] = (),
    ) -> None:
        """Take the seconds after which a resource that is not known to be current counts as outdated.

        `on_report` is called after each change of a report, with the old and the new one. `avoided`: types of node
        conditions that keep gangs off a node.
        """

        def report(raw: msgspec.Raw) -> PublishedReport:
            return decode_report(raw, cache.kinds, cache.kubelet_release)

        self._nodes = Reflector(client, NODES, partial(decode_node, avoided=avoided), cache.update_node)

        def update_report(old: PublishedReport | None, new: PublishedReport | None) -> None:
            cache.update_report(old, new)
            if on_report is not None:
                on_report(old, new)

        self._reports = Reflector(client, NODE_RESOURCE_TOPOLOGIES, report, update_report)
        self._pods = Reflector(client, PODS, decode_pod, cache.update_pod)
        self._reflectors = {"nodes": self._nodes, "reports": self._reports, "pods": self._pods}
        self._watch_stale_after = watch_stale_after
        self._cache = cache
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="informers", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for reflector in self._reflectors.values():
            reflector.close(_STOP_TIMEOUT)
        self._thread.join(_STOP_TIMEOUT)

    @property
    def unsynced(self) -> list[str]:
        """Return the resources whose initial list is not complete yet."""
        return [name for name, reflector in self._reflectors.items() if not reflector.has_synced]

    @property
    def ages(self) -> dict[str, float]:
        """Return by resource the seconds since it was last known to be current; 0 while it is current."""
        return {name: reflector.age for name, reflector in self._reflectors.items()}

    @property
    def outdated(self) -> dict[str, float]:
        """Return the ages of the resources that have not been known to be current for too long."""
        return {name: age for name, age in self.ages.items() if age > self._watch_stale_after}

    def _run(self) -> None:
        # nodes first: how a report is read depends on the release of the node's kubelet
        self._nodes.start()
        while not self._nodes.wait_synced(0.1) and not self._stopping.is_set():
            pass
        self._reports.start()
        self._pods.start()
        while self.unsynced and not self._stopping.wait(0.1):
            pass
        gc.freeze()  # a collection over all these objects takes up to half a second and finds no garbage
        self._cache.resume()
        while not self._stopping.wait(TICK_PERIOD):
            try:
                self._cache.set_view_age(max(self.ages.values()))
                self._cache.tick()
            except Exception:  # a bug must not end the loop
                log.exception("the periodic update of the cache failed")
