"""The HTTP server around a handler: sockets, threads, TLS, and authorization."""

from __future__ import annotations

import contextlib
import logging
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, cast

from zonewise_common.service.authorizer import ALLOWED, Authorizer
from zonewise_common.service.handlers import UNAUTHENTICATED_PATHS, Request, Response, text_response
from zonewise_common.service.options import SettingsError

if TYPE_CHECKING:
    import io
    from collections.abc import Generator
    from typing import TypeAlias

    from zonewise_common.service.handlers import Handler
    from zonewise_common.service.tls import Certificates

    _Request: TypeAlias = socket.socket | tuple[bytes, socket.socket]
    _Address: TypeAlias = tuple[str, int] | str

log = logging.getLogger(__name__)

MAX_THREADS = 40
REQUEST_TIMEOUT = 10.0
"""Seconds in which a client must send its request, so that silent connections do not accumulate."""
_MAX_DIGITS = 18
"""Of a Content-Length: int() of very many of them is an error."""


class HttpServer:
    """Serves a handler in threads of its own."""

    def __init__(
        self,
        listen: str,
        handler: Handler,
        *,
        authorizer: Authorizer | None = None,
        certificates: Certificates | None = None,
        idle: float = REQUEST_TIMEOUT,
    ) -> None:
        """Listen at "ADDRESS:PORT" or ":PORT" (every address, IPv6 too where there is). Raises OSError.

        `idle` is the time in seconds after which a connection without a request is closed.
        """
        host, _, port = listen.rpartition(":")
        self._server = _listener(host.strip("[]"), int(port))
        self._server.handler, self._server.authorizer, self._server.certificates = handler, authorizer, certificates
        self._server.idle = idle
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.2,), name="http", daemon=True)

    @property
    def port(self) -> int:
        """Return the port; the system selected it where the address has port 0."""
        return self._server.server_address[1]

    def start(self) -> None:
        """Start to serve."""
        self._thread.start()

    def close(self) -> None:
        """Stop serving, and free the port."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join(5.0)
        self._server.server_close()


@contextlib.contextmanager
def serving(
    listen: str,
    handler: Handler,
    *,
    authorizer: Authorizer | None = None,
    certificates: Certificates | None = None,
    idle: float = REQUEST_TIMEOUT,
) -> Generator[HttpServer]:
    """Serve within a context. Raises SettingsError where the address is not available."""
    try:
        server = HttpServer(listen, handler, authorizer=authorizer, certificates=certificates, idle=idle)
    except OSError as error:
        raise SettingsError(f"cannot serve on {listen}: {error.strerror or error}") from error
    server.start()
    log.info("serving on port %d", server.port)
    try:
        yield server
    finally:
        server.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 32
    handler: Handler
    authorizer: Authorizer | None
    certificates: Certificates | None
    idle: float

    def verify_request(self, request: _Request, client_address: _Address) -> bool:  # noqa: ARG002 -- the base's
        """Reject connections above a limit of threads, which bounds the memory of all connections."""
        return threading.active_count() < MAX_THREADS

    def finish_request(self, request: _Request, client_address: _Address) -> None:
        # the TLS handshake runs in the connection's own thread: a slow client delays no other
        connection = cast("socket.socket", request)
        connection.settimeout(REQUEST_TIMEOUT)
        if self.certificates is None:
            self.RequestHandlerClass(connection, client_address, self)
            return
        with self.certificates.context().wrap_socket(connection, server_side=True) as wrapped:
            self.RequestHandlerClass(wrapped, client_address, self)

    def handle_error(self, request: _Request, client_address: _Address) -> None:  # noqa: ARG002 -- the base's
        log.debug("a connection failed: %s", sys.exc_info()[1])


class _Server6(_Server):
    address_family = socket.AF_INET6

    def server_bind(self) -> None:
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "zonewise"
    sys_version = ""
    timeout = REQUEST_TIMEOUT
    disable_nagle_algorithm = True
    # one packet for a response: several small ones wait for the client's delayed acknowledgement, 40 ms each
    wbufsize = 1 << 16

    def handle_one_request(self) -> None:
        self.connection.settimeout(cast("_Server", self.server).idle)
        try:
            cast("io.BufferedReader", self.rfile).peek(1)
        except TimeoutError:
            self.close_connection = True
            return
        self.connection.settimeout(REQUEST_TIMEOUT)
        super().handle_one_request()

    def do_GET(self) -> None:
        self._serve("GET", b"")

    do_HEAD = do_GET  # noqa: N815 -- the name is the base class's

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or "Transfer-Encoding" in self.headers:
            self._reject(411, "the header Content-Length is required: chunked bodies are not supported")
        elif len(length) > _MAX_DIGITS or int(length) > cast("_Server", self.server).handler.max_body:
            limit = cast("_Server", self.server).handler.max_body
            self._reject(413, f"the body of {length[:_MAX_DIGITS]} bytes is larger than {limit} bytes")
        else:
            body = self.rfile.read(int(length))
            if len(body) < int(length):
                self._reject(400, f"the body ends after {len(body)} of {length} bytes")
            else:
                self._serve("POST", body)

    def _serve(self, method: str, body: bytes) -> None:
        path = self.path.partition("?")[0]
        self._send(
            self._rejection(method, path) or self._handle(Request(method, path, self.headers.get("Accept", ""), body))
        )

    def _rejection(self, method: str, path: str) -> Response | None:
        server = cast("_Server", self.server)
        if server.authorizer is not None and path not in UNAUTHENTICATED_PATHS:
            decision = server.authorizer.authorize(self.headers.get("Authorization", ""), path)
            if decision is not ALLOWED and decision.status != 200:
                return text_response(decision.status, f"{decision.reason}\n")
        methods = server.handler.methods(path)
        if not methods:
            return text_response(404, f"nothing under {path[:80]}; see /\n")
        return None if method in methods else text_response(405, f"{path} supports {', '.join(methods)} only\n")

    def _handle(self, request: Request) -> Response:
        try:
            return cast("_Server", self.server).handler.handle(request)
        except Exception:  # a defect of the handler must not end the connection without a response
            log.exception("%s %s failed", request.method, request.path)
            return text_response(500, "internal error; see the log\n")

    def _reject(self, status: int, reason: str) -> None:
        self.close_connection = True  # the rest of the body would be read as the next request
        self._send(text_response(status, f"{reason}\n"))

    def _send(self, response: Response) -> None:
        self.send_response(response.status)
        self.send_header("Content-Type", response.content_type)
        self.send_header("Content-Length", str(len(response.body)))
        if response.status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the name is the base class's
        log.debug(format, *args)


def _listener(host: str, port: int) -> _Server:
    if not host:
        with contextlib.suppress(OSError):  # a kernel without IPv6
            return _Server6(("::", port), _Handler)
        return _Server(("0.0.0.0", port), _Handler)  # noqa: S104 -- Prometheus and the kubelet come from elsewhere
    return (_Server6 if ":" in host else _Server)((host, port), _Handler)
