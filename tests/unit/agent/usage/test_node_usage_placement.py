"""The zone of each container, for the attributes that preemption reads."""

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
    """Return the placement of the pods, with one pod excluded."""
    usage = node_usage(
        SPARSE, KubeletReport(pods, make_allocatable(SPARSE), config), excluded=lambda pod: pod.name == without
    )
    assert isinstance(usage, Usage)
    return usage.placement


def test_each_container_with_resources() -> None:
    """Containers with CPUs, a device or memory of a zone are listed under its real id; others are absent."""
    placement = placed()
    assert placement is not None
    assert placement.metadata == "npv0v001::ve=leb89::cc=3::nn=9::bn=0"
    expected = {("ns", "p", "cpus"): 8, ("ns", "p", "device"): 0, ("ns", "q", "memory"): 0}
    assert decode(placement, expected) == expected


def test_only_if_containers_are_in_one_zone() -> None:
    """Other policies allow a container to be in several zones."""
    assert placed(CONFIG) is None
    assert placed(None) is None


def test_excluded_pods_have_a_placement() -> None:
    """Containers are encoded by number, and a scheduler also counts those of excluded pods."""
    assert placed(without="p") == placed()


def test_a_container_without_a_single_zone() -> None:
    """A container in several zones or in an unknown zone makes the numbers of all others useless."""
    for zones in ((0, 8), (5,)):
        wide = PodResources("ns", "w", (ContainerResources("c", memory=(MemoryBlock("memory", GIB, zones),)),))
        assert placed(pods=(*PODS, wide)) is None
