"""The proxy of Services: the request that a service receives. contract/test_read_api_proxy.py tests a real proxy."""

from __future__ import annotations

import contextlib
import http.client
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
import trustme

from support.waiting import PATIENCE
from zonewise_sandbox.apiserver import ApiServer

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from email.message import Message


class Service:
    """A service that records the headers it gets."""

    def __init__(self, *, has_tls: bool) -> None:
        self.headers: list[Message] = []
        self.ending = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.headers.append(self.headers)
                self.send_response(200)
                if self.path == "/events":
                    self.send_header("Content-Type", "text/event-stream")
                    self.end_headers()
                    self.wfile.write(b"data: first\n\n")
                    outer.ending.wait(PATIENCE)
                    return
                self.send_header("ETag", '"tag"')
                self.end_headers()
                self.wfile.write(self.path.encode())

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the name of the standard library
                """Write nothing to standard error."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if has_tls:  # with a certificate that no client trusts: the API server accepts it
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            authority = trustme.CA()
            authority.issue_cert("other").configure_cert(context)  # pyright: ignore[reportUnknownMemberType]
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)


@pytest.fixture(params=["", "https:"])
def service(request: pytest.FixtureRequest) -> Iterator[tuple[Service, str, int]]:
    """Yield a service, its scheme in the path, and the API server's port."""
    running = Service(has_tls=bool(request.param))
    thread = threading.Thread(target=running.server.serve_forever, args=(0.01,))
    thread.start()

    def addresses(_namespace: str, _name: str, _port: str) -> tuple[str, int]:
        return "127.0.0.1", running.server.server_address[1]

    with ApiServer(services=addresses) as server:
        yield running, request.param, int(server.url.rpartition(":")[2])
    running.server.shutdown()
    thread.join()
    running.server.server_close()


@contextlib.contextmanager
def getting(port: int, path: str, headers: dict[str, str]) -> Generator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", path, headers=headers)
        yield connection.getresponse()
    finally:
        connection.close()


def get(port: int, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
    with getting(port, path, headers) as response:
        return response.status, response.read()


def test_the_service_gets_all_headers_but_the_credentials(service: tuple[Service, str, int]) -> None:
    running, scheme, port = service
    path = f"/api/v1/namespaces/ns/services/{scheme}web:main/proxy/a/b?c=d"
    assert get(port, path, {"Authorization": "Bearer admin", "X-Zonewise-Token": "short"}) == (200, b"/a/b?c=d")
    [headers] = running.headers
    assert headers["X-Zonewise-Token"] == "short"
    assert headers["Authorization"] is None


def test_events_are_passed_on_as_they_come(service: tuple[Service, str, int]) -> None:
    running, scheme, port = service
    with getting(port, f"/api/v1/namespaces/ns/services/{scheme}web:main/proxy/events", {}) as response:
        assert response.getheader("Content-Type") == "text/event-stream"
        assert response.readline() == b"data: first\n"
        running.ending.set()
        assert response.read() == b"\n"


def test_the_client_gets_the_headers_of_the_service(service: tuple[Service, str, int]) -> None:
    with getting(service[2], f"/api/v1/namespaces/ns/services/{service[1]}web:main/proxy/a", {}) as response:
        assert response.getheader("ETag") == '"tag"'


@pytest.mark.parametrize("path", ["/", "/page/", "/page"])
def test_the_end_of_a_path_is_preserved(service: tuple[Service, str, int], path: str) -> None:
    """For the service, a directory has another path than a file."""
    prefix = f"/api/v1/namespaces/ns/services/{service[1]}web:main/proxy"
    assert get(service[2], prefix + path, {}) == (200, path.encode())


def test_an_unknown_scheme(service: tuple[Service, str, int]) -> None:
    assert get(service[2], "/api/v1/namespaces/ns/services/ftp:web:main/proxy/", {})[0] == 400
