"""Growth of a program, as the soak measures it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import ExitStack

from benchmarks.support.soak_resources import ResourceLog, read_process


def test_connections_of_clients_do_not_count_as_descriptors() -> None:
    """Clients determine their number. Descriptors that the program opens count; in this test it is also the client."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        before = read_process(os.getpid(), 0.0).descriptors
        clients = [stack.enter_context(socket.create_connection(server.getsockname())) for _ in range(5)]
        for _ in clients:
            stack.enter_context(server.accept()[0])
        assert read_process(os.getpid(), 0.0).descriptors - before == len(clients)


def test_a_connection_that_its_client_has_closed_counts() -> None:
    """A program that never closes such a connection leaks it."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        before = read_process(os.getpid(), 0.0).descriptors
        client = socket.create_connection(server.getsockname())
        accepted = stack.enter_context(server.accept()[0])
        client.close()
        assert not accepted.recv(1)
        assert read_process(os.getpid(), 0.0).descriptors - before == 1


def test_a_program_that_has_ended_has_no_growth() -> None:
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    process.wait()
    log = ResourceLog()
    log.sample("ended", process.pid, 0.0)
    log.sample("ours", os.getpid(), 0.0)
    log.sample("ours", os.getpid(), 40.0)
    assert set(log.growth(warm_up=10.0)) == {"ours"}


def test_a_new_role_begins_a_new_life() -> None:
    """A program that leads again later is compared only within the times in which it leads without interruption."""
    log = ResourceLog()
    for name, at in (("leads", 0.0), ("leads", 40.0), ("stands by", 50.0), ("stands by", 55.0), ("leads", 60.0)):
        log.sample(name, os.getpid(), at)
    assert {name: growth.seconds for name, growth in log.growth(warm_up=10.0).items()} == {"leads": 40.0}
