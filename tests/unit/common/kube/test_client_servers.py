"""The client with servers other than scripted ones: the embedded one and a real kube-apiserver."""

from __future__ import annotations

import contextlib
import random
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from support.apiserver import RealServer, real_server
from support.kube_faults import as_dict
from support.waiting import PATIENCE, eventually
from zonewise_common.kube.backoff import Backoff
from zonewise_common.kube.client import Client, PatchKind
from zonewise_common.kube.config import Config
from zonewise_common.kube.errors import AlreadyExists, Conflict, Gone, Invalid, NotFound, TransportError, Unauthorized
from zonewise_common.kube.leaderelection import LeaderElector, LeaseTimes
from zonewise_common.kube.reflector import Reflector, Selection, WatchTimes
from zonewise_common.kube.resources import LEASES, NAMESPACES, NODES, PODS
from zonewise_sandbox.apiserver import ApiServer

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["real_server"]

Object = dict[str, Any]


class Site(NamedTuple):
    """A server, and a namespace on it."""

    client: Client
    config: Config
    namespace: str


@pytest.fixture(scope="module")
def embedded() -> Generator[ApiServer]:
    with ApiServer(token="embedded") as server:  # noqa: S106 -- of this test
        yield server


@pytest.fixture(params=["embedded", "real"])
def site(request: pytest.FixtureRequest) -> Generator[Site]:
    if request.param == "embedded":
        server: ApiServer = request.getfixturevalue("embedded")
        config, namespace = server.client_config(), f"test-{random.randrange(1 << 40)}"
        Client(config).create(NAMESPACES, {"metadata": {"name": namespace}})
    else:
        real: RealServer = request.getfixturevalue("real_server")
        config, namespace = Config.from_url(real.url, real.token, ca=real.ca), real.new_namespace()
    client = Client(config)
    yield Site(client, config, namespace)
    client.close()


def ignore(*_: object) -> None:
    """Ignore any change."""


def pod(name: str, **labels: str) -> Object:
    return {"metadata": {"name": name, "labels": labels}, "spec": {"containers": [{"name": "main", "image": "none"}]}}


def test_the_life_of_an_object(site: Site) -> None:
    """Each verb has its effect, and its failures raise the package's errors."""
    client, namespace = site.client, site.namespace
    with pytest.raises(NotFound) as absent:
        client.get(PODS, "web", namespace=namespace)
    assert (absent.value.reason, absent.value.details["name"]) == ("NotFound", "web")
    client.create(PODS, pod("web"), namespace=namespace, dry_run=True)
    created = client.create(PODS, pod("web"), namespace=namespace)
    with pytest.raises(AlreadyExists):
        client.create(PODS, pod("web"), namespace=namespace)
    patched = client.patch(PODS, "web", {"metadata": {"labels": {"a": "b"}}}, kind=PatchKind.MERGE, namespace=namespace)
    assert patched["metadata"]["labels"] == {"a": "b"}
    with pytest.raises(Conflict):
        client.replace(PODS, created)
    with pytest.raises(Conflict):
        client.delete(PODS, "web", namespace=namespace, uid="another")
    client.delete(PODS, "web", namespace=namespace, uid=created["metadata"]["uid"])


def test_apply(site: Site) -> None:
    """An omitted field that the manager applied before is removed. Another manager's field conflicts unless forced."""
    client, name = site.client, f"{site.namespace}-node"
    first = client.apply(NODES, {"metadata": {"name": name, "labels": {"a": "1", "b": "1"}}}, field_manager="one")
    assert first["metadata"]["labels"] == {"a": "1", "b": "1"}
    second = client.apply(NODES, {"metadata": {"name": name, "labels": {"a": "1"}}}, field_manager="one")
    assert second["metadata"]["labels"] == {"a": "1"}
    applied = {"metadata": {"name": name, "labels": {"a": "2"}}}
    with pytest.raises(Conflict):
        client.apply(NODES, applied, field_manager="two", force=False)
    assert client.apply(NODES, applied, field_manager="two")["metadata"]["labels"] == {"a": "2"}
    with pytest.raises(Invalid):
        client.apply(NODES, {"metadata": {"name": name, "labels": {"a": "not a label!"}}}, field_manager="two")
    client.delete(NODES, name)


def test_a_rejected_token(site: Site) -> None:
    """An invalid token raises Unauthorized."""
    stranger = Client(Config.from_url(site.config.url, "another", ca=site.config.ca))
    with pytest.raises(Unauthorized):
        stranger.list(NODES)
    stranger.close()


def test_pages_and_selectors(site: Site) -> None:
    """A list in pages of two returns all objects."""
    for number in range(7):
        site.client.create(PODS, pod(f"p{number}", even=str(number % 2 == 0)), namespace=site.namespace)
    listed = site.client.list(PODS, namespace=site.namespace, page=2)
    assert [item["metadata"]["name"] for item in listed.items] == [f"p{number}" for number in range(7)]
    even = site.client.list(PODS, namespace=site.namespace, label_selector="even=True", page=3)
    assert len(even.items) == 4
    listed_pod = site.client.list(PODS, namespace=site.namespace, field_selector="metadata.name=p3")
    assert [item["metadata"]["name"] for item in listed_pod.items] == ["p3"]


