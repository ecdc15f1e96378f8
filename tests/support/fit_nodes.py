"""Short forms of nodes and pods for tests of admission."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.cpu_topology import CpuTopology
from zonewise_scheduler.admission.node import DeviceClass, NodeKind, NodeState, Policies
from zonewise_scheduler.admission.pod import Container, PodShape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_common.k8s.podspec import Role
    from zonewise_scheduler.admission.pod import Qos

GIB = 1 << 30
GPU, NIC = "nvidia.com/gpu", "rdma/nic"
STATIC: dict[str, Any] = {"cpu": "static", "memory": "Static"}
STRICT: dict[str, Any] = {"topology": "single-numa-node", **STATIC}


def node(
    zones: int = 2,
    cores: int = 4,
    *,
    gib: int = 16,
    pages: int = 0,
    devices: Mapping[str, Mapping[int, int]] | None = None,
    reserved: int = 0,
    unknown: tuple[str, ...] = (),
    **policies: Any,
) -> NodeState:
    """Return an idle node: cores of two threads by zone, GiB of memory and of 1Gi pages, devices by resource and zone
    set.

    The threads of core c are CPUs 2c and 2c + 1, and each zone is a package.
    """
    siblings = [(2 * core, 3 << 2 * core) for core in range(zones * cores)]
    zone_groups = tuple(
        (zone, sum(bits for _, bits in siblings[zone * cores : (zone + 1) * cores])) for zone in range(zones)
    )
    types = (("hugepages-1Gi",) if pages else ()) + ("memory",)
    row = ((pages * GIB,) if pages else ()) + (gib * GIB,)
    classes = sorted(
        DeviceClass(resource, near, count, count)
        for resource, counts in (devices or {}).items()
        for near, count in counts.items()
    )
    kind = NodeKind(
        Policies(**policies),
        tuple(range(zones)),
        tuple(tuple(10 + 10 * abs(a - b) for b in range(zones)) for a in range(zones)),
        CpuTopology(tuple(siblings), zone_groups, zone_groups, (), reserved),
        types,
        (row,) * zones,
        tuple(classes),
        unknown,
    )
    return NodeState(
        kind,
        kind.cpus.cpus & ~reserved,
        kind.allocatable,
        tuple(1 << zone for zone in range(zones)),
        0,
        tuple(device_class.healthy for device_class in classes),
    )


def container(
    name: str = "c0",
    cpus: float = 0,
    gib: float = 0,
    devices: Mapping[str, int] | None = None,
    *,
    role: Role = "app",
    pages: float | None = None,
) -> Container:
    """Return a container; `pages` is GiB of hugepages-1Gi."""
    memory = (("memory", int(gib * GIB)),) if gib else ()
    return Container(
        name,
        role,
        int(cpus * 1000),
        ((("hugepages-1Gi", int(pages * GIB)), *memory) if pages is not None else memory),
        tuple(sorted((devices or {}).items())),
    )


def pod(*containers: Container, qos: Qos = "Guaranteed") -> PodShape:
    """Return a pod; its init containers must come first."""
    ordered: Sequence[Container] = sorted(containers, key=lambda each: each.role == "app")
    return PodShape(tuple(ordered), qos)


def zone_cpus(state: NodeState, *zones: int) -> int:
    """Return the bitmask of the zones' CPUs."""
    return sum(bits for zone, bits in state.kind.cpus.zones if zone in zones)


def admitted_in_sequence(state: NodeState, shape: PodShape, limit: int) -> int:
    """Return how many equal pods a kubelet admits one after another, up to a limit."""
    for count in range(limit):
        after = admit(state, shape).after
        if after is None:
            return count
        state = after
    return limit
