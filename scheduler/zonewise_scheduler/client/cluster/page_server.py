"""The read-only page on this machine: files come from this package, data from the controller through a ReadApi.

A browser has no credentials for the cluster, so this server adds those of the command. Every user of this machine can
reach its loopback port. A request for data therefore needs a token, which only the printed address contains. The token
is in the fragment, which a browser does not send; the page sends it in TOKEN_HEADER. A page from another origin cannot
send this header (Fetch Standard, CORS-preflight fetch).

The server is the standard library's: the one in zonewise_common.service needs Linux, but commands run anywhere.
"""

from __future__ import annotations

import contextlib
import hmac
import logging
import re
import secrets
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, cast
from urllib.parse import parse_qsl

from zonewise_common.kube.errors import NotFound, TransportError
from zonewise_common.service.authorizer import TOKEN_HEADER
from zonewise_common.service.handlers import Request, Response, text_response
from zonewise_scheduler.client.cluster.read_api import GZIP_MAGIC, ReadApiUnavailable
from zonewise_scheduler.web.static_files import PREFIX, redirect_browser, serve_file

if TYPE_CHECKING:
    from typing import Self

    from zonewise_scheduler.client.cluster.read_api import ReadApi

log = logging.getLogger(__name__)

EVENTS = "/api/v1/cluster/events"
_DATA = re.compile(r"/api/v1(?:/[A-Za-z0-9][A-Za-z0-9.-]*)+")
"""Paths that are passed on: Kubernetes names, without "..", which the API server would resolve."""
_IDLE = 30.0
"""Seconds of silence that end a stream; the controller sends a comment every 10 s (readapi/cluster_feed.py)."""
_INDEX = f"The page of `zonewise page`: {PREFIX}\n"


class PageServer:
    """Serves until the context ends."""

    def __init__(self, read_api: ReadApi, port: int) -> None:
        """Listen on a port of 127.0.0.1, or on any free one if it is 0. Raises OSError."""
        self._server = _Server(read_api, port)
        self._thread = threading.Thread(target=self._server.serve_forever, name="page", daemon=True)

    @property
    def url(self) -> str:
        """Return the address of the page, with this server's token."""
        return f"http://127.0.0.1:{self._server.server_address[1]}{PREFIX}#token={self._server.token}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    """Browsers keep connections open; the program does not wait for them."""

    def __init__(self, read_api: ReadApi, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.read_api = read_api
        self.token = secrets.token_urlsafe(32)

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 -- the standard library's
        """Log errors other than broken connections, which browsers cause all the time."""
        error = sys.exception()
        if not isinstance(error, ConnectionError | TimeoutError):
            log.error("a request of the page failed", exc_info=error)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60.0
    """Seconds before a connection that is silent, or does not read, is closed."""

    def do_GET(self) -> None:
        """Respond to a GET."""
        server = cast("_Server", self.server)
        path, _, query = self.path.partition("?")
        if not path.startswith("/api/"):
            self.send(_file(path, {name.lower(): value for name, value in self.headers.items()}))
        elif not hmac.compare_digest(self.headers.get(TOKEN_HEADER, "").encode(), server.token.encode()):
            self.send(text_response(401, "open the complete address that `zonewise page` printed\n"))
        elif not _DATA.fullmatch(path):
            self.send(text_response(404, f"nothing is served under {path[:80]}\n"))
        elif path == EVENTS:
            self.stream(server.read_api)
        else:
            self.send(_data(server.read_api, path, query))

    def send(self, response: Response) -> None:
        """Send a whole response."""
        self._send_head(response, (("Content-Length", str(len(response.body))),))
        self.wfile.write(response.body)

    def stream(self, read_api: ReadApi) -> None:
        """Pass on the events after the browser's last one, until either side closes its connection."""
        self.close_connection = True
        try:
            events = read_api.events(EVENTS, self.headers.get("Last-Event-ID", ""), idle=_IDLE)
        except (ReadApiUnavailable, NotFound) as error:
            self.send(text_response(502, f"{error}\n"))
            return
        try:
            self._send_head(Response(200, "text/event-stream", b""), (("Connection", "close"),))
            with contextlib.suppress(TransportError):
                for line in events:
                    self.wfile.write(line + b"\n")
        finally:
            events.close()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the name of the standard library
        """Print nothing: the terminal shows the address."""

    def _send_head(self, response: Response, headers: tuple[tuple[str, str], ...]) -> None:
        self.send_response(response.status)
        has_own = {name for name, _ in response.headers}
        common = (("Content-Type", response.content_type), ("Cache-Control", "no-store"),
                  ("X-Content-Type-Options", "nosniff"))  # fmt: skip
        for name, value in (*(each for each in common if each[0] not in has_own), *response.headers, *headers):
            self.send_header(name, value)
        self.end_headers()


def _file(path: str, headers: dict[str, str]) -> Response:
    request = Request("GET", path, headers.get("accept", ""), headers=headers)
    if path.startswith(PREFIX):
        return serve_file(request)
    return (
        redirect_browser(request, _INDEX)
        if path == "/"
        else text_response(404, f"nothing is served under {path[:80]}\n")
    )


def _data(read_api: ReadApi, path: str, query: str) -> Response:
    """Return the controller's response; 502 with the reason if there is none."""
    try:
        body = read_api.body(path, dict(parse_qsl(query)))
    except NotFound as error:
        return text_response(404, f"{error.message}\n")
    except ReadApiUnavailable as error:
        return text_response(502, f"{error}\n")
    encoding = (("Content-Encoding", "gzip"),) if body.startswith(GZIP_MAGIC) else ()
    return Response(200, "application/json", body, encoding)
