"""Machines of simulated nodes: what discovery would read on a server of a kind, and what its kubelet can allocate.

Discovery itself reads captures. Machines of named kinds are built here: their zones, packages and cores are numbered as
the kernel does on most servers.
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
"""milli-CPU that the kubelets of simulated nodes reserve for the system (systemReserved)."""
EVICTION_HARD = 100 << 20
"""Bytes of memory that a kubelet keeps free (evictionHard memory.available, pkg/kubelet/apis/config/v1beta1)."""
MAX_PODS = 110
"""The kubelet's default (maxPods)."""
_LOCAL, _NEAR, _FAR = 10, 12, 21
"""ACPI SLIT distances: within a zone, to another zone of the package, to another package."""
_RESOURCES = {"nvidia": NVIDIA_GPU, "amd": AMD_GPU}
"""Resource of a GPU by its vendor."""


class SimulatedMachine(NamedTuple):
    """A machine and its kubelet; equal nodes share one."""

    kind: str
    """The name of its kind or its capture."""
    machine: Machine
    """The machine as discovery sees it."""
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
        """Return the amounts that pods can use, as quantities: the capacity minus what the kubelet reserves."""
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
    """Return the machine in a capture: a directory or an archive written by `zonewise capture`.

    Raises RootError if the path contains no machine, and ValueError if the machine has no CPUs or memory in zones.
    """
    from zonewise.machine.archive import open_root  # discovery accounts for a fifth of the start time
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
    """Return the configuration of a kubelet with exclusive allocation; the first zone provides its reserved memory."""
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
    """Yield a device for each GPU that its vendor's plugin offers."""
    for number, gpu in enumerate(gpus):
        resource = _RESOURCES.get(gpu.vendor)
        if resource is not None and gpu.state is None:
            zones = () if gpu.zone is None else (gpu.zone,)
            yield SimulatedDevice(resource, gpu.uuid or gpu.address or f"gpu-{number}", zones)


def capacity_text(machine: SimulatedMachine) -> str:
    """Return a node's capacity as text for people."""
    capacity: Mapping[str, int] = machine.capacity
    gpus = "".join(f", {amount} {name}" for name, amount in capacity.items() if "/" in name)
    return f"{len(machine.zones)} zones, {capacity['cpu']} CPUs, {capacity['memory'] >> 30} GiB{gpus}"
