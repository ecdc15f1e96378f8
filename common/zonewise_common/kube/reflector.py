"""A copy of a server's objects: list once, watch from that version, and list again only if the history is lost.

| state | event | action, next state |
|---|---|---|
| lost | start, or any of the events below | list, report the differences: following |
| following | the server ends the watch, the stream breaks | watch from the last version: following |
| following | the server does not have that version any more (410) | lost, without a wait the first time |
| following | the watch ends in an error or in an invalid line | lost |
| following | the watch has been silent since it was opened | lost |
| following | an event or a bookmark is from before the watch | lost |
| following | two attempts to watch in a row end without a response, or with a status of 500 and above | lost |
| any | a failure, or a watch that ends at once | wait first: exponential, jittered, at least Retry-After |
| any | a status of failure after attempts without a response | the waits start over: the server is back |

The last three ways to `lost` detect an etcd that was restored from a backup. An API server does not reject a watch from
a version that its etcd does not have yet. It sends nothing, not even bookmarks, until its versions exceed this one
(apiserver pkg/storage/cacher/cache_watcher.go process). A listing shows the actual state. Three listings in a row that
are older than the copy count as a restored history.

Source of the other rules: client-go tools/cache/reflector.go.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from math import inf
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import msgspec

from zonewise_common.kube.backoff import Backoff
from zonewise_common.kube.cache import Cache, Change, ReceivedObject, StaleListing
from zonewise_common.kube.client import display_name
from zonewise_common.kube.errors import ApiError, BadResponse, Gone, KubeError, ServerError, TransportError
from zonewise_common.kube.freshness import Freshness
from zonewise_common.kube.nested_json import decode_nested
from zonewise_common.kube.watch_backoff import WatchBackoff

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_common.kube.client import Client
    from zonewise_common.kube.resources import Resource
    from zonewise_common.kube.watch import Event, Watch

log = logging.getLogger(__name__)

T = TypeVar("T")

_STALE_LISTINGS = 3
"""After this many older listings in a row, the server's history itself is older: etcd was restored from a backup."""
_MAX_FAILED_ATTEMPTS = 2
"""After this many failed attempts in a row to open a watch, the history may be a different one."""


class WatchTimes(NamedTuple):
    """The durations of a watch, in seconds."""

    watch_timeout: tuple[int, int] = (300, 600)
    """A watch ends after a random time between these (client-go: minWatchTimeout, 5 to 10 minutes). The watches of all
    nodes then do not end together, and are distributed over the servers again."""
    idle_timeout: float = 90.0
    """A watch that is silent for this long is dead: bookmarks come every 60 s, and may be 15 s late (apiserver
    pkg/storage/cacher/cacher.go, DefaultEventFreshDuration)."""
    healthy_after: float = 5.0
    """A watch that ends earlier counts as a failure, whatever the cause."""
    backoff: Backoff = Backoff(cap=5.0)
    """client-go waits up to 30 s. The API server sheds load itself, with 429 and Retry-After. A node that joins after
    an outage must not wait for half a minute."""
    bookmark_due: float = 75.0
    """While a watch is open, the copy counts as current for this long after the last event or bookmark."""
    list_timeout: tuple[float, float] = (10.0, 60.0)
    """The first and the longest limit for a page of a listing, which doubles after each listing without a response.
    A server that hangs is left soon, and one that is slow is heard: it has 60 s itself (--request-timeout)."""


class Selection(NamedTuple):
    """The selected objects of a resource."""

    namespace: str | None = None
    """None for all namespaces."""
    label_selector: str = ""
    field_selector: str = ""


