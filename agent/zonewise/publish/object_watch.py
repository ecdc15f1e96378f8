"""A watch of the one object that the agent publishes: one name, and one event for each change.

The API server sends the events of an object only to the watchers of its name (apiserver pkg/storage/cacher/cacher.go,
namespacedName). So even if 5,000 nodes watch, each write of an agent costs one event.
"""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from zonewise_common.kube.backoff import Backoff
from zonewise_common.kube.reflector import Reflector, Selection, WatchTimes

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_common.kube.client import Client
    from zonewise_common.kube.resources import Resource

WATCH_TIMES = WatchTimes(watch_timeout=(1800, 3600), backoff=Backoff(cap=30.0))
"""Each watch lasts half an hour to an hour, so 5,000 watches end at a rate of two a second. The API server's own choice
is also 30 to 60 minutes (--min-request-timeout). A watch that the agent may not open is tried twice a minute."""


class Observation(NamedTuple):
    """The state of the object that an event showed."""

    version: int | None
    """The resource version; None if there is no object."""


NEVER_OBSERVED = Observation(None)


class ObjectWatch:
    """Watches one object in its own thread."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        name: str,
        changed: Callable[[], None],
        *,
        times: WatchTimes = WATCH_TIMES,
    ) -> None:
        """Watch the object `name`. `changed` is called after each observation, in the watch's thread."""
        self._observation = NEVER_OBSERVED
        self._changed = changed
        self._started = False
        self._stopping = threading.Event()
        selection = Selection(field_selector=f"metadata.name={name}")
        self._reflector: Reflector[int] = Reflector(
            client, resource, _version, self._observe, selection=selection, times=times
        )

    @property
    def observation(self) -> Observation:
        """Return the newest observation."""
        return self._observation

    @property
    def age(self) -> float:
        """Return the seconds since the observation was last known to be current; infinite before the first listing."""
        return self._reflector.age if self._reflector.has_synced else math.inf

    def start(self) -> None:
        """Start, unless it has been started or closed."""
        if not self._started and not self._stopping.is_set():
            self._started = True
            self._reflector.start()

    def pause(self, seconds: float) -> bool:
        """Wait until the time has passed or close() is called; return whether the time has passed. Later events wait in
        the connection.
        """
        return seconds <= 0 or not self._stopping.wait(seconds)

    def close(self) -> None:
        """Stop."""
        self._stopping.set()
        self._reflector.close()

    def _observe(self, _old: int | None, new: int | None) -> None:
        self._observation = Observation(new)
        self._changed()


class _Metadata(msgspec.Struct, gc=False):
    resource_version: str = msgspec.field(name="resourceVersion")


class _Versioned(msgspec.Struct, gc=False):
    metadata: _Metadata


_DECODER = msgspec.json.Decoder(_Versioned)


def _version(raw: msgspec.Raw) -> int:
    """Return the resource version of an object."""
    return int(_DECODER.decode(raw).metadata.resource_version)
