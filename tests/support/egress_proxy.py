"""An HTTP CONNECT proxy on a Unix socket, through which a kube-apiserver reaches pods and Services.

The API server refuses to proxy to loopback addresses, but tests listen only on loopback. So the API server's egress to
the cluster passes this proxy, which connects to one loopback port for every address.

Source: https://kubernetes.io/docs/tasks/extend-kubernetes/setup-konnectivity (EgressSelectorConfiguration).
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

_SIZE = 65_536


class EgressProxy:
    """A proxy that runs inside a `with` block."""

    def __init__(self, directory: Path, port: int) -> None:
        self.port = port
        """The loopback port where all connections end."""
        self.file = directory / "egress.json"
        """The API server's egress configuration."""
        self.targets: list[str] = []
        """The addresses that clients wanted to reach."""
        path = str(directory / "egress.sock")
        uds = {"proxyProtocol": "HTTPConnect", "transport": {"uds": {"udsName": path}}}
        selection = {"name": "cluster", "connection": uds}
        self.file.write_text(json.dumps({
            "apiVersion": "apiserver.k8s.io/v1beta1", "kind": "EgressSelectorConfiguration",
            "egressSelections": [selection],
        }))  # fmt: skip
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()

    def serve(self) -> None:
        """Serve until the listener is closed."""
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=(connection,), daemon=True).start()

    def close(self) -> None:
        """Stop serving."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _connect(self, client: socket.socket) -> None:
        with client:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                if not (byte := client.recv(1)):
                    return  # the client has closed
                head += byte
            self.targets.append(head.split(b" ")[1].decode())
            self._pass_on(client)

    def _pass_on(self, client: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", self.port)) as server:
            client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            back = threading.Thread(target=_copy, args=(server, client), daemon=True)
            back.start()
            _copy(client, server)
            back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_SIZE):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def egress_proxy(directory: Path, port: int) -> Generator[EgressProxy]:
    """Run a proxy."""
    proxy = EgressProxy(directory, port)
    thread = threading.Thread(target=proxy.serve, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join()
