"""The whole server beyond the contract tests with the real one: options, controllers, command, and wire."""

from __future__ import annotations

import contextlib
import http.client
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
import urllib3
import yaml

from support.api import Api
from support.clock import Clock
from support.clusters import GROUP, config_map, definition, embedded_server, pod, version_of, widget
from support.waiting import PATIENCE, eventually
from zonewise_sandbox.apiserver import ApiServer

if TYPE_CHECKING:
    from pathlib import Path

    from zonewise_sandbox.apiserver.storage.store import Resource

__all__ = ["embedded_server"]

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
RIGHT = "right"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@pytest.fixture
def server() -> Any:
    with ApiServer() as one:
        yield one


@pytest.fixture
def api(server: ApiServer) -> Api:
    return Api(server.url)


def owned(name: str, *owners: dict[str, Any]) -> dict[str, Any]:
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        for owner in owners
    ]
    return {"metadata": {"name": name, "ownerReferences": references}}


def test_times_are_those_of_its_clock() -> None:
    """Objects, ages in tables, and responses have the clock's times."""
    clock = Clock(1_000_000_000.0)
    with ApiServer(clock=clock) as server:
        api = Api(server.url)
        made = api.post(MAPS, config_map("one")).ok()
        assert made["metadata"]["creationTimestamp"] == "2001-09-09T01:46:40Z"
        clock.advance(300.0)
        table = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
        assert api.get(MAPS, _headers=table).ok()["rows"][0]["cells"] == ["one", "5m"]
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        connection.request("GET", MAPS)
        assert connection.getresponse().headers["Date"] == "Sun, 09 Sep 2001 01:51:40 GMT"
        connection.close()


def test_objects_are_created_without_requests(server: ApiServer, api: Api) -> None:
    server.create("", "configmaps", {"metadata": {"name": "one", "namespace": "default"}, "data": {"a": "1"}})
    assert api.get(f"{MAPS}/one").ok()["data"] == {"a": "1"}
    server.change(
        "", "namespaces", "default", lambda old: {**old, "metadata": {**old["metadata"], "labels": {"b": "2"}}}
    )
    assert api.get("/api/v1/namespaces/default").ok()["metadata"]["labels"]["b"] == "2"
    with pytest.raises(LookupError, match=r"no kind widgets of the group example\.com is served"):
        server.create("example.com", "widgets", {"metadata": {"name": "one"}})


# --- authorization


def test_a_required_token() -> None:
    with ApiServer(token=RIGHT) as server:
        Api(server.url, RIGHT).get(MAPS).ok()
        Api(server.url, "wrong").get(MAPS).refused(401, "Unauthorized")
        Api(server.url).get(MAPS).refused(401, "Unauthorized")
        body = {"spec": {"token": RIGHT}}
        created = Api(server.url, RIGHT).post(REVIEWS, body).ok()
        assert created["status"]["user"]["username"] == "admin"


def test_reviews_are_evaluated_by_functions() -> None:
    users = {"t1": {"username": "prometheus", "groups": ["system:authenticated"]}}
    with ApiServer(token_reviewer=users.get, access_reviewer=lambda spec: spec["user"] == "prometheus") as server:
        api = Api(server.url)
        status = api.post(REVIEWS, {"spec": {"token": "t1"}}).ok()["status"]
        assert (status["authenticated"], status["user"]) == (True, users["t1"])
        assert "authenticated" not in api.post(REVIEWS, {"spec": {"token": "t2"}}).ok()["status"]
        allowed = [
            api.post(ACCESS, {"spec": {"user": user}}).ok()["status"]["allowed"] for user in ("prometheus", "other")
        ]
        assert allowed == [True, False]


# --- definitions


def test_definitions_are_read_from_files(tmp_path: Path) -> None:
    """Other documents in the files are ignored."""
    file = tmp_path / "crds.yaml"
    file.write_text(yaml.safe_dump_all([config_map("other"), definition(), definition("gadgets", namespaced=False)]))
    with ApiServer(crds=[file]) as server:
        api = Api(server.url)
        api.post(f"/apis/{GROUP}/v1/namespaces/default/widgets", widget("one")).ok()
        api.post(f"/apis/{GROUP}/v1/gadgets", widget("one", "Gadget")).ok()
        api.get(MAPS + "/other").refused(404, "NotFound")


