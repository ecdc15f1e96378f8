"""The faults of a watch, on real sockets.

After any fault of a server or of the network, the copy becomes correct again. The reflector sends a single request if
that suffices, and never floods the server.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from support.kube_faults import (
    Exchange,
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
from support.reflectors import LISTED, QUICK, A, B, C, D, SimulatedTime, copying
from support.waiting import PATIENCE, eventually
from zonewise_common.kube.reflector import WatchTimes

if TYPE_CHECKING:
    from support.kube_faults import Answer, Object


REAL = WatchTimes(healthy_after=10.0)


def test_clean_close() -> None:
    """After the server ends a watch, the next one continues at the last version, without a list."""
    with copying([watch_once(event("ADDED", B), event("ADDED", C)), watch_on(event("ADDED", D))]) as copy:
        eventually(lambda: copy.names == "abcd")
        assert [request.query["resourceVersion"] for request in copy.server.watches] == ["100", "102"]
        assert len(copy.server.lists) == 1


def test_gone_as_an_event() -> None:
    """After a 410 event in the stream, the reflector lists again and reports the differences, including deletions."""
    lists = [LISTED, give(200, pods(200, C, D))]
    expired = event("ERROR", failure(410, "Expired", "too old resource version"))
    with copying([watch_once(event("ADDED", B), expired), watch_on()], lists) as copy:
        eventually(lambda: copy.names == "cd" and len(copy.changes) == 6)
        assert copy.changes[:2] == [(None, "a"), (None, "b")]
        assert sorted(copy.changes[2:], key=str) == sorted(
            [("a", None), ("b", None), (None, "c"), (None, "d")], key=str
        )
        eventually(lambda: [one.query["resourceVersion"] for one in copy.server.watches] == ["100", "200"])
        assert copy.listings == [(100, 1), (200, 6)]


def test_gone_as_a_status() -> None:
    """A 410 status instead of a stream has the same effect as the event."""
    lists = [LISTED, give(200, pods(200, A, B))]
    with copying([refuse(410, "Expired"), watch_on()], lists) as copy:
        eventually(lambda: copy.names == "ab")
        eventually(lambda: copy.changes == [(None, "a"), (None, "b")])


def test_gone_is_no_failure() -> None:
    """The first 410 causes a list without a wait. A server that returns only 410 gets fewer and fewer requests."""
    expired = event("ERROR", failure(410, "Expired", "too old resource version"))
    minute = SimulatedTime()
    with copying([refuse(410, "Expired"), watch_once(expired)], [LISTED], REAL, minute) as copy:
        assert minute.over.wait(PATIENCE)
        assert minute.waits[0] == 0.0
        assert minute.waits[1] > 0.0
        assert minute.waits == sorted(minute.waits)
        assert len(copy.server.lists) <= 25


def test_a_server_that_is_back() -> None:
    """Waits without a response are at most 5 s; after the first response, even an error, they are short again."""

    def hang_up(exchange: Exchange) -> None:
        exchange.hang_up()

    minute = SimulatedTime()
    lists = [*[hang_up] * 8, refuse(403, "Forbidden"), give(200, pods(100, A))]
    with copying([watch_on()], lists, REAL, minute) as copy:
        eventually(lambda: copy.names == "a")
        assert max(minute.waits) <= 5.0
        assert minute.waits[7] > 3.0
        assert minute.waits[8] < 0.5


def test_an_outage_ends_in_a_list() -> None:
    """After several attempts without a response, the server may have another history, which a watch would not show."""

    def hang_up(exchange: Exchange) -> None:
        exchange.hang_up()

    lists = [LISTED, give(200, pods(50, pod("a", 90, phase="Restored")))]
    with copying([hang_up, hang_up, watch_on()], lists) as copy:
        eventually(lambda: copy.reflector.resource_version == 50)
        restored = copy.reflector.get("a", "default")
        assert restored is not None
        assert restored.phase == "Restored"
        eventually(lambda: copy.server.watches[-1].query["resourceVersion"] == "50")


@pytest.mark.parametrize("sign", [bookmark(60), event("MODIFIED", pod("a", 60))])
def test_a_history_that_goes_back_within_a_watch(sign: Object) -> None:
    """An event older than the watch means that etcd was restored, so the objects are listed again."""
    lists = [LISTED, give(200, pods(60, pod("b", 55)))]
    with copying([watch_on(sign), watch_on()], lists) as copy:
        eventually(lambda: copy.names == "b")
        assert copy.reflector.resource_version == 60


def test_a_watch_from_the_future_is_silent() -> None:
    """A restored server accepts a watch from a version that it does not have, and then sends nothing."""
    lists = [LISTED, give(200, pods(60, pod("b", 55)))]
    with copying([watch_on()], lists, QUICK._replace(idle_timeout=0.5)) as copy:
        eventually(lambda: copy.names == "b")


def test_age() -> None:
    """The copy is current from the first list on while a watch is open, and not after the watch has broken."""
    broken = threading.Event()

    def breaking(exchange: Exchange) -> None:
        exchange.begin()
        broken.wait()
        exchange.reset()

    def hang_up(exchange: Exchange) -> None:
        exchange.hang_up()

    again = threading.Event()

    def back(exchange: Exchange) -> None:
        again.wait()
        watch_on()(exchange)

    with copying([breaking, hang_up, back], times=QUICK) as copy:
        assert copy.reflector.age > 0.0
        eventually(lambda: copy.reflector.has_synced and copy.reflector.age == 0.0)
        broken.set()
        eventually(lambda: copy.reflector.age > 0.2)
        again.set()
        eventually(lambda: copy.reflector.age == 0.0)


def test_reset_within_an_object() -> None:
    """A partial object is ignored; the next watch continues after the last complete one."""
    copied = threading.Event()

    def torn(exchange: Exchange) -> None:
        exchange.begin()
        exchange.chunk(line(event("ADDED", B)))
        copied.wait()
        exchange.chunk(line(event("ADDED", C))[:40])
        exchange.reset()

    with copying([torn, watch_on(event("ADDED", C))]) as copy:
        eventually(lambda: copy.names == "ab")
        copied.set()
        eventually(lambda: copy.names == "abc")
        assert copy.server.watches[1].query["resourceVersion"] == "101"
        assert len(copy.server.lists) == 1


def test_lost_last_chunk() -> None:
    """A connection that ends without the last chunk, as when a load balancer drops an idle one, ends the watch."""

    def cut(exchange: Exchange) -> None:
        exchange.begin()
        exchange.chunk(line(event("ADDED", B)))
        exchange.hang_up()

    with copying([cut, watch_on(event("ADDED", C))]) as copy:
        eventually(lambda: copy.names == "abc")
        assert copy.server.watches[1].query["resourceVersion"] == "101"


def test_one_500() -> None:
    """A single failure costs one wait and one more request, but no list."""
    with copying([refuse(500, "InternalError"), watch_on(event("ADDED", B))]) as copy:
        eventually(lambda: copy.names == "ab")
        assert len(copy.server.requests) == 3


@pytest.mark.parametrize("where", ["list", "watch"])
def test_500_for_ever(where: str) -> None:
    """A server that keeps failing gets fewer and fewer requests, in the end one every few seconds."""
    minute = SimulatedTime()
    failing = refuse(500, "InternalError")
    lists, watches = ([failing], [watch_on()]) if where == "list" else ([LISTED], [failing])
    with copying(watches, lists, REAL, minute) as copy:
        assert minute.over.wait(PATIENCE)
        assert 5 <= len(copy.server.requests) <= 30
        assert minute.waits == sorted(minute.waits)
        assert max(minute.waits) <= 5.0


def test_429_with_retry_after() -> None:
    """The wait is at least the server's Retry-After, and not much longer."""
    minute = SimulatedTime()
    busy = refuse(429, "TooManyRequests", headers={"Retry-After": "7"})
    with copying([busy, watch_on(event("ADDED", B))], times=REAL, wait=minute) as copy:
        eventually(lambda: copy.names == "ab")
        assert 7.0 <= minute.waits[0] <= 7.0 * 1.25
        assert len(copy.server.lists) == 1


