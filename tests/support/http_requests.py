"""Requests to a test's HTTP server."""

from __future__ import annotations

import http.client
from typing import TYPE_CHECKING, NamedTuple

from support.waiting import PATIENCE

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

    from zonewise_common.service.http_server import HttpServer


class Response(NamedTuple):
    status: int
    body: str
    headers: dict[str, str]


def serve(server: HttpServer) -> Iterator[int]:
    server.start()
    yield server.port
    server.close()


def get(
    port: int,
    path: str,
    method: str = "GET",
    context: ssl.SSLContext | None = None,
    host: str = "127.0.0.1",
    **headers: str,
) -> Response:
    connection = (
        http.client.HTTPSConnection("localhost", port, timeout=PATIENCE, context=context)
        if context is not None
        else http.client.HTTPConnection(host, port, timeout=PATIENCE)
    )
    try:
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return Response(response.status, response.read().decode(), dict(response.headers))
    finally:
        connection.close()
