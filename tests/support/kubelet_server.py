"""A kubelet's HTTPS server with /configz. It has a certificate of a CA and requires a token."""

from __future__ import annotations

import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    import trustme

TOKEN = "let-me-in"  # noqa: S105 -- of a server of this process


class KubeletServer:
    """Serves one document on a free port of 127.0.0.1 inside a `with` block."""

    def __init__(self, ca: trustme.CA, *names: str) -> None:
        """Serve with a certificate for these names and addresses."""
        self.configuration: dict[str, Any] = {"cpuManagerPolicy": "static"}
        self.status = 200
        self.body: bytes | None = None
        self.authorizations: list[str | None] = []
        self._server = _server(self)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ca.issue_cert(*names).configure_cert(context)  # pyright: ignore[reportUnknownMemberType]
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        # a poll interval of 10 ms makes each test end quickly
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._server.server_address[1]}/configz"

    def respond(self, path: str, authorization: str | None) -> tuple[int, bytes]:
        self.authorizations.append(authorization)
        if path != "/configz":
            return 404, b""
        if authorization != f"Bearer {TOKEN}":
            return 401, b"Unauthorized"
        body = json.dumps({"kubeletconfig": self.configuration}).encode() if self.body is None else self.body
        return self.status, body

    def __enter__(self) -> KubeletServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _server(owner: KubeletServer) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = owner.respond(self.path, self.headers["Authorization"])
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base class's name
            """Log nothing."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """Ignore the error: a client did not trust the certificate."""

    return Server(("127.0.0.1", 0), Handler)


def write_token(directory: Path) -> str:
    """Write the valid token; return its file."""
    path = directory / "token"
    path.write_text(f"{TOKEN}\n")
    return str(path)


def write_ca(directory: Path, ca: trustme.CA) -> str:
    """Write a CA's certificate; return its file."""
    path = directory / "ca.crt"
    ca.cert_pem.write_to_path(str(path))
    return str(path)