def test_half_open_connection() -> None:
    """If a peer has vanished without closing, the watch ends when the next bookmark is overdue."""

    def silent(exchange: Exchange) -> None:
        exchange.begin()
        exchange.chunk(line(event("ADDED", B)))
        exchange.stay_silent()

    with copying([silent, watch_on(event("ADDED", C))], times=QUICK._replace(idle_timeout=1.0)) as copy:
        eventually(lambda: copy.names == "abc")
        assert copy.server.watches[1].query["resourceVersion"] == "101"


def test_bookmarks_are_a_heartbeat() -> None:
    """A quiet watch that gets its bookmarks remains open."""

    def beating(exchange: Exchange) -> None:
        exchange.begin()
        for version in range(200, 216):
            exchange.chunk(line(bookmark(version)))
            time.sleep(0.25)  # 4 s in total, longer than the idle timeout
        exchange.chunk(line(event("ADDED", pod("z", 300))))
        exchange.stay_silent()

    with copying([beating], times=QUICK._replace(idle_timeout=3.5)) as copy:
        eventually(lambda: copy.names == "az")
        assert len(copy.server.watches) == 1


def test_object_of_3_megabytes() -> None:
    """A line of thousands of chunks is joined in linear time."""
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
    """Unknown fields, values and types of events do not prevent reading the known ones."""
    strange = pod("b", 101, phase="Hibernating", spec={"quantum": [1, {"x": None}]}, unheardOf=True)
    events = [event("ADDED", strange), event("REWOUND", C), event("ADDED", D)]
    with copying([watch_on(*events)]) as copy:
        eventually(lambda: copy.names == "abd")
        objects = copy.reflector.get("b", "default")
        assert objects is not None
        assert objects.phase == "Hibernating"


