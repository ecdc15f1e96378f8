"""The nodes for all figures of the fit: with 256 CPUs and 8 GPUs, half full, and pods that are common on them."""

from __future__ import annotations

import random
from functools import cache
from typing import TYPE_CHECKING, Literal

from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.cpu_topology import CpuTopology
from zonewise_scheduler.admission.node import DeviceClass, NodeKind, Policies, idle_node
from zonewise_scheduler.admission.pod import Container, PodShape

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zonewise_common.k8s.podspec import Role
    from zonewise_scheduler.admission.cpu_topology import CpuGroup
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import Qos

GIB = 1 << 30
CPUS = 256
GPU, NIC = "nvidia.com/gpu", "nvidia.com/rdma"
DEVICES = 8
MEMORY = 2048 * GIB

Policy = Literal["single-numa-node", "restricted", "best-effort"]
POLICIES: tuple[Policy, ...] = ("single-numa-node", "restricted", "best-effort")


def common_pods() -> dict[str, PodShape]:
    """Return the pods by description."""
    small, large = (4000, 16 * GIB), (24000, 96 * GIB)
    return {
        "4 CPUs": _pod(_container("c", *small)),
        "24 CPUs": _pod(_container("c", *large)),
        "1 GPU, 24 CPUs": _pod(_container("c", *large, gpus=1)),
        "1 GPU, 1 NIC, 24 CPUs": _pod(_container("c", *large, gpus=1, nics=1)),
        "4 GPUs, 4 NICs, 120 CPUs": _pod(_container("c", 120000, 900 * GIB, gpus=4, nics=4)),
        "8 GPUs, 8 NICs, 240 CPUs": _pod(_container("c", 240000, 1800 * GIB, gpus=8, nics=8)),
        "init, sidecar and 2 containers": _pod(
            _container("i", *large, role="init"),
            _container("s", *small, role="sidecar"),
            _container("a", *large, gpus=1),
            _container("b", *small),
        ),
        "shared CPUs": _pod(_container("c", 1500, 4 * GIB), qos="Burstable"),
    }


def states(zones: int, policy: Policy, count: int) -> Iterator[NodeState]:
    """Yield `count` states of a node as pods arrive, starting over when it is full; they are the same in every run."""
    kind = machine(zones, policy)
    draw = random.Random(zones)  # noqa: S311 -- no secret
    pods = list(common_pods().values())
    state = idle_node(kind)
    for _ in range(count):
        yield state
        state = admit(state, draw.choice(pods)).after or idle_node(kind)


@cache
def machine(zones: int, policy: Policy) -> NodeKind:
    """Return a kind with two packages and two threads per core, whose CPUs are 128 apart.

    An L3 cache covers 16 CPUs; two CPUs are reserved.
    """
    return NodeKind(
        Policies(policy, cpu="static", full_cores=True, memory="Static"),
        tuple(range(zones)),
        tuple(tuple(_distance(zones, a, b) for b in range(zones)) for a in range(zones)),
        processors(zones, CPUS // 2 // zones, packages=2),
        ("memory",),
        ((MEMORY // zones - GIB,),) * zones,
        tuple(
            DeviceClass(resource, 1 << zone, DEVICES // zones, DEVICES // zones)
            for resource in sorted((GPU, NIC))
            for zone in range(zones)
        ),
    )


def processors(zones: int, cores: int, *, packages: int = 1, reserved: Iterable[int] = (0,)) -> CpuTopology:
    """Return zones with `cores` cores of two threads each, numbered consecutively, with an L3 cache for every 8 cores.

    The numbers of a core's threads differ by the number of cores. Both CPUs of the reserved cores are reserved.
    """
    every = zones * cores
    return CpuTopology(
        cores=_groups(every, 1, every),
        zones=_groups(every, cores, zones),
        packages=_groups(every, every // packages, packages),
        caches=_groups(every, 8, every // 8),
        reserved=sum(_cpus(every, core, 1) for core in reserved),
    )


def _groups(every: int, cores: int, count: int) -> tuple[CpuGroup, ...]:
    return tuple((number, _cpus(every, number * cores, cores)) for number in range(count))


def _cpus(every: int, first: int, cores: int) -> int:
    """Return the CPUs of `cores` cores as bits."""
    bits = (1 << cores) - 1 << first
    return bits | bits << every


def _distance(zones: int, row: int, column: int) -> int:
    if row == column:
        return 10
    return 12 if row * 2 // zones == column * 2 // zones else 32


def _container(name: str, cpus: int, memory: int, gpus: int = 0, nics: int = 0, role: Role = "app") -> Container:
    devices = tuple((resource, count) for resource, count in ((GPU, gpus), (NIC, nics)) if count)
    return Container(name, role, cpus, (("memory", memory),), devices)


def _pod(*containers: Container, qos: Qos = "Guaranteed") -> PodShape:
    return PodShape(containers, qos)
