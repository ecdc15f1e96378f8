"""Nodes: the facts that nodes of one kind share, and the state that changes as pods come and go.

Sets of zones are integers, bit i for NUMA node i (pkg/kubelet/cm/topologymanager/bitmask).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.nrt.attributes import MAX_NUMA_NODES
from zonewise_scheduler.admission.cpu_topology import CpuTopology  # noqa: TC001 -- replay_case.py resolves it at run time
from zonewise_scheduler.admission.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY, PODS

if TYPE_CHECKING:
    from collections.abc import Iterator


class Policies(NamedTuple):
    """The part of a kubelet's configuration that determines how it uses zones."""

    topology: str = "none"
    """"none", "best-effort", "restricted" or "single-numa-node"."""
    scope: str = "container"
    """"container" or "pod"."""
    prefer_closest: bool = False
    """prefer-closest-numa-nodes."""
    max_zones: int = 8
    """max-allowable-numa-nodes: with more NUMA nodes, a kubelet with a policy other than none does not start."""
    cpu: str = "none"
    """"none" or "static"."""
    full_cores: bool = False
    """full-pcpus-only."""
    strict_reservation: bool = False
    """strict-cpu-reservation."""
    distribute_across_zones: bool = False
    """distribute-cpus-across-numa."""
    align_by_package: bool = False
    """align-by-socket."""
    distribute_across_cores: bool = False
    """distribute-cpus-across-cores."""
    align_by_cache: bool = False
    """prefer-align-cpus-by-uncorecache."""
    memory: str = "None"
    """"None" or "Static"."""
    pod_level_managers: bool = False
    """The feature gate PodLevelResourceManagers: a pod with pod-level resources gets its resources as a whole."""
    release: tuple[int, int] = (1, 36)
    """The kubelet's release, for behaviour that differs between releases."""


MAX_NODE_AMOUNT = 1 << 58
"""Bytes or devices: all zones of a node together have less than this of any resource."""

NO_ZONE = 1 << MAX_NUMA_NODES
"""The zone of devices whose plugin names NUMA node -1.

Such a device makes the kubelet align the device's resource, although no set of zones ever contains the device
(devicemanager/topology_hints.go deviceHasTopologyAlignment, generateDeviceTopologyHints).
"""


class DeviceClass(NamedTuple):
    """Devices of one resource that are close to the same zones."""

    resource: str
    zones: int
    """0: the plugin names no zone. NO_ZONE: it names node -1. Zones that the node lacks are treated like NO_ZONE."""
    total: int
    """Number of devices, including unhealthy ones: the Device Manager computes the width of hints from it."""
    healthy: int


@dataclass(frozen=True)
class NodeKind:
    """The facts that identically built and configured nodes share; use one value for all these nodes."""

    policies: Policies
    zones: tuple[int, ...]
    """All NUMA nodes of the Topology Manager, ascending, including those without CPUs."""
    distances: tuple[tuple[int, ...], ...]
    """Distances from zone to zone, in the order of `zones` and in the kernel's units (10: local); empty if unknown."""
    cpus: CpuTopology
    memory_types: tuple[str, ...] = ()
    """Types of memory, sorted: hugepages by size, then memory."""
    allocatable: tuple[tuple[int, ...], ...] = ()
    """Bytes that the Memory Manager may allocate, by zone and type."""
    devices: tuple[DeviceClass, ...] = ()
    """Classes of devices, sorted."""
    unknown: tuple[str, ...] = ()
    """Facts that the report lacks; each completes the phrase "nothing is known about ..."."""
    unplaced_devices: tuple[tuple[int, int], ...] = ()
    """Unhealthy devices whose zones are unknown: index into `devices`, and how many of its total are guessed."""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        parts = (self.policies, self.zones, self.cpus, self.memory_types, self.allocatable, self.devices)
        return hash((*parts, self.unplaced_devices))

    @cached_property
    def device_indices(self) -> dict[str, tuple[int, ...]]:
        """Return the indices into `devices` by resource."""
        indices: dict[str, tuple[int, ...]] = {}
        for index, device in enumerate(self.devices):
            indices[device.resource] = (*indices.get(device.resource, ()), index)
        return indices

    @cached_property
    def resources_without_health(self) -> tuple[str, ...]:
        """Return the resources that have devices, but no healthy ones."""
        healthy = {device.resource for device in self.devices if device.healthy}
        return tuple(resource for resource in self.device_indices if resource not in healthy)


class NodeState(NamedTuple):
    """The state of a node at one moment; equal states give equal verdicts, whichever node they describe."""

    kind: NodeKind
    free_cpus: int
    """CPUs that the CPU Manager can still allocate, as bits: those in its default set that are not reserved."""
    memory_free: tuple[tuple[int, ...], ...] = ()
    """Free bytes by zone and type, in the order of the kind's `allocatable`."""
    memory_groups: tuple[int, ...] = ()
    """For each zone, the group of zones that currently allocate memory as one; otherwise only the zone itself."""
    memory_assigned: int = 0
    """The set of zones with assigned memory."""
    device_free: tuple[int, ...] = ()
    """Number of healthy devices that no container holds, for each of the kind's `devices`."""


def idle_node(kind: NodeKind) -> NodeState:
    """Return a node on which no container holds anything."""
    policies = kind.policies
    return NodeState(
        kind,
        kind.cpus.cpus & ~kind.cpus.reserved if policies.cpu == "static" else 0,
        kind.allocatable,
        tuple(1 << zone for zone in kind.zones) if policies.memory == "Static" else (),
        0,
        tuple(device.healthy for device in kind.devices),
    )


class Resource(NamedTuple):
    """Amounts for a whole node: allocatable, requested by its pods, or available (framework.Resource)."""

    milli_cpus: int
    memory: int
    """Bytes."""
    pods: int
    ephemeral_storage: int
    """Bytes of ephemeral storage."""
    scalar_resources: tuple[tuple[str, int], ...] = ()
    """Hugepages in bytes and extended resources as counts, sorted by name; absent resources count as 0."""


def amounts_by_resource(resource: Resource) -> Iterator[tuple[str, int]]:
    """Yield resources with their amounts, in the order of the scheduler's check (noderesources/fit.go fitsRequest)."""
    yield from (
        (PODS, resource.pods),
        (CPU, resource.milli_cpus),
        (MEMORY, resource.memory),
        (EPHEMERAL_STORAGE, resource.ephemeral_storage),
    )
    yield from resource.scalar_resources
