"""The verdict of one kubelet: policies, scopes, the order of allocation, and the check of the whole node."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.fit_nodes import GIB, GPU, NIC, STATIC, container, node, pod, zone_cpus
from zonewise_scheduler.admission.admit import RELEASES, admit, differing_releases
from zonewise_scheduler.admission.node import NodeState, Resource
from zonewise_scheduler.admission.pod import Container, PodLevelResources, PodShape

if TYPE_CHECKING:
    from zonewise_common.k8s.podspec import Role

POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
AVAILABLE = Resource(64000, 256 * GIB, 110, 100 * GIB)


# --- policies


def test_all_resources_come_from_one_zone() -> None:
    """CPUs, memory and devices come from the only zone that has all of them."""
    state = node(2, 4, devices={GPU: {2: 1}}, topology="single-numa-node", **STATIC)
    verdict = admit(state, pod(container(cpus=4, gib=2, devices={GPU: 1})))
    (assignment,) = verdict.assignments
    assert assignment.cpus & ~zone_cpus(state, 1) == 0
    assert (assignment.memory[0].zones, assignment.devices[0].zones) == (2, 2)


@pytest.mark.parametrize(
    ("topology", "reason"),
    [
        ("none", ""),
        ("best-effort", ""),
        ("restricted", "TopologyAffinityError"),
        ("single-numa-node", "TopologyAffinityError"),
    ],
)
def test_devices_and_cpus_in_different_zones(topology: str, reason: str) -> None:
    """The GPU is in zone 1, and CPUs are free only in zone 0."""
    state = node(2, 4, devices={GPU: {2: 1}}, topology=topology, cpu="static")
    state = state._replace(free_cpus=zone_cpus(state, 0))
    verdict = admit(state, pod(container(cpus=4, gib=1, devices={GPU: 1})))
    assert verdict.reason == reason
    assert verdict.message == ("Resources cannot be allocated with Topology locality" if reason else "")


def test_best_effort_extends_an_affinity_that_is_not_preferred() -> None:
    """CPUs and 2 of 8 GiB are free in zone 0 only, so memory comes from more zones than an idle node would need."""
    state = node(2, 4, gib=8, topology="best-effort", **STATIC)
    state = state._replace(free_cpus=zone_cpus(state, 0), memory_free=((2 * GIB,), (8 * GIB,)))
    (assignment,) = admit(state, pod(container(cpus=2, gib=6))).assignments
    assert [block.zones for block in assignment.memory] == [0b11]


def test_restricted_uses_no_more_zones_than_an_idle_node() -> None:
    """Reserved CPUs count for the width: 8 CPUs prefer one zone, although no zone can allocate 8."""
    reserved = 0b11 | 0b11 << 8
    state = node(2, 4, topology="restricted", cpu="static", reserved=reserved)
    assert admit(state, pod(container(cpus=8, gib=1))).reason == "TopologyAffinityError"
    assert admit(state, pod(container(cpus=9, gib=1))).admitted


@pytest.mark.parametrize("topology", POLICIES)
@pytest.mark.parametrize("scope", ["container", "pod"])
def test_pods_without_exclusive_resources_are_admitted(topology: str, scope: str) -> None:
    """The managers ignore shared CPUs and memory."""
    state = node(2, 4, devices={GPU: {1: 1}}, topology=topology, scope=scope, **STATIC)._replace(free_cpus=0)
    verdict = admit(state, pod(container(cpus=100, gib=1000), qos="Burstable"))
    assert (verdict.admitted, verdict.assignments, verdict.after) == (True, (), state)


def test_fractional_cpus_are_shared() -> None:
    """A Guaranteed container with 1500m has pinned memory, but no exclusive CPUs."""
    verdict = admit(node(2, 4, topology="single-numa-node", **STATIC), pod(container(cpus=1.5, gib=1)))
    (assignment,) = verdict.assignments
    assert (assignment.cpus, len(assignment.memory)) == (0, 1)


def test_a_kubelet_with_too_many_zones_does_not_start() -> None:
    """More NUMA nodes than max-allowable-numa-nodes are an error under every policy except none."""
    assert admit(node(9, 1, topology="none"), pod(container())).admitted
    for policy in POLICIES[1:]:
        assert admit(node(9, 1, topology=policy, max_zones=9), pod(container())).admitted
        verdict = admit(node(9, 1, topology=policy), pod(container()))
        assert not verdict.admitted
        assert (verdict.reason, verdict.message) == ("", "unsupported on machines with more than 8 NUMA Nodes")


@pytest.mark.parametrize("zone", [64, 65])
@pytest.mark.parametrize("topology", POLICIES)
def test_a_kubelet_panics_from_zone_64_on(topology: str, zone: int) -> None:
    """The kubelet's masks have 64 bits. Under policy none, only the Memory Manager uses them, for pods that it pins."""
    state = node(2, 4, topology=topology, **STATIC)
    kind = replace(state.kind, zones=(0, zone), cpus=replace(state.kind.cpus, zones=state.kind.cpus.zones[:1]))
    far = state._replace(kind=kind, memory_groups=(1, 1 << zone), free_cpus=kind.cpus.cpus)
    verdict = admit(far, pod(container(cpus=1, gib=1)))
    assert (verdict.reason, verdict.message) == (
        "", f"its kubelet panics: its masks have no bit for NUMA node {zone}"
    )  # fmt: skip
    assert admit(far, pod(container(), qos="BestEffort")).admitted == (topology == "none")


