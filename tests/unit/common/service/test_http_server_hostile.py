"""The HTTP server with hostile clients: silent ones, slow writers, slow readers, and too many requests."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest
import trustme

from support.http_requests import Response as ReadResponse
from support.http_requests import get
from support.waiting import PATIENCE, eventually
from zonewise_common.service import connection_loop, request_threads
from zonewise_common.service.handlers import Handler, Request, Response, text_response
from zonewise_common.service.http_server import HttpServer
from zonewise_common.service.request_threads import THREADS
from zonewise_common.service.tls import Certificates

if TYPE_CHECKING:
    from collections.abc import Collection, Generator
    from pathlib import Path

SILENT = 1000
LIMIT = 100
SLOW = 100
LARGE = 16 << 20
"""Bytes of a response that no socket buffers."""


class EchoHandler:
    """Returns a POST's body; GET /wait waits for an event, and GET /large returns many bytes."""

    max_body = 1 << 20

    def __init__(self) -> None:
        self.waiting = threading.Semaphore(0)
        self.go_on = threading.Event()

    def methods(self, path: str) -> Collection[str]:
        return ("GET", "POST")

    def handle(self, request: Request) -> Response:
        if request.path == "/wait":
            self.waiting.release()
            self.go_on.wait(PATIENCE)
        if request.path == "/large":
            return Response(200, "text/plain", b"x" * LARGE)
        return Response(200, "text/plain", request.body) if request.method == "POST" else text_response(200, "ok\n")


@contextmanager
def running(
    handler: Handler | None = None, certificates: Certificates | None = None, idle: float = PATIENCE
) -> Generator[HttpServer]:
    server = HttpServer("127.0.0.1:0", handler or EchoHandler(), certificates=certificates, idle=idle)
    server.start()
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def stack() -> Generator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def connect(stack: ExitStack, port: int, content: bytes = b"") -> socket.socket:
    client = stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE))
    client.sendall(content)
    return client


def is_closed(client: socket.socket) -> bool:
    """Return whether the server has closed the connection."""
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def post(port: int, body: bytes) -> ReadResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("POST", "/", body)
        response = connection.getresponse()
        return ReadResponse(response.status, response.read().decode(), dict(response.headers))
    finally:
        connection.close()


SLOW_STARTS = (b"G", b"GET /metrics HTTP/1.1\r\nX: ", b"POST / HTTP/1.1\r\nContent-Length: 1000\r\n\r\nhalf a body")


