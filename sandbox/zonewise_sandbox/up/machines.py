"""Machines of simulated nodes: what discovery reads on a server of a kind, and what its kubelet has to give.

A capture is read by discovery itself. A kind by name is built here: its zones, packages and cores, numbered as the
kernel does on most servers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise.kubelet.types import KubeletConfig
from zonewise.machine.model.cpu import Core, Cpus, Model, Package
from zonewise.machine.model.machine import Machine
from zonewise.machine.model.zone import Zone
from zonewise_common.k8s.cpuset import EMPTY, CpuSet
from zonewise_sandbox.kubelet.types import SimulatedDevice, SimulatedZone, even_zones
from zonewise_sandbox.up.node_kinds import AMD_GPU, NVIDIA_GPU

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zonewise.machine.model.gpu import Gpu
    from zonewise_sandbox.up.node_kinds import NodeKind

RESERVED_MILLI_CPUS = 1000
"""milli-CPU that kubelets of simulated nodes keep for the system (systemReserved)."""
EVICTION_HARD = 100 << 20
"""Bytes of memory that a kubelet keeps free (evictionHard memory.available, pkg/kubelet/apis/config/v1beta1)."""
MAX_PODS = 110
"""The kubelet's default (maxPods)."""
_LOCAL, _NEAR, _FAR = 10, 12, 21
"""ACPI SLIT distances: in a zone, to another of the package, to another package."""
_RESOURCES = {"nvidia": NVIDIA_GPU, "amd": AMD_GPU}
"""Resource of a GPU by its vendor."""


class SimulatedMachine(NamedTuple):
    """A machine and the kubelet on it; equal nodes share one."""

    kind: str
    """The name of its kind, or of its capture."""
    machine: Machine
    """What discovery finds."""
    zones: tuple[SimulatedZone, ...]
    devices: tuple[SimulatedDevice, ...]
    config: KubeletConfig

    @property
    def capacity(self) -> dict[str, int]:
        """Return the node's capacity by resource: CPUs, bytes, counts."""
        devices = {resource: 0 for resource, *_ in self.devices}
        for device in self.devices:
            devices[device.resource] += 1
        cpus, memory = sum(len(zone.cpus) for zone in self.zones), sum(zone.memory["memory"] for zone in self.zones)
        return {"cpu": cpus, "memory": memory, "pods": MAX_PODS, **devices}

    @property
    def allocatable(self) -> dict[str, str]:
        """Return what pods can have, as quantities: the capacity without what the kubelet reserves."""
        capacity = self.capacity
        milli_cpus = capacity.pop("cpu") * 1000 - self.config.reserved_milli_cpus
        memory = capacity.pop("memory") - EVICTION_HARD
        amounts = {name: str(amount) for name, amount in capacity.items()}
        return {"cpu": f"{milli_cpus}m" if milli_cpus % 1000 else str(milli_cpus // 1000), "memory": str(memory),
                **amounts}  # fmt: skip


def machine_of_kind(kind: NodeKind) -> SimulatedMachine:
    """Return the machine of a kind."""
    zones = even_zones(kind.zones, kind.cores, threads=kind.threads, memory=kind.memory)
    devices = tuple(
        SimulatedDevice(resource, f"{resource.partition('.')[0]}-{zone}-{number}", (zone,))
        for resource, counts in kind.devices.items()
        for zone, count in enumerate(counts)
        for number in range(count)
    )
    machine = Machine(
        "x86_64",
        cpus=Cpus(CpuSet.union(zone.cpus for zone in zones), EMPTY),
        model=Model(),
        packages=tuple(_packages(kind, zones)),
        cores=tuple(_cores(kind)),
        zones=tuple(_zones(kind, zones)),
        memory=kind.zones * kind.memory,
        product=kind.name,
    )
    return SimulatedMachine(kind.name, machine, zones, devices, _config(kind.policy, kind.scope, zones[0].id))


def machine_of_capture(path: str, name: str, policy: str) -> SimulatedMachine:
    """Return the machine of a capture: a directory or an archive of `zonewise capture`.

    Raises RootError for a path without a machine, and ValueError for a machine without CPUs or memory of zones.
    """
    from zonewise.machine.archive import open_root  # discovery is a fifth of the time to start
    from zonewise.machine.discover import Scanner

    machine = Scanner(open_root(path)).scan().machine
    zones = tuple(
        SimulatedZone(zone.id, zone.cpus, {"memory": zone.memory})
        for zone in machine.zones
        if zone.cpus and zone.memory
    )
    if not zones:
        raise ValueError("no zone has CPUs and a known amount of memory")
    devices = tuple(_gpu_devices(machine.gpus))
    return SimulatedMachine(name, machine, zones, devices, _config(policy, "container", zones[0].id))


def _config(policy: str, scope: str, zone: int) -> KubeletConfig:
    """Return the configuration of a kubelet that allocates exclusively; the first zone has the memory it reserves."""
    return KubeletConfig(
        cpu_manager_policy="static",
        memory_manager_policy="Static",
        topology_manager_policy=policy,
        topology_manager_scope=scope,
        reserved_milli_cpus=RESERVED_MILLI_CPUS,
        reserved_memory=((zone, "memory", EVICTION_HARD),),
    )


def _packages(kind: NodeKind, zones: tuple[SimulatedZone, ...]) -> Iterator[Package]:
    for package, first in enumerate(range(0, kind.zones, kind.zones_per_package)):
        yield Package(package, CpuSet.union(zone.cpus for zone in zones[first : first + kind.zones_per_package]))


def _cores(kind: NodeKind) -> Iterator[Core]:
    total = kind.zones * kind.cores
    for zone in range(kind.zones):
        for core in range(kind.cores):
            first = zone * kind.cores + core
            threads = CpuSet(thread * total + first for thread in range(kind.threads))
            yield Core(first, zone // kind.zones_per_package, zone, threads)


def _zones(kind: NodeKind, zones: tuple[SimulatedZone, ...]) -> Iterator[Zone]:
    for zone in zones:
        distances = {str(other.id): _distance(kind, zone.id, other.id) for other in zones}
        yield Zone(zone.id, zone.cpus, zone.cpus, zone.memory["memory"], {}, distances, "cpu")


def _distance(kind: NodeKind, zone: int, other: int) -> int:
    if zone == other:
        return _LOCAL
    return _NEAR if zone // kind.zones_per_package == other // kind.zones_per_package else _FAR


def _gpu_devices(gpus: tuple[Gpu, ...]) -> Iterator[SimulatedDevice]:
    """Yield a device for each GPU that a plugin of its vendor offers."""
    for number, gpu in enumerate(gpus):
        resource = _RESOURCES.get(gpu.vendor)
        if resource is not None and gpu.state is None:
            zones = () if gpu.zone is None else (gpu.zone,)
            yield SimulatedDevice(resource, gpu.uuid or gpu.address or f"gpu-{number}", zones)


def capacity_text(machine: SimulatedMachine) -> str:
    """Return what a node of it has, for people."""
    capacity: Mapping[str, int] = machine.capacity
    gpus = "".join(f", {amount} {name}" for name, amount in capacity.items() if "/" in name)
    return f"{len(machine.zones)} zones, {capacity['cpu']} CPUs, {capacity['memory'] >> 30} GiB{gpus}"
