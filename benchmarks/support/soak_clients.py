"""Hostile clients of one port: silent connections, slow writers, noise, and requests that are too deep or too large."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable

_SILENT = 100
"""Number of concurrent connections that never send anything."""
_SLOW = 10
_PERIOD = 0.5
"""Seconds between two attacks."""
_TIMEOUT = 2.0


class HostileClients:
    """Attacks one port until it is closed; `port` returns the port as long as the program may listen there."""

    def __init__(self, port: Callable[[], int], seed: int) -> None:
        self._port = port
        self._chance = random.Random(seed)  # noqa: S311 -- no secret
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._open: list[socket.socket] = []
        self.attacks = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        for connection in self._open:
            connection.close()

    def _run(self) -> None:
        attacks = (self._stay_silent, self._write_slowly, self._send_noise, self._send_deep, self._send_large)
        while not self._stopping.wait(_PERIOD):
            with contextlib.suppress(OSError):
                self._chance.choice(attacks)()
            self.attacks += 1

    def _connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._port()), _TIMEOUT)

    def _stay_silent(self) -> None:
        while len(self._open) > _SILENT:
            self._open.pop(0).close()
        for _ in range(_SILENT // 2):
            self._open.append(self._connect())

    def _write_slowly(self) -> None:
        for _ in range(_SLOW):
            self._open.append(self._connect())
        slow = self._open[-_SLOW:]
        for byte in b"POST /filter HTTP/1.1\r\nContent-Length: 100000\r\n":
            for connection in slow:
                connection.send(bytes([byte]))
            if self._stopping.wait(0.02):
                break

    def _send_noise(self) -> None:
        with self._connect() as connection:
            connection.sendall(self._chance.randbytes(4096))

    def _send_deep(self) -> None:
        self._post(b'{"Pod":' + b"[" * 5000 + b"]" * 5000 + b"}")

    def _send_large(self) -> None:
        containers = b'{"name":"c"},' * 20_000 + b'{"name":"d"}'
        pod = b'{"metadata":{"uid":"u"},"spec":{"containers":[%b]}}' % containers
        self._post(b'{"Pod":%b,"NodeNames":["node-0"]}' % pod)

    def _post(self, body: bytes) -> None:
        with self._connect() as connection:
            head = b"POST /filter HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body)
            connection.sendall(head + body)
            connection.recv(4096)
