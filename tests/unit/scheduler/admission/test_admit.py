"""One kubelet's answer to one pod: policies, scopes, the order of allocation, the node as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.fit_nodes import GIB, GPU, NIC, STATIC, container, node, pod, zone_cpus
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.node import NodeState, Resource
from zonewise_scheduler.admission.pod import Container, PodShape

if TYPE_CHECKING:
    from zonewise_common.k8s.podspec import Role

POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
ROOM = Resource(64000, 256 * GIB, 110, 100 * GIB)


# --- policies


def test_one_zone_has_all_that_a_pod_needs() -> None:
    """CPUs, memory and devices come from the one zone that has all of them."""
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
def test_who_minds_that_devices_and_cpus_are_apart(topology: str, reason: str) -> None:
    """A GPU of zone 1 and CPUs that are free in zone 0 only."""
    state = node(2, 4, devices={GPU: {2: 1}}, topology=topology, cpu="static")
    state = state._replace(free_cpus=zone_cpus(state, 0))
    verdict = admit(state, pod(container(cpus=4, gib=1, devices={GPU: 1})))
    assert verdict.reason == reason
    assert verdict.message == ("Resources cannot be allocated with Topology locality" if reason else "")


def test_restricted_takes_no_more_zones_than_an_idle_node_needs() -> None:
    """Reserved CPUs count for what a zone could hold: 8 CPUs need one zone, though none has 8 to give."""
    reserved = 0b11 | 0b11 << 8
    state = node(2, 4, topology="restricted", cpu="static", reserved=reserved)
    assert admit(state, pod(container(cpus=8, gib=1))).reason == "TopologyAffinityError"
    assert admit(state, pod(container(cpus=9, gib=1))).admitted


@pytest.mark.parametrize("topology", POLICIES)
@pytest.mark.parametrize("scope", ["container", "pod"])
def test_pods_that_are_given_nothing_exclusively_fit_anywhere(topology: str, scope: str) -> None:
    """Shared CPUs and memory are no business of the managers."""
    state = node(2, 4, devices={GPU: {1: 1}}, topology=topology, scope=scope, **STATIC)._replace(free_cpus=0)
    verdict = admit(state, pod(container(cpus=100, gib=1000), qos="Burstable"))
    assert (verdict.admitted, verdict.assignments, verdict.after) == (True, (), state)


def test_fractional_cpus_are_shared() -> None:
    """A Guaranteed container of 1500m has no CPU of its own, but its memory."""
    verdict = admit(node(2, 4, topology="single-numa-node", **STATIC), pod(container(cpus=1.5, gib=1)))
    (assignment,) = verdict.assignments
    assert (assignment.cpus, len(assignment.memory)) == (0, 1)


def test_a_kubelet_with_too_many_zones_does_not_start() -> None:
    """More NUMA nodes than max-allowable-numa-nodes matter to every policy but none."""
    assert admit(node(9, 1, topology="none"), pod(container())).admitted
    assert admit(node(9, 1, topology="restricted", max_zones=9), pod(container())).admitted
    verdict = admit(node(9, 1, topology="restricted"), pod(container()))
    assert not verdict.admitted
    assert (verdict.reason, verdict.message) == ("", "unsupported on machines with more than 8 NUMA Nodes")


# --- scopes


def test_scope_container_aligns_each_container_by_itself() -> None:
    """Two containers of a zone each: one zone for each, in the order of the pod."""
    state = node(2, 4, topology="single-numa-node", **STATIC)
    verdict = admit(state, pod(container("c0", 8, 1), container("c1", 8, 1)))
    assert [one.cpus for one in verdict.assignments] == [zone_cpus(state, 0), zone_cpus(state, 1)]


def test_scope_pod_wants_all_containers_in_the_same_zone() -> None:
    state = node(2, 4, topology="single-numa-node", scope="pod", **STATIC)
    assert not admit(state, pod(container("c0", 8, 1), container("c1", 8, 1))).admitted
    verdict = admit(state, pod(container("c0", 5, 1), container("c1", 3, 1)))
    assert verdict.assignments[0].cpus | verdict.assignments[1].cpus == zone_cpus(state, 0)


def test_a_pod_as_a_whole_is_refused_without_a_container() -> None:
    """Scope container names the one that does not fit; scope pod none."""
    two = pod(container("c0", 8, 1), container("c1", 9, 1))
    for scope, name in (("container", "c1"), ("pod", "")):
        assert admit(node(2, 4, topology="single-numa-node", scope=scope, **STATIC), two).container == name


def test_scope_pod_counts_init_containers_at_their_peak() -> None:
    """An init container beside the sidecars before it, or all that runs together: the more of the two."""
    state = node(2, 4, topology="single-numa-node", scope="pod", devices={GPU: {1: 3, 2: 4}})
    sidecar = container("i0", devices={GPU: 1}, role="sidecar")
    init = container("i1", devices={GPU: 3}, role="init")
    verdict = admit(state, pod(sidecar, init, container("c0", devices={GPU: 2}), qos="BestEffort"))
    assert {share.zones for one in verdict.assignments for share in one.devices} == {2}


# --- the order of allocation


def test_devices_fail_before_cpus_and_cpus_before_memory() -> None:
    """All three are short; the kubelet tells of the first that it looks at."""
    state = node(1, 1, gib=1, devices={GPU: {1: 1}}, **STATIC)
    assert admit(state, pod(container(cpus=4, gib=4, devices={GPU: 2}))).resource == GPU
    assert admit(state, pod(container(cpus=4, gib=4, devices={GPU: 1}))).resource == "cpu"
    assert admit(state, pod(container(cpus=1, gib=4, devices={GPU: 1}))).resource == "memory"


def test_an_app_takes_over_the_cpus_of_its_init_container() -> None:
    """Those it does not take over stay with the pod until it is gone."""
    state = node(2, 4, topology="single-numa-node", **STATIC)
    verdict = admit(state, pod(container("i0", 6, 1, role="init"), container("c0", 4, 1)))
    init, app = verdict.assignments
    assert app.cpus & ~init.cpus == 0
    assert verdict.after is not None
    assert verdict.after.free_cpus == state.free_cpus & ~init.cpus


def test_whole_cores_only() -> None:
    """Odd counts are refused under full-pcpus-only, in the CPU Manager's words."""
    verdict = admit(node(2, 4, full_cores=True, **STATIC), pod(container(cpus=3, gib=1)))
    assert verdict.reason == "SMTAlignmentError"
    assert verdict.message == "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2"


