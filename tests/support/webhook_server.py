"""An admission webhook over HTTPS on loopback, with responses that a test decides."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import trustme

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

Json = dict[str, Any]


class WebhookServer:
    """A webhook; `respond` returns the response to a review's request, without its UID."""

    def __init__(self, respond: Callable[[Json], Json], *names: str) -> None:
        self.respond: Callable[[Json], Json] = respond
        self.requests: list[Json] = []
        """The requests of all reviews so far."""
        authority = trustme.CA()
        self.bundle = base64.b64encode(authority.cert_pem.bytes()).decode()
        """The CA's certificate, in the form of caBundle."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1", *names).configure_cert(context)  # pyright: ignore[reportUnknownMemberType]
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    @property
    def client_config(self) -> Json:
        return {"url": f"https://127.0.0.1:{self.port}/review", "caBundle": self.bundle}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                request = review["request"]
                server.requests.append(request)
                response = {"uid": request["uid"], **server.respond(request)}
                body = json.dumps({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
                pass

        return Handler


def allow(*patch: Json) -> Json:
    """Return a response that allows the request and applies JSON patch operations."""
    if not patch:
        return {"allowed": True}
    coded = base64.b64encode(json.dumps(patch).encode()).decode()
    return {"allowed": True, "patch": coded, "patchType": "JSONPatch"}


def deny(message: str = "", **status: Any) -> Json:
    """Return a response that denies the request."""
    result = {**({"message": message} if message else {}), **status}
    return {"allowed": False, **({"status": result} if result else {})}