@pytest.mark.parametrize("limit", [300, 2048])
def test_silent_connections_and_slow_writers(monkeypatch: pytest.MonkeyPatch, stack: ExitStack, limit: int) -> None:
    """Every request is served despite 1,000 silent connections and 100 slow writers, which occupy no threads."""
    monkeypatch.setattr(connection_loop, "MAX_CONNECTIONS", limit)
    with running() as server:
        threads = threading.active_count()
        for number in range(SILENT):
            connect(stack, server.port, SLOW_STARTS[number % 3] if number % (SILENT // SLOW) == 0 else b"")
        for number in range(100):
            assert get(server.port, ("/healthz", "/metrics")[number % 2]).status == 200
            assert post(server.port, b"x" * 100_000).body == "x" * 100_000
        assert threading.active_count() < threads + THREADS


def test_the_longest_silent_is_closed(monkeypatch: pytest.MonkeyPatch, stack: ExitStack) -> None:
    """A new connection replaces the one that is silent longest; a connection that was served remains open."""
    monkeypatch.setattr(connection_loop, "MAX_CONNECTIONS", LIMIT)
    with running() as server:
        served = stack.enter_context(connection_of(server.port))
        fetch(served)
        first = connect(stack, server.port)
        probed = stack.enter_context(connection_of(server.port))
        fetch(probed, "/healthz")
        rest = [connect(stack, server.port) for _ in range(LIMIT - 3)]
        fetch(served)
        assert not is_closed(first)
        last = connect(stack, server.port)
        eventually(lambda: is_closed(first))
        assert not is_closed(last)
        assert sum(is_closed(one) for one in rest) == 0
        while not is_closed(probed.sock):  # a client that has sent only a probe is a stranger
            fetch(stack.enter_context(connection_of(server.port)), "/healthz")
        fetch(served)


@contextmanager
def connection_of(port: int) -> Generator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.connect()
    yield connection
    connection.close()


def fetch(connection: http.client.HTTPConnection, path: str = "/metrics") -> None:
    connection.auto_open = False
    connection.request("GET", path)
    response = connection.getresponse()
    assert (response.status, response.read()) == (200, b"ok\n")


@pytest.mark.parametrize("start", SLOW_STARTS)
def test_the_deadline_is_absolute(monkeypatch: pytest.MonkeyPatch, stack: ExitStack, start: bytes) -> None:
    """A client that keeps sending, but completes no request, is closed nevertheless."""
    monkeypatch.setattr(connection_loop, "REQUEST_TIMEOUT", 0.3)
    with running() as server:
        client = connect(stack, server.port, start)

        def closed_after_a_byte() -> bool:
            try:
                client.setblocking(True)
                client.sendall(b"x")
            except ConnectionError:
                return True
            return is_closed(client)

        eventually(closed_after_a_byte)


def test_an_idle_connection_is_closed(stack: ExitStack) -> None:
    """The connection is closed whether or not it was served."""
    with running(idle=0.2) as server:
        silent = connect(stack, server.port)
        served = connect(stack, server.port, b"GET / HTTP/1.1\r\n\r\n")
        assert served.recv(12) == b"HTTP/1.1 200"
        eventually(lambda: is_closed(silent))
        served.settimeout(PATIENCE)
        while served.recv(4096):
            pass


def test_probes_are_served_while_all_threads_wait(monkeypatch: pytest.MonkeyPatch, stack: ExitStack) -> None:
    """Requests beyond the number of threads wait, those beyond the limit get 503, and probes have precedence."""
    monkeypatch.setattr(request_threads, "MAX_WAITING", 3)
    handler = EchoHandler()
    with running(handler) as server:
        wait = b"GET /wait HTTP/1.1\r\nConnection: close\r\n\r\n"
        clients: list[socket.socket] = []
        for _ in range(THREADS - 1):
            clients.append(connect(stack, server.port, wait))
            assert handler.waiting.acquire(timeout=PATIENCE)
        clients += [connect(stack, server.port, wait) for _ in range(3)]
        assert get(server.port, "/healthz").status == 200
        rejected = get(server.port, "/metrics")
        assert (rejected.status, rejected.headers["Connection"]) == (503, "close")
        assert get(server.port, "/readyz").status == 200
        handler.go_on.set()
        for client in clients:
            assert read_all(client).startswith(b"HTTP/1.1 200")
        assert get(server.port, "/metrics").status == 200


def read_all(client: socket.socket) -> bytes:
    return b"".join(iter(lambda: client.recv(1 << 16), b""))


class OrderHandler:
    """Records the paths of requests; those of /wait and /healthz wait until each may continue."""

    max_body = 0

    def __init__(self) -> None:
        self.waiting = threading.Semaphore(0)
        self.may_end = {"/wait": threading.Semaphore(0), "/healthz": threading.Semaphore(0)}
        self.paths: list[str] = []

    def methods(self, path: str) -> Collection[str]:
        return ("GET",)

    def handle(self, request: Request) -> Response:
        if request.path in self.may_end:
            self.waiting.release()
            self.may_end[request.path].acquire(timeout=PATIENCE)
        else:
            self.paths.append(request.path)
        return text_response(200, "ok\n")


def test_established_clients_before_strangers(stack: ExitStack) -> None:
    """Requests of a client that was served before precede those that strangers have sent earlier."""
    handler = OrderHandler()
    with running(handler) as server:
        client = connect(stack, server.port, b"GET /first HTTP/1.1\r\n\r\n")
        assert client.recv(4096).endswith(b"ok\n")
        strangers = [connect(stack, server.port, b"GET /readyz HTTP/1.1\r\n\r\n") for _ in range(50)]
        for stranger in strangers:
            assert stranger.recv(4096).endswith(b"ok\n")
        handler.paths.clear()
        for path in [b"/wait"] * (THREADS - 1) + [b"/healthz"]:  # no thread is left to poll
            connect(stack, server.port, b"GET %b HTTP/1.1\r\n\r\n" % path)
            assert handler.waiting.acquire(timeout=PATIENCE)
        for stranger in strangers:
            stranger.sendall(b"GET /stranger HTTP/1.1\r\n\r\n")
        client.sendall(b"GET /established HTTP/1.1\r\n\r\n")
        handler.may_end["/healthz"].release()
        handler.may_end["/wait"].release()
        for connection in (client, *strangers):
            assert connection.recv(4096).endswith(b"ok\n")
        assert handler.paths == ["/established", *["/stranger"] * 50]
        for _ in range(THREADS):
            handler.may_end["/wait"].release()


def test_slow_readers(monkeypatch: pytest.MonkeyPatch, stack: ExitStack) -> None:
    """Clients that do not read occupy no thread; one that reads later gets the whole response."""
    monkeypatch.setattr(connection_loop, "_BUFFERED", 100 * LARGE)
    request = b"GET /large HTTP/1.1\r\nConnection: close\r\n\r\n"
    with running() as server:
        for _ in range(2 * THREADS):
            connect(stack, server.port, request)
        assert get(server.port, "/metrics").status == 200
        late = connect(stack, server.port, request)
        assert get(server.port, "/metrics").status == 200
        content = read_all(late)
    assert content.endswith(b"\r\n\r\n" + b"x" * LARGE)


def test_large_bodies_in_memory(monkeypatch: pytest.MonkeyPatch, stack: ExitStack) -> None:
    """Beyond the budget of bytes, the largest silent connections are closed, and requests are served."""
    monkeypatch.setattr(connection_loop, "_BUFFERED", 0)
    start = b"POST / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 900_000
    with running() as server:
        clients = [connect(stack, server.port, start) for _ in range(10)]
        eventually(lambda: sum(is_closed(client) for client in clients) == 8)
        assert post(server.port, b"x" * 100_000).status == 200


def test_requests_at_once(stack: ExitStack) -> None:
    """Requests that a client sends without waiting for responses are served in order."""
    with running() as server:
        parts = [b"POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\n%d" % number for number in range(9)]
        client = connect(stack, server.port, b"".join(parts) + b"GET / HTTP/1.0\r\n\r\n")
        responses = read_all(client).split(b"HTTP/1.1 200 OK\r\n")[1:]
        assert [response.partition(b"\r\n\r\n")[2] for response in responses] == [
            *(b"%d" % number for number in range(9)),
            b"ok\n",
        ]


def test_expect_continue(stack: ExitStack) -> None:
    """A client such as curl waits for 100 Continue before it sends a large body."""
    with running() as server:
        head = b"POST / HTTP/1.1\r\nContent-Length: 4\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
        client = connect(stack, server.port, head)
        assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"body")
        assert read_all(client).endswith(b"\r\n\r\nbody")


def test_a_rejected_body_is_discarded(stack: ExitStack) -> None:
    """A client that sends too large a body gets the response, even if it reads only after sending everything."""
    with running() as server:
        head = b"POST / HTTP/1.1\r\nContent-Length: 4000000\r\n\r\n"
        client = connect(stack, server.port, head + b"x" * 4_000_000)
        assert read_all(client).startswith(b"HTTP/1.1 413 ")


def test_the_port_is_free_after_a_stop(stack: ExitStack) -> None:
    """The port is free despite silent clients, slow ones, and a request in progress, which is completed first."""
    handler = EchoHandler()
    with running(handler) as server:
        for start in SLOW_STARTS:
            connect(stack, server.port, start)
        client = connect(stack, server.port, b"GET /wait HTTP/1.1\r\n\r\n")
        assert handler.waiting.acquire(timeout=PATIENCE)
        threading.Timer(0.1, handler.go_on.set).start()
        server.close()
        assert read_all(client).endswith(b"ok\n")
        replacement = HttpServer(f"127.0.0.1:{server.port}", handler)
        replacement.start()
        assert get(server.port, "/healthz").status == 200
        replacement.close()


def test_silent_tls_clients(stack: ExitStack, tmp_path: Path) -> None:
    """Clients that stop during the handshake or after it delay no others."""
    ca = trustme.CA()
    issued = ca.issue_cert("localhost")
    issued.private_key_pem.write_to_path(tmp_path / "key")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert")
    context = ssl.create_default_context()
    context.load_verify_locations(cadata=ca.cert_pem.bytes().decode())
    with running(certificates=Certificates(str(tmp_path / "cert"), str(tmp_path / "key"))) as server:
        for number in range(SILENT // 2):
            connect(stack, server.port, (b"", b"\x16\x03\x01", b"no TLS\r\n")[number % 3])
            if number % 50 == 0:
                plain = stack.enter_context(socket.create_connection(("localhost", server.port), PATIENCE))
                tls = stack.enter_context(context.wrap_socket(plain, server_hostname="localhost"))
                tls.sendall(b"POST / HTTP/1.1\r\n")
        for _ in range(10):
            assert get(server.port, "/healthz", context=context).status == 200
            assert get(server.port, "/large", context=context).body == "x" * LARGE
