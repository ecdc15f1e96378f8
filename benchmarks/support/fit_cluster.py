"""Clusters for measuring the fit: partly used nodes of one make, and the pods to place on them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.support.fit_nodes import GIB, processors
from zonewise_scheduler.admission.node import DeviceClass, NodeKind, Policies, idle_node
from zonewise_scheduler.admission.pod import Container, PodShape

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState

DEVICES = ("example.com/gpu", "example.com/nic", "example.com/rdma")
TYPES = ("hugepages-1Gi", "memory")


class NodeSpec(NamedTuple):
    """A make of nodes."""

    zones: int
    cores: int
    """Cores of each zone, with two threads each."""
    devices: int
    """Devices of each zone and resource."""
    memory: int
    """GiB of each zone."""
    pages: int
    """GiB of hugepages in each zone."""
    resources: tuple[str, ...]


EIGHT_ZONES = NodeSpec(zones=8, cores=16, devices=4, memory=120, pages=16, resources=DEVICES)
TWO_ZONES = NodeSpec(zones=2, cores=48, devices=4, memory=500, pages=16, resources=DEVICES)


def kind(make: NodeSpec, topology: str = "single-numa-node") -> NodeKind:
    """Return the kind of all nodes of a make: static CPU and Memory Manager, first core of each zone reserved."""
    first_cores = range(0, make.zones * make.cores, make.cores)
    zones = tuple(range(make.zones))
    return NodeKind(
        Policies(topology=topology, cpu="static", memory="Static", full_cores=True),
        zones,
        tuple(tuple(10 if row == column else 21 for column in zones) for row in zones),
        processors(make.zones, make.cores, reserved=first_cores),
        TYPES,
        ((make.pages * GIB, make.memory * GIB),) * make.zones,
        tuple(
            sorted(
                DeviceClass(name, 1 << zone, make.devices, make.devices) for name in make.resources for zone in zones
            )
        ),
    )


def states(node_kind: NodeKind, make: NodeSpec, count: int, seed: int = 1) -> list[NodeState]:
    """Return nodes whose zones are each used at random."""
    source = random.Random(seed)  # noqa: S311 -- no secret
    return [_state(node_kind, make, source) for _ in range(count)]


def _state(node_kind: NodeKind, make: NodeSpec, source: random.Random) -> NodeState:
    state = idle_node(node_kind)
    free = state.free_cpus
    every = make.zones * make.cores
    memory: list[tuple[int, ...]] = []
    devices: dict[int, int] = {}
    for zone in range(make.zones):
        used = source.randrange(make.cores + 1)
        run = ((1 << used) - 1) << zone * make.cores
        free &= ~(run | run << every)
        memory.append((source.randrange(make.pages + 1) * GIB, source.randrange(make.memory + 1) * GIB))
        devices[zone] = used * make.devices // make.cores
    left = tuple(device.total - devices[device.zones.bit_length() - 1] for device in node_kind.devices)
    return state._replace(
        free_cpus=free, memory_free=tuple(memory), memory_assigned=(1 << make.zones) - 1, device_free=left
    )


def pod(cpus: int = 8, devices: int = 1, resources: tuple[str, ...] = DEVICES, memory: int = 32) -> PodShape:
    """Return a Guaranteed pod of one container that requests some of everything."""
    amounts = (("hugepages-1Gi", GIB), ("memory", memory * GIB))
    device_requests = tuple((name, devices) for name in sorted(resources))
    return PodShape((Container("main", "app", cpus * 1000, amounts, device_requests),), "Guaranteed")
