"""The requests of each verb, and their results."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from support.kube_faults import ScriptedServer, give, pod, pods, refuse, watch_once
from support.waiting import PATIENCE
from zonewise_common.kube.client import Client, PatchKind
from zonewise_common.kube.config import Config
from zonewise_common.kube.errors import AlreadyExists, ApiError, BadResponse, Conflict, Gone
from zonewise_common.kube.resources import NODE_RESOURCE_TOPOLOGIES, NODES, PODS, TOKEN_REVIEWS

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from support.kube_faults import Answer

NRT = {"apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology", "metadata": {"name": "n1"}}


class Meta(msgspec.Struct):
    name: str


class Named(msgspec.Struct):
    metadata: Meta
    count: int = 0


@contextlib.contextmanager
def serving(*responses: Answer) -> Generator[tuple[Client, ScriptedServer]]:
    with ScriptedServer(responses) as server:
        client = Client(Config.from_url(server.url + "/behind/a/proxy/"), timeout=PATIENCE)
        yield client, server
        client.close()


WEB = {"metadata": {"name": "web", "namespace": "default"}}
VERBS: list[tuple[Callable[[Client], Any], str, str, dict[str, str], str, Any]] = [
    (lambda c: c.get(NODES, "n1"), "GET", "/api/v1/nodes/n1", {}, "", None),
    (
        lambda c: c.create(PODS, WEB, dry_run=True),
        "POST", "/api/v1/namespaces/default/pods", {"dryRun": "All"}, "application/json", WEB,
    ),
    (
        lambda c: c.create(PODS, WEB, subresource="binding"),
        "POST", "/api/v1/namespaces/default/pods/web/binding", {}, "application/json", WEB,
    ),
    (
        lambda c: c.create(TOKEN_REVIEWS, {"spec": {"token": "x"}}),
        "POST", "/apis/authentication.k8s.io/v1/tokenreviews", {}, "application/json", {"spec": {"token": "x"}},
    ),
    (
        lambda c: c.replace(PODS, WEB, namespace="other", subresource="status"),
        "PUT", "/api/v1/namespaces/other/pods/web/status", {}, "application/json", WEB,
    ),
    (
        lambda c: c.apply(NODE_RESOURCE_TOPOLOGIES, {"metadata": {"name": "n1"}}, field_manager="me"),
        "PATCH", "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/n1",
        {"fieldManager": "me", "force": "true"}, "application/apply-patch+yaml", NRT,
    ),
    (
        lambda c: c.patch(NODES, "n1", [{"op": "remove", "path": "/x"}], kind=PatchKind.JSON, field_manager="me"),
        "PATCH", "/api/v1/nodes/n1", {"fieldManager": "me"}, "application/json-patch+json",
        [{"op": "remove", "path": "/x"}],
    ),
    (
        lambda c: c.patch(NODES, "n1", {"a": None}, kind=PatchKind.MERGE),
        "PATCH", "/api/v1/nodes/n1", {}, "application/merge-patch+json", {"a": None},
    ),
    (
        lambda c: c.patch(PODS, "web", {"a": 1}, kind=PatchKind.STRATEGIC, namespace="default", subresource="status"),
        "PATCH", "/api/v1/namespaces/default/pods/web/status", {}, "application/strategic-merge-patch+json", {"a": 1},
    ),
    (lambda c: c.delete(NODES, "n1"), "DELETE", "/api/v1/nodes/n1", {}, "", None),
    (
        lambda c: c.delete(NODES, "n1", uid="u", resource_version="7"),
        "DELETE", "/api/v1/nodes/n1", {}, "application/json", {"preconditions": {"uid": "u", "resourceVersion": "7"}},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("act", "method", "path", "query", "kind", "body"), VERBS)
def test_verbs(
    act: Callable[[Client], Any], method: str, path: str, query: dict[str, str], kind: str, body: Any
) -> None:
    """Method, path below the server's own, query, content type and body of each verb."""
    with serving(give(200, pod("x", 1))) as (client, server):
        act(client)
        (request,) = server.requests
    assert (request.method, request.path, request.query) == (method, "/behind/a/proxy" + path, query)
    assert request.headers.get("content-type", "") == kind
    assert (request.json if request.body else None) == body
    assert request.headers["user-agent"].startswith("zonewise/")


