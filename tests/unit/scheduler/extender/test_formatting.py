"""Text representations of predicted verdicts and node states."""

from __future__ import annotations

from support.fit_nodes import GIB, GPU, STATIC, container, node, pod
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.verdict import ContainerAssignment, Verdict
from zonewise_scheduler.extender.formatting import describe_state, format_verdict

NODE = node(2, 4, devices={GPU: {1: 1, 2: 2}}, topology="single-numa-node", reserved=1, **STATIC)


def test_a_verdict() -> None:
    """Each container is listed with its zones and CPUs; CPU lists have the kernel's format."""
    verdict = admit(NODE, pod(container("one", 2, 1), container("two", 2, 1, {GPU: 2})))
    assert format_verdict(verdict) == "one zones=0 cpus=2-3; two zones=1 cpus=8-9"


def test_a_pod_without_exclusive_resources() -> None:
    """The text states that the pod has no exclusive resources."""
    assert format_verdict(Verdict(admitted=True)) == "nothing exclusive"
    assert (
        format_verdict(Verdict(admitted=True, assignments=(ContainerAssignment("c", cpus=0b1011),))) == "c cpus=0-1,3"
    )


def test_a_node_state() -> None:
    """The text lists the available CPUs, memory and devices of the node by zone, and the unknown facts."""
    description = describe_state(NODE._replace(free_cpus=0b1100_0000_0011_0000))
    assert description["topologyManager"] == "single-numa-node, scope container"
    assert description["freeCpus"] == {"zone 0": "4-5", "zone 1": "14-15"}
    assert description["freeMemory"] == {"zone 0": {"memory": 16 * GIB}, "zone 1": {"memory": 16 * GIB}}
    assert description["freeDevices"] == {f"{GPU}@0": 1, f"{GPU}@1": 2}
    assert description["unknown"] == []