def test_versions_differ_only_in_their_name(api: Api) -> None:
    """An object that was written in one version is read, listed and watched in the other."""
    body = definition()
    body["spec"]["versions"].append({**body["spec"]["versions"][0], "name": "v2", "storage": False})
    api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body).ok()
    old, new = (f"/apis/{GROUP}/{version}/namespaces/default/widgets" for version in ("v1", "v2"))
    api.post(old, widget("one")).ok()
    assert api.get(f"{new}/one").ok()["apiVersion"] == f"{GROUP}/v2"
    assert [item["apiVersion"] for item in api.get(new).ok()["items"]] == [f"{GROUP}/v2"]
    with api.watch(new) as events:
        assert next(events)["object"]["apiVersion"] == f"{GROUP}/v2"
    created = api.patch(f"{new}/one", {"spec": {"size": 2}}).ok()
    assert (created["apiVersion"], created["metadata"]["generation"]) == (f"{GROUP}/v2", 2)


# --- history


def test_a_dropped_history_is_expired(server: ApiServer, api: Api) -> None:
    """An earlier watch gets an event, and a continued list gets a status; both are 410 Expired."""
    for name in "abc":
        api.post(MAPS, config_map(name)).ok()
    listed = api.get(MAPS, limit=1).ok()["metadata"]
    api.post(MAPS, config_map("d")).ok()
    server.forget_history()
    with api.watch(MAPS, resourceVersion=listed["resourceVersion"]) as events:
        (event,) = events
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
    api.get(MAPS, limit=1, **{"continue": listed["continue"]}).refused(410, "Expired")
    api.get(MAPS, resourceVersion="1", resourceVersionMatch="Exact").refused(410, "Expired")
    assert len(api.get(MAPS).ok()["items"]) == 4


def test_the_history_is_bounded() -> None:
    with ApiServer(history=3) as server:
        api = Api(server.url)
        since = [api.post(MAPS, config_map(f"c{number}")).ok()["metadata"]["resourceVersion"] for number in range(5)]
        with api.watch(MAPS, resourceVersion=since[0], timeoutSeconds=1) as events:
            assert next(events)["type"] == "ERROR"
        with api.watch(MAPS, resourceVersion=since[1], timeoutSeconds=1) as events:
            assert next(events)["object"]["metadata"]["name"] == "c2"


def test_bookmarks_have_the_version_of_an_idle_watch() -> None:
    with ApiServer(bookmark_interval=0.05) as server:
        api = Api(server.url)
        since = api.post(MAPS, config_map("one")).ok()["metadata"]["resourceVersion"]
        with api.watch(MAPS, resourceVersion=since, allowWatchBookmarks="true") as events:
            for event in events:
                assert event["type"] == "BOOKMARK"
                assert event["object"]["kind"] == "ConfigMap"
                assert version_of(event["object"]) >= int(since)
                break


def test_a_last_bookmark_comes_before_the_end(api: Api) -> None:
    """The bookmark is sent two seconds before the end, so that the next watch begins where this one ends."""
    since = api.post(MAPS, config_map("one")).ok()["metadata"]["resourceVersion"]
    with api.watch(MAPS, resourceVersion=since, allowWatchBookmarks="true", timeoutSeconds=3) as events:
        assert next(events)["type"] == "BOOKMARK"


# --- controllers


def test_dependents_go_with_their_owner(api: Api) -> None:
    owner = api.post(MAPS, config_map("owner")).ok()
    child = api.post(MAPS, owned("child", owner)).ok()
    api.post(MAPS, owned("grandchild", child)).ok()
    api.post(MAPS, config_map("stranger")).ok()
    api.delete(f"{MAPS}/owner").ok()
    assert [item["metadata"]["name"] for item in api.get(MAPS).ok()["items"]] == ["stranger"]


def test_a_dependent_remains_while_it_has_an_owner(api: Api) -> None:
    one, two = (api.post(MAPS, config_map(name)).ok() for name in ("one", "two"))
    api.post(MAPS, owned("child", one, two)).ok()
    api.delete(f"{MAPS}/one").ok()
    left = api.get(f"{MAPS}/child").ok()["metadata"]["ownerReferences"]
    assert [reference["name"] for reference in left] == ["two"]
    api.delete(f"{MAPS}/two").ok()
    api.get(f"{MAPS}/child").refused(404, "NotFound")


