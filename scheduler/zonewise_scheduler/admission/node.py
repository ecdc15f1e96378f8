"""Nodes: what nodes of one kind share, and the state that changes as pods come and go.

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
    """The part of a kubelet's configuration that decides about zones."""

    topology: str = "none"
    """"none", "best-effort", "restricted" or "single-numa-node"."""
    scope: str = "container"
    """"container" or "pod"."""
    prefer_closest: bool = False
    """prefer-closest-numa-nodes."""
    max_zones: int = 8
    """max-allowable-numa-nodes: with more NUMA nodes and a policy, a kubelet does not start."""
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
    """The feature gate PodLevelResourceManagers: pods with pod-level resources are allocated as a whole."""
    release: tuple[int, int] = (1, 36)
    """Of the kubelet, where its behaviour differs between releases."""


MAX_NODE_AMOUNT = 1 << 58
"""No node has so much of a resource in all of its zones together: bytes, or devices."""

NO_ZONE = 1 << MAX_NUMA_NODES
"""The zone of devices whose plugin names NUMA node -1.

Such a device makes the kubelet align its resource, and no set of zones ever contains it
(devicemanager/topology_hints.go deviceHasTopologyAlignment, generateDeviceTopologyHints).
"""


class DeviceClass(NamedTuple):
    """Devices of one resource that are close to the same zones."""

    resource: str
    zones: int
    """0: the plugin names none; NO_ZONE: it names -1. Zones that the node lacks count as NO_ZONE does."""
    total: int
    """All of them, unhealthy ones too: the Device Manager computes widths of hints from it."""
    healthy: int


@dataclass(frozen=True)
class NodeKind:
    """What nodes share that are built and configured alike; use one value for all of them."""

    policies: Policies
    zones: tuple[int, ...]
    """All NUMA nodes, ascending, those without CPUs too: the Topology Manager's."""
    distances: tuple[tuple[int, ...], ...]
    """From and to zones, in the order of zones, in the kernel's units (10: local); empty where unknown."""
    cpus: CpuTopology
    memory_types: tuple[str, ...] = ()
    """Sorted: hugepages by size, memory."""
    allocatable: tuple[tuple[int, ...], ...] = ()
    """Bytes, by zone and type: what the Memory Manager may allocate."""
    devices: tuple[DeviceClass, ...] = ()
    """Sorted."""
    unknown: tuple[str, ...] = ()
    """Facts that the report lacks, each as the end of "nothing is known of ..."."""
    unplaced_devices: tuple[tuple[int, int], ...] = ()
    """Unhealthy devices of unknown zones: index into `devices`, and how many of its total are a guess."""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        parts = (self.policies, self.zones, self.cpus, self.memory_types, self.allocatable, self.devices)
        return hash((*parts, self.unplaced_devices))

    @cached_property
    def device_indices(self) -> dict[str, tuple[int, ...]]:
        """Return the indices into `devices` of each resource."""
        indices: dict[str, tuple[int, ...]] = {}
        for index, device in enumerate(self.devices):
            indices[device.resource] = (*indices.get(device.resource, ()), index)
        return indices

    @cached_property
    def resources_without_health(self) -> tuple[str, ...]:
        """Return the device resources of which no device is healthy."""
        healthy = {device.resource for device in self.devices if device.healthy}
        return tuple(resource for resource in self.device_indices if resource not in healthy)


class NodeState(NamedTuple):
    """One node at one moment; equal states give equal verdicts, whatever the node."""

    kind: NodeKind
    free_cpus: int
    """Bits of the CPUs that the CPU Manager can still allocate: in its default set and not reserved."""
    memory_free: tuple[tuple[int, ...], ...] = ()
    """Bytes, by zone and type, as in the kind's allocatable."""
    memory_groups: tuple[int, ...] = ()
    """By zone: the set of zones that allocate memory as one at present; otherwise the zone alone."""
    memory_assigned: int = 0
    """The set of zones with assigned memory."""
    device_free: tuple[int, ...] = ()
    """Healthy devices that no container holds, by the kind's `devices`."""


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
    """Amounts of a whole node: its allocatable, the requests of its pods, or what is available (framework.Resource)."""

    milli_cpus: int
    memory: int
    """Bytes."""
    pods: int
    ephemeral_storage: int
    """Bytes of ephemeral storage."""
    scalar_resources: tuple[tuple[str, int], ...] = ()
    """Hugepages in bytes and extended resources as counts, sorted by name; an absent one counts as 0."""


def amounts_by_resource(resource: Resource) -> Iterator[tuple[str, int]]:
    """Yield all amounts by resource, in the order of the check (noderesources/fit.go fitsRequest)."""
    yield from (
        (PODS, resource.pods),
        (CPU, resource.milli_cpus),
        (MEMORY, resource.memory),
        (EPHEMERAL_STORAGE, resource.ephemeral_storage),
    )
    yield from resource.scalar_resources
