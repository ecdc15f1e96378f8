"""Explanations of rejections."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from support.explanations import AMD, explained, four_of_eight
from support.fit_nodes import GIB, GPU, NIC, STATIC, container, node, pod, zone_cpus
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.cpu_topology import CpuTopology
from zonewise_scheduler.admission.explain.rejection import explain_rejection
from zonewise_scheduler.admission.memorymanager.memory_allocation import update_machine_state
from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.admission.pod import PodLevelResources

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape


def test_an_admitted_pod_has_no_explanation() -> None:
    assert explained(node(), pod(container(cpus=1, gib=1))) == ""


@pytest.mark.parametrize(
    ("cpus", "words"),
    [
        (1, "needs 1 CPU, but the node allocates only whole cores of 2: request 2 CPUs"),
        (7, "needs 7 CPUs, but the node allocates only whole cores of 2: request 6 or 8 CPUs"),
        (10, "needs 10 CPUs in whole cores; 8 are free"),
    ],
)
def test_whole_cores(cpus: int, words: str) -> None:
    assert explained(four_of_eight("none", full_cores=True), pod(container(cpus=cpus, gib=1))) == words


# --- failed allocations


def test_too_few_without_alignment() -> None:
    state = four_of_eight("none")
    assert explained(state, pod(container(cpus=9, gib=1))) == "needs 9 CPUs; 8 are free"
    assert explained(state, pod(container(devices={NIC: 2}), qos="BestEffort")) == f"needs 2 {NIC}; 1 is free"
    assert explained(state, pod(container(devices={GPU: 4}), qos="BestEffort")) == f"needs 4 {GPU}; 3 are free"
    others = node(2, devices={AMD: {1: 2}}, topology="none")
    assert explained(others, pod(container(devices={AMD: 3}), qos="BestEffort")) == f"needs 3 {AMD}; 2 are free"


def test_cpus_of_ended_init_containers_count_as_free() -> None:
    shape = pod(container("i0", 2, 1, role="init"), container("c0", 9, 1))
    assert explained(four_of_eight("none"), shape) == "container c0 needs 9 CPUs; 8 are free"


@pytest.mark.parametrize(("others", "free"), [(0, 4), (0b1, 5)])
def test_enough_cpus_that_the_kubelet_cannot_distribute(others: int, free: int) -> None:
    """The kubelet lists a zone of two packages twice, and therefore counts its CPUs twice."""
    cores = tuple((first, 0b11 << first) for first in range(0, 10, 2))
    zones, packages = ((0, 0b11), (1, 0b1100), (2, 0x3F0)), ((0, 0x3F), (1, 0x3C0))
    state = node(3, 2, topology="none", distribute_across_zones=True, **STATIC)
    kind = replace(state.kind, cpus=CpuTopology(cores, zones, packages, (), 0))
    assert explained(state._replace(kind=kind, free_cpus=0x170 | others), pod(container(cpus=4, gib=1))) == (
        f"needs 4 CPUs; {free} are free, but the kubelet cannot distribute 4 evenly among zones"
    )


def test_siblings_of_reserved_cpus_are_no_whole_cores() -> None:
    state = node(2, 4, reserved=1, topology="none", full_cores=True, **STATIC)
    assert explained(state, pod(container(cpus=16, gib=1))) == "needs 16 CPUs in whole cores; 14 are free"


@pytest.mark.parametrize("total", [2, 3])
def test_devices_of_ended_init_containers_count_as_free(total: int) -> None:
    init, app = container("i0", devices={GPU: 1}, role="init"), container("c0", devices={GPU: total + 1})
    state = node(2, devices={GPU: {1: total}}, topology="none")
    words = explained(state, pod(init, app, qos="BestEffort"))
    assert words == f"container c0 needs {total + 1} {GPU}; {total} are free"


@pytest.mark.parametrize(("cpus", "choices"), [(2, "3"), (4, "3 or 6"), (5, "3 or 6"), (7, "6 or 9")])
def test_whole_cores_of_three_threads(cpus: int, choices: str) -> None:
    """The explanation states the nearest multiples of 3."""
    cores = tuple((first, 0b111 << first) for first in range(0, 12, 3))
    state = node(1, 4, topology="none", full_cores=True, **STATIC)
    topology = CpuTopology(cores, ((0, 0xFFF),), ((0, 0xFFF),), (), 0)
    state = state._replace(kind=replace(state.kind, cpus=topology), free_cpus=0xFFF)
    assert explained(state, pod(container(cpus=cpus, gib=1))) == (
        f"needs {cpus} CPUs, but the node allocates only whole cores of 3: request {choices} CPUs"
    )


def test_no_healthy_devices() -> None:
    state = node(devices={GPU: {0: 0}})
    assert explained(state, pod(container(devices={GPU: 1}), qos="BestEffort")) == f"needs 1 {GPU}; none is healthy"
    shape = pod(container(devices={GPU: 0}), qos="BestEffort")
    assert explained(state, shape) == f"needs 0 {GPU}; none is healthy, and even 0 is then rejected"


def test_groups_of_zones() -> None:
    state = node(3, 2, gib=8, topology="none", **STATIC)
    alone = update_machine_state(state, 0b100, "memory", GIB)
    assert explained(alone, pod(container(gib=24, cpus=1))).endswith(
        "zone 2 has 7 GiB; zone 2 allocates it only separately"
    )
    state = update_machine_state(update_machine_state(state, 0b11, "memory", 10 * GIB), 0b100, "memory", GIB)
    assert explained(state, pod(container(gib=9, cpus=1))) == (
        "needs 9 GiB of memory from the same zones; zone 0 has 0 GiB free, zone 1 has 6 GiB, zone 2 has 7 GiB; "
        "zones 0 and 1 already share memory and allocate it only together; zone 2 allocates it only separately"
    )


def test_memory_that_the_aligned_zones_lack() -> None:
    state = node(2, 4, gib=8, pages=2, topology="single-numa-node", **STATIC)
    state = state._replace(free_cpus=zone_cpus(state, 1))
    assert explained(state, pod(container(cpus=2, gib=1, pages=5))) == (
        "needs 5 GiB of hugepages-1Gi and 1 GiB of memory from zone 1, which it is aligned to; "
        "of hugepages-1Gi zone 0 has 2 GiB free, zone 1 has 2 GiB"
    )


# --- other rejections


def test_empty_shared_pools() -> None:
    level = PodLevelResources(4000, (("memory", 4 * GIB),))
    for topology in ("best-effort", "restricted"):
        state = node(2, 4, topology=topology, scope="pod", pod_level_managers=True, **STATIC)
        shape = pod(container("c0", 4, 1), container("c1"))._replace(pod_level=level)
        assert explained(state, shape) == "leaves nothing of its 4 CPUs to the containers that have none of their own"
        shape = pod(container("c0", 2, 4), container("c1"))._replace(pod_level=level)
        assert explained(state, shape) == (
            "leaves nothing of its 4 GiB of memory to the containers that have none of their own"
        )


def test_a_container_of_a_pod_with_pod_level_resources() -> None:
    """In scope container, the container's own request is the problem, not what is left for other containers."""
    state = node(2, 4, topology="single-numa-node", pod_level_managers=True, **STATIC)
    shape = pod(container("c0", 9, 1), container("c1"))._replace(pod_level=PodLevelResources(9000, (("memory", GIB),)))
    assert explained(state, shape) == "container c0 needs 9 CPUs in one zone; no zone has that many, even when idle"


