"""The faults of a watch, on real sockets: whatever a server or what lies between does, the copy gets right again,
with one more request where that is enough, and never with a storm of them.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from typing import TYPE_CHECKING

import msgspec
import pytest

from support.kube_faults import (
    Exchange,
    ScriptedServer,
    as_dict,
    bookmark,
    event,
    failure,
    give,
    line,
    pod,
    pods,
    refuse,
    watch_on,
    watch_once,
)
from support.waiting import PATIENCE, eventually
from zonewise_common.kube.backoff import Backoff
from zonewise_common.kube.client import Client
from zonewise_common.kube.config import Config
from zonewise_common.kube.reflector import Reflector, WatchTimes
from zonewise_common.kube.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from support.kube_faults import Answer

A, B, C, D = pod("a", 90), pod("b", 101), pod("c", 102), pod("d", 103)
LISTED = give(200, pods(100, A))
QUICK = WatchTimes(healthy_after=10.0, backoff=Backoff(base=0.001, cap=0.01))


class Meta(msgspec.Struct):
    name: str


class Pod(msgspec.Struct):
    """The fields that a caller might need."""

    metadata: Meta
    phase: str = ""


as_pod = msgspec.json.Decoder(Pod).decode


def ignore(*_: object) -> None:
    """Take any change, and do nothing."""


class Copy:
    """A reflector beside its server, and what its handler was told."""

    def __init__(self, server: ScriptedServer, times: WatchTimes, wait: SimulatedTime | None = None) -> None:
        self.server = server
        self.told: list[tuple[str | None, str | None]] = []
        self.client = Client(Config.from_url(server.url), timeout=PATIENCE)
        self.reflector = Reflector(self.client, PODS, as_pod, self.tell, times=times, wait=wait, draw=lambda: 0.5)

    def tell(self, old: Pod | None, new: Pod | None) -> None:
        self.told.append((old.metadata.name if old else None, new.metadata.name if new else None))

    @property
    def names(self) -> str:
        return "".join(sorted(one.metadata.name for one in self.reflector.values()))


@contextlib.contextmanager
def copying(
    watches: Sequence[Answer],
    lists: Sequence[Answer] = (LISTED,),
    times: WatchTimes = QUICK,
    wait: SimulatedTime | None = None,
) -> Generator[Copy]:
    with ScriptedServer(lists, watches) as server:
        copy = Copy(server, times, wait)
        copy.reflector.start()
        try:
            yield copy
        finally:
            if wait is not None:
                wait.closing.set()
            copy.reflector.close()
            copy.client.close()


class SimulatedTime:
    """A minute that passes at once: waiting is recorded, and when the minute is over, nothing more happens."""

    def __init__(self) -> None:
        self.left = 60.0
        self.waits: list[float] = []
        self.over = threading.Event()
        self.closing = threading.Event()

    def __call__(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.left -= seconds
        if self.left < 0:
            self.over.set()
            self.closing.wait()


REAL = WatchTimes(healthy_after=10.0)


def test_clean_close() -> None:
    """A watch that the server ends is taken up where it ended, without a list."""
    with copying([watch_once(event("ADDED", B), event("ADDED", C)), watch_on(event("ADDED", D))]) as copy:
        eventually(lambda: copy.names == "abcd")
        assert [request.query["resourceVersion"] for request in copy.server.watches] == ["100", "102"]
        assert len(copy.server.lists) == 1


def test_gone_as_an_event() -> None:
    """A 410 within the stream: list again, and tell what differs, deletions as well."""
    lists = [LISTED, give(200, pods(200, C, D))]
    expired = event("ERROR", failure(410, "Expired", "too old resource version"))
    with copying([watch_once(event("ADDED", B), expired), watch_on()], lists) as copy:
        eventually(lambda: copy.names == "cd" and len(copy.told) == 6)
        assert copy.told[:2] == [(None, "a"), (None, "b")]
        assert sorted(copy.told[2:], key=str) == sorted([("a", None), ("b", None), (None, "c"), (None, "d")], key=str)
        eventually(lambda: [one.query["resourceVersion"] for one in copy.server.watches] == ["100", "200"])


def test_gone_as_a_status() -> None:
    """A 410 in place of the stream is treated as the event."""
    lists = [LISTED, give(200, pods(200, A, B))]
    with copying([refuse(410, "Expired"), watch_on()], lists) as copy:
        eventually(lambda: copy.names == "ab")
        eventually(lambda: copy.told == [(None, "a"), (None, "b")])


def test_reset_within_an_object() -> None:
    """Half an object is not an object; the watch goes on from the last whole one."""

    def torn(exchange: Exchange) -> None:
        exchange.begin()
        exchange.chunk(line(event("ADDED", B)))
        eventually(lambda: "b" in copy.names)
        exchange.chunk(line(event("ADDED", C))[:40])
        exchange.reset()

    with copying([torn, watch_on(event("ADDED", C))]) as copy:
        eventually(lambda: copy.names == "abc")
        assert copy.server.watches[1].query["resourceVersion"] == "101"
        assert len(copy.server.lists) == 1


def test_lost_last_chunk() -> None:
    """A connection that ends without the last chunk, as load balancers do to idle ones, ends the watch."""

    def cut(exchange: Exchange) -> None:
        exchange.begin()
        exchange.chunk(line(event("ADDED", B)))
        exchange.hang_up()

    with copying([cut, watch_on(event("ADDED", C))]) as copy:
        eventually(lambda: copy.names == "abc")
        assert copy.server.watches[1].query["resourceVersion"] == "101"


def test_one_500() -> None:
    """A single failure costs a wait and one more request, no list."""
    with copying([refuse(500, "InternalError"), watch_on(event("ADDED", B))]) as copy:
        eventually(lambda: copy.names == "ab")
        assert len(copy.server.requests) == 3


@pytest.mark.parametrize("where", ["list", "watch"])
def test_500_for_ever(where: str) -> None:
    """A server that keeps failing is asked less and less: a dozen times in its first minute, not thousands."""
    minute = SimulatedTime()
    failing = refuse(500, "InternalError")
    lists, watches = ([failing], [watch_on()]) if where == "list" else ([LISTED], [failing])
    with copying(watches, lists, REAL, minute) as copy:
        assert minute.over.wait(PATIENCE)
        assert 5 <= len(copy.server.requests) <= 15
        assert minute.waits == sorted(minute.waits)


def test_429_with_retry_after() -> None:
    """The server's own wish is honoured: never earlier, and not much later."""
    minute = SimulatedTime()
    busy = refuse(429, "TooManyRequests", headers={"Retry-After": "7"})
    with copying([busy, watch_on(event("ADDED", B))], times=REAL, wait=minute) as copy:
        eventually(lambda: copy.names == "ab")
        assert 7.0 <= minute.waits[0] <= 7.0 * 1.25
        assert len(copy.server.lists) == 1


