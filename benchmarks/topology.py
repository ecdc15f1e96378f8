"""Topology-aware placement: 8,192 pods over blocks, racks and 65,000 hosts, against a plain walk of the tree.

Every host is in a state of its own, and takes up to 8 pods. The walk is the same algorithm over objects, for a request
without slices and leaders; both place the same pods on the same hosts. Run by `make bench`. Machines are noisy, so each
figure is the median of several runs in CPU time, and both are in one run.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from benchmarks.table import Row, show
from zonewise_scheduler.fit.model.node import Room
from zonewise_scheduler.fit.nodes.info import Labels, NodeInfo
from zonewise_scheduler.fit.nodes.table import NodeTable, amounts
from zonewise_scheduler.queue.topology.model import HOSTNAME, Layer, Options, PodSet, Request
from zonewise_scheduler.queue.topology.place import Placed, place
from zonewise_scheduler.queue.topology.supply import NodeSupply, eligible
from zonewise_scheduler.queue.topology.tree import tree_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BLOCK, RACK = "cloud.example/block", "cloud.example/rack"
KEYS = (BLOCK, RACK, HOSTNAME)
NODES, PODS, BALANCED = 65_000, 8_192, 512
OF_RACK, OF_BLOCK = 32, 4096
PROMISE, FASTER = 1000, 5
RUNS = 5
T = TypeVar("T")

REQUESTS = {"cpu": 16_000, "memory": 64 << 30, "nvidia.com/gpu": 1}


def main() -> int:
    """Measure all, print the table; return 1 where a promise is not kept."""
    return show(list(_measure()))


def _measure() -> Iterator[Row]:
    nodes = _nodes(random.Random(1))  # noqa: S311 -- no secret
    supply = NodeSupply(tree_of("default", KEYS, nodes, eligible(nodes, {})), nodes)
    made, _ = _timed(lambda: tree_of("default", KEYS, nodes, eligible(nodes, {})).leaf(("",)))
    yield Row(f"tree of {NODES:,} hosts, once until labels change, CPU", f"{made:.0f} ms")
    slices = (Layer(RACK, 8), Layer(HOSTNAME, 4))
    for what, request, options, size in (
        ("block required", Request(required=BLOCK), Options(), PODS),
        ("rack preferred", Request(preferred=RACK), Options(), PODS),
        ("unconstrained", Request(unconstrained=True), Options(), PODS),
        ("slices of 8 in racks, of 4 in hosts", Request(required=BLOCK, layers=slices), Options(), PODS),
        ("rack preferred, balanced", Request(preferred=RACK), Options(balanced=True), BALANCED),
    ):
        pods = PodSet("workers", size, REQUESTS, request)
        ours, found = _timed(partial(place, supply, [pods], options))
        assert isinstance(found, Placed)
        yield Row(f"{size:,} pods, {what}, CPU", f"{ours:.0f} ms", f"<= {PROMISE:,} ms", ours <= PROMISE)
        if not request.layers and not options.balanced:
            yield _against_walk(nodes, pods, ours, found)


def _nodes(draw: random.Random) -> NodeTable:
    whole = Room(126_000, 960 << 30, 110, 0, (("nvidia.com/gpu", 8),))
    found: list[NodeInfo] = []
    for number in range(NODES):
        name = f"node-{number:05}"
        labels = Labels(KEYS[:2], (f"block-{number // OF_BLOCK}", f"rack-{number // OF_RACK}"), (HOSTNAME,))
        used = Room(draw.randrange(64_000), draw.randrange(480 << 30), 4, 0, (("nvidia.com/gpu", draw.randrange(9)),))
        found.append(NodeInfo(name, labels, allocatable=whole, requested=used))
    draw.shuffle(found)
    return NodeTable(found)


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    """Return the median of milliseconds, and what came out."""
    taken: list[float] = []
    found = work()
    for _ in range(RUNS):
        started = time.process_time()
        found = work()
        taken.append((time.process_time() - started) * 1000)
    return statistics.median(taken), found


# --- a plain walk


class Domain:
    """A domain as an object."""

    def __init__(self, path: tuple[str, ...]) -> None:
        self.path = path
        self.children: list[Domain] = []
        self.free: dict[str, int] = {}
        self.pods = 0

    def count(self, requests: dict[str, int]) -> int:
        """Write how many pods it takes into it and all below, and return it."""
        if self.children:
            self.pods = sum(child.count(requests) for child in self.children)
        else:
            self.pods = max(min(self.free[name] // amount for name, amount in requests.items()), 0)
        return self.pods


def _against_walk(nodes: NodeTable, pods: PodSet, ours: float, found: Placed) -> Row:
    levels = _domains(nodes)
    walk, chosen = _timed(lambda: _walk(levels, pods))
    assert chosen == {domain.values[0]: domain.pods for domain in found.assignments["workers"].domains}
    factor = walk / ours
    return Row("... by a plain walk / ours", f"{walk:.0f} ms = {factor:.1f}", f">= {FASTER}", factor >= FASTER)


def _domains(nodes: NodeTable) -> list[list[Domain]]:
    """Return the domains by level."""
    known: list[dict[tuple[str, ...], Domain]] = [{} for _ in KEYS]
    for info in nodes.infos:
        assert info is not None
        path = tuple(info.label(key) or "" for key in KEYS)
        for level in range(len(KEYS)):
            at = path[: level + 1]
            if at not in known[level]:
                known[level][at] = Domain(at)
                if level:
                    known[level - 1][at[:-1]].children.append(known[level][at])
        free = {name: amount - dict(amounts(info.requested))[name] for name, amount in amounts(info.allocatable)}
        known[-1][path].free = free
    return [list(one.values()) for one in known]


def _walk(levels: list[list[Domain]], pods: PodSet) -> dict[str, int]:
    """Return the pods by host, as Kueue's algorithm does it for a request without slices and leader."""
    request = pods.request or Request(unconstrained=True)
    requests = {**pods.requests, "pods": 1}
    least = request.unconstrained
    for domain in levels[0]:
        domain.count(requests)
    level = KEYS.index(request.required or request.preferred or HOSTNAME)
    chosen: list[tuple[Domain, int]] = []
    while not chosen:
        if level == 0 or least or max(one.pods for one in levels[level]) >= pods.size:
            chosen = _filled(levels[level], pods.size, least=least)
        else:
            level -= 1
    for _ in range(level, len(KEYS) - 1):
        inner = [child for domain, _ in chosen for child in domain.children]
        chosen = _filled(inner, pods.size, least=least)
    return {domain.path[-1]: count for domain, count in chosen if count}


def _filled(domains: list[Domain], need: int, *, least: bool) -> list[tuple[Domain, int]]:
    """Return domains that take all, the largest first and the last one that fits best; or the smallest first."""
    order = sorted(domains, key=lambda one: (one.pods if least else -one.pods, one.path))
    enough = [one for one in order if one.pods >= need]
    if enough:
        return [(min(enough, key=lambda one: one.pods), need)]
    found: list[tuple[Domain, int]] = []
    for at, one in enumerate(order):
        if one.pods >= need:
            rest = order[at:]
            last = one if least else min((other for other in rest if other.pods >= need), key=lambda other: other.pods)
            return [*found, (last, need)]
        found.append((one, one.pods))
        need -= one.pods
    return found


if __name__ == "__main__":
    sys.exit(main())
