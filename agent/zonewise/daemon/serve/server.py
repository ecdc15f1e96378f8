"""The HTTP server around the pages: sockets, threads, TLS, and who may see what."""

from __future__ import annotations

import contextlib
import logging
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, cast

from zonewise.daemon.serve.access import ALLOWED, Access
from zonewise.daemon.serve.pages import OPEN_TO_ALL, Pages

if TYPE_CHECKING:
    from typing import TypeAlias

    from zonewise.daemon.serve.tls import Certificates

    _Request: TypeAlias = socket.socket | tuple[bytes, socket.socket]
    _Address: TypeAlias = tuple[str, int] | str

log = logging.getLogger(__name__)

MOST_THREADS = 40
PATIENCE = 10.0
"""Seconds that a client may take to say what it wants, so that silent connections do not gather."""


class Server:
    """Serves pages in threads of its own."""

    def __init__(
        self, listen: str, pages: Pages, *, access: Access | None = None, certificates: Certificates | None = None
    ) -> None:
        """Listen at "ADDRESS:PORT" or ":PORT" (every address, IPv6 too where there is). Raises OSError."""
        host, _, port = listen.rpartition(":")
        self._server = _listener(host.strip("[]"), int(port))
        self._server.pages, self._server.access, self._server.certificates = pages, access, certificates
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.2,), name="http", daemon=True)

    @property
    def port(self) -> int:
        """Return the port, which the system chose where 0 was asked for."""
        return self._server.server_address[1]

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def close(self) -> None:
        """Stop answering, and free the port."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join(5.0)
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 32
    pages: Pages
    access: Access | None
    certificates: Certificates | None

    def verify_request(self, request: _Request, client_address: _Address) -> bool:  # noqa: ARG002 -- the base's
        """Turn connections away where there are too many: a scan must never want for the memory they take."""
        return threading.active_count() < MOST_THREADS

    def finish_request(self, request: _Request, client_address: _Address) -> None:
        # TLS is begun here, in the connection's own thread: a client that is slow at it holds up nobody
        connection = cast("socket.socket", request)
        connection.settimeout(PATIENCE)
        if self.certificates is None:
            self.RequestHandlerClass(connection, client_address, self)
            return
        with self.certificates.context().wrap_socket(connection, server_side=True) as wrapped:
            self.RequestHandlerClass(wrapped, client_address, self)

    def handle_error(self, request: _Request, client_address: _Address) -> None:  # noqa: ARG002 -- the base's
        log.debug("a client of ours went wrong: %s", sys.exc_info()[1])


class _Server6(_Server):
    address_family = socket.AF_INET6

    def server_bind(self) -> None:
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "zonewise"
    sys_version = ""
    timeout = PATIENCE
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        server = cast("_Server", self.server)
        path = self.path.partition("?")[0]
        verdict = ALLOWED
        if server.access is not None and path not in OPEN_TO_ALL:
            verdict = server.access.verdict(self.headers.get("Authorization", ""), path)
        if verdict is ALLOWED or verdict.status == 200:
            page = server.pages.answer(path, self.headers.get("Accept", ""))
            self._send(page.status, page.type, page.body)
        else:
            self._send(verdict.status, "text/plain; charset=utf-8", f"{verdict.reason}\n".encode())

    do_HEAD = do_GET  # noqa: N815 -- the name is the base class's

    def _send(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        if status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the name is the base class's
        log.debug(format, *args)


def _listener(host: str, port: int) -> _Server:
    if not host:
        with contextlib.suppress(OSError):  # a kernel without IPv6
            return _Server6(("::", port), _Handler)
        return _Server(("0.0.0.0", port), _Handler)  # noqa: S104 -- Prometheus and the kubelet come from elsewhere
    return (_Server6 if ":" in host else _Server)((host, port), _Handler)
