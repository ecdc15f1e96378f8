"""Clusters for measuring the fit: nodes of one make, partly used, and the pods that are asked of them."""

from __future__ import annotations

import random
from typing import NamedTuple

from zonewise_scheduler.fit.model.cpus import CpuTopology
from zonewise_scheduler.fit.model.node import DeviceClass, NodeKind, NodeState, Policies
from zonewise_scheduler.fit.model.pod import Container, PodShape

GIB = 1 << 30
DEVICES = ("example.com/gpu", "example.com/nic", "example.com/rdma")
TYPES = ("hugepages-1Gi", "memory")


class Make(NamedTuple):
    """A make of nodes."""

    zones: int
    cores: int
    """Of each zone, with two threads each."""
    devices: int
    """Of each zone and resource."""
    memory: int
    """GiB of each zone."""
    pages: int
    """GiB of each zone in hugepages."""
    resources: tuple[str, ...]


EIGHT_ZONES = Make(zones=8, cores=16, devices=4, memory=120, pages=16, resources=DEVICES)
TWO_ZONES = Make(zones=2, cores=48, devices=4, memory=500, pages=16, resources=DEVICES)


def kind(make: Make, topology: str = "single-numa-node") -> NodeKind:
    """Return the kind of all nodes of a make: CPU and Memory Manager static, the first core of each zone reserved."""
    every = make.zones * make.cores
    cores = tuple((core, 1 << core | 1 << every + core) for core in range(every))
    zones = tuple((zone, _union(cores, zone * make.cores, make.cores)) for zone in range(make.zones))
    caches = tuple((first, _union(cores, first, 8)) for first in range(0, every, 8))
    reserved = sum(cores[zone * make.cores][1] for zone in range(make.zones))
    policies = Policies(topology=topology, cpu="static", memory="Static", full_cores=True)
    names = tuple(range(make.zones))
    return NodeKind(
        policies,
        names,
        tuple(tuple(10 if one == other else 21 for other in names) for one in names),
        CpuTopology(cores, zones, ((0, (1 << 2 * every) - 1),), caches, reserved),
        TYPES,
        ((make.pages * GIB, make.memory * GIB),) * make.zones,
        tuple(
            sorted(
                DeviceClass(name, 1 << zone, make.devices, make.devices) for name in make.resources for zone in names
            )
        ),
    )


def _union(cores: tuple[tuple[int, int], ...], first: int, count: int) -> int:
    return sum(bits for _, bits in cores[first : first + count])


def states(one: NodeKind, make: Make, count: int, seed: int = 1) -> list[NodeState]:
    """Return nodes with each zone used at random."""
    source = random.Random(seed)  # noqa: S311 -- no secret
    return [_state(one, make, source) for _ in range(count)]


def _state(one: NodeKind, make: Make, source: random.Random) -> NodeState:
    free = one.cpus.cpus & ~one.cpus.reserved
    every = make.zones * make.cores
    memory: list[tuple[int, ...]] = []
    devices: dict[int, int] = {}
    for zone in range(make.zones):
        used = source.randrange(make.cores + 1)
        run = ((1 << used) - 1) << zone * make.cores
        free &= ~(run | run << every)
        memory.append((source.randrange(make.pages + 1) * GIB, source.randrange(make.memory + 1) * GIB))
        devices[zone] = used * make.devices // make.cores
    groups = tuple(1 << zone for zone in range(make.zones))
    left = tuple(device.total - devices[device.zones.bit_length() - 1] for device in one.devices)
    return NodeState(one, free, tuple(memory), groups, (1 << make.zones) - 1, left)


def pod(cpus: int = 8, devices: int = 1, resources: tuple[str, ...] = DEVICES, memory: int = 32) -> PodShape:
    """Return a Guaranteed pod of one container that asks for something of everything."""
    amounts = (("hugepages-1Gi", GIB), ("memory", memory * GIB))
    wanted = tuple((name, devices) for name in sorted(resources))
    return PodShape((Container("main", "app", cpus * 1000, amounts, wanted),), "Guaranteed")