def test_half_open_connection() -> None:
    """A peer that vanished without a word is given up when the bookmark that is due does not come."""

    def silent(exchange: Exchange) -> None:
        exchange.begin()
        exchange.chunk(line(event("ADDED", B)))
        exchange.stay_silent()

    with copying([silent, watch_on(event("ADDED", C))], times=QUICK._replace(idle_timeout=1.0)) as copy:
        eventually(lambda: copy.names == "abc")
        assert copy.server.watches[1].query["resourceVersion"] == "101"


def test_bookmarks_are_a_heartbeat() -> None:
    """A quiet watch that gets its bookmarks is left alone."""

    def beating(exchange: Exchange) -> None:
        exchange.begin()
        for version in range(200, 216):
            exchange.chunk(line(bookmark(version)))
            time.sleep(0.1)  # 1.6 s in all, more than silence may last
        exchange.chunk(line(event("ADDED", pod("z", 300))))
        exchange.stay_silent()

    with copying([beating], times=QUICK._replace(idle_timeout=1.5)) as copy:
        eventually(lambda: copy.names == "az")
        assert len(copy.server.watches) == 1


def test_object_of_3_megabytes() -> None:
    """A line of thousands of chunks is put together, in linear time."""
    data = line(event("ADDED", pod("big", 101, phase="x" * 3_000_000)))

    def large(exchange: Exchange) -> None:
        exchange.begin()
        for start in range(0, len(data), 1000):
            exchange.chunk(data[start : start + 1000])
        exchange.chunk(line(event("ADDED", C)))
        exchange.stay_silent()

    with copying([large]) as copy:
        eventually(lambda: copy.reflector.get("c", "default") is not None)
        big = copy.reflector.get("big", "default")
        assert big is not None
        assert len(big.phase) == 3_000_000
        assert len(copy.server.watches) == 1