def test_too_few_cpus_fail_unexpectedly_without_alignment() -> None:
    verdict = admit(node(1, 1, **STATIC), pod(container(cpus=3, gib=1)))
    assert verdict.message == (
        "Allocate failed due to not enough cpus available to satisfy request: requested=3, available=2, "
        "which is unexpected"
    )


# --- the node as a whole


@pytest.mark.parametrize(
    ("room", "reason"),
    [
        (ROOM, ""),
        (ROOM._replace(milli_cpus=3999), "OutOfcpu"),
        (ROOM._replace(memory=GIB - 1), "OutOfmemory"),
        (ROOM._replace(pods=0, milli_cpus=0), "OutOfpods"),
        (ROOM._replace(ephemeral_storage=GIB - 1), "OutOfephemeral-storage"),
    ],
)
def test_the_first_that_the_node_lacks_is_the_reason(room: Resource, reason: str) -> None:
    one = Container("c0", "app", 4000, (("memory", GIB),), storage=GIB)
    verdict = admit(node(), PodShape((one,), "Burstable"), room)
    assert (verdict.reason, verdict.resource) == (reason, reason.removeprefix("OutOf"))
    assert verdict.admitted is not reason


def test_pages_and_devices_are_counted_for_the_node_too() -> None:
    """Absent is none left; nothing asked is never lacking."""
    wants = pod(container(cpus=1, gib=1, pages=1, devices={GPU: 1, NIC: 0}), qos="Burstable")
    have = {"hugepages-1Gi": GIB, GPU: 1}
    assert admit(node(), wants, ROOM._replace(scalar_resources=tuple(sorted(have.items())))).admitted
    for name in have:
        rest = tuple(one for one in sorted(have.items()) if one[0] != name)
        assert admit(node(), wants, ROOM._replace(scalar_resources=rest)).reason == f"OutOf{name}"


