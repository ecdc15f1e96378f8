"""Watches: changes as lines of JSON, from any version in the history."""

from __future__ import annotations

import time
from queue import Empty
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from zonewise_sandbox.apiserver.http.representation import represent_object
from zonewise_sandbox.apiserver.status_errors import expired, forbidden_field, internal, invalid_options
from zonewise_sandbox.apiserver.storage.listing import parse_version, selector_predicate
from zonewise_sandbox.apiserver.storage.store import TooOld

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from zonewise_sandbox.apiserver.json_values import Object
    from zonewise_sandbox.apiserver.kinds import Kind
    from zonewise_sandbox.apiserver.storage.store import Event, Store, Subscription


BOOKMARK_INTERVAL = 60.0
"""Seconds between bookmarks (k8s.io/apiserver/pkg/storage/cacher, defaultBookmarkFrequency)."""
_BEFORE_THE_END = 2.0
"""The last bookmark of a watch is sent this many seconds before its end (cache_watcher.go, nextBookmarkTime)."""
_DEFAULT_TIMEOUT = 1800.0
"""Seconds (--min-request-timeout; a real server adds up to the same amount again at random)."""
_TICK = 0.5
"""Seconds after which an idle watch yields, so that its caller can check for a closed connection."""
_INITIAL_END = "k8s.io/initial-events-end"


class WatchOptions(NamedTuple):
    """The options of a watch."""

    since: int | None
    """None to begin with all current objects."""
    timeout: float
    """Duration in seconds."""
    bookmarks: bool = False
    initial: bool = False
    """Send a bookmark after the initial objects (sendInitialEvents, KEP-3157)."""
    namespace: str = ""
    test: Callable[[Object], bool] | None = None
    form: str = ""
    include: str = ""


def watch_options(kind: Kind, namespace: str, query: Mapping[str, str], form: str) -> WatchOptions:
    """Return the watch options of a query.

    Raises StatusError: 400 for invalid selectors, 500 for invalid versions, 422.
    """
    text = query.get("resourceVersion", "")
    if text and not (text.isascii() and text.isdigit()):
        detail = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        raise internal(f'resourceVersion: Invalid value: "{text}": {detail}')
    version = parse_version(text)
    requested, match = query.get("sendInitialEvents", ""), query.get("resourceVersionMatch", "")
    if match and not requested:
        detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        raise invalid_options("ListOptions", forbidden_field("resourceVersionMatch", detail))
    if requested and match != "NotOlderThan":
        detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise invalid_options("ListOptions", forbidden_field("resourceVersionMatch", detail))
    bookmarks = parse_bool(query.get("allowWatchBookmarks", ""))
    initial = parse_bool(requested) or (not requested and not version)
    since = None if initial else version or 0
    timeout = float(query.get("timeoutSeconds") or 0) or _DEFAULT_TIMEOUT
    test = selector_predicate(kind, query)
    include = query.get("includeObject", "")
    return WatchOptions(since, timeout, bookmarks, initial, namespace, test, form, include)


def parse_bool(text: str) -> bool:
    """Return whether a query's parameter is true."""
    return text in {"1", "true", "True"}


class Watch:
    """One watch, from start to end."""

    def __init__(self, store: Store, kind: Kind, options: WatchOptions, bookmark_interval: float) -> None:
        """Create a watch of a kind, with a bookmark every `bookmark_interval` seconds."""
        self._store = store
        self._kind = kind
        self._options = options
        self._interval = bookmark_interval
        self._deadline = time.monotonic() + options.timeout
        self._next_bookmark = self._bookmark_time()
        self._version = 0
        self._headers = True

    def lines(self) -> Generator[bytes]:
        """Yield events as they occur, several at once if possible; b"" while idle; end after the timeout."""
        try:
            backlog, version, queue = self._store.subscribe(self._kind.resource, self._start())
        except TooOld as error:
            yield _line("ERROR", expired(str(error)).body())
            return
        try:
            yield b"".join(self._encode_events(backlog))
            self._version = max(version, self._options.since or 0)
            if self._options.initial and self._options.bookmarks:
                yield self._bookmark({_INITIAL_END: "true"})
            yield from self._following(queue)
        finally:
            self._store.unsubscribe(self._kind.resource, queue)

    def _start(self) -> int | None:
        """Return the version from which to start: for a future version, the current one."""
        since = self._options.since
        return since if since is None else min(since, self._store.version)

    def _following(self, queue: Subscription) -> Iterator[bytes]:
        while (now := time.monotonic()) < self._deadline:
            if self._options.bookmarks and now >= self._next_bookmark:
                yield self._bookmark()
                self._next_bookmark = self._bookmark_time()
            until = min(self._deadline, self._next_bookmark if self._options.bookmarks else self._deadline)
            events = _next_events(queue, min(_TICK, until - now))
            if events and events[-1] is None:
                return
            yield b"".join(self._encode_events([event for event in events if event is not None]))

    def _encode_events(self, events: list[Event]) -> Iterator[bytes]:
        for event in events:
            self._version = max(self._version, event.version)
            if event.version <= (self._options.since or 0):
                continue
            if not self._options.namespace or event.key[0] == self._options.namespace:
                line = self._event(event)
                if line is not None:
                    yield line

    def _event(self, event: Event) -> bytes | None:
        test = self._options.test
        if test is None:
            return self._encoded(event.type, event)
        matches = test(event.record.object)
        matched = event.previous is not None and test(event.previous.object)
        if event.type == "DELETED":
            return self._encoded("DELETED", event) if matches or matched else None
        if matches:
            return self._encoded("MODIFIED" if matched else "ADDED", event)
        return self._encoded("DELETED", event) if matched else None

    def _encoded(self, kind: str, event: Event) -> bytes:
        obj = event.record.object
        if not self._options.form and obj.get("apiVersion") == self._kind.api_version:
            return b'{"type":"%s","object":%s}\n' % (kind.encode(), event.record.encoded)
        served = {**obj, "apiVersion": self._kind.api_version}
        representation = represent_object(
            self._kind, served, self._options.form, now=self._store.now(), include=self._options.include,
            headers=self._headers,
        )  # fmt: skip
        self._headers = False
        return _line(kind, representation)

    def _bookmark(self, annotations: dict[str, str] | None = None) -> bytes:
        metadata: Object = {"resourceVersion": str(self._version)}
        if annotations:
            metadata["annotations"] = annotations
        obj = {"kind": self._kind.kind, "apiVersion": self._kind.api_version, "metadata": metadata}
        return _line(
            "BOOKMARK", represent_object(self._kind, obj, self._options.form, now=self._store.now(), headers=False)
        )

    def _bookmark_time(self) -> float:
        """Return the time of the next bookmark: after the interval, or shortly before the end if that is sooner."""
        regular, last = time.monotonic() + self._interval, self._deadline - _BEFORE_THE_END
        return min(regular, last) if last > time.monotonic() else regular


def _next_events(queue: Subscription, seconds: float) -> list[Event | None]:
    """Wait for the first event of the queue, and return the available ones; none after the timeout."""
    try:
        events = [queue.get(timeout=max(seconds, 0))]
        while events[-1] is not None and not queue.empty():
            events.append(queue.get_nowait())
    except Empty:
        return []
    return events


def _line(kind: str, obj: Object) -> bytes:
    return msgspec.json.encode({"type": kind, "object": obj}) + b"\n"
