"""A simulated kubelet's allocations for pods."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise.kubelet.types import KubeletConfig, MemoryBlock
from zonewise_common.k8s.cpuset import CpuSet
from zonewise_sandbox.kubelet import STATIC, ContainerSpec, DoesNotFit, PodSpec, SimulatedDevice, even_zones
from zonewise_sandbox.kubelet.container_manager import ContainerManager

if TYPE_CHECKING:
    from zonewise_sandbox.kubelet.allocation import Allocation

GIB = 1 << 30
NIC = [SimulatedDevice("nic", f"nic-{zone}", (zone,)) for zone in (0, 1)]


def managers(config: KubeletConfig = STATIC) -> ContainerManager:
    """Return two zones of 16 CPUs (0-7,16-23 and 8-15,24-31), 64 GiB and a NIC, and a device without topology."""
    return ContainerManager(even_zones(2, 8), [*NIC, SimulatedDevice("any", "any-0")], config)


def run(
    node: ContainerManager, name: str, cpus: float = 0, memory: int = 0, nics: int = 0, *, guaranteed: bool = True
) -> Allocation:
    """Admit a pod of one container."""
    container = ContainerSpec(
        "c", int(cpus * 1000), {"memory": memory} if memory else {}, {"nic": nics} if nics else {}
    )
    node.admit(PodSpec("lab", name, (container,), name, guaranteed))
    return node.allocations[name]["c"]


def test_a_pod_gets_the_zones_that_fit_all_of_it() -> None:
    """Zone 0 has no free NIC, so CPUs and memory also come from zone 1."""
    node = managers()
    run(node, "a", nics=1)
    grant = run(node, "b", 2, GIB, 1)
    assert grant == (CpuSet([8, 9]), (MemoryBlock("memory", GIB, (1,)),), (NIC[1],))


def test_a_pod_that_fits_nowhere_is_spread() -> None:
    """CPUs are allocated in ascending order through the zones; memory remains in one zone if it fits there."""
    grant = run(managers(), "a", 20, GIB)
    assert str(grant.cpus) == "1-12,16-23"
    assert grant.memory == (MemoryBlock("memory", GIB, (0,)),)


def test_memory_of_two_zones_groups_them() -> None:
    """Zones that together hold a block of memory allocate only as a group until it is free."""
    node = managers()
    assert run(node, "a", 1, 100 * GIB).memory == (MemoryBlock("memory", 100 * GIB, (0, 1)),)
    assert [
        (n.cells, n.number_of_assignments, n.memory_map["memory"].free >> 30) for n in node.free.memory.values()
    ] == [
        ((0, 1), 1, 0),
        ((0, 1), 1, 28),
    ]
    with pytest.raises(DoesNotFit):
        run(node, "b", memory=65 * GIB)
    assert run(node, "b", memory=GIB).memory == (MemoryBlock("memory", GIB, (0, 1)),)
    node.remove("a")
    node.remove("b")
    assert run(node, "c", memory=GIB).memory == (MemoryBlock("memory", GIB, (0,)),)


def test_a_single_zone_or_none() -> None:
    """Under single-numa-node, a pod that would span zones is rejected and leaves nothing behind."""
    node = managers(STATIC._replace(topology_manager_policy="single-numa-node"))
    before = node.free
    with pytest.raises(DoesNotFit, match="no zones for c in a single zone"):
        run(node, "a", 17)
    assert node.free == before
    assert node.pods == {}


@pytest.mark.parametrize(("scope", "cpus"), [("container", ["1-7,16-18", "8-15,24-25"]), ("pod", None)])
def test_the_scope(scope: str, cpus: list[str] | None) -> None:
    """Two containers of ten CPUs get one zone each, unless the whole pod must fit in one."""
    config = STATIC._replace(topology_manager_policy="single-numa-node", topology_manager_scope=scope)
    node = managers(config)
    two = PodSpec("lab", "a", (ContainerSpec("x", 10_000), ContainerSpec("y", 10_000)), "u")
    with pytest.raises(DoesNotFit) if cpus is None else contextlib.nullcontext():
        node.admit(two)
    assert [str(grant.cpus) for grant in node.allocations.get("u", {}).values()] == (cpus or [])


def test_only_whole_cpus_of_guaranteed_pods_are_exclusive() -> None:
    """Fractional CPUs and pods of other QoS classes use the shared pool; devices are allocated to all pods."""
    node = managers()
    assert not run(node, "a", 1.5).cpus
    grant = run(node, "b", 2, GIB, 1, guaranteed=False)
    assert (grant.cpus, grant.memory, grant.devices) == (CpuSet(), (), (NIC[0],))


def test_policies_without_exclusive_resources() -> None:
    """With the policies none and None, only devices are allocatable."""
    node = managers(KubeletConfig())
    assert run(node, "a", 2, GIB) == (CpuSet(), (), ())
    assert (node.allocatable().cpus, node.allocatable().memory) == (CpuSet(), ())
    assert len(node.allocatable().devices) == 3


def test_what_is_allocatable() -> None:
    """Allocatable are CPUs without the reserved ones, and memory without the reserved part and the hugepages."""
    zones = [zone._replace(memory={**zone.memory, "hugepages-1Gi": 4 * GIB}) for zone in even_zones(2, 8)]
    config = STATIC._replace(reserved_cpus=CpuSet([0, 16]), reserved_memory=((0, "memory", GIB),))
    told = ContainerManager(zones, [], config).allocatable()
    assert str(told.cpus) == "1-15,17-31"
    assert sorted(told.memory) == [
        ("hugepages-1Gi", 4 * GIB, (0,)),
        ("hugepages-1Gi", 4 * GIB, (1,)),
        ("memory", 59 * GIB, (0,)),
        ("memory", 60 * GIB, (1,)),
    ]


PODS = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 80).map(lambda size: size * GIB), st.integers(0, 2), st.booleans()),
    max_size=8,
)


@given(PODS, st.data())
def test_nothing_is_allocated_twice_and_nothing_is_lost(
    pods: list[tuple[int, int, int, bool]], data: st.DataObject
) -> None:
    """After any admissions and removals, the free and the held resources add up to the total."""
    node = managers()
    idle = node.free
    for number, (cpus, memory, nics, running) in enumerate(pods):
        try:
            run(node, str(number), cpus, memory, nics)
        except DoesNotFit:
            continue
        if not running:
            node.remove(data.draw(st.sampled_from(sorted(node.pods))))
    grants = [grants["c"] for grants in node.allocations.values()]
    held = [cpu for grant in grants for cpu in grant.cpus]
    free = [cpu for cpus in node.free.cpus.values() for cpu in cpus]
    assert sorted(held + free) == [cpu for cpu in range(32) if cpu]
    devices = [device for grant in grants for device in grant.devices]
    assert sorted(devices + list(node.free.devices)) == sorted(idle.devices)
    blocks = [block for grant in grants for block in grant.memory]
    tables = [memory.memory_map["memory"] for memory in node.free.memory.values()]
    assert sum(block.size for block in blocks) == sum(table.reserved for table in tables)
    assert all(table.free + table.reserved == table.allocatable and table.free >= 0 for table in tables)
    assert all(
        memory.number_of_assignments == sum(zone in block.zones for block in blocks)
        for zone, memory in node.free.memory.items()
    )