def test_paging() -> None:
    """The client follows continue tokens to the end; the version is that of the last page."""
    responses = [give(200, pods(7, pod("a", 1), more="t 1&")), give(200, pods(7, pod("b", 2)))]
    with serving(*responses) as (client, server):
        listed = client.list(PODS, namespace="default", label_selector="a=b,c!=d", field_selector="x=y", page=1)
        assert [item["metadata"]["name"] for item in listed.items] == ["a", "b"]
        assert listed.resource_version == "7"
        first, second = server.requests
    assert first.query == {"limit": "1", "labelSelector": "a=b,c!=d", "fieldSelector": "x=y"}
    assert second.query == {**first.query, "continue": "t 1&"}


def test_paging_that_is_overtaken() -> None:
    """If the server forgets the state between pages, the client lists again without pages; no object occurs twice."""
    responses = [
        give(200, pods(7, pod("a", 1), more="t")),
        refuse(410, "Expired"),
        give(200, pods(9, pod("a", 1), pod("b", 8))),
    ]
    with serving(*responses) as (client, server):
        listed = client.list(PODS, page=1)
        assert [item["metadata"]["name"] for item in listed.items] == ["a", "b"]
        assert listed.resource_version == "9"
        assert server.requests[2].query == {}


def test_paging_that_is_always_overtaken() -> None:
    """If the server responds with 410 to a list without pages too, there is no third attempt."""
    with serving(refuse(410, "Expired")) as (client, server):
        with pytest.raises(Gone):
            client.list(PODS)
        assert len(server.requests) == 2


def test_no_items() -> None:
    """Go writes an empty list as null."""
    with serving(give(200, {"metadata": {"resourceVersion": "3"}, "items": None})) as (client, _):
        assert client.list(NODES) == ([], "3", ())


def test_structs() -> None:
    """Objects decode into the caller's type. An object that does not decode is named; the others are returned."""
    responses = [give(200, pod("x", 1)), give(200, pods(9, pod("a", 1, count=3), pod("b", 2, count="many")))]
    with serving(*responses) as (client, _):
        assert client.get(PODS, "x", namespace="default", into=Named) == Named(Meta("x"))
        listed = client.list(PODS, into=Named)
    assert listed.items == [Named(Meta("a"), 3)]
    assert listed.problems == ("Pod default/b is left out: Expected `int`, got `str` - at `$.count`",)


def test_a_response_of_another_type() -> None:
    """A single object that does not decode raises an error that names the field."""
    failed = pytest.raises(BadResponse, match=r"does not fit Named.*\$\.count")
    with serving(give(200, pod("x", 1, count="many"))) as (client, _), failed:
        client.get(PODS, "x", namespace="default", into=Named)


def test_failures_are_errors() -> None:
    """Every verb raises the server's error."""
    with serving(refuse(409, "AlreadyExists"), refuse(409, "Conflict"), refuse(418, "Teapot")) as (client, _):
        with pytest.raises(AlreadyExists):
            client.create(NODES, {"metadata": {"name": "n"}})
        with pytest.raises(Conflict):
            client.replace(NODES, {"metadata": {"name": "n"}})
        with pytest.raises(ApiError, match="418 Teapot: no"):
            client.delete(NODES, "n")


def test_nothing_is_sent_without_a_name() -> None:
    """A verb for one object never becomes a request for all objects."""
    with serving(give(200, {})) as (client, server):
        for act in (
            lambda: client.delete(NODES, ""),
            lambda: client.get(NODES, ""),
            lambda: client.replace(NODES, {"metadata": {}}),
            lambda: client.patch(NODES, "", {}, kind=PatchKind.MERGE),
            lambda: client.create(PODS, {"metadata": {"name": "web"}}),
            lambda: client.delete(PODS, "web"),
        ):
            with pytest.raises(ValueError, match=r"without|missing"):
                act()
        assert server.requests == []


def test_a_watch_is_closed_by_its_context() -> None:
    """A watch that was read to its end returns its connection to the pool or closes it."""
    with ScriptedServer([give(200, pod("x", 1))], [watch_once()]) as server:
        client = Client(Config.from_url(server.url))
        with client.watch(PODS, resource_version="5", seconds=7) as watch:
            assert list(watch) == []
        assert server.watches[0].query["timeoutSeconds"] == "7"
        client.close()
