"""A copy of a server's objects that follows it: list once, watch from there, and list again only where history is lost.

What happens, and what is done:

    the server ends the watch, the stream breaks or is silent   watch on from the last resource version
    the server knows that version no longer (410), or the       list again, and tell the difference
    watch ends in an error or in nonsense
    any failure, and any watch that ends at once                wait first: exponential, jittered, Retry-After

Source of the rules: client-go tools/cache/reflector.go.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import msgspec

from zonewise_common.kube.backoff import Backoff
from zonewise_common.kube.cache import Cache, Change, ReceivedObject, StaleListing
from zonewise_common.kube.client import display_name
from zonewise_common.kube.errors import ApiError, BadResponse, Gone, KubeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_common.kube.client import Client
    from zonewise_common.kube.resources import Resource
    from zonewise_common.kube.watch import Event, Watch

log = logging.getLogger(__name__)

T = TypeVar("T")

_STALE_LISTINGS = 3
"""So many listings in a row from before what is known, and it is the server that went back: etcd was restored."""


class WatchTimes(NamedTuple):
    """How long things may take, in seconds."""

    watch_timeout: tuple[int, int] = (300, 600)
    """A watch is asked to end after a random time between these, so that the watches of all nodes do not end at once,
    and spread over the servers again (client-go: minWatchTimeout, 5 to 10 minutes)."""
    idle_timeout: float = 90.0
    """Silence after which a watch is dead: bookmarks come every 60 s, and may be 15 s late (apiserver
    pkg/storage/cacher/cacher.go, DefaultEventFreshDuration)."""
    healthy_after: float = 5.0
    """A watch that lived so long was a good one; one that did not counts as a failure, whatever ended it."""
    backoff: Backoff = Backoff()


class Selection(NamedTuple):
    """Which objects of a resource."""

    namespace: str | None = None
    """None for all."""
    label_selector: str = ""
    field_selector: str = ""


class Reflector(Generic[T]):
    """Keeps a copy of all selected objects, each decoded into what matters of it.

    The handler gets (None, new), (old, new) and (old, None), one call at a time, in order, in the reflector's own
    thread; between two calls for an object changes may have been skipped, never reordered.
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
        """Take what to copy and whom to tell.

        `decode` makes of an object's JSON what is kept, and raises msgspec.DecodeError or ValueError where it cannot.
        `draw` gives random numbers from 0 to 1, and `wait` waits so many seconds but no longer than until close().
        """
        self._client = client
        self._resource = resource
        self._decode = decode
        self._handler = handler
        self._selection = selection
        self._times = times
        self._draw = draw
        self._stopping = threading.Event()
        self._wait = wait or self._stopping.wait
        self._lock = threading.Lock()  # around the cache and the open watch
        self._cache: Cache[T] = Cache()
        self._open: Watch | None = None
        self._synced = threading.Event()
        self._lost = True
        self._failures = 0
        self._stale_listings = 0
        name = f"reflector-{resource.plural}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    # --- what is known

    @property
    def has_synced(self) -> bool:
        """Tell whether the handler has been told of all objects that there were at the start."""
        return self._synced.is_set()

    def wait_synced(self, timeout: float) -> bool:
        """Wait for that, for some seconds; tell whether it came true."""
        return self._synced.wait(timeout)

    @property
    def resource_version(self) -> int:
        """Return up to where everything is known; 0 before the first listing."""
        with self._lock:
            return self._cache.version

    def get(self, name: str, namespace: str = "") -> T | None:
        """Return one object as it is known; None where there is none."""
        with self._lock:
            return self._cache.get((namespace, name))

    def values(self) -> list[T]:
        """Return all objects as they are known."""
        with self._lock:
            return self._cache.values()

    # --- life

    def start(self) -> None:
        """Begin to list and watch, in a thread of its own."""
        self._thread.start()

    def close(self, timeout: float = 1.0) -> None:
        """Stop at once: an open watch is cut, and no further handler is called.

        A thread that waits for the answer to a list is given `timeout` seconds, and then left behind to end alone.
        """
        self._stopping.set()
        with self._lock:
            if self._open is not None:
                self._open.abort()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _run(self) -> None:
        while not self._stopping.is_set():
            delay = self._turn()
            if not self._stopping.is_set():
                self._wait(delay)

    def _turn(self) -> float:
        """List where that is needed, watch as long as it goes, and return how many seconds to wait then."""
        retry_after: float | None = None
        opened = time.monotonic()
        try:
            if self._lost:
                self._list()
            opened = time.monotonic()
            self._watch()
        except KubeError as error:
            if not self._stopping.is_set():
                log.warning("%s: %s", self._resource.plural, error)
            retry_after = error.retry_after if isinstance(error, ApiError) else None
        except Exception:  # a fault of ours must not end the copying
            log.exception("%s: the copy is made anew", self._resource.plural)
            self._lost = True
        lived = time.monotonic() - opened >= self._times.healthy_after
        self._failures = 0 if lived else self._failures + 1
        return self._times.backoff.delay(self._failures, self._draw(), retry_after)

    # --- listing

    def _list(self) -> None:
        listed, text = self._client.list_raw(self._resource, self._found, **self._selection._asdict())
        version = _number(text)
        anew = self._stale_listings >= _STALE_LISTINGS
        try:
            with self._lock:
                changes = self._cache.replace(listed, version, force=anew)
        except StaleListing as error:
            self._stale_listings += 1
            raise BadResponse(f"the listing is stale: {error}") from error
        if anew:
            log.warning(
                "%s: the server's history went back to %d; it counts from now on", self._resource.plural, version
            )
        self._stale_listings = 0
        self._lost = False
        for change in changes:
            self._tell(change)
        if not self._stopping.is_set():
            self._synced.set()

    # --- watching

    def _watch(self) -> None:
        try:
            watch = self._begin()
        except ApiError as error:
            # a version from after what the server knows will come to pass, or not, where it was restored
            self._lost = isinstance(error, Gone) or "ResourceVersionTooLarge" in error.causes
            raise
        with watch:
            try:
                self._follow(watch)
            except (ApiError, BadResponse):
                self._lost = True
                raise
            finally:
                with self._lock:
                    self._open = None

    def _begin(self) -> Watch:
        first, last = self._times.watch_timeout
        seconds = first + int(self._draw() * (last - first))
        watch = self._client.watch(
            self._resource, resource_version=str(self.resource_version), seconds=seconds, idle=self._times.idle_timeout,
            **self._selection._asdict(),
        )  # fmt: skip
        with self._lock:
            self._open = watch
            if self._stopping.is_set():  # since it was begun
                watch.abort()
        return watch

    def _follow(self, watch: Watch) -> None:
        for event in watch:
            if self._stopping.is_set():
                return
            change = self._take(event)
            if change is not None:
                self._tell(change)

    def _take(self, event: Event) -> Change[T] | None:
        if event.type == "BOOKMARK":
            version = _number(_identity(event.object).resource_version)
            with self._lock:
                return self._cache.advance(version)
        if event.type not in {"ADDED", "MODIFIED", "DELETED"}:
            log.warning("%s: an event of the unknown type %r is skipped", self._resource.plural, event.type)
            return None
        found = self._found(event.object)
        with self._lock:
            return self._cache.remove(found) if event.type == "DELETED" else self._cache.put(found)

    def _found(self, raw: msgspec.Raw) -> ReceivedObject[T]:
        meta = _identity(raw)
        value: T | None = None
        try:
            value = self._decode(raw)
        except (msgspec.DecodeError, ValueError) as error:
            log.warning("%s: what was known of it stands: %s", display_name(self._resource, raw), error)
        return ReceivedObject((meta.namespace, meta.name), meta.uid, _number(meta.resource_version), value)

    def _tell(self, change: Change[T]) -> None:
        if self._stopping.is_set():
            return
        try:
            self._handler(change.old, change.new)
        except Exception:  # what the handler got wrong is not the stream's fault
            log.exception("%s: the handler of changes failed", self._resource.plural)


class _Identity(msgspec.Struct, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = msgspec.field(default="", name="resourceVersion")


class _Identified(msgspec.Struct, gc=False):
    metadata: _Identity


_IDENTIFIED = msgspec.json.Decoder(_Identified)


def _identity(raw: msgspec.Raw) -> _Identity:
    try:
        return _IDENTIFIED.decode(raw).metadata
    except msgspec.DecodeError as error:
        raise BadResponse(f"an object without metadata: {error}") from error


def _number(version: str) -> int:
    if not version.isdecimal():
        raise BadResponse(f"{version!r} is no resource version")
    return int(version)
