"""The HTTP server around a handler: addresses, authorization, start and stop.

A connection costs a thread only while its whole request is served: see connection_loop.py and request_threads.py.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import socket
from typing import TYPE_CHECKING

from zonewise_common.service.connection_loop import REQUEST_TIMEOUT, ConnectionLoop
from zonewise_common.service.handlers import (
    LOCAL_PREFIXES,
    Request,
    Response,
    is_loopback,
    is_public,
    text_response,
)
from zonewise_common.service.options import SettingsError

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Mapping

    from zonewise_common.service.authorizer import Authorizer
    from zonewise_common.service.handlers import Handler
    from zonewise_common.service.http_messages import HttpRequest
    from zonewise_common.service.tls import Certificates

log = logging.getLogger(__name__)

_BACKLOG = 1024


class HttpServer:
    """Serves a handler in its own threads."""

    def __init__(
        self,
        listen: str,
        handler: Handler,
        *,
        authorizer: Authorizer | None = None,
        certificates: Certificates | None = None,
        public_paths: Collection[str] = (),
        idle: float = REQUEST_TIMEOUT,
    ) -> None:
        """Listen at "ADDRESS:PORT" or ":PORT" (every address, including IPv6 if available). Raises OSError.

        `public_paths` need no token, in addition to those of is_public. `idle` is the time in seconds after which a
        connection without a request is closed.
        """
        self._handler, self._authorizer, self._public_paths = handler, authorizer, public_paths
        host, _, port = listen.rpartition(":")
        listener = _listen(host.strip("[]"), int(port))
        self._port: int = listener.getsockname()[1]
        self._loop = ConnectionLoop(
            listener, self._respond, max_body=handler.max_body, certificates=certificates, idle=idle
        )

    @property
    def port(self) -> int:
        """Return the port; if the address has port 0, the system selects it."""
        return self._port

    def start(self) -> None:
        """Start to serve."""
        self._loop.start()

    def close(self) -> None:
        """Free the port, let active requests finish, and stop serving."""
        self._loop.stop()

    def _respond(self, request: HttpRequest, address: str) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        rejection = self._rejection(request, method, address)
        if rejection is not None:
            return rejection
        try:
            accept = request.headers.get("accept", "")
            return self._handler.handle(
                Request(method, request.path, accept, request.body, request.query, request.headers)
            )
        except Exception:  # a defect of the handler must not end the connection without a response
            log.exception("%s %s failed", method, request.path)
            return text_response(500, "internal error; see the log\n")

    def _rejection(self, request: HttpRequest, method: str, address: str) -> Response | None:
        path = request.path
        if self._authorizer is not None and not is_public(path) and path not in self._public_paths:
            decision = self._authorizer.authorize_headers(request.headers, path, address)
            if decision.status != 200:
                return text_response(decision.status, f"{decision.reason}\n")
        methods = self._handler.methods(path)
        if not methods:
            return text_response(404, f"nothing is served under {path[:80]}; see /\n")
        if self._authorizer is None and path.startswith(LOCAL_PREFIXES) and not is_loopback(address):
            reason = (
                "is served only to clients on the loopback interface, or with metricsAuth: token to bearers of a token"
            )
            return text_response(403, f"{path} {reason}\n")
        if self._authorizer is None and path.startswith(LOCAL_PREFIXES) and not _is_address(request.headers):
            return text_response(
                403, f"{path} is served only to clients that address this server as localhost or by its IP address\n"
            )
        return None if method in methods else text_response(405, f"{path} supports {', '.join(methods)} only\n")


def _is_address(headers: Mapping[str, str]) -> bool:
    """Return whether a request names the server by an IP address, as localhost, or not at all.

    A foreign web page may let its own name resolve to this host, in order to read with the browser of a local user
    ("DNS rebinding"). Such a request contains that name.
    """
    name = headers.get("host", "").rpartition("]")[0].lstrip("[") or headers.get("host", "").partition(":")[0]
    if name in {"", "localhost"}:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


@contextlib.contextmanager
def serving(
    listen: str,
    handler: Handler,
    *,
    authorizer: Authorizer | None = None,
    certificates: Certificates | None = None,
    idle: float = REQUEST_TIMEOUT,
) -> Generator[HttpServer]:
    """Serve within a context. Raises SettingsError if the address is not available."""
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


def _listen(host: str, port: int) -> socket.socket:
    if not host:
        with contextlib.suppress(OSError):  # a kernel without IPv6
            return _bind(socket.AF_INET6, "::", port)
    # Prometheus and the kubelet connect from other addresses
    return _bind(socket.AF_INET6 if ":" in host else socket.AF_INET, host or "0.0.0.0", port)  # noqa: S104


def _bind(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
