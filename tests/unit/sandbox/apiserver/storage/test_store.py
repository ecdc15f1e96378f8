"""The store, its history and its watches: replaying the events yields the store, for any sequence of writes."""

from __future__ import annotations

import contextlib
import threading
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_sandbox.apiserver.http.watch import Watch, WatchOptions
from zonewise_sandbox.apiserver.kinds import POD, Registry
from zonewise_sandbox.apiserver.request_info import DeleteOptions, Target, WriteOptions
from zonewise_sandbox.apiserver.rest_storage import RestStorage
from zonewise_sandbox.apiserver.status_errors import StatusError
from zonewise_sandbox.apiserver.storage.listing import MAX_SNAPSHOTS, Lister
from zonewise_sandbox.apiserver.storage.selectors import matcher, parse_labels
from zonewise_sandbox.apiserver.storage.store import Store, TooOld

PODS = POD.resource
NAMESPACED = Target(POD, "default")
OPTIONS = WriteOptions("test")


class Write(NamedTuple):
    verb: str
    name: str
    label: str


WRITES = st.lists(
    st.builds(Write, st.sampled_from(["create", "label", "delete"]), st.sampled_from("abc"), st.sampled_from("xyz")),
    max_size=25,
)


class World:
    """A store with one namespace, and writes to it."""

    def __init__(self, history: int = 1000) -> None:
        self.store = Store(history)
        registry = Registry()
        self.objects = RestStorage(self.store, registry)
        namespaces = registry.find("", "v1", "namespaces")
        assert namespaces is not None
        self.objects.create(Target(namespaces), {"metadata": {"name": "default"}}, OPTIONS)

    def write(self, write: Write) -> None:
        target = NAMESPACED._replace(name=write.name)
        labels = {"label": write.label}
        with contextlib.suppress(StatusError):  # the object exists already, or does not exist
            if write.verb == "create":
                containers = [{"name": "main", "image": "x"}]
                metadata = {"name": write.name, "labels": labels}
                self.objects.create(NAMESPACED, {"metadata": metadata, "spec": {"containers": containers}}, OPTIONS)
            elif write.verb == "label":
                self.objects.patch(target, lambda obj: relabelled(obj, labels), OPTIONS)
            else:
                self.objects.delete(target, DeleteOptions())

    def pods(self) -> dict[str, Any]:
        return {record.object["metadata"]["name"]: record.object for record in self.store.list(PODS)[0]}

    def events(self, since: int | None, selector: str = "") -> list[dict[str, Any]]:
        """Return the events of a watch from a version until there are no more."""
        test = matcher(parse_labels(selector), ())
        watch = Watch(self.store, POD, WatchOptions(since, 0.0, test=test), 60.0)
        lines = b"".join(watch.lines()).splitlines()
        return [msgspec.json.decode(line) for line in lines]


def relabelled(obj: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "labels": labels}}


def replay(known: dict[str, Any], events: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a caching client's objects after the events; fail on an event that cannot follow."""
    known = dict(known)
    for event in events:
        obj = event["object"]
        name = obj["metadata"]["name"]
        assert (name in known) == (event["type"] != "ADDED")
        if event["type"] == "DELETED":
            del known[name]
        else:
            known[name] = obj
    return known


@given(WRITES, WRITES)
def test_a_replay_of_the_events_is_the_store(before: list[Write], after: list[Write]) -> None:
    world = World()
    for write in before:
        world.write(write)
    known, since = world.pods(), world.store.version
    for write in after:
        world.write(write)
    assert replay(known, world.events(since)) == world.pods()
    assert replay({}, world.events(None)) == world.pods()


@given(WRITES, WRITES, st.sampled_from(["label=x", "label!=x", "label in (x,y)", "!label"]))
def test_a_replay_of_a_selection_is_the_selection(before: list[Write], after: list[Write], selector: str) -> None:
    world = World()
    test = matcher(parse_labels(selector), ())
    assert test is not None

    def chosen() -> dict[str, Any]:
        return {name: pod for name, pod in world.pods().items() if test(pod)}

    for write in before:
        world.write(write)
    known, since = chosen(), world.store.version
    for write in after:
        world.write(write)
    assert replay(known, world.events(since, selector)) == chosen()


@given(WRITES)
def test_versions_only_grow(writes: list[Write]) -> None:
    """Each event has a greater version than the one before, and the store has the version of the last event."""
    world = World()
    since = world.store.version
    versions = [since]
    for write in writes:
        world.write(write)
        versions.append(world.store.version)
    events = [int(event["object"]["metadata"]["resourceVersion"]) for event in world.events(since)]
    assert versions == sorted(versions)
    assert events == sorted(set(events))
    assert not events or events[-1] == world.store.version


@given(WRITES, st.integers(1, 5))
def test_a_short_history_has_all_events_or_an_error(writes: list[Write], history: int) -> None:
    """A watch from a version in the history misses nothing; a watch from an older one is rejected."""
    world = World(history)
    known = {world.store.version: world.pods()}
    for write in writes:
        world.write(write)
        known[world.store.version] = world.pods()
    for since, pods in known.items():
        events = world.events(since)
        if events and events[0]["type"] == "ERROR":
            assert events[0]["object"]["code"] == 410
            assert world.store.version - since > history - 1
        else:
            assert replay(pods, events) == world.pods()


def test_what_is_forgotten_cannot_be_watched() -> None:
    world = World()
    since = world.store.version
    world.write(Write("create", "a", "x"))
    world.store.forget()
    with pytest.raises(TooOld):
        world.store.subscribe(PODS, since)
    assert world.events(world.store.version) == []


@given(WRITES, st.integers(1, 4))
def test_pages_are_the_list(writes: list[Write], limit: int) -> None:
    world = World()
    for write in writes:
        world.write(write)
    lister = Lister(world.store)
    names: list[str] = []
    query = {"limit": str(limit)}
    while True:
        page = lister.list(POD, "default", query)
        assert len(page.records) <= limit
        names.extend(record.object["metadata"]["name"] for record in page.records)
        if not page.next:
            break
        query = {"limit": str(limit), "continue": page.next}
    assert names == sorted(world.pods())


def test_too_many_unfinished_lists_expire_the_oldest() -> None:
    world = World()
    for name in "ab":
        world.write(Write("create", name, "x"))
    lister = Lister(world.store)
    tokens = [lister.list(POD, "", {"limit": "1"}).next for _ in range(MAX_SNAPSHOTS + 1)]
    with pytest.raises(StatusError) as expired:
        lister.list(POD, "", {"limit": "1", "continue": tokens[0]})
    assert (expired.value.code, expired.value.reason) == (410, "Expired")
    assert len(lister.list(POD, "", {"limit": "1", "continue": tokens[1]}).records) == 1


def test_writers_at_once_lose_nothing() -> None:
    """Each of many threads adds to one object with optimistic locking; every acknowledged addition is in the object."""
    world = World()
    world.write(Write("create", "a", "x"))
    target = NAMESPACED._replace(name="a")
    added: list[str] = []

    def add(worker: int) -> None:
        for number in range(20):
            key = f"k{worker}-{number}"
            old = world.objects.get(target)
            labels = {**old["metadata"]["labels"], key: "1"}
            with contextlib.suppress(StatusError):  # a conflict
                world.objects.replace(target, relabelled(old, labels), OPTIONS)
                added.append(key)

    threads = [threading.Thread(target=add, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(world.pods()["a"]["metadata"]["labels"]) == {"label", *added}
