"""An informer of a kind that runs while the API server serves the kind and lets the extender read it.

A cluster need not have every kind: a custom resource may be installed later, and a gate may be off. So the informer
probes the kind periodically with one request, and watches it only while it is served. Of several versions with equal
fields, it watches the first that is served.

| probe     | action                                           |
|-----------|--------------------------------------------------|
| 200       | watch; served once the first list is complete    |
| 404       | probe the next version; after the last one, stop |
|           | the watch; not served                            |
| 403       | stop the watch; forbidden                        |
| any other | none: the state is unchanged until the next probe |
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

from zonewise_common.kube.errors import Forbidden, KubeError, NotFound
from zonewise_common.kube.probe import PROBE_PERIOD, first_served
from zonewise_common.kube.reflector import Reflector
from zonewise_scheduler.extender.objects.served import Served

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    import msgspec

    from zonewise_common.kube.client import Client
    from zonewise_common.kube.resources import Resource

log = logging.getLogger(__name__)

T = TypeVar("T")

_SYNC_PERIOD = 0.1
"""Seconds between checks of a watch whose initial list is not complete."""
_STOP_TIMEOUT = 0.3
"""Seconds that a thread may take to stop; a slower one is left behind."""


class OptionalInformer(Generic[T]):
    """See the module. Works in threads that run while the context is entered."""

    def __init__(
        self,
        client: Client,
        versions: tuple[Resource, ...],
        decode: Callable[[msgspec.Raw], T],
        handler: Callable[[T | None, T | None], object],
        on_served: Callable[[Served], object],
        *,
        probe_period: float = PROBE_PERIOD,
    ) -> None:
        """`versions` of one kind, the preferred one first. `decode` and `handler` are as in Reflector.

        `on_served` is called after each change of the state.
        """
        self._client = client
        self._versions = versions
        self._resource = versions[0]
        """The version that is or will be watched."""
        self._decode = decode
        self._handler = handler
        self._on_served = on_served
        self._probe_period = probe_period
        self._reflector: Reflector[T] | None = None
        self._served = Served.UNKNOWN
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"informer-{versions[0].plural}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(_STOP_TIMEOUT)
        if self._reflector is not None:
            self._reflector.close(_STOP_TIMEOUT)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._probe()
            except Exception:  # a bug must not end the loop
                log.exception("%s: the probe failed", self._resource.plural)
            waited = 0.0
            while waited < self._probe_period and not self._stopping.is_set():
                period = _SYNC_PERIOD if self._is_syncing() else self._probe_period - waited
                self._stopping.wait(period)
                waited += period

    def _probe(self) -> None:
        try:
            version = first_served(self._client, self._versions)
        except NotFound:
            self._stop_watch(Served.NO)
        except Forbidden as error:
            if self._served is not Served.FORBIDDEN:
                log.warning("%s cannot be read: %s", self._resource.plural, error)
            self._stop_watch(Served.FORBIDDEN)
        except KubeError as error:
            log.debug("%s: %s", self._resource.plural, error)
        else:
            self._watch(version)

    def _watch(self, version: Resource) -> None:
        if self._reflector is not None and self._resource != version:
            self._stop_watch(Served.UNKNOWN)
        self._resource = version
        if self._reflector is None:
            self._reflector = Reflector(self._client, version, self._decode, self._handler)
            self._reflector.start()

    def _is_syncing(self) -> bool:
        """Return whether the initial list of the watch is incomplete; a complete list marks the kind as served."""
        if self._reflector is None:
            return False
        if self._reflector.has_synced:
            self._set_served(Served.YES)
        return not self._reflector.has_synced

    def _stop_watch(self, served: Served) -> None:
        reflector, self._reflector = self._reflector, None
        if reflector is not None:
            reflector.close(_STOP_TIMEOUT)
        self._set_served(served)

    def _set_served(self, served: Served) -> None:
        if self._served is not served:
            self._served = served
            log.info("%s of %s: served=%s", self._resource.plural, self._resource.api_version, served.value)
            self._on_served(served)