def test_newer_server() -> None:
    """Fields, values and types of events that we do not know are no reason to lose those that we do."""
    strange = pod("b", 101, phase="Hibernating", spec={"quantum": [1, {"x": None}]}, unheardOf=True)
    events = [event("ADDED", strange), event("REWOUND", C), event("ADDED", D)]
    with copying([watch_on(*events)]) as copy:
        eventually(lambda: copy.names == "abd")
        objects = copy.reflector.get("b", "default")
        assert objects is not None
        assert objects.phase == "Hibernating"


def test_slow_server() -> None:
    """Bytes that drip are not silence."""
    data = line(event("ADDED", B))

    def dripping(exchange: Exchange) -> None:
        exchange.begin()
        for start in range(0, len(data), 5):  # 2 s in all
            exchange.chunk(data[start : start + 5])
            time.sleep(0.06)
        exchange.stay_silent()

    with copying([dripping], times=QUICK._replace(idle_timeout=1.5)) as copy:
        eventually(lambda: copy.names == "ab")
        assert len(copy.server.watches) == 1


@pytest.mark.parametrize("how", ["ended", "after an event", "hung up"])
def test_server_that_closes_at_once(how: str) -> None:
    """A watch that ends as soon as it is begun counts as a failure, however politely it ends."""
    versions = iter(range(101, 10_000))

    def short(exchange: Exchange) -> None:
        if how == "hung up":
            return exchange.hang_up()
        exchange.begin()
        if how == "after an event":
            exchange.chunk(line(bookmark(next(versions))))
        return exchange.end()

    minute = SimulatedTime()
    with copying([short], times=REAL, wait=minute) as copy:
        assert minute.over.wait(PATIENCE)
        assert 5 <= len(copy.server.watches) <= 15
        assert len(copy.server.lists) == 1


def test_bookmark_then_close() -> None:
    """The next watch begins at the bookmark, so that a quiet resource never gets too old."""
    with copying([watch_once(bookmark(5000)), watch_on(event("ADDED", pod("b", 5001)))]) as copy:
        eventually(lambda: copy.names == "ab")
        assert copy.server.watches[1].query["resourceVersion"] == "5000"
        assert copy.server.watches[0].query["allowWatchBookmarks"] == "true"


# --- beyond the thirteen


@pytest.mark.parametrize("nonsense", [b"{not json\n", b'"a text"\n', line(event("ADDED", {"metadata": []}))])
def test_nonsense(nonsense: bytes) -> None:
    """What cannot be understood as an event loses history, so that the objects are listed again."""

    def babble(exchange: Exchange) -> None:
        exchange.begin()
        exchange.chunk(nonsense)
        exchange.stay_silent()

    with copying([babble, watch_on()], [LISTED, give(200, pods(200, A, B))]) as copy:
        eventually(lambda: copy.names == "ab")


def test_a_version_from_the_future() -> None:
    """A server that was restored from a backup knows less than we do: its state is listed, and counts."""
    future = give(
        504, failure(504, "Timeout", "Too large resource version", causes=[{"reason": "ResourceVersionTooLarge"}])
    )
    with copying([future, watch_on()], [LISTED, give(200, pods(50, pod("old", 40)))]) as copy:
        eventually(lambda: copy.names == "old")
        eventually(lambda: copy.told == [(None, "a"), ("a", None), (None, "old")])
        assert copy.reflector.resource_version == 50


def test_one_stale_listing_is_ignored() -> None:
    """A listing from before what is known, of a server that lags behind, is asked for again."""
    lists = [LISTED, give(200, pods(50)), give(200, pods(200, A, B))]
    with copying([refuse(410, "Expired"), watch_on()], lists) as copy:
        eventually(lambda: copy.names == "ab")
        assert ("a", None) not in copy.told


def test_an_object_that_does_not_fit() -> None:
    """One object that is not as the struct says is left as it was known; the others are taken."""
    odd = pod("a", 101, phase=7)
    lists = [give(200, pods(100, A, pod("x", 99, phase=7)))]
    with copying([watch_on(event("MODIFIED", odd), event("ADDED", C))], lists) as copy:
        eventually(lambda: copy.names == "ac")
        eventually(lambda: copy.told == [(None, "a"), (None, "c")])
        assert copy.reflector.resource_version == 102


