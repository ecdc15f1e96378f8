"""The minimum that a client spends on writes: prepared bytes, a few connections, and no decoding of responses.

It is a separate process, so that its threads do not share an interpreter with the measurement.
"""

from __future__ import annotations

import multiprocessing
import ssl
import threading
import time
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from http.client import HTTPConnection, HTTPSConnection
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self


class PreparedWrite(NamedTuple):
    """One request."""

    method: str
    path: str
    content_type: str
    body: bytes


class ServerAccess(NamedTuple):
    """A server, and the credentials of an administrator."""

    url: str
    token: str = ""
    ca: str | None = None
    """File of the CA's certificate, in PEM."""


class MinimalClient:
    """Sends prepared writes while the context is entered."""

    def __init__(self, access: ServerAccess, connections: int) -> None:
        """Create a client with `connections` concurrent connections."""
        self._access = access
        self._connections = connections
        self._process = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))

    def __enter__(self) -> Self:
        self.send([])  # starts the process
        return self

    def __exit__(self, *_: object) -> None:
        self._process.shutdown()

    def send(self, chains: Sequence[Sequence[PreparedWrite]]) -> float:
        """Send the writes of each chain one after another, and several chains at once; return the seconds.

        The connections are opened beforehand. Raises RuntimeError if the server rejects a write.
        """
        return self._process.submit(_send, self._access, self._connections, chains).result()


def _send(access: ServerAccess, connections: int, chains: Sequence[Sequence[PreparedWrite]]) -> float:
    waiting, problems = deque(chains), list[str]()
    opened = [_connect(access) for _ in range(connections)]
    threads = [
        threading.Thread(target=_work, args=(connection, access.token, waiting, problems)) for connection in opened
    ]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begin
    for connection in opened:
        connection.close()
    if problems:
        raise RuntimeError(f"{len(problems)} writes failed: {problems[0]}")
    return seconds


def _connect(access: ServerAccess) -> HTTPConnection:
    url = urlsplit(access.url)
    host = url.hostname or ""
    if url.scheme == "https":
        connection = HTTPSConnection(host, url.port, context=ssl.create_default_context(cafile=access.ca))
    else:
        connection = HTTPConnection(host, url.port)
    connection.connect()
    return connection


def _work(connection: HTTPConnection, token: str, waiting: deque[Sequence[PreparedWrite]], problems: list[str]) -> None:
    while True:
        try:
            chain = waiting.popleft()
        except IndexError:
            return
        for write in chain:
            headers = {"Content-Type": write.content_type, "Authorization": f"Bearer {token}"}
            connection.request(write.method, write.path, write.body, headers)
            response = connection.getresponse()
            body = response.read()
            if response.status >= 300:
                problems.append(f"{write.method} {write.path}: {response.status}: {body[:500]!r}")
