"""Requests to the controller's read API: at a URL, or through the API server's proxy to the controller's Service.

The API server passes a request to any replica of the controller. A replica that does not lead responds with 421
(shared_port.py), and the request is sent again. The API server selects a random replica for each request
(pkg/registry/core/service/storage/storage.go, ResourceLocation).

The API server does not pass on the header Authorization (apiserver pkg/endpoints/filters/authentication.go deletes it).
A token for the controller is therefore in a separate header. It is sent only over TLS, to the webhook port. Without a
token, the request goes to the metrics port, where a controller on the same machine may respond.
"""

from __future__ import annotations

import gzip
import time
import zlib
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from zonewise_common import __version__
from zonewise_common.cli.command import CommandError
from zonewise_common.kube.config import Config
from zonewise_common.kube.errors import (
    ApiError,
    ConfigError,
    Forbidden,
    KubeError,
    NotFound,
    ServerError,
    TooManyRequests,
    TransportError,
    Unauthorized,
)
from zonewise_common.kube.transport import Transport
from zonewise_common.service.authorizer import TOKEN_HEADER
from zonewise_common.service.handlers import is_loopback
from zonewise_scheduler.client.cluster.token_file import NO_FILE, TokenFile
from zonewise_scheduler.client.cluster.viewer_token import ViewerToken

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zonewise_common.kube.transport import Stream

T = TypeVar("T")
Json = dict[str, Any]

SERVICE, PORT, TLS_PORT = "zonewise-controller", "metrics", "webhooks"
_TIMEOUT = 10.0
_PAGE = 1000
"""Workloads per page (controller/status_handler.py MAX_LIMIT)."""
_MAX_PAGES = 200
_TRIES, _PAUSE = 4, 1.0
"""Attempts for a request that gets 429, and the seconds between two of them."""
_MISDIRECTED = 421
_MISDIRECTED_TRIES = 16
"""Attempts for a request that gets 421, without a pause: with two replicas, one of 65,000 requests fails."""
GZIP_MAGIC = b"\x1f\x8b"
"""The first bytes of a compressed body (RFC 1952, section 2.3.1)."""
_FORWARD = "`kubectl port-forward -n {namespace} service/zonewise-controller 9821` and --server http://127.0.0.1:9821"


class ReadApiUnavailable(Exception):
    """The read API is not available; the message states the reason and the remedy."""


