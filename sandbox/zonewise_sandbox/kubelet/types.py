"""The resources of a simulated kubelet, and the pods that it runs, as immutable values."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Mapping

NO_AMOUNTS: Mapping[str, int] = MappingProxyType({})


class SimulatedZone(NamedTuple):
    """A NUMA node."""

    id: int
    cpus: CpuSet
    memory: Mapping[str, int] = NO_AMOUNTS
    """Bytes by type: "memory" includes those of "hugepages-2Mi" and other huge pages."""


class SimulatedDevice(NamedTuple):
    """A healthy device of a device plugin."""

    resource: str
    id: str
    zones: tuple[int, ...] = ()
    """Empty if the plugin reports no topology."""


class ContainerSpec(NamedTuple):
    """The requests of a container, which equal its limits."""

    name: str
    milli_cpus: int = 0
    memory: Mapping[str, int] = NO_AMOUNTS
    """Bytes by type."""
    devices: Mapping[str, int] = NO_AMOUNTS
    """Counts by resource."""


class PodSpec(NamedTuple):
    """A pod for the simulated kubelet to run."""

    namespace: str
    name: str
    containers: tuple[ContainerSpec, ...]
    uid: str
    guaranteed: bool = True
    """Whether its QoS class is Guaranteed; only such pods get exclusive CPUs and memory."""
    labels: Mapping[str, str] = MappingProxyType({})


class ExclusiveRequest(NamedTuple):
    """The part of a container's requests that the managers allocate exclusively."""

    cpus: int = 0
    memory: Mapping[str, int] = NO_AMOUNTS
    devices: Mapping[str, int] = NO_AMOUNTS


def even_zones(zones: int, cores: int, *, threads: int = 2, memory: int = 64 << 30) -> tuple[SimulatedZone, ...]:
    """Return zones with `cores` cores and `memory` bytes each, numbered as the kernel does on most servers.

    CPU t * zones * cores + z * cores + c is thread t of core c of zone z.
    """
    every = zones * cores
    return tuple(
        SimulatedZone(
            zone,
            CpuSet(thread * every + zone * cores + core for thread in range(threads) for core in range(cores)),
            {"memory": memory},
        )
        for zone in range(zones)
    )
