"""The read API at a URL and behind the API server's proxy, and the errors if it cannot be reached.

contract/test_read_api_proxy.py tests the proxy with tokens on a real API server.
"""

from __future__ import annotations

import gzip
import json
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from support.scripted_controller import ScriptedController, scripted_controller
from support.waiting import PATIENCE
from zonewise_common.cli.command import CommandError
from zonewise_common.kube.config import Config
from zonewise_common.kube.errors import NotFound, Unauthorized
from zonewise_common.kube.transport import Transport
from zonewise_common.service.authorizer import TOKEN_HEADER
from zonewise_scheduler.client.cluster.read_api import ReadApi, ReadApiUnavailable, proxied_read_api
from zonewise_scheduler.client.cluster.viewer_token import ViewerToken

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@pytest.fixture
def controller() -> Iterator[ScriptedController]:
    with scripted_controller() as running:
        yield running


def test_pages_are_read_until_the_last(controller: ScriptedController) -> None:
    items = [{"namespace": "ns", "name": f"w{i}"} for i in range(3)]
    controller.responses["/api/v1/workloads"] = (200, json.dumps({"total": 3, "items": items}))
    with closing(ReadApi.at(controller.url, "secret")) as api:
        assert list(api.workloads("ns")) == [("ns", "w0"), ("ns", "w1"), ("ns", "w2")]
    [(path, headers)] = controller.requests
    assert path == "/api/v1/workloads?namespace=ns&limit=1000&offset=0"
    assert headers["Authorization"] == "Bearer secret"


def test_one_workload(controller: ScriptedController) -> None:
    controller.responses["/api/v1/workloads/ns/w"] = (200, '{"name": "w"}')
    with closing(ReadApi.at(controller.url)) as api:
        assert api.workload("ns", "w") == {"name": "w"}
        assert api.workload("ns", "unknown") is None
        with pytest.raises(NotFound):
            api.get("/api/v1/forecast")


def test_the_proxy_of_the_api_server(controller: ScriptedController) -> None:
    path = "/api/v1/namespaces/zonewise/services/zonewise-controller:metrics/proxy/api/v1/workloads"
    controller.responses[path] = (200, '{"items": []}')
    with closing(proxied_read_api(Config.from_url(controller.url), "zonewise")) as api:
        assert api.workloads() == {}


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (
            403,
            "/api/v1/workloads is served only to clients on the loopback interface\n",
            "kubectl port-forward -n zonewise",
        ),
        (503, '{"kind": "Status", "message": "no endpoints available"}', "cannot reach the controller: no endpoints"),
        (
            404,
            '{"kind": "Status", "reason": "NotFound", "message": "services not found"}',
            "no controller in namespace zonewise",
        ),
        (200, "<html>", "its response is not a JSON object"),
        (404, "nothing is served under /api/v1/workloads\n", "it is older than this command"),
    ],
)
def test_an_unreachable_read_api(controller: ScriptedController, status: int, body: str, message: str) -> None:
    path = "/api/v1/namespaces/zonewise/services/zonewise-controller:metrics/proxy/api/v1/workloads"
    controller.responses[path] = (status, body)
    with (
        closing(proxied_read_api(Config.from_url(controller.url), "zonewise")) as api,
        pytest.raises(ReadApiUnavailable, match=message),
    ):
        api.workloads()


