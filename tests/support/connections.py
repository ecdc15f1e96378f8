"""Server connections whose clients are sockets of the test."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from zonewise_common.service.connection import Connection

if TYPE_CHECKING:
    from contextlib import ExitStack


def connected(stack: ExitStack) -> Connection:
    """Return a connection; the stack closes both ends."""
    ours, theirs = socket.socketpair()
    stack.enter_context(ours)
    stack.enter_context(theirs)
    return Connection(ours, 0, None, "127.0.0.1")
