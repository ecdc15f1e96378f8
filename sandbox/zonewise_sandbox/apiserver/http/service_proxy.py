"""The proxy of Services: /api/v1/namespaces/NAMESPACE/services/[SCHEME:]NAME[:PORT]/proxy/PATH.

Source: pkg/registry/core/service/storage/storage.go (ResourceLocation) and k8s.io/apimachinery/pkg/util/proxy. Headers
are passed on, except Authorization (apiserver pkg/endpoints/filters/authentication.go) and those of a connection
(net/http/httputil). The certificate of a service is not verified (pkg/controlplane/apiserver/config.go,
CreateProxyTransport). Server-Sent Events are passed on as they arrive; any other response is read whole. Not supported:
connection upgrades, and rewriting of absolute addresses in HTML.
"""

from __future__ import annotations

import contextlib
import http.client
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from zonewise_sandbox.apiserver.http.wire import Response
from zonewise_sandbox.apiserver.status_errors import StatusError

if TYPE_CHECKING:
    from collections.abc import Generator

    from zonewise_sandbox.apiserver.http.wire import Request

ServiceAddresses = Callable[[str, str, str], tuple[str, int] | None]
"""Returns the host and port of a service from its namespace, its name and its port's name; None if there is none."""

_TIMEOUT = 30.0
"""Seconds to wait for a response."""
_MARKS = ("services", "proxy")
_NOT_PASSED_ON = frozenset({
    "authorization", "connection", "content-length", "host", "keep-alive", "proxy-authenticate", "proxy-authorization",
    "te", "trailer", "transfer-encoding", "upgrade",
})  # fmt: skip
_OWN = _NOT_PASSED_ON | {"cache-control", "content-type", "date", "server"}
"""Response headers that this server sets itself."""
_CHUNK = 1 << 16


def no_addresses(_namespace: str, _name: str, _port: str) -> tuple[str, int] | None:
    """Return None for every service."""
    return None


def is_proxied(parts: list[str]) -> bool:
    """Return whether the parts of a path belong to the proxy of a Service."""
    return len(parts) >= 7 and parts[:3] == ["api", "v1", "namespaces"] and (parts[4], parts[6]) == _MARKS


def proxy(request: Request, parts: list[str], addresses: ServiceAddresses) -> Response:
    """Return the response of a service.

    Raises StatusError: 404 if there is no such service, 503 if it does not respond.
    """
    namespace, text = parts[3], parts[5].split(":")
    scheme, name, port = text if len(text) == 3 else ("", *(*text, "")[:2])
    if scheme not in {"", "http", "https"}:
        raise StatusError(400, "BadRequest", f'invalid service request "{parts[5]}"')
    address = addresses(namespace, name, port)
    if address is None:
        raise StatusError(404, "NotFound", f'services "{name}" not found', {"name": name, "kind": "services"})
    path = "/" + "/".join(quote(part) for part in parts[7:])
    if parts[7:] and request.path.endswith("/"):
        path += "/"
    query = f"?{urlencode(request.query)}" if request.query else ""
    connection = _connection(address, has_tls=scheme == "https")
    try:
        headers = {key: value for key, value in request.headers.items() if key not in _NOT_PASSED_ON}
        connection.request(request.method, path + query, request.body or None, headers)
        response = connection.getresponse()
        content_type = response.getheader("Content-Type", "text/plain")
        headers = tuple((key, value) for key, value in response.getheaders() if key.lower() not in _OWN)
        if content_type.startswith("text/event-stream"):
            return Response(response.status, b"", content_type, _parts(connection, response), headers)
        body = response.read()
    except (OSError, http.client.HTTPException) as error:
        connection.close()
        raise StatusError(503, "ServiceUnavailable", f"error trying to reach service: {error}") from error
    connection.close()
    return Response(response.status, body, content_type, headers=headers)


def _parts(connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> Generator[bytes]:
    """Yield the parts of a body as they arrive, b"" after each, until the service ends it or is silent for _TIMEOUT."""
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        while part := response.read1(_CHUNK):
            yield part
            yield b""


def _connection(address: tuple[str, int], *, has_tls: bool) -> http.client.HTTPConnection:
    if not has_tls:
        return http.client.HTTPConnection(*address, timeout=_TIMEOUT)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return http.client.HTTPSConnection(*address, timeout=_TIMEOUT, context=context)
