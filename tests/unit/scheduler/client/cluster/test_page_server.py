"""The server of the web page on this machine: access to data, forwarded paths, and responses."""

from __future__ import annotations

import gzip
import http.client
import json
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from support.scripted_controller import EVENTS, ScriptedController, scripted_controller
from support.waiting import PATIENCE
from zonewise_scheduler.client.cluster.page_server import PageServer
from zonewise_scheduler.client.cluster.read_api import ReadApi

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator


class Client:
    """A browser's requests."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.port = parts.port
        self.token = parts.fragment.removeprefix("token=")
        self.page = parts.path

    @contextmanager
    def getting(self, path: str, **headers: str) -> Generator[http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("GET", path, headers={name.replace("_", "-"): text for name, text in headers.items()})
            yield connection.getresponse()
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        with self.getting(path, **headers) as response:
            return response.status, response.read()

    def data(self, path: str) -> tuple[int, bytes]:
        return self.get(path, X_Zonewise_Token=self.token)


@pytest.fixture(scope="module")
def controller() -> Iterator[ScriptedController]:
    with scripted_controller() as running:
        running.responses["/api/v1/plan"] = (200, json.dumps({"running": []}))
        yield running


@pytest.fixture(scope="module")
def client(controller: ScriptedController) -> Iterator[Client]:
    with closing(ReadApi.at(controller.url)) as api, PageServer(api, 0) as server:
        yield Client(server.url)


def test_the_files_need_no_token(client: Client) -> None:
    assert b"<!doctype html>" in client.get(client.page)[1].lower()
    with client.getting("/", Accept="text/html") as response:
        assert (response.status, response.getheader("Location")) == (303, "page/")
    with client.getting("/page/page.js") as response:
        assert "default-src 'none'" in (response.getheader("Content-Security-Policy") or "")
    assert client.get("/other")[0] == 404


@pytest.mark.parametrize("token", [None, "", "guessed", "é"])
def test_data_need_the_token_of_the_address(client: Client, controller: ScriptedController, token: str | None) -> None:
    """Another user of this machine can reach the port, but does not know the token."""
    before = len(controller.requests)
    headers = {} if token is None else {"X_Zonewise_Token": token}
    assert client.get("/api/v1/plan", **headers) == (
        401, b"open the complete address that `zonewise page` printed\n")  # fmt: skip
    assert client.get(EVENTS, **headers)[0] == 401
    assert len(controller.requests) == before


def test_data_of_the_controller(client: Client, controller: ScriptedController) -> None:
    with client.getting("/api/v1/plan?queue=q&x=%26", X_Zonewise_Token=client.token) as response:
        assert response.getheader("Content-Encoding") == "gzip"
        assert json.loads(gzip.decompress(response.read())) == {"running": []}
        assert response.getheader("Cache-Control") == "no-store"
    path, headers = controller.requests[-1]
    assert path == "/api/v1/plan?queue=q&x=%26"
    assert client.token not in str(headers)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/../../../../../nodes",
        "/api/v1/..%2f..%2fnodes",
        "/api/v1//nodes",
        "/api/v1/",
        "/api/v2/plan",
        "/api/v1/plan%00",
        "/api/v1/workloads/ns/.",
    ],
)
def test_no_path_leaves_the_read_api(client: Client, controller: ScriptedController, path: str) -> None:
    """The API server would resolve "..", using the user's credentials."""
    before = len(controller.requests)
    assert client.data(path)[0] == 404
    assert len(controller.requests) == before


def test_errors_of_the_controller_are_forwarded(client: Client) -> None:
    assert client.data("/api/v1/workloads/ns/unknown") == (404, b"nothing here\n")


def test_events_are_forwarded_immediately_and_resumed(client: Client, controller: ScriptedController) -> None:
    with client.getting(EVENTS, X_Zonewise_Token=client.token, Last_Event_ID="a-7") as response:
        assert response.getheader("Content-Type") == "text/event-stream"
        assert response.readline() == b"event: changes\n"
        assert controller.requests[-1][1]["Last-Event-ID"] == "a-7"
        controller.ending.set()
        assert response.read().startswith(b"data: {}\n\n")


def test_an_unreachable_controller_is_an_error() -> None:
    with closing(ReadApi.at("http://127.0.0.1:1")) as api, PageServer(api, 0) as server:
        client = Client(server.url)
        for path in ("/api/v1/plan", EVENTS):
            status, text = client.data(path)
            assert (status, b"that the controller serves there" in text) == (502, True)
