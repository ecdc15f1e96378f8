"""Ports that are reserved for programs of a cluster."""

from __future__ import annotations

import errno
import os
import socket
import struct
from contextlib import ExitStack

import pytest

from zonewise_sandbox.up.ports import PortsInUse, listens, reserve_ports, reserved_port

IP_LOCAL_PORT_RANGE = 51
"""linux/in.h; since Linux 6.3."""


def socket_of(port: int) -> socket.socket:
    """Return a socket for which the kernel can select one port only."""
    client = socket.socket()
    try:
        client.setsockopt(socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE, struct.pack("=I", port << 16 | port))
    except OSError:
        client.close()
        pytest.skip("this kernel selects ports from one range only")
    return client


def test_a_server_can_listen_on_it() -> None:
    """The program binds while the port is reserved."""
    with reserved_port() as port:
        assert not listens(port)
        with socket.create_server(("127.0.0.1", port)):
            assert listens(port)


def test_the_kernel_selects_it_neither_for_servers_nor_for_clients() -> None:
    """A bind to port 0 and a connect fail if they can select this port only."""
    with reserved_port() as port, socket.create_server(("127.0.0.1", 0)) as other:
        with socket_of(port) as server, pytest.raises(OSError, match=os.strerror(errno.EADDRINUSE)):
            server.bind(("127.0.0.1", 0))
        with socket_of(port) as client, pytest.raises(OSError, match=os.strerror(errno.EADDRNOTAVAIL)):
            client.connect(other.getsockname())


def test_a_port_in_use() -> None:
    """A port on which a program listens cannot be reserved."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        pytest.raises(OSError, match=os.strerror(errno.EADDRINUSE)),
        reserved_port(server.getsockname()[1]),
    ):
        pass


def test_all_ports_in_use_are_named() -> None:
    with ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        first, second = (server.getsockname()[1] for server in servers)
        ports = {"--port": first, "--other": 0, "--status-port": second}
        message = f"ports {first} and {second} are in use: .* with --port and --status-port .0: any free one.$"
        with pytest.raises(PortsInUse, match=message):
            reserve_ports(stack, ports)
        message = f"port {second} is in use: .* with --status-port .0: any free one.$"
        with pytest.raises(PortsInUse, match=message):
            reserve_ports(stack, {**ports, "--port": 0})
        reserved = reserve_ports(stack, dict.fromkeys(ports, 0))
        assert len(set(reserved)) == len(ports)
        assert 0 not in reserved
