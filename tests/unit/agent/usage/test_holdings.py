"""The resources that each pod holds, from List and checkpoints."""

from __future__ import annotations

from hypothesis import given

from support.kubelet_reports import CONFIG, DEVICE, GIB, NodeHistory, make_allocatable, make_node, node_histories
from zonewise.kubelet.types import ContainerDevices, ContainerResources, KubeletReport, MemoryBlock, PodResources
from zonewise.usage.node_usage import node_usage
from zonewise.usage.types import Usage
from zonewise_common.k8s.cpuset import CpuSet
from zonewise_common.nrt.holdings import UNATTRIBUTED, Holdings, holdings_key

TWO = make_node((0, 1))
DEVICES = (ContainerDevices(DEVICE, ("a", "b"), (0,)), ContainerDevices(DEVICE, ("c",), (0, 1)))
POD = PodResources(
    "ns",
    "p",
    (
        ContainerResources("c", CpuSet((1, 2)), (DEVICES[0],), (MemoryBlock("memory", 20 * GIB, (0, 1)),)),
        ContainerResources("d", CpuSet((9,)), (DEVICES[1],), (MemoryBlock("memory", GIB, (0, 1)),)),
    ),
)
SHARED = PodResources("ns", "q", (ContainerResources("c"),))


def usage_of(report: KubeletReport, excluded: str = "") -> dict[str, Holdings]:
    usage = node_usage(TWO, report, excluded=lambda pod: pod.name == excluded)
    assert isinstance(usage, Usage)
    return dict(usage.holdings)


def test_one_pod() -> None:
    """The amounts of its containers are added up; a pod without exclusive resources is omitted."""
    report = KubeletReport((POD, SHARED), make_allocatable(TWO, DEVICES), CONFIG)
    held = Holdings(0b10_0000_0110, ((DEVICE, 0b1, 2), (DEVICE, 0b11, 1), ("memory", 0b11, 21 * GIB)))
    assert usage_of(report) == {holdings_key("ns", "p"): held}


def test_unhealthy_devices_are_not_freed() -> None:
    """The end of a pod does not make an unhealthy device available."""
    report = KubeletReport((POD,), make_allocatable(TWO, DEVICES[1:]), CONFIG)
    [held] = usage_of(report).values()
    assert [amount for amount in held.amounts if amount[0] == DEVICE] == [(DEVICE, 0b11, 1)]


def test_excluded_pods() -> None:
    """An excluded pod holds nothing that could be freed, but its zones remain assigned."""
    report = KubeletReport((POD,), make_allocatable(TWO, DEVICES), CONFIG)
    assert usage_of(report, excluded="p") == {UNATTRIBUTED: Holdings(0, (("memory", 0b11, 0),))}


@given(node_histories(inits=False))
def test_any_node(history: NodeHistory) -> None:
    """Each pod holds the CPUs of its containers, with checkpoints and without."""
    expected = {
        holdings_key(record.pod.namespace, record.pod.name): CpuSet.union(
            container.cpus for container in record.pod.containers
        ).bits
        for record in history.records
        if record.alive
    }
    for files in (True, False):
        usage = node_usage(history.machine, history.report(files=files))
        assert isinstance(usage, Usage)
        cpus = {key: held.cpus for key, held in usage.holdings if key != UNATTRIBUTED}
        assert cpus == {key: bits for key, bits in expected.items() if key in cpus}
        assert all(key in cpus for key, bits in expected.items() if bits)