class Reflector(Generic[T]):
    """A copy of all selected objects, each decoded by a function.

    The handler is called with (None, new), (old, new) or (old, None): one call at a time, in order, in the reflector's
    own thread. Changes of an object between two calls may be skipped, but are never reordered.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        decode: Callable[[msgspec.Raw], T],
        handler: Callable[[T | None, T | None], object],
        *,
        selection: Selection = Selection(),  # noqa: B008 -- immutable
        times: WatchTimes = WatchTimes(),  # noqa: B008 -- immutable
        draw: Callable[[], float] = random.random,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        """Create a reflector of a resource, with a handler for changes.

        `decode` returns the cached value of an object's JSON, and raises msgspec.DecodeError or ValueError for an
        invalid one. `draw` returns random numbers from 0 to 1. `wait` sleeps for a number of seconds, or until close().
        """
        self._client = client
        self._resource = resource
        self._decode = decode
        self._handler = handler
        self.on_listing: Callable[[int], object] = lambda _version: None
        """Called with the resource version of each listing, after the handler has processed its changes. Set it before
        start()."""
        self._selection = selection
        self._times = times
        self._draw = draw
        self._stopping = threading.Event()
        self._wait = wait or self._stopping.wait
        self._lock = threading.Lock()  # guards the cache and the open watch
        self._cache: Cache[T] = Cache()
        self._open: Watch | None = None
        self._synced = threading.Event()
        self._lost = True
        self._stale_listings = 0
        self._list_timeout = times.list_timeout[0]
        self._failed_attempts = 0  # attempts in a row to open a watch
        self._is_unheard = True  # the open watch has delivered no event or bookmark yet
        self._opened_at = inf  # when the open watch was opened
        self._backoff = WatchBackoff(times.backoff)
        self._freshness = Freshness(times.bookmark_due)
        name = f"reflector-{resource.plural}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    # --- reading

    @property
    def has_synced(self) -> bool:
        """Return whether the handler has been called for all objects of the first listing."""
        return self._synced.is_set()

    def wait_synced(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for has_synced, and return it."""
        return self._synced.wait(timeout)

    @property
    def resource_version(self) -> int:
        """Return the resource version of the copy; 0 before the first listing."""
        with self._lock:
            return self._cache.version

    def get(self, name: str, namespace: str = "") -> T | None:
        """Return one object of the copy, or None if there is none."""
        with self._lock:
            return self._cache.get((namespace, name))

    def values(self) -> list[T]:
        """Return all objects of the copy."""
        with self._lock:
            return self._cache.values()

    @property
    def age(self) -> float:
        """Return the seconds since the copy was last known to be current; 0 while it is current.

        The copy is current after a listing and while a watch is open. A watch without other events still delivers
        bookmarks. A watch that delivers neither for WatchTimes.bookmark_due seconds may be dead, and the age grows.
        """
        return self._freshness.age(time.monotonic())

    # --- lifecycle

    def resume(self, ended: Reflector[T]) -> None:
        """Start with the objects of a closed reflector with the same handler: the first listing reports differences.

        Call it before start().
        """
        with ended._lock:  # the old reflector's thread may still wait for a response
            self._cache = ended._cache.copy()

    def start(self) -> None:
        """Start to list and watch in a separate thread."""
        self._thread.start()

    def close(self, timeout: float = 1.0) -> None:
        """Stop at once: an open watch is aborted, and the handler is not called again.

        A thread that waits for the response to a list has `timeout` seconds to end; after that, it ends later by
        itself.
        """
        self._stopping.set()
        with self._lock:
            if self._open is not None:
                self._open.abort()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _run(self) -> None:
        while not self._stopping.is_set():
            delay = self._list_and_watch()
            if not self._stopping.is_set():
                self._wait(delay)

    def _list_and_watch(self) -> float:
        """List if the history is lost, watch until the watch ends, and return the seconds to wait afterwards."""
        failure: KubeError | None = None
        self._opened_at = inf
        try:
            if self._lost:
                self._list()
            self._watch()
        except KubeError as error:
            failure = error
        except Exception:  # a defect of this program must not end the thread
            log.exception("%s: listing again", self._resource.plural)
            self._lost = True
        finally:
            self._freshness.end(time.monotonic())
        healthy = time.monotonic() - self._opened_at >= self._times.healthy_after
        self._note_failure(failure, healthy=healthy)
        return self._backoff.delay(failure, self._draw(), healthy=healthy)

    def _note_failure(self, failure: KubeError | None, *, healthy: bool) -> None:
        """Log a failure. The end of a healthy watch is none yet: if the server is not available, the next watch fails.

        A watch of objects that never change may end like this every 90 s, since there may be no bookmarks for it.
        """
        failures, plural = self._client.watch_failures, self._resource.plural
        if healthy:
            failures.end(plural)
        if self._stopping.is_set():
            failures.end(plural)
        elif failure is not None and healthy:
            log.debug("%s: %s", plural, failure)
        elif failure is not None:
            failures.add(plural, failure)

    # --- listing

    def _list(self) -> None:
        began = time.monotonic()
        try:
            listed, text = self._client.list_raw(
                self._resource, self._received, timeout=self._list_timeout, **self._selection._asdict()
            )
        except TransportError:
            self._list_timeout = min(2 * self._list_timeout, self._times.list_timeout[1])
            raise
        version = _number(text)
        restored = self._stale_listings >= _STALE_LISTINGS
        try:
            with self._lock:
                changes = self._cache.replace(listed, version, force=restored)
        except StaleListing as error:
            self._stale_listings += 1
            raise BadResponse(f"the listing is stale: {error}") from error
        if restored:
            log.warning(
                "%s: the server's history went back to %d, which is used from now on", self._resource.plural, version
            )
        self._stale_listings = self._failed_attempts = 0
        self._lost = False
        for change in changes:
            self._report(change)
        if not self._stopping.is_set():
            self.on_listing(version)
        self._freshness.confirm(began)
        if not self._stopping.is_set():
            self._synced.set()

    # --- watching

    def _watch(self) -> None:
        try:
            watch = self._open_watch()
        except KubeError as error:
            self._failed_attempts += isinstance(error, TransportError | ServerError)
            # the version is newer than the server's: the server lags behind, or was restored from a backup
            too_large = isinstance(error, ApiError) and "ResourceVersionTooLarge" in error.causes
            self._lost = isinstance(error, Gone) or too_large or self._failed_attempts >= _MAX_FAILED_ATTEMPTS
            raise
        self._failed_attempts, self._is_unheard = 0, True
        self._opened_at = time.monotonic()
        self._freshness.begin(self._opened_at)
        with watch:
            try:
                self._follow(watch, self.resource_version)
            except (ApiError, BadResponse):
                self._lost = True
                raise
            except TransportError:
                silence = self._freshness.silence(time.monotonic())
                self._lost = self._is_unheard and silence >= self._times.idle_timeout
                raise
            finally:
                with self._lock:
                    self._open = None

    def _open_watch(self) -> Watch:
        first, last = self._times.watch_timeout
        seconds = first + int(self._draw() * (last - first))
        watch = self._client.watch(
            self._resource, resource_version=str(self.resource_version), seconds=seconds, idle=self._times.idle_timeout,
            **self._selection._asdict(),
        )  # fmt: skip
        with self._lock:
            self._open = watch
            if self._stopping.is_set():  # stopped meanwhile
                watch.abort()
        return watch

    def _follow(self, watch: Watch, start: int) -> None:
        """Apply the events of a watch that starts from the version `start`."""
        for event in watch:
            if self._stopping.is_set():
                return
            if self._is_unheard:
                self._is_unheard = False
                self._client.watch_failures.end(self._resource.plural)
            self._freshness.confirm(time.monotonic())
            change = self._apply(event, start)
            if change is not None:
                self._report(change)

    def _apply(self, event: Event, start: int) -> Change[T] | None:
        if event.type == "BOOKMARK":
            version = _not_before(start, _number(_identity(event.object).resource_version))
            with self._lock:
                return self._cache.advance(version)
        if event.type not in {"ADDED", "MODIFIED", "DELETED"}:
            log.warning("%s: an event of the unknown type %r is skipped", self._resource.plural, event.type)
            return None
        item = self._received(event.object)
        _not_before(start, item.version)
        with self._lock:
            return self._cache.remove(item) if event.type == "DELETED" else self._cache.put(item)

    def _received(self, raw: msgspec.Raw) -> ReceivedObject[T]:
        identity = _identity(raw)
        value: T | None = None
        try:
            value = decode_nested(self._decode, raw)
        except (msgspec.DecodeError, ValueError) as error:
            log.warning("%s: the last known state is kept: %s", display_name(self._resource, raw), error)
        return ReceivedObject(
            (identity.namespace, identity.name), identity.uid, _number(identity.resource_version), value
        )

    def _report(self, change: Change[T]) -> None:
        if self._stopping.is_set():
            return
        try:
            self._handler(change.old, change.new)
        except Exception:  # a defect of the handler must not end the watch
            log.exception("%s: the handler of changes failed", self._resource.plural)


class _Identity(msgspec.Struct, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = msgspec.field(default="", name="resourceVersion")


class _IdentifiedObject(msgspec.Struct, gc=False):
    metadata: _Identity


_IDENTIFIED = msgspec.json.Decoder(_IdentifiedObject)


def _identity(raw: msgspec.Raw) -> _Identity:
    try:
        return decode_nested(_IDENTIFIED.decode, raw).metadata
    except msgspec.DecodeError as error:
        raise BadResponse(f"an object without metadata: {error}") from error


def _number(version: str) -> int:
    if not version.isdecimal():
        raise BadResponse(f"{version!r} is not a resource version")
    return int(version)


def _not_before(start: int, version: int) -> int:
    """Return the version of an event. Raises BadResponse if the event is older than the start of its watch."""
    if version < start:
        raise BadResponse(f"an event of resource version {version} in a watch from {start}: the history went back")
    return version
