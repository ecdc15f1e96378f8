"""Loopback ports of the programs of a cluster, which are reserved before the programs listen."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from contextlib import ExitStack


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


def reserve_ports(stack: ExitStack, ports: Mapping[str, int]) -> tuple[int, ...]:
    """Reserve ports until the stack closes; `ports`: by the flag that selects each of them.

    Raises PortsInUse, which names all ports on which other programs listen.
    """
    reserved: list[int] = []
    in_use: dict[str, int] = {}
    for flag, port in ports.items():
        try:
            reserved.append(stack.enter_context(reserved_port(port)))
        except OSError:
            in_use[flag] = port
    if in_use:
        raise PortsInUse(in_use)
    return tuple(reserved)


class PortsInUse(Exception):
    """Other programs listen on ports; the message names the ports and their flags."""

    def __init__(self, ports: Mapping[str, int]) -> None:
        flags, numbers = " and ".join(ports), " and ".join(map(str, ports.values()))
        if len(ports) == 1:
            text = f"port {numbers} is in use: stop the program that listens there, or choose another port"
        else:
            text = f"ports {numbers} are in use: stop the programs that listen there, or choose other ports"
        super().__init__(f"{text} with {flags} (0: any free one)")