def test_writers_that_race(site: Site) -> None:
    """A write that would undo another writer's change is a conflict. Writers that retry lose no change."""
    site.client.create(PODS, pod("race", count="0"), namespace=site.namespace)

    def add() -> bool:
        objects = site.client.get(PODS, "race", namespace=site.namespace)
        objects["metadata"]["labels"]["count"] = str(int(objects["metadata"]["labels"]["count"]) + 1)
        try:
            site.client.replace(PODS, objects)
        except Conflict:
            return False
        return True

    def add_five() -> None:
        for _ in range(5):
            eventually(add)

    threads = [threading.Thread(target=add_five) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert site.client.get(PODS, "race", namespace=site.namespace)["metadata"]["labels"]["count"] == "20"


def test_a_copy_follows(site: Site) -> None:
    """After many writes, the copy equals the server's state, and so does a state computed only from the changes."""
    heard: dict[str, Object] = {}

    def hear(old: Object | None, new: Object | None) -> None:
        obj = old or new
        assert obj is not None
        assert heard.pop(obj["metadata"]["name"], None) == old
        if new is not None:
            heard[new["metadata"]["name"]] = new

    chance = random.Random(7)
    times = WatchTimes(watch_timeout=(1, 2), healthy_after=0.5, backoff=Backoff(0.001, 0.01))
    reflector = Reflector(
        site.client, PODS, as_dict, hear, selection=Selection(site.namespace, "copy=yes"), times=times
    )
    reflector.start()
    for _ in range(120):
        name = f"p{chance.randrange(8)}"
        try:
            site.client.create(PODS, pod(name, copy="yes"), namespace=site.namespace)
        except AlreadyExists:
            copy = {"metadata": {"labels": {"copy": chance.choice(["yes", "no"]), "n": str(chance.random())}}}
            if chance.random() < 0.3:
                site.client.delete(PODS, name, namespace=site.namespace)
            else:
                site.client.patch(PODS, name, copy, kind=PatchKind.MERGE, namespace=site.namespace)

    def state() -> dict[str, str]:
        objects = site.client.list(PODS, namespace=site.namespace, label_selector="copy=yes").items
        return {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in objects}

    def versions(items: list[Object]) -> dict[str, str]:
        return {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in items}

    expected = state()
    eventually(lambda: versions(reflector.values()) == expected)
    eventually(lambda: versions(list(heard.values())) == expected)
    reflector.close()


def test_a_version_that_is_too_old(embedded: ApiServer) -> None:
    """A watch from a version that the server has forgotten raises Gone, from an event or from a status."""
    client = Client(embedded.client_config())
    client.create(NODES, {"metadata": {"name": "early"}})
    version = client.list(NODES).resource_version
    client.create(NODES, {"metadata": {"name": "late"}})
    embedded.forget_history()
    with pytest.raises(Gone), client.watch(NODES, resource_version=version, seconds=1) as watch:
        list(watch)
    client.close()


def test_two_electors_of_one_lease(site: Site) -> None:
    """One elector leads; when it resigns, the other one leads, and the Lease names it."""
    client = Client(site.config, timeout=4.0)
    leads = threading.Event()
    first, second = (
        LeaderElector(
            client, namespace=site.namespace, name="lead", identity=identity, times=LeaseTimes(15, 10, 0.05),
            on_started_leading=leads.set, on_stopped_leading=leads.clear,
        )
        for identity in ("one", "two")
    )  # fmt: skip
    first.start()
    assert leads.wait(PATIENCE)
    second.start()
    first.close()
    eventually(lambda: second.is_leader)
    lease = client.get(LEASES, "lead", namespace=site.namespace)
    assert (lease["spec"]["holderIdentity"], lease["spec"]["leaseTransitions"]) == ("two", 1)
    second.close()
    assert client.get(LEASES, "lead", namespace=site.namespace)["spec"].get("holderIdentity") is None
    client.close()


def test_a_server_that_breaks_and_forgets(embedded: ApiServer) -> None:
    """After broken connections and a forgotten history, the copy is still correct."""
    client = Client(embedded.client_config())
    times = WatchTimes(healthy_after=30, backoff=Backoff(0.001, 0.01))
    reflector = Reflector(client, NODES, as_dict, ignore, times=times)
    reflector.start()
    assert reflector.wait_synced(PATIENCE)
    for number, fault in enumerate((embedded.disconnect, embedded.end_watches, embedded.forget_history) * 2):
        with contextlib.suppress(TransportError):  # the connection in the pool may be among the broken ones
            client.create(NODES, {"metadata": {"name": f"fault-{number}"}})
        fault()
    expected = {item["metadata"]["name"] for item in client.list(NODES).items}
    eventually(lambda: {item["metadata"]["name"] for item in reflector.values()} == expected)
    reflector.close()
    client.close()
