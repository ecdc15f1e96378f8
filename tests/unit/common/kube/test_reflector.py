"""A reflector: its changes, its handler, its end, and histories that it cannot follow."""

from __future__ import annotations

import json
import threading
import time

import pytest

from support.kube_faults import (
    Exchange,
    ScriptedServer,
    as_dict,
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
from support.reflectors import LISTED, QUICK, A, B, C, Copy, Pod, as_pod, copying, ignore
from support.waiting import PATIENCE, eventually
from zonewise_common.kube.client import Client
from zonewise_common.kube.config import Config
from zonewise_common.kube.reflector import Reflector, WatchTimes
from zonewise_common.kube.resources import PODS


@pytest.mark.parametrize("nonsense", [b"{not json\n", b'"a text"\n', line(event("ADDED", {"metadata": []}))])
def test_nonsense(nonsense: bytes) -> None:
    """Data that is not a valid event invalidates the history, so the objects are listed again."""

    def babble(exchange: Exchange) -> None:
        exchange.begin()
        exchange.chunk(nonsense)
        exchange.stay_silent()

    with copying([babble, watch_on()], [LISTED, give(200, pods(200, A, B))]) as copy:
        eventually(lambda: copy.names == "ab")


def test_a_version_from_the_future() -> None:
    """A server restored from a backup has older versions than the copy: the reflector lists and adopts its state."""
    future = give(
        504, failure(504, "Timeout", "Too large resource version", causes=[{"reason": "ResourceVersionTooLarge"}])
    )
    with copying([future, watch_on()], [LISTED, give(200, pods(50, pod("old", 40)))]) as copy:
        eventually(lambda: copy.names == "old")
        eventually(lambda: copy.changes == [(None, "a"), ("a", None), (None, "old")])
        assert copy.reflector.resource_version == 50


def test_one_stale_listing_is_ignored() -> None:
    """A lagging server may list an older state than the copy's; the reflector lists again."""
    lists = [LISTED, give(200, pods(50)), give(200, pods(200, A, B))]
    with copying([refuse(410, "Expired"), watch_on()], lists) as copy:
        eventually(lambda: copy.names == "ab")
        assert ("a", None) not in copy.changes


def test_an_object_that_does_not_fit() -> None:
    """An object that does not decode keeps its last valid value; the other objects are updated."""
    odd = pod("a", 101, phase=7)
    lists = [give(200, pods(100, A, pod("x", 99, phase=7)))]
    with copying([watch_on(event("MODIFIED", odd), event("ADDED", C))], lists) as copy:
        eventually(lambda: copy.names == "ac")
        eventually(lambda: copy.changes == [(None, "a"), (None, "c")])
        assert copy.reflector.resource_version == 102


def test_changes_have_the_old_object() -> None:
    """The handler gets the old and the new object of a change."""
    events = [event("ADDED", B), event("MODIFIED", pod("b", 102, phase="Running")), event("DELETED", pod("b", 103))]
    with copying([watch_on(*events)]) as copy:
        eventually(lambda: len(copy.changes) == 4)
        assert copy.changes == [(None, "a"), (None, "b"), ("b", "b"), ("b", None)]


def test_a_repeated_event_is_one_change() -> None:
    """An event that the server repeats after a reconnection changes nothing."""
    with copying([watch_once(event("ADDED", B)), watch_on(event("ADDED", B), event("ADDED", C))]) as copy:
        eventually(lambda: copy.names == "abc")
        eventually(lambda: copy.changes == [(None, "a"), (None, "b"), (None, "c")])


def test_a_handler_that_fails() -> None:
    """An error in the handler neither ends the reflector nor restarts the watch."""
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
    """`has_synced` becomes true after the handler has run, not when the server responds."""
    reported_all: list[bool] = []
    lists = [refuse(500, "InternalError"), give(200, pods(100, A, B, C))]

    def record(*_: object) -> None:
        reported_all.append(reflector.has_synced)

    with ScriptedServer(lists, [watch_on()]) as server:
        client = Client(Config.from_url(server.url))
        reflector = Reflector(client, PODS, as_pod, record, times=QUICK)
        assert not reflector.has_synced
        reflector.start()
        assert reflector.wait_synced(PATIENCE)
        assert reported_all == [False, False, False]
        reflector.close()


@pytest.mark.parametrize("hung", ["watch", "list", "headers"])
def test_close_is_at_once(hung: str) -> None:
    """Closing does not wait for data that the server never sends; an open watch ends together with its thread."""
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
    """No thread remains after closing an open watch."""
    before = set(threading.enumerate())
    with copying([watch_on(event("ADDED", B))], times=WatchTimes()) as copy:
        eventually(lambda: copy.names == "ab")
        copy.reflector.close(timeout=PATIENCE)
        assert "reflector-pods" not in {thread.name for thread in set(threading.enumerate()) - before}


def test_selection_and_times_are_in_the_query() -> None:
    """Both requests have the selectors, and the watch has a random timeout within its bounds."""
    with copying([watch_on()]) as copy:
        eventually(lambda: len(copy.server.watches) == 1)
        assert copy.server.watches[0].query["timeoutSeconds"] == "450"
        assert copy.server.lists[0].query["limit"] == "500"


def test_whole_objects_as_dicts() -> None:
    """If the caller passes dict, objects are complete."""
    with ScriptedServer([LISTED], [watch_on(event("ADDED", B))]) as server:
        client = Client(Config.from_url(server.url))
        reflector = Reflector(client, PODS, as_dict, ignore, times=QUICK)
        reflector.start()
        eventually(lambda: json.dumps(reflector.get("b", "default")) == json.dumps(B))
        reflector.close()
