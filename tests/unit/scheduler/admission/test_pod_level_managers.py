"""Pods with resources of their own: passed over, or given whole with the gate PodLevelResourceManagers."""

from __future__ import annotations

from typing import Any

import pytest

from support.fit_nodes import GIB, GPU, STATIC, container, node
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.node import NodeState, Resource
from zonewise_scheduler.admission.pod import Container, PodLevelResources, PodShape

GATE: dict[str, Any] = {**STATIC, "pod_level_managers": True}


def whole(cpus: int, gib: int, *containers: Container) -> PodShape:
    """A Guaranteed pod by its own resources."""
    return PodShape(containers, "Guaranteed", PodLevelResources(cpus * 1000, (("memory", gib * GIB),)))


def shares(state: NodeState, asked: PodShape) -> dict[str, tuple[int, int]]:
    """How many CPUs and GiB each container can use."""
    made = admit(state, asked).assignments
    return {one.container: (one.cpus.bit_count(), sum(share.size for share in one.memory) // GIB) for one in made}


def test_without_the_gate_they_are_given_nothing() -> None:
    """Since 1.34 the managers pass over such pods; before, they looked at the containers only."""
    asked = whole(8, 4, container("c0", 2, 1))
    assert shares(node(2, 4, topology="restricted", **STATIC), asked) == {}
    assert shares(node(2, 4, topology="restricted", release=(1, 33), **STATIC), asked) == {"c0": (2, 1)}


def test_a_pod_is_given_whole_and_shared_out() -> None:
    """Complete containers have their own part, and the others share what is left."""
    asked = whole(8, 6, container("c0", 2, 1), container("c1"), container("c2"))
    state = node(2, 4, topology="single-numa-node", scope="pod", **GATE)
    assert shares(state, asked) == {"c0": (2, 1), "c1": (6, 5), "c2": (6, 5)}
    verdict = admit(state, asked)
    assert verdict.after is not None
    assert verdict.after.free_cpus.bit_count() == 8
    assert verdict.after.memory_free == ((10 * GIB,), (16 * GIB,))


def test_init_containers_use_what_no_sidecar_has() -> None:
    """One that is complete has its own; another all that the sidecars before it leave."""
    asked = whole(
        8,
        6,
        container("i0", 2, 1, role="sidecar"),
        container("i1", role="init"),
        container("i2", 4, 2, role="init"),
        container("c0", 2, 1),
        container("c1"),
    )
    state = node(2, 4, topology="single-numa-node", scope="pod", **GATE)
    assert shares(state, asked) == {"i0": (2, 1), "i1": (6, 5), "i2": (4, 2), "c0": (2, 1), "c1": (4, 4)}


def test_an_incomplete_container_shares() -> None:
    """A container whose limits are not its requests has nothing of its own, whatever it requests."""
    asked = whole(8, 6, container("c0", 2, 1)._replace(complete=False), container("c1", 4, 2))
    state = node(2, 4, topology="single-numa-node", scope="pod", **GATE)
    assert shares(state, asked) == {"c0": (4, 4), "c1": (4, 2)}


STARVED = "pod rejected, sum of exclusive container {} requests equals pod budget, leaving no {} for shared containers"
INIT_STARVED = "pod rejected, pod has shared init containers but no {} available for them"


@pytest.mark.parametrize(
    ("containers", "message"),
    [
        ((container("c0", 8, 1), container("c1")), STARVED.format("cpu", "cpus")),
        ((container("c0", 2, 6), container("c1")), STARVED.format("memory", "memory")),
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
def test_containers_that_share_need_something_to_share(containers: tuple[Container, ...], message: str) -> None:
    """Under best-effort it is found when allocating; the stricter policies refuse before that."""
    asked = whole(8, 6, *containers)
    verdict = admit(node(2, 4, topology="best-effort", scope="pod", **GATE), asked)
    assert (verdict.reason, verdict.message) == ("EmptyPodSharedPoolError", message)
    verdict = admit(node(2, 4, topology="restricted", scope="pod", **GATE), asked)
    assert verdict.reason == "TopologyAffinityError"


def test_each_scope_has_its_own_words() -> None:
    asked = whole(9, 4, container("c0", 9, 1))
    for scope, words in (
        ("pod", "failed admission under pod-scope topology manager"),
        ("container", "failed admission with a container-level topology manager"),
    ):
        verdict = admit(node(2, 4, topology="single-numa-node", scope=scope, **GATE), asked)
        assert verdict.reason == "TopologyAffinityError"
        assert verdict.message == f"Pod Scope pod with pod-level resources {words}"


@pytest.mark.parametrize(("release", "admitted"), [((1, 36), False), ((1, 37), True)])
def test_a_container_without_memory_fails_in_1_36(release: tuple[int, int], admitted: bool) -> None:
    """Where nothing is aligned, its memory manager allocates for a container that asks for none, and finds no zone."""
    state = node(2, 4, release=release, **GATE)
    assert admit(state, whole(4, 4, container("c0", 2, 1), container("c1"))).admitted is admitted


def test_devices_are_charged_though_they_are_given_later() -> None:
    """The kubelet hands them out when the containers start; with too few they do not, as is said."""
    state = node(2, 4, devices={GPU: {1: 1, 2: 1}}, topology="best-effort", scope="pod", **GATE)
    verdict = admit(state, whole(4, 4, container("c0", 2, 1, {GPU: 2})))
    assert verdict.after is not None
    assert verdict.after.device_free == (0, 0)
    verdict = admit(state, whole(4, 4, container("c0", 2, 1, {GPU: 3})))
    assert verdict.admitted
    assert verdict.uncertain == (f"container c0 will not start for want of {GPU}",)


def test_whole_cores_are_checked_for_the_pod() -> None:
    state = node(2, 4, topology="best-effort", scope="pod", full_cores=True, **GATE)
    assert admit(state, whole(3, 4, container("c0"))).reason == "SMTAlignmentError"


def test_too_few_cpus_fail_unexpectedly() -> None:
    verdict = admit(node(1, 2, topology="best-effort", scope="pod", **GATE), whole(8, 4, container("c0")))
    assert (verdict.reason, verdict.resource) == ("UnexpectedAdmissionError", "cpu")


def test_the_node_is_asked_for_the_pods_own_resources() -> None:
    room = Resource(8000, 4 * GIB, 10, 0)
    asked = whole(8, 4, container("c0", 20, 20))
    assert admit(node(), asked, room).admitted
    assert admit(node(), asked, room._replace(milli_cpus=7999)).reason == "OutOfcpu"
