"""Informers: one reflector per kind of object, whose changes go to the controller's inbox.

Kinds that a cluster need not have are probed from time to time with one request, and watched only while they are
served. Of several versions with the same fields, the first that is served is watched:

| probe | action |
|---|---|
| 200 | watch this version; its first listing shows what was deleted since the end of the last watch |
| 404 | probe the next version; after the last one, end the watch |
| 403 | none: the watch lists again once it is allowed, and shows what was deleted meanwhile; the first probe warns |
| no response, or 429, 503 or 504 | probe again after a second; until another response the kind counts as not listed |
| any other | none |
"""

from __future__ import annotations

import logging
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from zonewise_common.kube.errors import ApiError, Forbidden, KubeError, NotFound
from zonewise_common.kube.probe import PROBE_PERIOD, first_served
from zonewise_common.kube.reflector import Reflector
from zonewise_scheduler.controller.cluster_cache import drop_managed_fields
from zonewise_scheduler.controller.types import ObjectKey

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from zonewise_common.kube.client import Client
    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.controller.types import Json

log = logging.getLogger(__name__)

_STOP_TIMEOUT = 1.0
"""Seconds that all threads together have to stop; those that wait for a silent API server are left behind."""
_SYNC_PERIOD = 0.05
_RETRY_PERIOD = 1.0
"""Seconds before a probe without a response is repeated."""
_OVERLOADED = frozenset({429, 503, 504})
"""Status codes of a server that cannot currently determine whether it serves a kind, for example while it starts."""


class WatchedKind(NamedTuple):
    """A kind of object, with the functions that handle its changes."""

    resource: Resource
    decode: Callable[[msgspec.Raw], Any]
    handle: Callable[[Any, Any], object]
    """Handles an object's old and new value; None: the object does not exist."""
    listed: Callable[[int], object] = lambda _version: None
    """Called with the resource version of each complete listing, after its changes were handled."""
    older: tuple[Resource, ...] = ()
    """Older versions with the same fields. Objects of a kind with several versions state theirs in apiVersion."""


def watched_objects(
    resource: Resource,
    handle: Callable[[ObjectKey, Json | None], object],
    listed: Callable[[Resource, int], object],
) -> WatchedKind:
    """Return a kind whose objects are watched completely; `handle` takes the newest state; None: it was deleted.

    `listed` takes the resource version of each complete listing, after its changes.
    """

    def handle_change(old: Json | None, new: Json | None) -> None:
        obj = new if new is not None else old
        if obj is not None:
            handle(object_key(resource, obj), new)

    def handle_listing(version: int) -> None:
        listed(resource, version)

    return WatchedKind(resource, decode_object, handle_change, handle_listing)


class ObjectInformers:
    """Handles the changes of several kinds, in threads that run while the context is entered."""

    def __init__(
        self,
        client: Client,
        required: Sequence[WatchedKind],
        optional: Sequence[WatchedKind],
        *,
        probe_period: float = PROBE_PERIOD,
    ) -> None:
        """Watch the `required` kinds from the start, and the `optional` kinds while they are served."""
        self._client = client
        self._required = required
        self._optional = optional
        self._probe_period = probe_period
        self._reflectors: dict[Resource, Reflector[Any]] = {}
        self._versions: dict[Resource, Resource] = {}
        """The version of each kind that is or was last watched."""
        self._ended: dict[Resource, Reflector[Any]] = {}
        """Reflectors of kinds that are no longer served."""
        self._unprobed = {kind.resource for kind in optional}
        """Optional kinds for which no probe has yet shown whether they are served."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="probes", daemon=True)

    def __enter__(self) -> Self:
        for kind in self._required:
            self._watch(kind, kind.resource)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        deadline = time.monotonic() + _STOP_TIMEOUT
        reflectors = list(self._reflectors.values())
        for reflector in reflectors:
            reflector.close(0.0)
        for reflector in reflectors:
            reflector.close(max(0.0, deadline - time.monotonic()))
        self._thread.join(max(0.0, deadline - time.monotonic()))

    @property
    def unsynced(self) -> list[str]:
        """Return the kinds whose first list is incomplete, or of which it is not known whether they are served."""
        unprobed = [resource.plural for resource in list(self._unprobed)]
        watched = list(self._reflectors.items())
        return unprobed + [resource.plural for resource, reflector in watched if not reflector.has_synced]

    @property
    def ages(self) -> dict[str, float]:
        """Return by plural the seconds since all its kinds were last known to be current; 0 if they are current."""
        ages: dict[str, float] = {}
        for resource, reflector in list(self._reflectors.items()):
            ages[resource.plural] = max(ages.get(resource.plural, 0.0), reflector.age)
        return ages

    def wait_synced(self, stop: threading.Event) -> bool:
        """Wait until each first list is complete. Return False if `stop` is set before that."""
        while self.unsynced and not stop.is_set():
            stop.wait(_SYNC_PERIOD)
        return not stop.is_set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            for kind in [kind for kind in self._optional if kind.resource in self._unprobed] or self._optional:
                try:
                    self._probe(kind)
                except Exception:  # a bug must not end the loop
                    log.exception("%s: the probe failed", kind.resource.plural)
                if self._stopping.is_set():
                    return
            self._stopping.wait(_RETRY_PERIOD if self._unprobed else self._probe_period)

    def _probe(self, kind: WatchedKind) -> None:
        resource = kind.resource
        try:
            version = first_served(self._client, (resource, *kind.older))
        except NotFound as error:
            if resource in self._reflectors:
                log.warning("%s.%s are no longer watched: %s", resource.plural, resource.group, error)
                self._end_watch(resource)
        except KubeError as error:
            if isinstance(error, Forbidden) and resource in self._unprobed:
                log.warning("%s.%s are ignored until they may be listed: %s", resource.plural, resource.group, error)
            else:
                log.debug("%s: %s", resource.plural, error)
            if not isinstance(error, ApiError) or error.status in _OVERLOADED:
                return
        else:
            if resource in self._reflectors and self._versions[resource] != version:
                log.info("%s.%s are watched in version %s", resource.plural, resource.group, version.version)
                self._end_watch(resource)
            if resource not in self._reflectors and not self._stopping.is_set():
                self._watch(kind, version)
        self._unprobed.discard(resource)

    def _end_watch(self, resource: Resource) -> None:
        self._ended[resource] = reflector = self._reflectors.pop(resource)
        reflector.close(_STOP_TIMEOUT)

    def _watch(self, kind: WatchedKind, version: Resource) -> None:
        decode = partial(_decode_version, kind.decode, version.api_version) if kind.older else kind.decode
        self._versions[kind.resource] = version
        self._reflectors[kind.resource] = reflector = Reflector(self._client, version, decode, kind.handle)
        reflector.on_listing = kind.listed
        if (ended := self._ended.pop(kind.resource, None)) is not None:
            reflector.resume(ended)
        reflector.start()


def decode_object(raw: msgspec.Raw) -> Json:
    """Return an object without its managed fields."""
    return drop_managed_fields(_DECODER.decode(raw))


def _decode_version(decode: Callable[[msgspec.Raw], Json], api_version: str, raw: msgspec.Raw) -> Json:
    """Return an object with its apiVersion, which the items of the API server's listings omit."""
    return {**decode(raw), "apiVersion": api_version}


def object_key(resource: Resource, obj: Json) -> ObjectKey:
    """Return the key of an object of a kind: its namespace and name."""
    metadata: dict[str, Any] = obj["metadata"]
    return ObjectKey(resource, metadata.get("namespace", ""), metadata["name"])


_DECODER = msgspec.json.Decoder(dict[str, Any])
