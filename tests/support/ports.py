"""Ports that are reserved before a server listens on them."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


@contextlib.contextmanager
def reserved_port() -> Generator[int]:
    """Reserve a port of 127.0.0.1 inside a `with` block, for servers that bind to its number.

    A bound socket reserves the port. Linux then picks it neither for a bind to port 0 nor for a connect
    (net/ipv4/inet_connection_sock.c inet_csk_find_open_port, inet_hashtables.c __inet_hash_connect). Servers that set
    SO_REUSEADDR can still bind to it, and those of Python and Go do set it.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]