class DamagedTransport:
    """A transport whose responses all have the same body."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    def request(self, method: str, path: str, query: Mapping[str, object], headers: Mapping[str, str]) -> bytes:
        assert headers["Accept-Encoding"] == "gzip"
        return self.body


@pytest.mark.parametrize(
    "body",
    [b"\x1f\x8bother", gzip.compress(b"{}")[:-9], gzip.compress(b"{}")[:10] + b"\xff" * 20, gzip.compress(b"[]")],
    ids=["no gzip", "truncated", "no deflate", "no object"],
)
def test_a_damaged_body(body: bytes) -> None:
    with pytest.raises(ReadApiUnavailable, match="its response is not a JSON object"):
        ReadApi(DamagedTransport(body)).get("/api/v1/plan")  # type: ignore[arg-type]


def test_no_server_at_the_address() -> None:
    with (
        closing(ReadApi.at("http://127.0.0.1:1")) as api,
        pytest.raises(ReadApiUnavailable, match="check the URL, and that the controller serves there"),
    ):
        api.workloads()


def test_no_token_is_sent_or_requested_without_tls(controller: ScriptedController) -> None:
    """The token is sent neither through the API server nor to another machine."""
    path = "/api/v1/namespaces/zonewise/services/zonewise-controller:metrics/proxy/api/v1/workloads"
    controller.responses[path] = (200, '{"items": []}')
    with closing(proxied_read_api(Config.from_url(controller.url), "zonewise", "secret")) as api:
        assert api.workloads() == {}
    assert ["secret" in str(headers) for _, headers in controller.requests] == [False]
    with pytest.raises(CommandError, match="a token is sent only over https, or to this machine"):
        ReadApi.at("http://10.0.0.1:9821", "secret")


class RejectingTransport:
    """An API server that issues numbered tokens, and a controller that accepts tokens from `first_good` on."""

    def __init__(self) -> None:
        self.issued = 0
        self.first_good = 1
        self.refused = 0

    def request(
        self, method: str, path: str, query: object, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> bytes:
        if path.endswith("/token"):
            self.issued += 1
            return json.dumps({"status": {"token": str(self.issued)}}).encode()
        assert headers is not None
        if int(headers[TOKEN_HEADER]) < self.first_good:
            self.refused += 1
            raise Unauthorized(401, "", "the token is not valid")
        return b"{}"


def test_a_token_that_ends_early_is_replaced() -> None:
    """Its ServiceAccount may have been created again, or this machine may have slept, with its clock stopped."""
    transport = RejectingTransport()
    api = ReadApi(transport, "zonewise", ViewerToken(transport, "zonewise"))  # type: ignore[arg-type]
    assert api.get("/api/v1/plan") == {}
    transport.first_good = 2
    assert api.get("/api/v1/plan") == {}
    assert (transport.issued, transport.refused) == (2, 1)


@pytest.mark.parametrize(("own", "requests"), [("", 2), ("7", 1)])
def test_a_request_is_repeated_only_with_another_token(own: str, requests: int) -> None:
    transport = RejectingTransport()
    transport.first_good = 9
    api = ReadApi(transport, "zonewise", ViewerToken(transport, "zonewise", own))  # type: ignore[arg-type]
    with pytest.raises(ReadApiUnavailable, match="the token is not valid"):
        api.get("/api/v1/plan")
    assert transport.refused == requests


def test_a_request_to_a_busy_controller_is_repeated(controller: ScriptedController) -> None:
    controller.responses["/api/v1/plan"] = (429, "too many\n")
    transport = Transport(Config.from_url(controller.url), timeout=PATIENCE, user_agent="test")
    with closing(ReadApi(transport, pause=0.0)) as api, pytest.raises(ReadApiUnavailable, match="too many"):
        api.get("/api/v1/plan")
    assert len(controller.requests) == 4


def test_requests_are_repeated_until_the_leader_responds(controller: ScriptedController) -> None:
    """The API server forwards a request to any replica. Standby replicas have no reservations or forecasts."""
    controller.responses["/api/v1/plan"] = (200, '{"running": []}')
    with closing(ReadApi.at(controller.url)) as api:
        controller.standbys = 5
        assert api.get("/api/v1/plan") == {"running": []}
        assert len(controller.requests) == 6
        controller.standbys = 100
        with pytest.raises(ReadApiUnavailable, match="no replica of the controller leads"):
            api.get("/api/v1/plan")


@pytest.mark.parametrize(
    "url", ["localhost", "ftp://host", "http://", "", "http://host:port", "http://:9821", "http://host:70000"]
)
def test_invalid_urls(url: str) -> None:
    with pytest.raises(CommandError, match=r"is not a URL, such as http://127\.0\.0\.1:9821"):
        ReadApi.at(url)
