"""The read API at a URL and behind the API server's proxy, and what is said where it is out of reach.

The proxy with tokens is in contract/test_read_api_proxy.py, on a real API server.
"""

from __future__ import annotations

import json
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from support.waiting import PATIENCE
from zonewise_common.cli.command import CommandError
from zonewise_common.kube.config import Config
from zonewise_common.kube.errors import NotFound
from zonewise_common.kube.transport import Transport
from zonewise_scheduler.client.read_api import ReadApi, ReadApiUnavailable, proxied_read_api

if TYPE_CHECKING:
    from collections.abc import Iterator

Responses = dict[str, tuple[int, str]]


class Controller:
    """A server that answers paths, and notes the authorization of each request."""

    def __init__(self) -> None:
        self.responses: Responses = {}
        self.requests: list[tuple[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.requests.append((self.path, self.headers.get("Authorization", "")))
                status, body = outer.responses.get(self.path.partition("?")[0], (404, "nothing here\n"))
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the name of the standard library
                """Keep standard error clean."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def controller() -> Iterator[Controller]:
    running = Controller()
    thread = threading.Thread(target=running.server.serve_forever, args=(0.01,))
    thread.start()
    yield running
    running.server.shutdown()
    thread.join()
    running.server.server_close()


def test_pages_are_read_until_the_last(controller: Controller) -> None:
    items = [{"namespace": "ns", "name": f"w{i}"} for i in range(3)]
    controller.responses["/api/v1/workloads"] = (200, json.dumps({"total": 3, "items": items}))
    with closing(ReadApi.at(controller.url, "secret")) as api:
        assert list(api.workloads("ns")) == [("ns", "w0"), ("ns", "w1"), ("ns", "w2")]
    assert controller.requests == [("/api/v1/workloads?namespace=ns&limit=1000&offset=0", "Bearer secret")]


def test_one_workload(controller: Controller) -> None:
    controller.responses["/api/v1/workloads/ns/w"] = (200, '{"name": "w"}')
    with closing(ReadApi.at(controller.url)) as api:
        assert api.workload("ns", "w") == {"name": "w"}
        assert api.workload("ns", "unknown") is None
        with pytest.raises(NotFound):
            api.get("/api/v1/forecast")


def test_the_proxy_of_the_api_server(controller: Controller) -> None:
    path = "/api/v1/namespaces/zonewise/services/zonewise-controller:metrics/proxy/api/v1/workloads"
    controller.responses[path] = (200, '{"items": []}')
    with closing(proxied_read_api(Config.from_url(controller.url), "zonewise")) as api:
        assert api.workloads() == {}


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (403, "/api/v1/workloads is for clients on the loopback interface\n", "kubectl port-forward -n zonewise"),
        (503, '{"kind": "Status", "message": "no endpoints available"}', "cannot reach the controller: no endpoints"),
        (
            404,
            '{"kind": "Status", "reason": "NotFound", "message": "services not found"}',
            "no controller in namespace zonewise",
        ),
        (200, "<html>", "its response is no JSON object"),
        (404, "nothing under /api/v1/workloads\n", "it is older than this command"),
    ],
)
def test_what_is_out_of_reach(controller: Controller, status: int, body: str, message: str) -> None:
    path = "/api/v1/namespaces/zonewise/services/zonewise-controller:metrics/proxy/api/v1/workloads"
    controller.responses[path] = (status, body)
    with (
        closing(proxied_read_api(Config.from_url(controller.url), "zonewise")) as api,
        pytest.raises(ReadApiUnavailable, match=message),
    ):
        api.workloads()


def test_no_server_there() -> None:
    with (
        closing(ReadApi.at("http://127.0.0.1:1")) as api,
        pytest.raises(ReadApiUnavailable, match="is the URL right, and does the controller serve there"),
    ):
        api.workloads()


def test_no_token_is_sent_or_requested_without_tls(controller: Controller) -> None:
    """Neither through the API server, nor to another machine."""
    path = "/api/v1/namespaces/zonewise/services/zonewise-controller:metrics/proxy/api/v1/workloads"
    controller.responses[path] = (200, '{"items": []}')
    with closing(proxied_read_api(Config.from_url(controller.url), "zonewise", "secret")) as api:
        assert api.workloads() == {}
    assert [authorization for _, authorization in controller.requests] == [""]
    with pytest.raises(CommandError, match="a token is sent over https alone, or to this machine"):
        ReadApi.at("http://10.0.0.1:9821", "secret")


def test_a_busy_controller_is_asked_again(controller: Controller) -> None:
    controller.responses["/api/v1/plan"] = (429, "too many\n")
    transport = Transport(Config.from_url(controller.url), timeout=PATIENCE, user_agent="test")
    with closing(ReadApi(transport, pause=0.0)) as api, pytest.raises(ReadApiUnavailable, match="too many"):
        api.get("/api/v1/plan")
    assert len(controller.requests) == 4


@pytest.mark.parametrize("url", ["localhost", "ftp://host", "http://", ""])
def test_no_url(url: str) -> None:
    with pytest.raises(CommandError, match=r"is no URL, such as http://127\.0\.0\.1:9821"):
        ReadApi.at(url)