def test_the_managers_are_asked_before_the_node() -> None:
    """A pod that fails both has the Topology Manager's reason."""
    state = node(2, 4, topology="single-numa-node", **STATIC)
    assert admit(state, pod(container(cpus=9, gib=1)), ROOM._replace(pods=0)).reason == "TopologyAffinityError"


def test_the_overhead_of_the_runtime_class_counts_for_the_node_only() -> None:
    state = node(2, 4, topology="single-numa-node", **STATIC)
    heavy = pod(container(cpus=8, gib=1))._replace(overhead=(("cpu", 500), ("memory", GIB)))
    assert admit(state, heavy).admitted
    assert admit(state, heavy, ROOM._replace(milli_cpus=8499)).reason == "OutOfcpu"
    assert admit(state, heavy, ROOM._replace(memory=2 * GIB - 1)).reason == "OutOfmemory"


# --- what is unknown


@pytest.mark.parametrize(
    ("subject", "touched"),
    [
        ("which CPUs are free", {"cpus"}),
        ("memory, which the kubelet gives out", {"cpus", "memory"}),
        ("the Topology Manager's policy", {"cpus", "memory", "devices"}),
    ],
)
def test_what_is_unknown_is_told_to_whom_it_matters(subject: str, touched: set[str]) -> None:
    """A pod without exclusive CPUs does not mind unknown CPUs; one with nothing exclusive minds nothing."""
    state = node(2, 4, devices={GPU: {1: 1}}, topology="restricted", unknown=(subject,), **STATIC)
    pods = {
        "cpus": pod(container(cpus=2, gib=1)),
        "memory": pod(container(cpus=0.5, gib=1)),
        "devices": pod(container(devices={GPU: 1}), qos="BestEffort"),
        "nothing": pod(container(cpus=2, gib=1), qos="Burstable"),
    }
    told = {name for name, one in pods.items() if admit(state, one).uncertain}
    assert told == touched
    assert admit(state, pods["cpus"]).uncertain == (f"nothing is known of {subject}",)


# --- what always holds


@st.composite
def any_container(draw: st.DrawFn, place: int) -> Container:
    roles: list[Role] = ["init", "sidecar", "app", "app"]
    devices = draw(st.dictionaries(st.sampled_from([GPU, NIC]), st.integers(0, 3)))
    cpus = draw(st.sampled_from([0.5, 1, 2, 3, 4, 6]))
    return container(f"c{place}", cpus, draw(st.integers(1, 9)), devices, role=draw(st.sampled_from(roles)))


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
    containers = [draw(any_container(place)) for place in range(draw(st.integers(1, 4)))]
    return state, pod(*containers, container("last", 1, 1))


@given(any_admission())
def test_nothing_is_given_twice(admission: tuple[NodeState, PodShape]) -> None:
    """What is left and what was given add up, and what runs together shares nothing."""
    state, asked = admission
    verdict = admit(state, asked)
    if verdict.after is None:
        assert verdict.reason in {"TopologyAffinityError", "SMTAlignmentError", "UnexpectedAdmissionError"}
        return
    after = verdict.after
    given_cpus = 0
    for one in verdict.assignments:
        given_cpus |= one.cpus
    assert after.free_cpus == state.free_cpus & ~given_cpus
    lasting = {one.name for one in asked.containers if one.role != "init"}
    apart = [one.cpus for one in verdict.assignments if one.container in lasting]
    assert sum(bits.bit_count() for bits in apart) == (sum(apart)).bit_count()
    memory = sum(share.size for one in verdict.assignments for share in one.memory)
    assert memory == sum(row[0] for row in state.memory_free) - sum(row[0] for row in after.memory_free)
    assert all(0 <= left <= free for left, free in zip(after.device_free, state.device_free, strict=True))


@given(any_admission())
def test_a_verdict_depends_on_its_values_only(admission: tuple[NodeState, PodShape]) -> None:
    """Equal states and shapes give equal verdicts, so that they may be remembered."""
    assert admit(*admission) == admit(*admission)


@given(any_admission())
def test_room_refuses_and_never_gives(admission: tuple[NodeState, PodShape]) -> None:
    """With the node as a whole in view, the verdict is the same or another refusal."""
    with_room, without = admit(*admission, ROOM._replace(milli_cpus=4000)), admit(*admission)
    assert with_room == without or (without.admitted and with_room.reason.startswith("OutOf"))
