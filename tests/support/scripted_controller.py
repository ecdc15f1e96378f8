"""A controller with scripted responses of its read API."""

from __future__ import annotations

import contextlib
import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Generator
    from email.message import Message

    Responses = dict[str, tuple[int, str]]

EVENTS = "/api/v1/cluster/events"


class ScriptedController:
    """A server that responds by path, compresses if the client accepts that, and records each request."""

    def __init__(self) -> None:
        self.responses: Responses = {}
        """Status and text by path; 404 for other paths."""
        self.standbys = 0
        """The number of next requests that get the response of a replica that does not lead."""
        self.requests: list[tuple[str, Message]] = []
        """Path and headers."""
        self.ending = threading.Event()
        """When set, ends the streams of EVENTS, which first send one event."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.requests.append((self.path, self.headers))
                path = self.path.partition("?")[0]
                if path == EVENTS:
                    self._stream()
                    return
                status, text = outer.responses.get(path, (404, "nothing here\n"))
                if outer.standbys:
                    outer.standbys -= 1
                    status, text = 421, "this replica does not lead\n"
                body = text.encode()
                if status == 200 and self.headers["Accept-Encoding"] == "gzip":
                    body = gzip.compress(body)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def _stream(self) -> None:
                self.close_connection = True
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"event: changes\ndata: {}\n\n")
                outer.ending.wait()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the name of the standard library
                """Write nothing to standard error."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@contextlib.contextmanager
def scripted_controller() -> Generator[ScriptedController]:
    running = ScriptedController()
    thread = threading.Thread(target=running.server.serve_forever, args=(0.01,))
    thread.start()
    yield running
    running.ending.set()
    running.server.shutdown()
    thread.join()
    running.server.server_close()