class ReadApi:
    """A client of the read API. Each method raises ReadApiUnavailable."""

    def __init__(
        self, transport: Transport, namespace: str = "", token: ViewerToken | None = None, pause: float = _PAUSE
    ) -> None:
        """Create a client; `namespace` is the controller's, or "" if the transport reaches the controller directly.

        `token` is None if the API server is reached without TLS. `pause` is the seconds between two attempts.
        """
        self._transport = transport
        self._namespace = namespace
        self._token = token
        self._pause = pause

    @classmethod
    def at(cls, url: str, token: str = "") -> ReadApi:
        """Return the read API at a URL. Raises CommandError if the text is not a URL."""
        try:
            parts = urlsplit(url)
            transport = _transport(Config.from_url(url, token or None))
        except (ValueError, ConfigError) as error:
            raise CommandError(f"--server: {url!r} is not a URL, such as http://127.0.0.1:9821") from error
        if token and parts.scheme == "http" and parts.hostname != "localhost" and not is_loopback(parts.hostname or ""):
            raise CommandError(f"--server: {url!r}: a token is sent only over https, or to this machine")
        return cls(transport)

    def close(self) -> None:
        """Close the idle connections."""
        self._transport.close()

    def get(self, path: str, query: Mapping[str, object] | None = None) -> Json:
        """Return the response for a path such as "/api/v1/plan". Raises NotFound if the controller lacks the path."""
        body = self.body(path, query or {})
        try:
            return msgspec.json.decode(gzip.decompress(body) if body.startswith(GZIP_MAGIC) else body, type=Json)
        except (msgspec.DecodeError, OSError, EOFError, zlib.error) as error:
            raise ReadApiUnavailable(f"its response is not a JSON object: {error}") from error

    def body(self, path: str, query: Mapping[str, object]) -> bytes:
        """Return the body of a response as the controller sent it: compressed by gzip if it begins with GZIP_MAGIC.

        Raises NotFound if the controller does not have the path.
        """
        return self._responding(
            lambda prefix, headers: self._transport.request(
                "GET", prefix + path, query, headers={**headers, "Accept-Encoding": "gzip"}
            )
        )

    def events(self, path: str, last_event_id: str, *, idle: float) -> Stream:
        """Return the Server-Sent Events of a path after an event; after `idle` seconds of silence the stream ends."""
        return self._responding(
            lambda prefix, headers: self._transport.stream(
                prefix + path, {}, idle=idle, headers={**headers, "Last-Event-ID": last_event_id}
            )
        )

    def workloads(self, namespace: str | None = None, queue: str = "") -> dict[tuple[str, str], Json]:
        """Return pending and running workloads by namespace and name, in the order of the list."""
        rows: dict[tuple[str, str], Json] = {}
        for page in range(_MAX_PAGES):
            query = {"namespace": namespace or "", "queue": queue, "limit": _PAGE, "offset": page * _PAGE}
            body = self._known("/api/v1/workloads", query)
            items: list[Json] = body.get("items") or []
            rows |= {(str(item["namespace"]), str(item["name"])): item for item in items}
            if len(items) < _PAGE:
                break
        return rows

    def workload(self, namespace: str, name: str) -> Json | None:
        """Return one workload with its explanation; None if the controller does not know it."""
        try:
            return self.get(f"/api/v1/workloads/{namespace}/{name}")
        except NotFound:
            return None

    def _responding(self, send: Callable[[str, dict[str, str]], T]) -> T:
        """Call `send` with a path's prefix and a request's headers, and return the result. Raises NotFound."""
        try:
            return self._sent(send)
        except NotFound as error:
            if not self._namespace or error.reason == "":  # the controller's own 404 is not a Status
                raise
            raise ReadApiUnavailable(
                f"there is no controller in namespace {self._namespace} ({error.message}); "
                "--controller-namespace names another namespace"
            ) from error
        except KubeError as error:
            raise ReadApiUnavailable(self._problem(error)) from error

    def _sent(self, send: Callable[[str, dict[str, str]], T]) -> T:
        """Send a request until a replica that leads and is not busy responds. Raises KubeError.

        A token may become invalid before it expires, so the request is sent once more with a new one.
        """
        busy = misdirected = rejected = 0
        while True:
            prefix, headers = self._route()
            try:
                return send(prefix, headers)
            except Unauthorized:
                rejected += 1
                if rejected > 1 or not self._reject_token(headers.get(TOKEN_HEADER, "")):
                    raise
            except TooManyRequests:
                busy += 1
                if busy == _TRIES:
                    raise
                time.sleep(self._pause)
            except ApiError as error:
                misdirected += 1
                if error.status != _MISDIRECTED or misdirected == _MISDIRECTED_TRIES:
                    raise

    def _route(self) -> tuple[str, dict[str, str]]:
        """Return the prefix of a path, and the headers of a request."""
        if not self._namespace:
            return "", {}
        services = f"/api/v1/namespaces/{self._namespace}/services"
        token = "" if self._token is None else self._token.get()
        if token:
            return f"{services}/https:{SERVICE}:{TLS_PORT}/proxy", {TOKEN_HEADER: token}
        return f"{services}/{SERVICE}:{PORT}/proxy", {}

    def _reject_token(self, token: str) -> bool:
        """Return whether another token will be requested in place of this one."""
        return self._token is not None and bool(token) and self._token.reject(token)

    def _known(self, path: str, query: Mapping[str, object]) -> Json:
        try:
            return self.get(path, query)
        except NotFound as error:
            raise ReadApiUnavailable(f"the controller has no {path}: it is older than this command") from error

    def _problem(self, error: KubeError) -> str:
        if isinstance(error, TransportError) and not self._namespace:
            return f"{error}; check the URL, and that the controller serves there"
        if isinstance(error, Forbidden | Unauthorized):
            problem = "" if self._token is None else self._token.problem
            way = f"; a way around: {_FORWARD.format(namespace=self._namespace)}" if self._namespace else ""
            return f"it rejected the request: {problem or error.message.rstrip()}{way}"
        if isinstance(error, ApiError) and error.status == _MISDIRECTED:
            return "no replica of the controller leads; try again in a few seconds"
        if isinstance(error, ServerError) and self._namespace:
            return f"the API server cannot reach the controller: {error.message}"
        return error.message if isinstance(error, ApiError) else str(error)


def proxied_read_api(config: Config, namespace: str, token: str = "", file: TokenFile = NO_FILE) -> ReadApi:
    """Return the read API behind the API server.

    If `token` is "" and the API server has TLS, a token is read from a file or requested, and written to that file.
    """
    transport = _transport(config)
    has_tls = urlsplit(config.url).scheme == "https"
    return ReadApi(transport, namespace, ViewerToken(transport, namespace, token, file) if has_tls else None)


def _transport(config: Config) -> Transport:
    return Transport(config, timeout=_TIMEOUT, user_agent=f"zonewise/{__version__}")
