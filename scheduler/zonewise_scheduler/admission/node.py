"""Nodes: what is the same for all of a kind, and what changes while pods come and go.

Sets of zones are integers, bit i for NUMA node i (the kubelet's bitmask, pkg/kubelet/cm/topologymanager/bitmask).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.admission.cpu_topology import CpuTopology  # noqa: TC001 -- ledger/case.py asks for the types at run time
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
    """The feature gate PodLevelResourceManagers: pods with resources of their own are given whole."""
    release: tuple[int, int] = (1, 36)
    """Of the kubelet, where its behaviour differs between releases."""


class DeviceClass(NamedTuple):
    """Devices of one resource that are close to the same zones."""

    resource: str
    zones: int
    """0: no zone is known."""
    total: int
    """All of them, unhealthy ones too: what the Device Manager counts widths by."""
    healthy: int


@dataclass(frozen=True)
class NodeKind:
    """What nodes have in common that are made and configured alike; share one value among them."""

    policies: Policies
    zones: tuple[int, ...]
    """All NUMA nodes, ascending, those without CPUs too: the Topology Manager's."""
    distances: tuple[tuple[int, ...], ...]
    """From and to zones, in the order of zones, in the kernel's units (10: local); empty where unknown."""
    cpus: CpuTopology
    memory_types: tuple[str, ...] = ()
    """Sorted: hugepages by size, memory."""
    allocatable: tuple[tuple[int, ...], ...] = ()
    """Bytes, by zone and type: what the Memory Manager may give."""
    devices: tuple[DeviceClass, ...] = ()
    """Sorted."""
    unknown: tuple[str, ...] = ()
    """What the report does not tell, each as the end of "nothing is known of ..."."""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.policies, self.zones, self.cpus, self.memory_types, self.allocatable, self.devices))

    @cached_property
    def device_indices(self) -> dict[str, tuple[int, ...]]:
        """Return the places in devices of each resource."""
        found: dict[str, tuple[int, ...]] = {}
        for place, one in enumerate(self.devices):
            found[one.resource] = (*found.get(one.resource, ()), place)
        return found


class NodeState(NamedTuple):
    """One node at one moment; equal states give equal verdicts, whatever the node."""

    kind: NodeKind
    free_cpus: int
    """Bits of the CPUs that the CPU Manager would still give: in its default set and not reserved."""
    memory_free: tuple[tuple[int, ...], ...] = ()
    """Bytes, by zone and type, as in the kind's allocatable."""
    memory_groups: tuple[int, ...] = ()
    """By zone: the set of zones from which memory is given as one at present; the zone alone otherwise."""
    memory_assigned: int = 0
    """The set of zones of which any memory is assigned."""
    device_free: tuple[int, ...] = ()
    """Count by the kind's devices: healthy ones that nobody has."""


def idle_node(kind: NodeKind) -> NodeState:
    """Return a node on which nothing is held."""
    policies = kind.policies
    return NodeState(
        kind,
        kind.cpus.cpus & ~kind.cpus.reserved if policies.cpu == "static" else 0,
        kind.allocatable,
        tuple(1 << zone for zone in kind.zones) if policies.memory == "Static" else (),
        0,
        tuple(one.healthy for one in kind.devices),
    )


class Resource(NamedTuple):
    """Amounts of a whole node: what it has, what its pods request, or what they leave of it (NodeResourcesFit)."""

    milli_cpus: int
    memory: int
    """Bytes."""
    pods: int
    ephemeral_storage: int
    """Bytes of ephemeral storage."""
    scalar_resources: tuple[tuple[str, int], ...] = ()
    """Hugepages in bytes and extended resources as counts, sorted by name; of one that is absent there is none."""


def amounts_by_resource(resource: Resource) -> Iterator[tuple[str, int]]:
    """Yield all of it by resource, in the order in which it is checked (noderesources/fit.go fitsRequest)."""
    yield from (
        (PODS, resource.pods),
        (CPU, resource.milli_cpus),
        (MEMORY, resource.memory),
        (EPHEMERAL_STORAGE, resource.ephemeral_storage),
    )
    yield from resource.scalar_resources
