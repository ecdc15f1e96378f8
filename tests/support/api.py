"""A bare HTTP client of a Kubernetes API server, for tests that must not depend on the project's own client."""

from __future__ import annotations

import contextlib
import json
import time
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

import urllib3

from support.waiting import PATIENCE, pause

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

Json = dict[str, Any]

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

_STARTING = b"storage is (re)initializing"  # apiserver pkg/storage/cacher/cacher.go


class Answer(NamedTuple):
    status: int
    body: Any
    """The parsed JSON, or the text if the body is not JSON."""
    headers: dict[str, str]
    """Header names are lower-case."""

    def ok(self) -> Any:
        """Return the body of a successful response; fail the test on any other response."""
        assert 200 <= self.status < 300, f"{self.status}: {self.body}"
        return self.body

    def refused(self, status: int, reason: str) -> Json:
        """Return the Status body of an error with this status and reason; fail the test on any other response."""
        assert self.status == status, f"{self.status}: {self.body}"
        assert self.body["kind"] == "Status"
        assert self.body["apiVersion"] == "v1"
        assert self.body["status"] == "Failure"
        assert self.body["code"] == status
        assert self.body["reason"] == reason, self.body
        return self.body


class Api:
    """A client of one server with one identity."""

    def __init__(self, url: str, token: str | None = None, ca: str | None = None) -> None:
        """Set the base URL, the bearer token, and the file of the CA's certificate."""
        self.url = url
        self.token = token
        self.ca = ca
        # no retries: tests examine every response
        self._pool = urllib3.PoolManager(4, ca_certs=ca, retries=False, timeout=urllib3.Timeout(PATIENCE))

    def request(self, method: str, path: str, body: Any = None, content: str = "", /, **query: Any) -> Answer:
        """Send one request; `_headers` in the query are extra headers.

        A real server rejects all requests for a newly defined kind while it fills its cache. These requests are sent
        again.
        """
        headers = self._headers(query.pop("_headers", {}))
        if body is not None:
            headers["Content-Type"] = content or "application/json"
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        address = self._address(path, query)
        response = self._pool.request(method, address, body=data, headers=headers)
        started = time.monotonic()
        while response.status == 429 and _STARTING in response.data:
            waited = time.monotonic() - started
            if waited > PATIENCE:
                break
            pause(waited)
            response = self._pool.request(method, address, body=data, headers=headers)
        headers = {name.lower(): response.headers[name] for name in response.headers}  # repeated ones are joined
        return Answer(response.status, _parsed(response.data), headers)

    def get(self, path: str, **query: Any) -> Answer:
        return self.request("GET", path, **query)

    def post(self, path: str, body: Any, **query: Any) -> Answer:
        return self.request("POST", path, body, **query)

    def put(self, path: str, body: Any, **query: Any) -> Answer:
        return self.request("PUT", path, body, **query)

    def delete(self, path: str, body: Any = None, **query: Any) -> Answer:
        return self.request("DELETE", path, body, **query)

    def patch(self, path: str, body: Any, content: str = MERGE, **query: Any) -> Answer:
        return self.request("PATCH", path, body, content, **query)

    def apply(self, path: str, body: Any, manager: str, **query: Any) -> Answer:
        return self.request("PATCH", path, body, APPLY, fieldManager=manager, **query)

    def serves(self, group: str, version: str, plural: str) -> bool:
        """Return whether a custom resource is both served and in discovery, which separate threads update later."""
        path = f"/apis/{group}/{version}"
        told = self.get(path)
        return (
            told.status == 200
            and any(one["name"] == plural for one in told.body["resources"])
            and any(one["name"] == group for one in self.get("/apis").ok()["groups"])
            and self.get(f"{path}/{plural}").status == 200
        )

    @contextlib.contextmanager
    def watch(self, path: str, **query: Any) -> Generator[Iterator[Json]]:
        """Open a watch and yield its events until the server ends it. A long silence fails the test."""
        headers = self._headers(query.pop("_headers", {}))
        address = self._address(path, {"watch": "true", **query})
        response = self._pool.request("GET", address, headers=headers, preload_content=False)
        try:
            assert response.status == 200, response.data
            yield _lines(response)
        finally:
            response.close()

    def close(self) -> None:
        self._pool.clear()

    def _headers(self, extra: dict[str, str]) -> dict[str, str]:
        return {**({"Authorization": f"Bearer {self.token}"} if self.token else {}), **extra}

    def _address(self, path: str, query: dict[str, Any]) -> str:
        return f"{self.url}{path}?{urlencode(query)}" if query else f"{self.url}{path}"


def _lines(response: urllib3.BaseHTTPResponse) -> Iterator[Json]:
    rest = b""
    for chunk in response.stream(65536):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (json.loads(line) for line in lines if line.strip())


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return data.decode("utf-8", "replace")
