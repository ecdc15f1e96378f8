"""The informers while kinds appear and disappear; other threads may read their state at any time."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from support.waiting import PATIENCE, eventually
from zonewise_common.kube.errors import (
    ConfigError,
    Forbidden,
    Gone,
    NotFound,
    ServerError,
    TooManyRequests,
    TransportError,
)
from zonewise_common.kube.resources import (
    ALPHA_POD_GROUPS,
    IN_TREE_POD_GROUPS,
    JOBS,
    NODE_RESOURCE_TOPOLOGIES,
    POD_GROUPS,
    WORKLOADS,
)
from zonewise_common.kube.watch_failures import WatchFailures
from zonewise_scheduler.controller import informers
from zonewise_scheduler.controller.informers import ObjectInformers, WatchedKind, decode_object, watched_objects

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from zonewise_common.kube.resources import Resource


def test_a_kind_that_appears_while_the_state_is_read_does_not_affect_the_reader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_served, is_watched = threading.Event(), threading.Event()

    class SlowReflector:
        """The first of two kinds: reading its state takes until the second kind is watched."""

        age = 0.0

        def __init__(self, _client: object, resource: Resource, *_: object) -> None:
            self.resource = resource
            self.on_listing = None

        @property
        def has_synced(self) -> bool:
            is_served.set()
            return is_watched.wait(PATIENCE)

        def start(self) -> None:
            if self.resource == WORKLOADS:
                is_watched.set()

        def close(self, _timeout: float) -> None:
            pass

    def probe(_client: object, _resource: Resource) -> None:
        if not is_served.is_set():
            raise NotFound(404, "NotFound", "not served")

    monkeypatch.setattr(informers, "Reflector", SlowReflector)
    monkeypatch.setattr("zonewise_common.kube.probe.probe", probe)
    required, optional = ([watched_objects(each, print, print)] for each in (JOBS, WORKLOADS))
    with ObjectInformers(None, required, optional, probe_period=0.01) as watched:  # pyright: ignore[reportArgumentType]
        eventually(lambda: watched.unsynced == [])
        assert is_watched.is_set()
        assert watched.ages.keys() == {"jobs", "workloads"}


class Server:
    """An API server whose watches end at once, so that each state comes from a listing."""

    def __init__(self) -> None:
        self.objects: list[dict[str, Any]] = []
        self.version = 1
        self.failure: Exception | None = None
        self.wait: Callable[[], object] = lambda: None
        self.watch_failures = WatchFailures()

    def list(self, _resource: Resource, **_: object) -> tuple[list[object], str]:
        self._respond()
        return [], str(self.version)

    def list_raw(
        self, _resource: Resource, received: Callable[[msgspec.Raw], object], **_: object
    ) -> tuple[list[object], str]:
        self._respond()
        return [received(msgspec.Raw(msgspec.json.encode(obj))) for obj in self.objects], str(self.version)

    def watch(self, *_: object, **__: object) -> object:
        raise self.failure or Gone(410, "Expired", "too old")

    def _respond(self) -> None:
        self.wait()
        if self.failure is not None:
            raise self.failure


@pytest.mark.parametrize(
    "failure",
    [
        TransportError("connection refused"),
        TooManyRequests(429, "TooManyRequests", "too many requests, please try again later"),
        ServerError(503, "ServiceUnavailable", "the server is starting"),
        ConfigError("the token cannot be renewed"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_controller_that_starts_in_an_outage_waits_for_the_optional_kinds(failure: Exception) -> None:
    """Otherwise the controller would decide without LimitRanges, for example, until the next probe."""
    server = Server()
    server.failure = failure
    kinds = ([watched_objects(each, print, print)] for each in (JOBS, NODE_RESOURCE_TOPOLOGIES))
    with ObjectInformers(server, *kinds) as watched:  # pyright: ignore[reportArgumentType]
        assert "noderesourcetopologies" in watched.unsynced
        server.failure = None
        assert watched.wait_synced(threading.Event())
        assert watched.ages.keys() == {"jobs", "noderesourcetopologies"}


def test_an_api_server_that_does_not_respond_delays_neither_the_start_nor_a_stop() -> None:
    """The program must handle a signal meanwhile; each probe and each list waits for its timeout."""
    server, responds = Server(), threading.Event()
    server.wait = lambda: responds.wait(PATIENCE)
    kinds = ([watched_objects(each, print, print)] for each in (JOBS, NODE_RESOURCE_TOPOLOGIES))
    started = time.monotonic()
    with ObjectInformers(server, *kinds) as watched:  # pyright: ignore[reportArgumentType]
        assert watched.unsynced == ["noderesourcetopologies", "jobs"]
    assert time.monotonic() < started + PATIENCE / 2
    responds.set()
    eventually(lambda: not any("probes" in thread.name for thread in threading.enumerate()))
    assert list(watched.ages) == ["jobs"]


def test_a_failing_optional_kind_does_not_prevent_the_start_of_the_controller() -> None:
    """For example, a conversion webhook of the kind does not respond."""
    server = Server()
    server.failure = ServerError(500, "InternalError", "conversion webhook failed")
    optional = [watched_objects(NODE_RESOURCE_TOPOLOGIES, print, print)]
    with ObjectInformers(server, [], optional) as watched:  # pyright: ignore[reportArgumentType]
        assert watched.wait_synced(threading.Event())


def test_deletions_while_a_kind_may_not_be_read_are_reported_later() -> None:
    server = Server()
    server.objects = [named_object("a")]
    with watched_names(server) as (watched, names):
        eventually(lambda: names == {"a"})
        server.failure = Forbidden(403, "Forbidden", "the role is replaced")
        eventually(lambda: watched.ages["workloads"] > 0)
        server.objects, server.version, server.failure = [], 9, None
        eventually(lambda: not names)


def test_a_kind_that_may_not_be_listed_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    """For example, after an upgrade of the program without its new ClusterRole."""
    server = Server()
    requests: list[None] = []
    server.wait = lambda: requests.append(None)
    server.failure = Forbidden(403, "Forbidden", "no rule allows it")
    with watched_names(server) as (watched, _names):
        assert watched.wait_synced(threading.Event())
        eventually(lambda: len(requests) > 3)
        server.failure = None
        eventually(lambda: "workloads" in watched.ages)
    [warning] = [record.getMessage() for record in caplog.records if "ignored" in record.getMessage()]
    assert warning.startswith("workloads.kueue.x-k8s.io are ignored until they may be listed: ")
    assert "no rule allows it" in warning


def test_deletions_while_a_kind_is_not_served_are_reported_later() -> None:
    """For example, a CustomResourceDefinition is replaced, or one of several API servers lags behind."""
    server = Server()
    server.objects = [named_object("a"), named_object("b")]
    with watched_names(server) as (watched, names):
        eventually(lambda: names == {"a", "b"})
        server.failure = NotFound(404, "NotFound", "not served")
        eventually(lambda: "workloads" not in watched.ages)
        server.objects, server.version, server.failure = [named_object("b")], 9, None
        eventually(lambda: names == {"b"})


class VersionServer(Server):
    """A server that serves some versions of PodGroups."""

    def __init__(self, *served: Resource) -> None:
        super().__init__()
        self.served = frozenset(served)

    def list(self, resource: Resource, **fields: object) -> tuple[list[object], str]:
        self._check(resource)
        return super().list(resource, **fields)

    def list_raw(
        self, resource: Resource, received: Callable[[msgspec.Raw], object], **fields: object
    ) -> tuple[list[object], str]:
        self._check(resource)
        return super().list_raw(resource, received, **fields)

    def _check(self, resource: Resource) -> None:
        if resource not in self.served:
            raise NotFound(404, "NotFound", "not served")


def test_the_version_that_an_upgraded_or_downgraded_server_serves_is_watched() -> None:
    """Objects state their version; those that are deleted meanwhile are reported."""
    server = VersionServer(ALPHA_POD_GROUPS)
    server.objects = [named_object("a"), named_object("b")]
    groups: dict[str, str] = {}

    def handle(old: Any, new: Any) -> None:
        name = (new or old)["metadata"]["name"]
        groups.pop(name, None)
        if new is not None:
            groups[name] = new["apiVersion"]

    kind = WatchedKind(IN_TREE_POD_GROUPS, decode_object, handle, older=(ALPHA_POD_GROUPS,))
    alpha, beta = "scheduling.k8s.io/v1alpha2", "scheduling.k8s.io/v1beta1"
    with ObjectInformers(server, [], [kind], probe_period=0.01) as watched:  # pyright: ignore[reportArgumentType]
        eventually(lambda: groups == {"a": alpha, "b": alpha})
        server.served = frozenset({ALPHA_POD_GROUPS, IN_TREE_POD_GROUPS})
        eventually(lambda: groups == {"a": beta, "b": beta})
        server.objects, server.version = [named_object("b")], 9
        server.served = frozenset({ALPHA_POD_GROUPS})
        eventually(lambda: groups == {"b": alpha})
        server.served = frozenset()
        eventually(lambda: not watched.ages)
        assert groups == {"b": alpha}
        server.objects, server.version = [], 10
        server.served = frozenset({IN_TREE_POD_GROUPS})
        eventually(lambda: not groups)
        assert watched.wait_synced(threading.Event())


@pytest.mark.parametrize("stale", [POD_GROUPS, IN_TREE_POD_GROUPS])
def test_a_kind_that_is_not_current_is_reported_even_if_another_has_the_same_plural(
    stale: Resource, monkeypatch: pytest.MonkeyPatch
) -> None:
    class AgedReflector:
        """The copy of one kind is not current."""

        def __init__(self, _client: object, resource: Resource, *_: object) -> None:
            self.age = 5.0 if resource == stale else 0.0
            self.on_listing = None

        def start(self) -> None:
            pass

        def close(self, _timeout: float) -> None:
            pass

    monkeypatch.setattr(informers, "Reflector", AgedReflector)
    kinds = [watched_objects(each, print, print) for each in (POD_GROUPS, IN_TREE_POD_GROUPS)]
    with ObjectInformers(Server(), kinds, []) as watched:  # pyright: ignore[reportArgumentType]
        assert watched.ages == {"podgroups": 5.0}


def named_object(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1"}}


@contextmanager
def watched_names(server: Server) -> Generator[tuple[ObjectInformers, set[str]]]:
    """Watch Workloads as an optional kind; yield the names of those that exist according to the reported changes."""
    names: set[str] = set()

    def handle(old: Any, new: Any) -> None:
        (names.discard if new is None else names.add)((new or old)["metadata"]["name"])

    kind = WatchedKind(WORKLOADS, decode_object, handle)
    with ObjectInformers(server, [], [kind], probe_period=0.01) as watched:  # pyright: ignore[reportArgumentType]
        yield watched, names
