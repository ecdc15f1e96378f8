"""Requests to the controller's read API: at a URL, or through the API server's proxy to the controller's Service.

The API server passes no bearer token on (apiserver pkg/endpoints/filters/authentication.go deletes the header). So a
controller that serves clients of the loopback interface alone, or bearers of tokens, rejects what comes through it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from zonewise_common import __version__
from zonewise_common.cli.command import CommandError
from zonewise_common.kube.config import Config
from zonewise_common.kube.errors import ApiError, Forbidden, KubeError, NotFound, ServerError, TransportError
from zonewise_common.kube.transport import Transport

if TYPE_CHECKING:
    from collections.abc import Mapping

Json = dict[str, Any]

SERVICE, PORT = "zonewise-controller", "metrics"
_TIMEOUT = 10.0
_PAGE = 1000
"""Workloads of a page (controller/status_handler.py MAX_LIMIT)."""
_MAX_PAGES = 200
_FORWARD = "`kubectl port-forward -n {namespace} service/zonewise-controller 9821` and --server http://127.0.0.1:9821"


class ReadApiUnavailable(Exception):
    """The read API gives no answer; the message says why, and what to do."""


class ReadApi:
    """A client of the read API. Each method raises ReadApiUnavailable."""

    def __init__(self, transport: Transport, prefix: str = "", namespace: str = "zonewise") -> None:
        """`prefix`: the path of the proxy; "": the transport reaches the controller itself."""
        self._transport = transport
        self._prefix = prefix
        self._namespace = namespace

    @classmethod
    def at(cls, url: str, token: str = "") -> ReadApi:
        """Return the read API at a URL. Raises CommandError for a text that is none."""
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.netloc:
            raise CommandError(f"--server: {url!r} is no URL, such as http://127.0.0.1:9821")
        return cls(_transport(Config.from_url(url, token or None)))

    def close(self) -> None:
        """Close the idle connections."""
        self._transport.close()

    def get(self, path: str, query: Mapping[str, object] | None = None) -> Json:
        """Return the response of a path such as "/api/v1/plan". Raises NotFound where the controller has no such."""
        try:
            return msgspec.json.decode(self._transport.request("GET", self._prefix + path, query or {}), type=Json)
        except msgspec.DecodeError as error:
            raise ReadApiUnavailable(f"its response is no JSON object: {error}") from error
        except NotFound as error:
            if not self._prefix or error.reason == "":  # the controller's own 404 is no Status
                raise
            raise ReadApiUnavailable(
                f"there is no controller in namespace {self._namespace}: {error.message}"
            ) from error
        except KubeError as error:
            raise ReadApiUnavailable(self._problem(error)) from error

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
        """Return one workload with its explanation; None: the controller does not know it."""
        try:
            return self.get(f"/api/v1/workloads/{namespace}/{name}")
        except NotFound:
            return None

    def _known(self, path: str, query: Mapping[str, object]) -> Json:
        try:
            return self.get(path, query)
        except NotFound as error:
            raise ReadApiUnavailable(f"the controller has no {path}: it is older than this command") from error

    def _problem(self, error: KubeError) -> str:
        if isinstance(error, TransportError) and not self._prefix:
            return f"{error}; is the URL right, and does the controller serve there?"
        if isinstance(error, Forbidden):
            way = f"; a way around: {_FORWARD.format(namespace=self._namespace)}" if self._prefix else ""
            return f"it rejects the request: {error.message}{way}"
        if isinstance(error, ServerError) and self._prefix:
            return f"the API server cannot reach the controller: {error.message}"
        return error.message if isinstance(error, ApiError) else str(error)


def proxied_read_api(config: Config, namespace: str, scheme: str = "") -> ReadApi:
    """Return the read API behind the API server (kubectl's proxy to a Service; scheme "https" where it serves TLS)."""
    service = f"{scheme}:{SERVICE}:{PORT}" if scheme else f"{SERVICE}:{PORT}"
    return ReadApi(_transport(config), f"/api/v1/namespaces/{namespace}/services/{service}/proxy", namespace)


def _transport(config: Config) -> Transport:
    return Transport(config, timeout=_TIMEOUT, user_agent=f"zonewise/{__version__}")
