"""Durations of requests among hostile clients, as ratios. Run as `python -m benchmarks.connections`.

The real extender and the real agent serve a filter call, scrapes and probes. Each request is timed first without other
clients, then with 1,000 silent connections and 100 slow writers on its port. A slow writer sends a byte every 100 ms,
each with a different offset, and closed connections reconnect. Of several series, the one with the shortest 99th
percentile counts, since other programs use the machine as well.
"""

from __future__ import annotations

import contextlib
import select
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.agent import KUBELET_CONFIG
from benchmarks.support.agent_testbed import NODE, PROJECT, embedded, running_agent
from benchmarks.support.extender_testbed import TemplatePod, build_objects, node_names, serving_lists
from benchmarks.support.fit_cluster import TWO_ZONES
from benchmarks.support.targets import Row, show
from zonewise_common.k8s.cpuset import CpuSet
from zonewise_common.kube.client import Client
from zonewise_common.kube.resources import NODES
from zonewise_sandbox.kubelet import SimulatedKubelet, SimulatedZone

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

SILENT, SLOW = 1_000, 100
CALLS = 200
SERIES = 3
CLUSTER = 1_000
_TIMEOUT = 10.0
"""Seconds for one request; later responses do not count."""
_PERIOD = 0.1


class Target(NamedTuple):
    """A request to be timed."""

    name: str
    port: int
    request: bytes
    keep_alive: bool = False


def main() -> int:
    """Run all measurements and print the table; return 1 if a target is missed."""
    with ExitStack() as stack:
        targets = [*_extender(stack), *_agent(stack)]
        alone = [_quietest(target) for target in targets]
        rows = list(_rows(targets, alone))
    return show(rows)


def _rows(targets: Sequence[Target], alone: Sequence[float]) -> Iterator[Row]:
    for target, before in zip(targets, alone, strict=True):
        with _hostile(target.port):
            after = _quietest(target)
        measured = f"p99 {before:.2f}, then {after:.2f} ms: {after / before:.2f} times"
        yield Row(target.name, measured, "<= 2 times", after <= 2 * before)


# --- programs


def _extender(stack: ExitStack) -> list[Target]:
    sys.path.insert(0, str(PROJECT / "tests"))
    from support.extender import running_extender

    names = node_names(CLUSTER)
    url = stack.enter_context(serving_lists(build_objects(TWO_ZONES, names)))
    extender = stack.enter_context(running_extender("--api-server", url))
    extender.until(extender.ready)
    port, metrics = extender.ports
    listed = ",".join(f'"{name}"' for name in names)
    body = f'{{"Pod":{TemplatePod().render(1, 4, 8)},"Nodes":null,"NodeNames":[{listed}]}}'
    call = f"POST /filter HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    return [
        Target("extender: filter on one connection", port, call, keep_alive=True),
        Target("extender: filter on a new connection", port, call),
        Target("extender: scrape", metrics, _get("/metrics")),
        Target("extender: probe", metrics, _get("/healthz")),
    ]


def _agent(stack: ExitStack) -> list[Target]:
    directory = stack.enter_context(tempfile.TemporaryDirectory())
    api = stack.enter_context(embedded(Path(directory)))
    assert api is not None
    client = Client(api.config)
    stack.callback(client.close)
    client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
    zone = SimulatedZone(0, CpuSet.parse_list("0-1"), {"memory": 1 << 30})
    stack.enter_context(SimulatedKubelet(directory, [zone]))
    Path(directory, "config.yaml").write_text(KUBELET_CONFIG)
    agent = stack.enter_context(running_agent(Path("/"), directory, api))
    return [
        Target("agent: scrape", agent.port, _get("/metrics")),
        Target("agent: probe", agent.port, _get("/healthz")),
    ]


def _get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()


# --- timing


def _quietest(target: Target) -> float:
    """Return the shortest 99th percentile of all series, in milliseconds."""
    return min(_percentile(target) for _ in range(SERIES))


def _percentile(target: Target) -> float:
    times: list[float] = []
    with ExitStack() as stack:
        persistent = stack.enter_context(_connected(target.port)) if target.keep_alive else None
        for _ in range(CALLS):
            began = time.perf_counter()
            if persistent is not None:
                _call(persistent, target.request)
            else:
                with _connected(target.port) as connection:
                    _call(connection, target.request)
            times.append(time.perf_counter() - began)
    return sorted(times)[int(CALLS * 0.99)] * 1000


def _connected(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), _TIMEOUT)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _call(connection: socket.socket, request: bytes) -> None:
    """Send a request and read its response; fail if the response is not successful."""
    connection.sendall(request)
    received = connection.recv(1 << 20)
    assert received.startswith(b"HTTP/1.1 200 "), received[:200]
    head, _, body = received.partition(b"\r\n\r\n")
    left = int(head.partition(b"Content-Length: ")[2].split()[0]) - len(body)
    while left > 0:
        part = connection.recv(left)
        assert part, "the response ends too early"
        left -= len(part)


# --- hostile clients, in a separate process


@contextmanager
def _hostile(port: int) -> Generator[None]:
    command = [sys.executable, "-m", "benchmarks.connections", str(port)]
    with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            process.stdout.readline()
            yield
        finally:
            process.kill()


def _attack(port: int) -> None:
    """Keep silent connections and slow writers open forever."""
    poll = select.poll()
    connections: dict[int, tuple[socket.socket, bool]] = {}

    def connect(*, slow: bool) -> None:
        connection = socket.create_connection(("127.0.0.1", port))
        connections[connection.fileno()] = connection, slow
        poll.register(connection, select.POLLIN)

    for number in range(SILENT + SLOW):
        connect(slow=number % (SILENT // SLOW + 1) == 0)
    print("ready", flush=True)
    while True:
        for fd in list(connections):
            connection, slow = connections.get(fd, (None, False))
            if connection is not None and slow:
                time.sleep(_PERIOD / SLOW)
                with contextlib.suppress(OSError):
                    connection.send(b"x")
        for fd, _ in poll.poll(0):  # nothing is ever sent to these, so any event is the end of a connection
            connection, slow = connections.pop(fd)
            poll.unregister(fd)
            connection.close()
            connect(slow=slow)


if __name__ == "__main__":
    sys.exit(_attack(int(sys.argv[1])) if len(sys.argv) > 1 else main())
