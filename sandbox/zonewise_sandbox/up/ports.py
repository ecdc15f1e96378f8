"""Loopback ports of the programs of a cluster, which are reserved before the programs listen."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


@contextlib.contextmanager
def reserved_port(port: int = 0) -> Generator[int]:
    """Reserve a port of 127.0.0.1 inside a `with` block, for servers that bind to its number; 0 for any free one.

    A bound socket reserves the port. Linux then selects it neither for a bind to port 0 nor for a connect
    (net/ipv4/inet_connection_sock.c inet_csk_find_open_port, inet_hashtables.c __inet_hash_connect). Servers that set
    SO_REUSEADDR can still bind to it, and those of Python and Go do set it. Raises OSError on entry if a program
    already listens on the port.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", port))
        yield holder.getsockname()[1]


def listens(port: int) -> bool:
    """Return whether a program listens on a loopback port."""
    with contextlib.closing(socket.socket()) as connection:
        connection.settimeout(1.0)
        return connection.connect_ex(("127.0.0.1", port)) == 0


def port_in_use(port: int, flag: str) -> str:
    """Return the error message for a port on which another program listens, with the flag that selects another port."""
    return (
        f"port {port} is in use: stop the program that listens there, or choose another port with {flag} (0: any free "
        "one)"
    )
