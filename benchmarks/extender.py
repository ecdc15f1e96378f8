"""The extender: its calls per second, and its cost for kube-scheduler. Run as `python -m benchmarks.extender`.

First, the extender runs without kube-scheduler. Like kube-scheduler, one client sends calls on one connection, with all
nodes' names in a new order each time. Extender and client run on different cores. The peer in the same run is an
extender on the same server that decides nothing. Of several series, the one with the shortest 99th percentile counts,
since other programs use the machine as well.

Then, if the binaries are available, kube-scheduler places 2,000 waiting pods, with and without the extender.
"""

from __future__ import annotations

import json
import os
import random
import socket
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.support.extender_testbed import (
    TemplatePod,
    bound_pods,
    build_objects,
    node_names,
    null_extender,
    real_cluster,
    real_extender,
    serving_lists,
)
from benchmarks.support.fit_cluster import EIGHT_ZONES, TWO_ZONES, NodeSpec
from benchmarks.support.targets import Row, show

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.support.extender_testbed import ExtenderProcess

NODES = 5_000
SERIES = 3
CALLS = 600
WARM = 50
SHAPES = 20
PODS = 2_000


class CallTimes(NamedTuple):
    """Durations of one series of calls, in seconds."""

    each: list[float]
    placed_pods: int
    cpu: float
    """CPU time of the extender, including earlier calls."""

    @property
    def rate(self) -> float:
        """Return calls per second of the time in which the client waited."""
        return len(self.each) / sum(self.each)

    def quantile(self, part: float) -> float:
        """Return a quantile in milliseconds."""
        return sorted(self.each)[min(len(self.each) - 1, int(len(self.each) * part))] * 1000


def main() -> int:
    """Run all measurements and print the table; return 1 if a target is missed."""
    cores = sorted(os.sched_getaffinity(0))
    print(f"{len(cores)} cores, load {os.getloadavg()[0]:.1f}")
    rows: list[Row] = []
    os.sched_setaffinity(0, cores[:1])
    for make in (TWO_ZONES, EIGHT_ZONES):
        rows += _calls(make, set(cores[1:] or cores))
    os.sched_setaffinity(0, cores)
    for count in (1_000, NODES):
        rows += _placing(count)
    return show(rows)


# --- without kube-scheduler


def _calls(make: NodeSpec, core: set[int]) -> Iterator[Row]:
    names = node_names(NODES)
    title = f"{NODES:,} nodes x {make.zones} zones"
    with null_extender(core) as extender:
        nothing = _quietest(extender, names, [4])
    yield Row(f"{title}: an extender that decides nothing", _figures(nothing))
    with serving_lists(build_objects(make, names)) as url, real_extender(url, core) as extender:
        small = [2 * (number % 8) + 2 for number in range(SHAPES)]
        for what, cpus, memory in (
            ("pods of one shape", [4], False),
            (f"pods of {SHAPES} shapes", small, True),
            ("pods that fit on no node", [2 * make.cores + 2], False),
        ):
            times = _quietest(extender, names, cpus, other_memory=memory)
            late = times.quantile(0.99)
            yield Row(
                f"... {what}: {times.placed_pods} of {CALLS} placed", f"{_figures(times)}", ">= 300/s, <= 8 ms",
                times.rate >= 300 and late <= 8,
            )  # fmt: skip
            yield Row("... ... of the calls that decide nothing", f"{times.rate / nothing.rate:.2f}")


def _figures(times: CallTimes) -> str:
    cpu = times.cpu / (WARM + CALLS) * 1000
    return f"{times.rate:.0f}/s, p50 {times.quantile(0.5):.2f}, p99 {times.quantile(0.99):.2f}, CPU {cpu:.2f} ms"


def _quietest(
    extender: ExtenderProcess, names: Sequence[str], cpus: Sequence[int], *, other_memory: bool = False
) -> CallTimes:
    series = [
        _series(extender, names, cpus, first=n * (WARM + CALLS), other_memory=other_memory) for n in range(SERIES)
    ]
    return min(series, key=lambda times: times.quantile(0.99))


def _series(
    extender: ExtenderProcess, names: Sequence[str], cpus: Sequence[int], *, first: int, other_memory: bool
) -> CallTimes:
    """Send one call per pod, alternating between several shapes."""
    chance = random.Random(first)  # noqa: S311 -- no secret
    template = TemplatePod()
    each: list[float] = []
    placed = 0
    before = extender.cpu_seconds()
    with socket.create_connection(("127.0.0.1", extender.port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for number in range(first, first + WARM + CALLS):
            place = number % len(cpus)
            request = _request(template.render(number, cpus[place], 8 + place * other_memory), names, chance)
            began = time.perf_counter()
            response = _call(connection, request)
            times = time.perf_counter() - began
            if number >= first + WARM:
                each.append(times)
                placed += b'"NodeNames":["' in response
    return CallTimes(each, placed, extender.cpu_seconds() - before)


def _request(pod: str, names: Sequence[str], chance: random.Random) -> bytes:
    shuffled = list(names)
    chance.shuffle(shuffled)  # kube-scheduler starts at a different node each time
    body = f'{{"Pod":{pod},"Nodes":null,"NodeNames":{json.dumps(shuffled, separators=(",", ":"))}}}'
    head = (
        "POST /filter HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: Go-http-client/1.1\r\n"
        f"Content-Length: {len(body)}\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
    )
    return f"{head}{body}".encode()


def _call(connection: socket.socket, request: bytes) -> bytes:
    connection.sendall(request)
    response = connection.recv(1 << 20)
    while b"\r\n\r\n" not in response:
        response += connection.recv(1 << 20)
    head, _, body = response.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 "), response[:500]
    length = int(head.partition(b"Content-Length: ")[2].split()[0])
    parts, size = [body], len(body)
    while size < length:
        parts.append(connection.recv(1 << 20))
        size += len(parts[-1])
    return b"".join(parts)


# --- with kube-scheduler


def _placing(count: int) -> Iterator[Row]:
    with real_cluster(TWO_ZONES, count) as cluster:
        if cluster is None:
            return
        for percentage, what in ((0, "its default share of the nodes"), (100, "all nodes")):
            alone = bound_pods(cluster, PODS, percentage=percentage)
            rate = bound_pods(cluster, PODS, percentage=percentage, extended=True)
            yield Row(f"{count:,} nodes, {PODS:,} pods: kube-scheduler looks at {what}", f"{alone:.0f} pods/s")
            measured = f"{rate:.0f} pods/s = {rate / alone:.2f} x"
            yield Row("... with the extender", measured, ">= 0.6 x", rate >= 0.6 * alone)


if __name__ == "__main__":
    sys.exit(main())