def test_changes_have_the_old_object() -> None:
    """The handler gets both states of a change."""
    events = [event("ADDED", B), event("MODIFIED", pod("b", 102, phase="Running")), event("DELETED", pod("b", 103))]
    with copying([watch_on(*events)]) as copy:
        eventually(lambda: len(copy.told) == 4)
        assert copy.told == [(None, "a"), (None, "b"), ("b", "b"), ("b", None)]


def test_a_repeated_event_is_one_change() -> None:
    """What a server repeats after a resumption is known already."""
    with copying([watch_once(event("ADDED", B)), watch_on(event("ADDED", B), event("ADDED", C))]) as copy:
        eventually(lambda: copy.names == "abc")
        eventually(lambda: copy.told == [(None, "a"), (None, "b"), (None, "c")])


def test_a_handler_that_fails() -> None:
    """A fault of the handler neither ends the copying nor makes the watch begin again."""
    changes: list[str] = []

    def fail(_: Pod | None, new: Pod | None) -> None:
        changes.append(new.metadata.name if new else "")
        raise RuntimeError("a fault of the handler")

    with ScriptedServer([LISTED], [watch_on(event("ADDED", B))]) as server:
        client = Client(Config.from_url(server.url))
        reflector = Reflector(client, PODS, as_pod, fail, times=QUICK)
        reflector.start()
        eventually(lambda: changes == ["a", "b"])
        assert reflector.has_synced
        assert len(server.requests) == 2
        reflector.close()


def test_synced_only_after_all_handlers() -> None:
    """`has_synced` waits for the handler, not for the answer of the server."""
    reported_all: list[bool] = []
    lists = [refuse(500, "InternalError"), give(200, pods(100, A, B, C))]

    def tell(*_: object) -> None:
        reported_all.append(reflector.has_synced)

    with ScriptedServer(lists, [watch_on()]) as server:
        client = Client(Config.from_url(server.url))
        reflector = Reflector(client, PODS, as_pod, tell, times=QUICK)
        assert not reflector.has_synced
        reflector.start()
        assert reflector.wait_synced(PATIENCE)
        assert reported_all == [False, False, False]
        reflector.close()


@pytest.mark.parametrize("hung", ["watch", "list", "headers"])
def test_close_is_at_once(hung: str) -> None:
    """Closing does not wait for what the server never sends; an open watch ends together with its thread."""
    begun = threading.Event()

    def hang(exchange: Exchange) -> None:
        if hung == "watch":
            exchange.begin()
        begun.set()
        exchange.stay_silent()

    lists, watches = ([hang], [watch_on()]) if hung == "list" else ([LISTED], [hang])
    with ScriptedServer(lists, watches) as server:
        copy = Copy(server, WatchTimes())
        copy.reflector.start()
        assert begun.wait(PATIENCE)
        if hung == "watch":
            eventually(lambda: copy.reflector.has_synced)
        began = time.monotonic()
        copy.reflector.close(timeout=0.2)
        assert time.monotonic() - began < PATIENCE / 2


def test_close_ends_the_thread() -> None:
    """An open watch leaves nothing behind."""
    before = set(threading.enumerate())
    with copying([watch_on(event("ADDED", B))], times=WatchTimes()) as copy:
        eventually(lambda: copy.names == "ab")
        copy.reflector.close(timeout=PATIENCE)
        assert "reflector-pods" not in {thread.name for thread in set(threading.enumerate()) - before}


def test_selection_and_times_are_in_the_query() -> None:
    """Both requests carry the selectors, and the watch a random end between its bounds."""
    with copying([watch_on()]) as copy:
        eventually(lambda: len(copy.server.watches) == 1)
        assert copy.server.watches[0].query["timeoutSeconds"] == "450"
        assert copy.server.lists[0].query["limit"] == "500"


def test_whole_objects_as_dicts() -> None:
    """Where the caller gives dict, objects are whole."""
    with ScriptedServer([LISTED], [watch_on(event("ADDED", B))]) as server:
        client = Client(Config.from_url(server.url))
        reflector = Reflector(client, PODS, as_dict, ignore, times=QUICK)
        reflector.start()
        eventually(lambda: json.dumps(reflector.get("b", "default")) == json.dumps(B))
        reflector.close()