def test_a_dependent_of_a_deleted_owner_is_deleted(api: Api) -> None:
    """The owner's controller had not observed the deletion yet; the owner's other dependents were orphaned."""
    gone, stays = (api.post(MAPS, config_map(name)).ok() for name in ("gone", "stays"))
    api.delete(f"{MAPS}/gone", propagationPolicy="Orphan").ok()
    api.post(MAPS, owned("late", gone)).ok()
    api.get(f"{MAPS}/late").refused(404, "NotFound")
    body = owned("tracked", gone)
    body["metadata"]["finalizers"] = ["example.com/a"]
    api.post(MAPS, body).ok()
    assert "deletionTimestamp" in api.get(f"{MAPS}/tracked").ok()["metadata"]
    api.post(MAPS, owned("shared", gone, stays)).ok()
    left = api.get(f"{MAPS}/shared").ok()["metadata"]["ownerReferences"]
    assert [reference["name"] for reference in left] == ["stays"]


def test_orphans_remain(api: Api) -> None:
    owner = api.post(MAPS, config_map("owner")).ok()
    api.post(MAPS, owned("child", owner)).ok()
    api.delete(f"{MAPS}/owner", propagationPolicy="Orphan").ok()
    assert "ownerReferences" not in api.get(f"{MAPS}/child").ok()["metadata"]


def test_a_dependent_with_a_finalizer_waits(api: Api) -> None:
    owner = api.post(MAPS, config_map("owner")).ok()
    body = owned("child", owner)
    body["metadata"]["finalizers"] = ["example.com/a"]
    api.post(MAPS, body).ok()
    api.delete(f"{MAPS}/owner").ok()
    assert "deletionTimestamp" in api.get(f"{MAPS}/child").ok()["metadata"]


def test_owners_in_a_cycle_are_deleted_together(api: Api) -> None:
    one = api.post(MAPS, config_map("one")).ok()
    two = api.post(MAPS, owned("two", one)).ok()
    api.patch(f"{MAPS}/one", owned("one", two)).ok()
    api.delete(f"{MAPS}/one").ok()
    assert api.get(MAPS).ok()["items"] == []


def test_a_namespace_is_emptied_and_goes(api: Api) -> None:
    api.post("/api/v1/namespaces", {"metadata": {"name": "new"}}).ok()
    api.post("/api/v1/namespaces/new/pods", pod("one", nodeName="node-1")).ok()
    api.post("/api/v1/namespaces/new/configmaps", config_map("one")).ok()
    api.delete("/api/v1/namespaces/new").ok()
    api.get("/api/v1/namespaces/new").refused(404, "NotFound")
    api.post("/api/v1/namespaces", {"metadata": {"name": "new"}}).ok()
    assert api.get("/api/v1/namespaces/new/pods").ok()["items"] == []


def test_a_namespace_waits_for_its_last_finalizer(api: Api) -> None:
    api.post("/api/v1/namespaces", {"metadata": {"name": "new"}}).ok()
    path = "/api/v1/namespaces/new/configmaps"
    api.post(path, {"metadata": {"name": "one", "finalizers": ["example.com/a"]}}).ok()
    api.delete("/api/v1/namespaces/new").ok()
    assert api.get("/api/v1/namespaces/new").ok()["status"]["phase"] == "Terminating"
    api.patch(f"{path}/one", {"metadata": {"finalizers": None}}).ok()
    api.get("/api/v1/namespaces/new").refused(404, "NotFound")


# --- connections


