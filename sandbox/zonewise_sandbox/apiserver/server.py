"""The server: a listening socket, a thread for each connection, and controls for tests."""

from __future__ import annotations

import contextlib
import logging
import socket
import socketserver
import threading
import time
from typing import TYPE_CHECKING, cast

from zonewise_sandbox.apiserver.http.service_proxy import ServiceAddresses, no_addresses
from zonewise_sandbox.apiserver.http.watch import BOOKMARK_INTERVAL
from zonewise_sandbox.apiserver.http.wire import BadRequest, read_request, write_response, write_stream
from zonewise_sandbox.apiserver.json_values import object_in
from zonewise_sandbox.apiserver.kinds import DEFINITION, Registry
from zonewise_sandbox.apiserver.request_info import Target, WriteOptions
from zonewise_sandbox.apiserver.reviews import ADMIN, Reviews
from zonewise_sandbox.apiserver.router import Router, ServerSettings
from zonewise_sandbox.apiserver.schemas.crds import read_definitions
from zonewise_sandbox.apiserver.storage.store import HISTORY, Store
from zonewise_sandbox.apiserver.webhook_client import Resolver, no_resolver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from zonewise_common.kube.config import Config
    from zonewise_sandbox.apiserver.json_values import Object
    from zonewise_sandbox.apiserver.kinds import Kind


log = logging.getLogger(__name__)

_PATIENCE = 2.0
"""Seconds for which close() waits for responses in progress."""
_OWN_WRITE = WriteOptions(manager="zonewise-server")
_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


class ApiServer:
    """A Kubernetes API server in memory, on loopback, for demonstrations and tests.

    It behaves like kube-apiserver 1.36 with the controllers that every cluster runs: dependents are collected, and
    namespaces are emptied. Use it as a context manager. Raises OSError if the port is in use.
    """

    def __init__(  # noqa: PLR0913 -- the switches of tests, by name
        self,
        port: int = 0,
        *,
        crds: Iterable[str | Path] = (),
        token: str | None = None,
        token_reviewer: Callable[[str], Object | None] | None = None,
        access_reviewer: Callable[[Object], bool] = bool,
        history: int = HISTORY,
        bookmark_interval: float = BOOKMARK_INTERVAL,
        resolve: Resolver = no_resolver,
        services: ServiceAddresses = no_addresses,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create a server on a port (0: any free one), with files of definitions and a required token.

        `token_reviewer` returns the user (UserInfo) of a token in a TokenReview; by default, the server's own token
        belongs to the administrator. `access_reviewer` returns whether a SubjectAccessReviewSpec is allowed. `history`
        is the number of past events that watches can start from, `bookmark_interval` the seconds between bookmarks.
        `resolve` returns the address of a webhook's service from its namespace, name and port; `services` returns that
        of a service behind the proxy.
        `clock`, in seconds since 1970, sets the times in objects and the header Date.
        """
        self._token = token
        self.store = Store(history, clock)
        self._registry = Registry()
        reviews = Reviews(token_reviewer or self._own_user, access_reviewer)
        settings = ServerSettings(token, reviews, bookmark_interval, resolve, services)
        self._router = Router(self.store, self._registry, settings)
        for name in _NAMESPACES:
            self.create("", "namespaces", {"metadata": {"name": name}})
        for definition in read_definitions(crds):
            self.create(*DEFINITION.resource, definition)
        self._listener = _Listener(("127.0.0.1", port), self._router, clock)
        self._thread = threading.Thread(
            target=self._listener.serve_forever, args=(0.05,), name="api-server", daemon=True
        )

    @property
    def port(self) -> int:
        """Return the port on which the server listens."""
        return self._listener.server_address[1]

    @property
    def url(self) -> str:
        """Return the URL for clients."""
        return f"http://127.0.0.1:{self.port}"

    def client_config(self) -> Config:
        """Return the configuration for a client of this server."""
        from zonewise_common.kube.config import Config

        return Config.from_url(self.url, token=self._token)

    def create(self, group: str, plural: str, obj: Object) -> Object:
        """Create an object without a request, before or while the server runs; return it as stored.

        Raises StatusError if the object is invalid, and LookupError if its kind is not served.
        """
        target = Target(self._kind(group, plural), object_in(obj, "metadata").get("namespace") or "")
        return self._router.objects.create(target, obj, _OWN_WRITE)

    def change(self, group: str, plural: str, name: str, change: Callable[[Object], Object]) -> Object:
        """Change a cluster-wide object without a request; return it as stored. Raises like create()."""
        target = Target(self._kind(group, plural), name=name)
        return self._router.objects.patch(target, change, _OWN_WRITE)

    def start(self) -> None:
        """Start to serve."""
        self._thread.start()

    def close(self) -> None:
        """Stop listening, and end every watch and connection: gracefully if they end within two seconds."""
        if self._thread.is_alive():
            self._listener.shutdown()
            self._thread.join()
        self._listener.server_close()
        self._listener.hang_up()
        self.store.end_subscriptions()
        self._listener.wait_until_idle(_PATIENCE)
        self._listener.disconnect()

    def forget_history(self) -> None:
        """Drop the history, as etcd's compaction does: older versions and unfinished lists then get a 410."""
        self.store.forget()
        self._router.lister.forget()

    def end_watches(self) -> None:
        """End every watch now, gracefully, like a restarting server."""
        self.store.end_subscriptions()

    def disconnect(self) -> None:
        """Break every connection, like a crashing server; the server keeps listening."""
        self._listener.disconnect()

    def __enter__(self) -> ApiServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _kind(self, group: str, plural: str) -> Kind:
        kind = self._registry.find_resource((group, plural))
        if kind is None:
            raise LookupError(f"no kind {plural} of the group {group or 'core'} is served")
        return kind

    def _own_user(self, token: str) -> Object | None:
        return ADMIN if self._token is not None and token == self._token else None


class _Listener(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], router: Router, clock: Callable[[], float]) -> None:
        self.router, self.clock = router, clock
        self._connections: set[socket.socket] = set()
        self._lock = threading.Condition()
        super().__init__(address, _Connection)

    def add(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.add(connection)

    def drop(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.discard(connection)
            self._lock.notify_all()

    def hang_up(self) -> None:
        """Accept no more requests; responses in progress are completed."""
        self._shutdown(socket.SHUT_RD)

    def disconnect(self) -> None:
        self._shutdown(socket.SHUT_RDWR)

    def wait_until_idle(self, seconds: float) -> None:
        with self._lock:
            self._lock.wait_for(lambda: not self._connections, seconds)

    def _shutdown(self, how: int) -> None:
        with self._lock:
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(how)


class _Connection(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True
    wbufsize = -1  # a head and its body are sent in one packet

    def handle(self) -> None:
        listener, connection = self._listener, self.connection
        listener.add(connection)
        try:
            with contextlib.suppress(OSError):  # the client has disconnected
                while self._serve_next(connection):
                    pass
        except BadRequest as error:
            log.warning("connection of %s: %s", self.client_address, error)
        finally:
            listener.drop(connection)

    @property
    def _listener(self) -> _Listener:
        return cast("_Listener", self.server)

    def finish(self) -> None:
        with contextlib.suppress(OSError):
            super().finish()

    def _serve_next(self, connection: socket.socket) -> bool:
        request = read_request(self.rfile, self.wfile)
        if request is None:
            return False
        response = self._listener.router.handle(request)
        if response.stream is None:
            write_response(self.wfile, response, self._listener.clock())
        else:
            with contextlib.closing(response.stream):
                write_stream(self.wfile, response, self._listener.clock(), connection)
        return not request.close
