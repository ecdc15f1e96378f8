"""Gangs: 1,000 pods on 5,000 nodes and 8,192 pods on 65,000, compared with placing the same pods one by one.

A pod requests 8 GPUs, 8 NICs and 96 CPUs. A node has two zones, 128 CPUs, and 8 of each device. All idle nodes have the
same state; busy ones have different states, and many lack devices. Run by `make bench`. Machines are noisy, so each
figure is the median of several runs in CPU time. In the comparison, only some of the pods are placed, and the time is
extrapolated.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.support.fit_nodes import GIB, GPU, NIC, processors
from benchmarks.support.targets import Row, show
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.node import DeviceClass, NodeKind, NodeState, Policies, Resource, idle_node
from zonewise_scheduler.admission.pod import Container, PodShape
from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable
from zonewise_scheduler.nodes.filters.constraints import Constraints
from zonewise_scheduler.nodes.filters.info_table import NodeInfoTable
from zonewise_scheduler.nodes.gang.placement import place_gang
from zonewise_scheduler.nodes.gang.topology_levels import build_levels
from zonewise_scheduler.nodes.gang.types import GangPlacement, GangPodSet, NodeSnapshot
from zonewise_scheduler.nodes.node.node_info import Labels, NodeInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

ZONES, CORES, DEVICES = 2, 64, 8
MEMORY = 960 * GIB
KEYS = ("topology/block", "topology/rack")
RACK, BLOCK = 32, 1024
RUNS = 7
SAMPLE = 20

SHAPE = PodShape((Container("c", "app", 96_000, (("memory", 512 * GIB),), ((GPU, 8), (NIC, 8))),), "Guaranteed")
OTHER = PodShape((Container("c", "app", 1000, (("memory", GIB),)),), "Guaranteed")
REQUESTS = Resource(96_000, 512 * GIB, 1, 0, ((GPU, 8), (NIC, 8)))


def main() -> int:
    """Run all measurements and print the table; return 1 if a target is missed."""
    rows: list[Row] = []
    for nodes, pods, target in ((5_000, 1_000, 150), (65_000, 8_192, 1_000)):
        for busy in (False, True):
            rows += _measure(nodes, pods, target, busy=busy)
    return show(rows)


def _measure(nodes: int, pods: int, target: int, *, busy: bool) -> Iterator[Row]:
    draw = random.Random(nodes)  # noqa: S311 -- no secret
    kind = _kind()
    states = [_busy(kind, draw) if busy else idle_node(kind) for _ in range(nodes)]
    cluster = _snapshot(states)
    ours = _median(cluster, states, pods)
    peer = statistics.median(_one_by_one(cluster, states) for _ in range(3)) * pods
    what = f"{pods:,} pods on {nodes:,} {'busy' if busy else 'idle'} nodes, CPU"
    yield Row(what, f"{ours:.0f} ms", f"<= {target:,} ms", ours <= target)
    yield Row("... pod by pod through the same tables / at once", f"{peer / 1000:.1f} s = {peer / ours:.0f}")
    if busy:
        yield Row("... as many pods as nodes, rejected with reasons", f"{_median(cluster, states, nodes):.0f} ms")


def _median(cluster: NodeSnapshot, states: list[NodeState], pods: int) -> float:
    """Return the median milliseconds to place a gang, or to explain its rejection, on tables without cached results."""
    times: list[float] = []
    for _ in range(RUNS):
        cold = cluster._replace(table=_table(states))
        started = time.process_time()
        placement = place_gang(cold, [GangPodSet("workers", pods, SHAPE, Constraints(REQUESTS))])
        times.append((time.process_time() - started) * 1000)
        assert isinstance(placement, GangPlacement) is (pods < len(states))
    return statistics.median(times)


def _one_by_one(cluster: NodeSnapshot, states: list[NodeState]) -> float:
    """Return the milliseconds per pod: all nodes are filtered, and the first that fits gets the pod."""
    table = _table(states)
    table.admitted(SHAPE)
    constraints = Constraints(REQUESTS)
    started = time.process_time()
    for _ in range(SAMPLE):
        passing = (cluster.nodes.filter_codes(constraints) == 0) & table.admitted(SHAPE)
        row = int(np.flatnonzero(passing)[0])
        state = table.state(row)
        assert state is not None
        table.set(row, admit(state, SHAPE).after)
    return (time.process_time() - started) * 1000 / SAMPLE


def _snapshot(states: list[NodeState]) -> NodeSnapshot:
    nodes = NodeInfoTable([_info(row, state) for row, state in enumerate(states)])
    return NodeSnapshot(_table(states), nodes, build_levels(nodes, KEYS))


def _table(states: list[NodeState]) -> NodeStateTable:
    table = NodeStateTable()
    table.set_rows(dict(enumerate(states)))
    table.fits(OTHER)  # adds the rows
    return table


def _info(row: int, state: NodeState) -> NodeInfo:
    kind = state.kind
    used = Resource(
        ((kind.cpus.cpus & ~kind.cpus.reserved).bit_count() - state.free_cpus.bit_count()) * 1000,
        64 * GIB,
        4,
        0,
        tuple(
            (
                name,
                DEVICES
                - sum(
                    free
                    for device, free in zip(kind.devices, state.device_free, strict=True)
                    if device.resource == name
                ),
            )
            for name in (GPU, NIC)
        ),
    )
    labels = Labels(KEYS, (f"block-{row // BLOCK}", f"rack-{row // RACK}"))
    whole = Resource(126_000, MEMORY, 110, 0, ((GPU, DEVICES), (NIC, DEVICES)))
    return NodeInfo(f"node-{row}", labels, allocatable=whole, requested=used)


def _kind() -> NodeKind:
    """Return a kind with two zones of 64 CPUs; the CPUs of a core are 64 apart, and one core is reserved."""
    return NodeKind(
        Policies("restricted", cpu="static"),
        tuple(range(ZONES)),
        ((10, 21), (21, 10)),
        processors(ZONES, CORES // ZONES, packages=ZONES),
        devices=tuple(DeviceClass(name, 1 << zone, 4, 4) for name in (GPU, NIC) for zone in range(ZONES)),
    )


def _busy(kind: NodeKind, draw: random.Random) -> NodeState:
    """Return a node with up to 14 allocated cores, and allocated devices in about a third of its device groups."""
    state = idle_node(kind)
    used_cpus = sum(bits for _, bits in draw.sample(kind.cpus.cores[1:], draw.randrange(15)))
    devices = tuple(free - (draw.randrange(3) if not draw.randrange(3) else 0) for free in state.device_free)
    return state._replace(free_cpus=state.free_cpus & ~used_cpus, device_free=devices)


if __name__ == "__main__":
    sys.exit(main())