def test_a_connection_is_reused(server: ApiServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    for _ in range(3):
        connection.request("GET", "/version")
        used = connection.sock
        response = connection.getresponse()
        assert (response.status, response.version) == (200, 11)
        response.read()
        assert connection.sock is used
    connection.close()


@pytest.mark.parametrize("query", ["", "?watch=true"])
def test_a_watch_ends_with_the_server(query: str) -> None:
    with ApiServer() as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.request("GET", MAPS + query)
            response = connection.getresponse()
            server.close()
            response.read()


def test_a_watch_that_begins_while_the_server_stops_ends_in_good_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch subscribes after all others were ended, so it learns of the end from its connection."""
    with ApiServer() as server, contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port)) as connection:
        store, ended = server.store, threading.Event()
        end, subscribe = store.end_subscriptions, store.subscribe
        monkeypatch.setattr(store, "end_subscriptions", lambda: (end(), ended.set()))

        def subscribe_late(resource: Resource, since: int | None) -> object:
            ended.wait(PATIENCE)
            return subscribe(resource, since)

        monkeypatch.setattr(store, "subscribe", subscribe_late)
        connection.request("GET", f"{MAPS}?watch=true")
        response = connection.getresponse()
        server.close()
        assert response.read() == b""


def test_watches_are_ended_in_good_order(server: ApiServer, api: Api) -> None:
    with api.watch(MAPS, resourceVersion=str(server.store.version)) as events:
        threading.Timer(0.05, server.end_watches).start()
        assert list(events) == []
    api.get(MAPS).ok()


def test_connections_break_and_can_be_made_again(server: ApiServer, api: Api) -> None:
    with api.watch(MAPS, resourceVersion=str(server.store.version)) as events:
        server.disconnect()
        with pytest.raises((urllib3.exceptions.ProtocolError, OSError)):
            list(events)
    Api(server.url).get(MAPS).ok()


def test_a_disconnected_client_leaves_no_watch(server: ApiServer) -> None:
    before = threading.active_count()
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("GET", f"{MAPS}?watch=true")
    connection.getresponse()
    connection.close()
    assert connection.sock is None
    eventually(lambda: threading.active_count() <= before)


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"GET /version HTTP/1.1\r\nno colon here\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: many\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 500 + b"\r\n",
        b"",
    ],
)
def test_invalid_http_closes_the_connection(embedded_server: ApiServer, sent: bytes) -> None:
    """There is no other effect: the server still serves."""
    with socket.create_connection(("127.0.0.1", embedded_server.port), timeout=PATIENCE) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(65536) == b""
    Api(embedded_server.url).get("/version").ok()


def test_a_body_in_chunks(server: ApiServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    pieces = iter([b'{"metadata":', b'{"name":"one"}}'])
    connection.request("POST", MAPS, pieces, {"Content-Type": "application/json"}, encode_chunked=True)
    response = connection.getresponse()
    assert response.status == 201
    response.read()
    connection.close()


def test_many_clients_at_once(server: ApiServer, api: Api) -> None:
    def create(worker: int) -> None:
        mine = Api(server.url)
        for number in range(25):
            mine.post(MAPS, config_map(f"c{worker}-{number}")).ok()

    with api.watch(MAPS, resourceVersion=str(server.store.version)) as events:
        threads = [threading.Thread(target=create, args=(worker,)) for worker in range(4)]
        for thread in threads:
            thread.start()
        versions = [version_of(next(events)["object"]) for _ in range(100)]
        for thread in threads:
            thread.join()
    assert versions == sorted(set(versions))


def test_the_client_configuration_is_for_this_server() -> None:
    with ApiServer(token=RIGHT) as server:
        config = server.client_config()
        assert config.url == server.url


def test_the_command_serves_until_a_signal(tmp_path: Path) -> None:
    file = tmp_path / "crd.yaml"
    file.write_text(yaml.safe_dump(definition()))
    command = [sys.executable, "-m", "zonewise_sandbox.apiserver", "--port", "0", "--crd", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        api = Api(url)
        assert api.get(f"/apis/{GROUP}/v1/widgets").ok()["items"] == []
        api.close()
        process.terminate()
        process.stdout.read()
        assert process.wait(PATIENCE) == 0


def test_yaml_with_too_many_aliases_is_rejected(server: ApiServer) -> None:
    levels = "".join(f"- &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 10))
    bomb = f"- &a0 [x]\n{levels}".encode()
    answer = Api(server.url).request("POST", MAPS, bomb, "application/yaml")
    assert "it has more than 10000000 values" in answer.refused(400, "BadRequest")["message"]


def test_a_rejected_body_in_protobuf_says_what_to_do(server: ApiServer) -> None:
    answer = Api(server.url).request("POST", MAPS, b"k8s\0", "application/vnd.kubernetes.protobuf")
    assert "--dry-run=client -o yaml | kubectl apply -f -" in answer.refused(415, "UnsupportedMediaType")["message"]
