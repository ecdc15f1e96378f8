"""Which zone each container is in, for the attributes that preemption reads."""

from __future__ import annotations

from typing import Any

from support.kubelet_reports import CONFIG, GIB, make_allocatable, make_node
from zonewise.kubelet.types import (
    ContainerDevices,
    ContainerResources,
    KubeletConfig,
    KubeletReport,
    MemoryBlock,
    PodResources,
)
from zonewise.usage.node_usage import node_usage
from zonewise.usage.types import Usage
from zonewise_common.k8s.cpuset import CpuSet
from zonewise_common.nrt.numaplacement import decode

SPARSE = make_node((0, 8))
SINGLE = CONFIG._replace(topology_manager_policy="single-numa-node")
CPUS = ContainerResources("cpus", CpuSet((9,)), memory=(MemoryBlock("memory", GIB, (8,)),))
DEVICE = ContainerResources(
    "device", devices=(ContainerDevices("r/unzoned", ("n",)), ContainerDevices("r/d", ("a",), (0,)))
)
MEMORY = ContainerResources("memory", memory=(MemoryBlock("memory", GIB, (0,)),))
SHARED = ContainerResources("shared")
PODS = (
    PodResources("ns", "p", (CPUS, DEVICE, SHARED)),
    PodResources("ns", "q", (MEMORY,)),
    PodResources("ns", "r", (SHARED,)),
)


def placed(config: KubeletConfig | None = SINGLE, pods: tuple[PodResources, ...] = PODS, without: str = "") -> Any:
    """Return what an account has of the pods but one."""
    usage = node_usage(
        SPARSE, KubeletReport(pods, make_allocatable(SPARSE), config), excluded=lambda pod: pod.name == without
    )
    assert isinstance(usage, Usage)
    return usage.placement


def test_each_container_that_holds_something() -> None:
    """Those with CPUs, a device or memory of a zone are in it, under its real id; the others are absent."""
    placement = placed()
    assert placement is not None
    assert placement.metadata == "npv0v001::ve=leb89::cc=3::nn=9::bn=0"
    expected = {("ns", "p", "cpus"): 8, ("ns", "p", "device"): 0, ("ns", "q", "memory"): 0}
    assert decode(placement, expected) == expected


def test_only_where_containers_are_in_one_zone() -> None:
    """Other policies let a container be in several zones."""
    assert placed(CONFIG) is None
    assert placed(None) is None


def test_excluded_pods_have_a_placement() -> None:
    """Containers are encoded by number, and a scheduler counts those of excluded pods too."""
    assert placed(without="p") == placed()


def test_a_container_that_is_nowhere() -> None:
    """One in several zones, or in a zone that there is not, makes the numbers of all others useless."""
    for zones in ((0, 8), (5,)):
        wide = PodResources("ns", "w", (ContainerResources("c", memory=(MemoryBlock("memory", GIB, zones),)),))
        assert placed(pods=(*PODS, wide)) is None