def test_slow_server() -> None:
    """Bytes that arrive slowly are not silence."""
    data = line(event("ADDED", B))

    def dripping(exchange: Exchange) -> None:
        exchange.begin()
        for start in range(0, len(data), 5):  # 4 s in total
            exchange.chunk(data[start : start + 5])
            time.sleep(0.12)
        exchange.stay_silent()

    with copying([dripping], times=QUICK._replace(idle_timeout=3.5)) as copy:
        eventually(lambda: copy.names == "ab")
        assert len(copy.server.watches) == 1


@pytest.mark.parametrize("how", ["ended", "after an event", "hung up"])
def test_server_that_closes_at_once(how: str) -> None:
    """A watch that ends as soon as it begins counts as a failure, even if it ends cleanly."""
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
        assert 5 <= len(copy.server.watches) <= 20
        # after an outage the server may have another history, so the objects are listed
        assert len(copy.server.lists) <= (1 if how != "hung up" else 10)


def fail_slowly(exchange: Exchange) -> None:
    time.sleep(0.05)
    refuse(503, "ServiceUnavailable")(exchange)


@pytest.mark.parametrize(("lists", "watches"), [([fail_slowly], [watch_on()]), ([LISTED], [fail_slowly])])
def test_a_request_that_fails_slowly_is_no_healthy_watch(lists: list[Answer], watches: list[Answer]) -> None:
    """The waits grow, however slowly a server fails."""
    minute = SimulatedTime()
    with copying(watches, lists, WatchTimes(healthy_after=0.02), minute):
        assert minute.over.wait(PATIENCE)
        assert minute.waits == sorted(minute.waits)
        assert minute.waits[-1] > 3.0


def test_bookmark_then_close() -> None:
    """The next watch begins at the bookmark, so a quiet resource's version never becomes too old."""
    with copying([watch_once(bookmark(5000)), watch_on(event("ADDED", pod("b", 5001)))]) as copy:
        eventually(lambda: copy.names == "ab")
        assert copy.server.watches[1].query["resourceVersion"] == "5000"
        assert copy.server.watches[0].query["allowWatchBookmarks"] == "true"


def test_a_server_that_lists_slowly() -> None:
    """After each listing that gets no response in time, the next one has twice the time."""

    def respond_late(exchange: Exchange) -> None:
        time.sleep(0.1)
        LISTED(exchange)

    times = QUICK._replace(list_timeout=(0.01, PATIENCE))
    with copying([watch_on()], [respond_late], times) as copy:
        eventually(lambda: copy.names == "a")
        assert len(copy.server.lists) >= 4
