"""Pods with pod-level resources: they are skipped, or allocated as a whole with the gate PodLevelResourceManagers."""

from __future__ import annotations

from typing import Any

import pytest

from support.fit_nodes import GIB, GPU, NIC, STATIC, container, node
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.memorymanager.memory_requests import empty_shared_memory_pool, pod_memory_request
from zonewise_scheduler.admission.node import NodeState, Resource
from zonewise_scheduler.admission.pod import Container, PodLevelResources, PodShape

GATE: dict[str, Any] = {**STATIC, "pod_level_managers": True}


def guaranteed_pod(cpus: int, gib: int, *containers: Container) -> PodShape:
    """Return a pod that is Guaranteed because of its pod-level resources."""
    return PodShape(containers, "Guaranteed", PodLevelResources(cpus * 1000, (("memory", gib * GIB),)))


def usable(state: NodeState, shape: PodShape) -> dict[str, tuple[int, int]]:
    """Return how many CPUs and GiB each container can use."""
    assignments = admit(state, shape).assignments
    return {
        each.container: (each.cpus.bit_count(), sum(block.size for block in each.memory) // GIB) for each in assignments
    }


def test_without_the_gate_nothing_is_allocated() -> None:
    """Since 1.34 the managers skip such pods; earlier releases ignored pod-level resources."""
    shape = guaranteed_pod(8, 4, container("c0", 2, 1))
    assert usable(node(2, 4, topology="restricted", **STATIC), shape) == {}
    assert usable(node(2, 4, topology="restricted", release=(1, 33), **STATIC), shape) == {"c0": (2, 1)}


def test_a_pod_is_allocated_as_a_whole_and_divided() -> None:
    """Containers with guaranteed requests get an exclusive part, and the others share the rest."""
    shape = guaranteed_pod(8, 6, container("c0", 2, 1), container("c1"), container("c2"))
    state = node(2, 4, topology="single-numa-node", scope="pod", **GATE)
    assert usable(state, shape) == {"c0": (2, 1), "c1": (6, 5), "c2": (6, 5)}
    verdict = admit(state, shape)
    assert verdict.after is not None
    assert verdict.after.free_cpus.bit_count() == 8
    assert verdict.after.memory_free == ((10 * GIB,), (16 * GIB,))


def test_a_pod_takes_free_cpus_only() -> None:
    """The pod gets what its containers use together; the other CPUs remain free."""
    state = node(2, 4, topology="best-effort", scope="pod", **GATE)
    state = state._replace(free_cpus=0b1111_1110 << 8 | 0b1110)
    verdict = admit(state, guaranteed_pod(8, 4, container("c0", 2, 1), container("c1")))
    assert verdict.after is not None
    taken = [each.cpus for each in verdict.assignments]
    assert [cpus.bit_count() for cpus in taken] == [2, 6]
    assert sum(taken) & ~state.free_cpus == 0
    assert verdict.after.free_cpus == state.free_cpus & ~sum(taken)


@pytest.mark.parametrize(
    ("pod_pages", "pages", "left"),
    [(3, (1, 1), GIB), (3, (2, 0.5), GIB // 2), (0, (1, 1), 0), (0, (0, 0), 0)],
)
def test_containers_share_the_pages_that_others_leave(pod_pages: int, pages: tuple[float, float], left: int) -> None:
    """Blocks of zero bytes are omitted, even if containers request more than the pod, which the API server prevents."""
    level = PodLevelResources(8000, (("hugepages-1Gi", pod_pages * GIB), ("memory", 6 * GIB)))
    first, second = (container(f"c{index}", 1, 1, pages=size) for index, size in enumerate(pages))
    shape = PodShape((first, second, container("c2")), "Guaranteed", level)
    verdict = admit(node(2, 4, pages=8, topology="best-effort", scope="pod", **GATE), shape)
    shared = {block.type: block.size for block in verdict.assignments[2].memory}
    assert shared == {"memory": 4 * GIB} | ({"hugepages-1Gi": left} if left else {})
    assert all(block.size for each in verdict.assignments for block in each.memory)


def test_a_byte_is_shared_too() -> None:
    level = PodLevelResources(8000, (("memory", GIB + 1),))
    shape = PodShape((container("c0", 2, 1), container("c1")), "Guaranteed", level)
    verdict = admit(node(2, 4, topology="best-effort", scope="pod", **GATE), shape)
    assert [[block.size for block in each.memory] for each in verdict.assignments] == [[GIB], [1]]


def test_init_containers_use_all_but_the_resources_of_sidecars() -> None:
    """An init container gets its guaranteed request, or else all resources except those of earlier sidecars."""
    shape = guaranteed_pod(
        8,
        6,
        container("i0", 2, 1, role="sidecar"),
        container("i1", role="init"),
        container("i2", 4, 2, role="init"),
        container("c0", 2, 1),
        container("c1"),
    )
    state = node(2, 4, topology="single-numa-node", scope="pod", **GATE)
    assert usable(state, shape) == {"i0": (2, 1), "i1": (6, 5), "i2": (4, 2), "c0": (2, 1), "c1": (4, 4)}


def test_an_incomplete_container_shares() -> None:
    """A container whose limits differ from its requests has no exclusive resources."""
    shape = guaranteed_pod(8, 6, container("c0", 2, 1)._replace(complete=False), container("c1", 4, 2))
    state = node(2, 4, topology="single-numa-node", scope="pod", **GATE)
    assert usable(state, shape) == {"c0": (4, 4), "c1": (4, 2)}


STARVED = "pod rejected, sum of exclusive container {} requests equals pod budget, leaving no {} for shared containers"
INIT_STARVED = "pod rejected, pod has shared init containers but no {} available for them"


@pytest.mark.parametrize(
    ("containers", "message"),
    [
        ((container("c0", 8, 1), container("c1")), STARVED.format("cpu", "cpus")),
        ((container("c0", 2, 6), container("c1")), STARVED.format("memory", "memory")),
        (
            (container("i0", 2, 1, role="init"), container("c0", 2, 6), container("c1")),
            STARVED.format("memory", "memory"),
        ),
        (
            (container("i0", 8, 1, role="sidecar"), container("i1", role="init"), container("c0", 2, 1)),
            INIT_STARVED.format("cpus"),
        ),
        (
            (container("i0", 2, 6, role="sidecar"), container("i1", role="init"), container("c0", 2, 1)),
            INIT_STARVED.format("memory"),
        ),
    ],
)
def test_empty_shared_pools(containers: tuple[Container, ...], message: str) -> None:
    """Under best-effort the allocation fails; stricter policies reject the pod earlier."""
    shape = guaranteed_pod(8, 6, *containers)
    verdict = admit(node(2, 4, topology="best-effort", scope="pod", **GATE), shape)
    assert (verdict.reason, verdict.message) == ("EmptyPodSharedPoolError", message)
    verdict = admit(node(2, 4, topology="restricted", scope="pod", **GATE), shape)
    assert verdict.reason == "TopologyAffinityError"


def test_more_exclusive_memory_than_the_pod_has() -> None:
    """The API server rejects such pods; if there were one, containers that share memory would have none either."""
    shape = guaranteed_pod(8, 6, container("c0", 2, 4), container("c1", 2, 4), container("c2"))
    policies = node(scope="pod", **GATE).kind.policies
    assert empty_shared_memory_pool(shape, policies) == STARVED.format("memory", "memory")


def test_types_of_memory_with_a_request_of_0_are_left_out() -> None:
    level = PodLevelResources(4000, (("hugepages-1Gi", 0), ("memory", GIB)))
    shape = PodShape((container("c0", 2, 1),), "Guaranteed", level)
    assert pod_memory_request(shape, node(**GATE).kind.policies) == (("memory", GIB),)


def test_each_scope_has_its_own_message() -> None:
    shape = guaranteed_pod(9, 4, container("c0", 9, 1))
    for scope, words in (
        ("pod", "failed admission under pod-scope topology manager"),
        ("container", "failed admission with a container-level topology manager"),
    ):
        verdict = admit(node(2, 4, topology="single-numa-node", scope=scope, **GATE), shape)
        assert verdict.reason == "TopologyAffinityError"
        assert verdict.message == f"Pod Scope pod with pod-level resources {words}"


@pytest.mark.parametrize(("release", "admitted"), [((1, 36), False), ((1, 37), True), ((1, 38), True)])
def test_a_container_without_memory_fails_in_1_36(release: tuple[int, int], admitted: bool) -> None:
    """Without alignment, the Memory Manager allocates for a container without a memory request, and finds no zone."""
    state = node(2, 4, release=release, **GATE)
    assert admit(state, guaranteed_pod(4, 4, container("c0", 2, 1), container("c1"))).admitted is admitted


def test_devices_are_counted_at_admission() -> None:
    """The kubelet allocates devices when the containers start; if there are too few, the containers do not start."""
    state = node(2, 4, devices={GPU: {1: 1, 2: 1}}, topology="best-effort", scope="pod", **GATE)
    verdict = admit(state, guaranteed_pod(4, 4, container("c0", 2, 1, {GPU: 2})))
    assert verdict.after is not None
    assert verdict.after.device_free == (0, 0)
    verdict = admit(state, guaranteed_pod(4, 4, container("c0", 2, 1, {GPU: 3})))
    assert verdict.admitted
    assert verdict.uncertain == (f"container c0 will not start for lack of {GPU}",)


def test_a_container_that_lacks_devices_holds_its_other_devices() -> None:
    """The kubelet retries to start the container. Devices that were allocated once remain allocated."""
    state = node(2, 4, devices={GPU: {1: 1}, NIC: {1: 2}}, topology="best-effort", scope="pod", **GATE)
    verdict = admit(state, guaranteed_pod(4, 4, container("c0", 2, 1, {GPU: 2, NIC: 2})))
    assert verdict.after is not None
    assert verdict.after.device_free == (1, 0)
    (assignment,) = verdict.assignments
    assert [(devices.resource, devices.number) for devices in assignment.devices] == [(NIC, 2)]
    assert verdict.uncertain == (f"container c0 will not start for lack of {GPU}",)


def test_whole_cores_are_checked_for_the_pod() -> None:
    state = node(2, 4, topology="best-effort", scope="pod", full_cores=True, **GATE)
    assert admit(state, guaranteed_pod(3, 4, container("c0"))).reason == "SMTAlignmentError"


def test_too_few_cpus_fail_unexpectedly() -> None:
    verdict = admit(node(1, 2, topology="best-effort", scope="pod", **GATE), guaranteed_pod(8, 4, container("c0")))
    assert (verdict.reason, verdict.resource) == ("UnexpectedAdmissionError", "cpu")


def test_the_node_is_checked_for_pod_level_resources() -> None:
    available = Resource(8000, 4 * GIB, 10, 0)
    shape = guaranteed_pod(8, 4, container("c0", 20, 20))
    assert admit(node(), shape, available).admitted
    assert admit(node(), shape, available._replace(milli_cpus=7999)).reason == "OutOfcpu"