def copy_of(text: str) -> str:
    """Return an equal string that is a different object, as in a deserialized verdict."""
    return "".join([*text])


@pytest.mark.parametrize(
    ("state", "shape"),
    [
        (four_of_eight(), pod(container("first", cpus=6, gib=1), container("second", cpus=2, gib=1))),
        (four_of_eight("none", full_cores=True), pod(container(cpus=7, gib=1))),
        (four_of_eight("none"), pod(container(cpus=9, gib=1))),
        (four_of_eight("none"), pod(container(devices={NIC: 2}), qos="BestEffort")),
        (node(2, 2, gib=8, topology="none", **STATIC), pod(container(cpus=1, gib=24))),
        (
            node(2, 4, topology="best-effort", scope="pod", pod_level_managers=True, **STATIC),
            pod(container("c0", 4, 1), container("c1"))._replace(pod_level=PodLevelResources(4000, (("memory", GIB),))),
        ),
    ],
)
def test_a_copied_verdict_has_the_same_explanation(state: NodeState, shape: PodShape) -> None:
    """Names are compared by value, not by identity."""
    verdict = admit(state, shape)
    assert not verdict.admitted
    copied = verdict._replace(
        reason=copy_of(verdict.reason), container=copy_of(verdict.container), resource=copy_of(verdict.resource)
    )
    assert explain_rejection(state, shape, copied) == explain_rejection(state, shape, verdict)


def test_a_full_node() -> None:
    shape = pod(container(cpus=2, gib=1), qos="Burstable")
    verdict = admit(node(), shape, Resource(0, 0, 1, 0))
    assert explain_rejection(node(), shape, verdict) == "needs more cpu than the node has left"


def test_a_kubelet_that_does_not_start() -> None:
    words = "its kubelet does not start: it is unsupported on machines with more than 8 NUMA Nodes"
    assert explained(node(9, 1, topology="restricted"), pod(container())) == words