def test_a_zone_without_cpus_provides_none() -> None:
    """With distribute-cpus-across-numa, neither such a zone nor a node without any CPU causes an error."""
    options: dict[str, Any] = {"cpu": "static", "distribute_across_zones": True, "full_cores": True}
    for topology in POLICIES:
        state = node(2, 4, topology=topology, **options)
        cpus = replace(state.kind.cpus, cores=(), zones=(), packages=())
        bare = state._replace(kind=replace(state.kind, cpus=cpus), free_cpus=0)
        assert not admit(bare, pod(container(cpus=1, gib=1))).admitted
        half = replace(state.kind.cpus, zones=state.kind.cpus.zones[:1], cores=state.kind.cpus.cores[:4])
        lopsided = state._replace(kind=replace(state.kind, cpus=half), free_cpus=half.cpus)
        assert admit(lopsided, pod(container(cpus=4, gib=1))).admitted


# --- scopes


def test_scope_container_aligns_each_container_separately() -> None:
    """Two containers as large as a zone get one zone each, in the order of the pod."""
    state = node(2, 4, topology="single-numa-node", **STATIC)
    verdict = admit(state, pod(container("c0", 8, 1), container("c1", 8, 1)))
    assert [assignment.cpus for assignment in verdict.assignments] == [zone_cpus(state, 0), zone_cpus(state, 1)]


def test_scope_pod_aligns_all_containers_to_the_same_zones() -> None:
    state = node(2, 4, topology="single-numa-node", scope="pod", **STATIC)
    assert not admit(state, pod(container("c0", 8, 1), container("c1", 8, 1))).admitted
    verdict = admit(state, pod(container("c0", 5, 1), container("c1", 3, 1)))
    assert verdict.assignments[0].cpus | verdict.assignments[1].cpus == zone_cpus(state, 0)


def test_scope_pod_rejects_without_a_container() -> None:
    """Scope container names the rejected container; scope pod names none."""
    two = pod(container("c0", 8, 1), container("c1", 9, 1))
    for scope, name in (("container", "c1"), ("pod", "")):
        assert admit(node(2, 4, topology="single-numa-node", scope=scope, **STATIC), two).container == name


def test_scope_pod_counts_init_containers_at_their_peak() -> None:
    """The peak is the larger of an init container with earlier sidecars and of all other containers."""
    state = node(2, 4, topology="single-numa-node", scope="pod", devices={GPU: {1: 3, 2: 4}})
    sidecar = container("i0", devices={GPU: 1}, role="sidecar")
    init = container("i1", devices={GPU: 3}, role="init")
    verdict = admit(state, pod(sidecar, init, container("c0", devices={GPU: 2}), qos="BestEffort"))
    assert {allocation.zones for assignment in verdict.assignments for allocation in assignment.devices} == {2}


# --- the order of allocation


def test_devices_fail_before_cpus_and_cpus_before_memory() -> None:
    """Devices, CPUs and memory are insufficient; the kubelet reports the first of them in its order."""
    state = node(1, 1, gib=1, devices={GPU: {1: 1}}, **STATIC)
    assert admit(state, pod(container(cpus=4, gib=4, devices={GPU: 2}))).resource == GPU
    assert admit(state, pod(container(cpus=4, gib=4, devices={GPU: 1}))).resource == "cpu"
    assert admit(state, pod(container(cpus=1, gib=4, devices={GPU: 1}))).resource == "memory"


