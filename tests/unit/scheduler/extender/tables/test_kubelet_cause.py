"""Causes of rejections: the kubelet's reason, and the decisive resource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.fit_nodes import GPU, NIC, STATIC, container, node, pod
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.errors import TOPOLOGY_AFFINITY_ERROR
from zonewise_scheduler.extender.failed_nodes import RejectionCause
from zonewise_scheduler.extender.tables.kubelet_cause import NO_VERDICT, SEVERAL, kubelet_cause

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape

GPUS = {GPU: {1: 2, 2: 2}, NIC: {1: 1}}


def cause(state: NodeState, shape: PodShape) -> RejectionCause:
    verdict = admit(state, shape)
    assert not verdict.admitted
    return kubelet_cause(state, shape, verdict)


def strict(**fields: Any) -> NodeState:
    return node(topology="single-numa-node", devices=GPUS, **STATIC | fields)


@pytest.mark.parametrize("scope", ["container", "pod"])
@pytest.mark.parametrize(
    ("request_", "resource"),
    [
        ({"cpus": 9, "gib": 1}, "cpu"),
        ({"cpus": 2, "gib": 20}, "memory"),
        ({"cpus": 2, "gib": 1, "devices": {GPU: 3}}, GPU),
        ({"cpus": 9, "gib": 1, "devices": {GPU: 3}}, SEVERAL),
    ],
)
def test_misaligned(scope: str, request_: dict[str, Any], resource: str) -> None:
    """The cause is the resource that no zone has enough of; if there are several, the cause is SEVERAL."""
    expected = RejectionCause(TOPOLOGY_AFFINITY_ERROR, resource)
    assert cause(strict(scope=scope), pod(container(**request_))) == expected


def test_each_resource_fits_in_another_zone() -> None:
    """CPUs are free only in zone 1, and the network device is near zone 0, so both are decisive."""
    state = strict()._replace(free_cpus=0xFF00)
    shape = pod(container(cpus=2, gib=1, devices={NIC: 1}))
    assert cause(state, shape) == RejectionCause(TOPOLOGY_AFFINITY_ERROR, SEVERAL)


def test_the_container_that_is_rejected() -> None:
    """The cause takes into account what earlier containers were allocated."""
    shape = pod(*(container(f"c{number}", cpus=6, gib=1) for number in range(3)))
    assert cause(strict(), shape) == RejectionCause(TOPOLOGY_AFFINITY_ERROR, "cpu")


def test_no_alignment() -> None:
    """Without a topology policy, the cause is the resource whose manager lacks it."""
    state = node(devices=GPUS, **STATIC)
    assert cause(state, pod(container(cpus=17, gib=1))).resource == "cpu"
    assert cause(state, pod(container(cpus=1, gib=1, devices={GPU: 5}))).resource == GPU


def test_no_verdict() -> None:
    """A kubelet that does not start gives no reason."""
    state = node(9, 1, topology="single-numa-node", **STATIC)
    assert cause(state, pod(container(cpus=1, gib=1))) == RejectionCause(NO_VERDICT)


@given(
    cpus=st.integers(0, 18), gib=st.integers(1, 20), gpus=st.integers(0, 5), nics=st.integers(0, 2),
    topology=st.sampled_from(["none", "restricted", "single-numa-node"]), free=st.integers(0, 0xFFFF),
)  # fmt: skip
def test_causes_use_few_labels(cpus: int, gib: int, gpus: int, nics: int, topology: str, free: int) -> None:
    """The resource of a cause is one that the pod requests and the node has, or SEVERAL."""
    state = node(topology=topology, devices=GPUS, **STATIC)._replace(free_cpus=free)
    shape = pod(container(cpus=cpus, gib=gib, devices={GPU: gpus, NIC: nics}))
    verdict = admit(state, shape)
    if not verdict.admitted:
        assert kubelet_cause(state, shape, verdict).resource in {"cpu", "memory", GPU, NIC, SEVERAL}