def test_init_containers_reuse_the_same_cpus_one_after_another() -> None:
    shape = pod(*(container(name, 4, 1, role="init") for name in ("i0", "i1", "i2")), container("c0", 4, 1))
    verdict = admit(node(1, 2, topology="restricted", cpu="static"), shape)
    assert [assignment.cpus for assignment in verdict.assignments] == [0b1111] * 4


def test_an_app_reuses_the_cpus_of_its_init_container() -> None:
    """CPUs that the app does not reuse belong to the pod until it is deleted."""
    state = node(2, 4, topology="single-numa-node", **STATIC)
    verdict = admit(state, pod(container("i0", 6, 1, role="init"), container("c0", 4, 1)))
    init, app = verdict.assignments
    assert app.cpus & ~init.cpus == 0
    assert verdict.after is not None
    assert verdict.after.free_cpus == state.free_cpus & ~init.cpus


def test_whole_cores_only() -> None:
    """full-pcpus-only rejects odd counts with the CPU Manager's message."""
    verdict = admit(node(2, 4, full_cores=True, **STATIC), pod(container(cpus=3, gib=1)))
    assert verdict.reason == "SMTAlignmentError"
    assert verdict.message == "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2"


def test_too_few_cpus_fail_unexpectedly_without_alignment() -> None:
    verdict = admit(node(1, 1, **STATIC), pod(container(cpus=3, gib=1)))
    assert verdict.message == (
        "Allocate failed due to not enough cpus available to satisfy request: requested=3, available=2, "
        "which is unexpected"
    )


# --- the whole node


@pytest.mark.parametrize(
    ("available", "reason"),
    [
        (AVAILABLE, ""),
        (AVAILABLE._replace(milli_cpus=3999), "OutOfcpu"),
        (AVAILABLE._replace(memory=GIB - 1), "OutOfmemory"),
        (AVAILABLE._replace(pods=0, milli_cpus=0), "OutOfpods"),
        (AVAILABLE._replace(ephemeral_storage=GIB - 1), "OutOfephemeral-storage"),
    ],
)
def test_the_first_insufficient_resource_is_the_reason(available: Resource, reason: str) -> None:
    shape = PodShape((Container("c0", "app", 4000, (("memory", GIB),), storage=GIB),), "Burstable")
    verdict = admit(node(), shape, available)
    assert (verdict.reason, verdict.resource) == (reason, reason.removeprefix("OutOf"))
    assert verdict.admitted is not reason


def test_hugepages_and_devices_are_checked_for_the_node() -> None:
    """A missing resource is insufficient; a request of 0 never is."""
    wants = pod(container(cpus=1, gib=1, pages=1, devices={GPU: 1, NIC: 0}), qos="Burstable")
    have = {"hugepages-1Gi": GIB, GPU: 1}
    assert admit(node(), wants, AVAILABLE._replace(scalar_resources=tuple(sorted(have.items())))).admitted
    for name in have:
        rest = tuple(each for each in sorted(have.items()) if each[0] != name)
        assert admit(node(), wants, AVAILABLE._replace(scalar_resources=rest)).reason == f"OutOf{name}"


def test_the_managers_come_before_the_node() -> None:
    """If a pod fails both checks, the reason is that of the Topology Manager."""
    state = node(2, 4, topology="single-numa-node", **STATIC)
    assert admit(state, pod(container(cpus=9, gib=1)), AVAILABLE._replace(pods=0)).reason == "TopologyAffinityError"


def test_the_overhead_of_the_runtime_class_counts_for_the_node_only() -> None:
    state = node(2, 4, topology="single-numa-node", **STATIC)
    heavy = pod(container(cpus=8, gib=1))._replace(overhead=(("cpu", 500), ("memory", GIB)))
    assert admit(state, heavy).admitted
    assert admit(state, heavy, AVAILABLE._replace(milli_cpus=8499)).reason == "OutOfcpu"
    assert admit(state, heavy, AVAILABLE._replace(memory=2 * GIB - 1)).reason == "OutOfmemory"


# --- unknown facts


@pytest.mark.parametrize(
    ("subject", "affected"),
    [
        ("which CPUs are free", {"cpus"}),
        ("the memory that the kubelet allocates", {"cpus", "memory"}),
        ("the Topology Manager's policy", {"cpus", "memory", "devices"}),
    ],
)
def test_unknown_facts_make_affected_verdicts_uncertain(subject: str, affected: set[str]) -> None:
    """Unknown CPUs do not affect pods without exclusive CPUs; nothing affects pods without exclusive resources."""
    state = node(2, 4, devices={GPU: {1: 1}}, topology="restricted", unknown=(subject,), **STATIC)
    pods = {
        "cpus": pod(container(cpus=2, gib=1)),
        "memory": pod(container(cpus=0.5, gib=1)),
        "devices": pod(container(devices={GPU: 1}), qos="BestEffort"),
        "nothing": pod(container(cpus=2, gib=1), qos="Burstable"),
    }
    uncertain = {name for name, shape in pods.items() if admit(state, shape).uncertain}
    assert uncertain == affected
    assert admit(state, pods["cpus"]).uncertain == (f"nothing is known about {subject}",)


# --- invariants


@st.composite
def any_container(draw: st.DrawFn, index: int) -> Container:
    roles: list[Role] = ["init", "sidecar", "app", "app"]
    devices = draw(st.dictionaries(st.sampled_from([GPU, NIC]), st.integers(0, 3)))
    cpus = draw(st.sampled_from([0.5, 1, 2, 3, 4, 6]))
    return container(f"c{index}", cpus, draw(st.integers(1, 9)), devices, role=draw(st.sampled_from(roles)))


@st.composite
def any_admission(draw: st.DrawFn) -> tuple[NodeState, PodShape]:
    state = node(
        draw(st.integers(1, 4)),
        3,
        gib=8,
        devices={GPU: {1: 2, 2: 2, 0: 1}, NIC: {3: 2}},
        topology=draw(st.sampled_from(POLICIES)),
        scope=draw(st.sampled_from(["container", "pod"])),
        full_cores=draw(st.booleans()),
        prefer_closest=draw(st.booleans()),
        **STATIC,
    )
    containers = [draw(any_container(index)) for index in range(draw(st.integers(1, 4)))]
    return state, pod(*containers, container("last", 1, 1))


@given(any_admission())
def test_nothing_is_allocated_twice(admission: tuple[NodeState, PodShape]) -> None:
    """Free and allocated resources add up, and containers that run at the same time share nothing."""
    state, shape = admission
    verdict = admit(state, shape)
    if verdict.after is None:
        assert verdict.reason in {"TopologyAffinityError", "SMTAlignmentError", "UnexpectedAdmissionError"}
        return
    after = verdict.after
    allocated = 0
    for assignment in verdict.assignments:
        allocated |= assignment.cpus
    assert after.free_cpus == state.free_cpus & ~allocated
    long_running = {container.name for container in shape.containers if container.role != "init"}
    disjoint = [assignment.cpus for assignment in verdict.assignments if assignment.container in long_running]
    assert sum(bits.bit_count() for bits in disjoint) == (sum(disjoint)).bit_count()
    memory = sum(block.size for assignment in verdict.assignments for block in assignment.memory)
    assert memory == sum(row[0] for row in state.memory_free) - sum(row[0] for row in after.memory_free)
    assert all(0 <= left <= free for left, free in zip(after.device_free, state.device_free, strict=True))


@given(any_admission())
def test_a_verdict_depends_on_its_values_only(admission: tuple[NodeState, PodShape]) -> None:
    """Equal states and shapes have equal verdicts, so verdicts may be cached."""
    assert admit(*admission) == admit(*admission)


@given(any_admission())
def test_the_node_check_only_rejects(admission: tuple[NodeState, PodShape]) -> None:
    """With the check of the node, the verdict is either the same or a further rejection."""
    with_node_check, without = admit(*admission, AVAILABLE._replace(milli_cpus=4000)), admit(*admission)
    assert with_node_check == without or (without.admitted and with_node_check.reason.startswith("OutOf"))


def test_releases_that_decide_otherwise() -> None:
    """They allocate other resources, or decide otherwise. The reason for a rejection does not matter."""
    shape = PodShape((container(cpus=2, gib=1),), "Guaranteed", PodLevelResources(2000, (("memory", GIB),)))
    state = node(2, topology="single-numa-node", **STATIC)
    assert (RELEASES[0], RELEASES[-1]) == ((1, 31), (1, 37))
    assert differing_releases(state, shape) == ((1, 31), (1, 32), (1, 33))
    full = state._replace(free_cpus=0)
    assert differing_releases(full, shape) == ((1, 31), (1, 32), (1, 33))
    assert differing_releases(state, pod(container(cpus=2, gib=1))) == ()
    assert differing_releases(full, pod(container(cpus=2, gib=1))) == ()
