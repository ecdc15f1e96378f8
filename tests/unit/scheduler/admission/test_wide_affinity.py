"""Nodes with many zones: arrays give the verdicts of lists of sets, and beyond a stated number there is no verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.any_nodes import clusters, pods
from support.fit_nodes import GIB, GPU, NIC, STATIC, container, node, pod
from zonewise_scheduler.admission import scope
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.aligned_requests import AlignedRequest
from zonewise_scheduler.admission.context import AdmissionContext
from zonewise_scheduler.admission.explain.rejection import explain_rejection
from zonewise_scheduler.admission.memorymanager import memory_hints
from zonewise_scheduler.admission.memorymanager.memory_allocation import update_machine_state
from zonewise_scheduler.admission.topologymanager.hints import TopologyHint
from zonewise_scheduler.admission.topologymanager.numa_info import may_panic
from zonewise_scheduler.admission.wide_affinity import calculate_wide_affinity, is_wide

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape

POLICIES = ("best-effort", "restricted", "single-numa-node")


@given(clusters(), pods())
def test_arrays_give_the_verdicts_of_lists(states: list[NodeState], shape: PodShape) -> None:
    """The reason, the allocations and the node afterwards are equal for any node, policy and pod."""
    for state in states:
        if may_panic(state.kind.policies, state.kind.zones):
            continue
        listed = admit(state, shape)
        with patch.object(scope, "is_wide", return_value=True), patch.object(memory_hints, "MAX_LISTED_ZONES", 0):
            wide = admit(state, shape)
        assert wide == listed


@pytest.mark.parametrize(
    ("aligned", "expected"),
    [
        (AlignedRequest(1, (), ()), True),
        (AlignedRequest(0, (("memory", 1),), ()), True),
        (AlignedRequest(0, (), ((GPU, 1),)), False),
        (AlignedRequest(0, (), ((NIC, 1),)), False),
        (AlignedRequest(0, (), ((GPU, 1), (NIC, 1))), True),
        (AlignedRequest(0, (), ()), False),
    ],
)
@pytest.mark.parametrize("zones", [2, 12])
def test_zones_of_all_hints_of_a_request(zones: int, aligned: AlignedRequest, *, expected: bool) -> None:
    """Memory has hints for all zones, CPUs for zones with CPUs. The GPUs are near eight zones, the NIC near a ninth."""
    devices = {GPU: {0b1_1111_1110: 2}, NIC: {0b1: 1}} if zones > 2 else {GPU: {0b10: 2}, NIC: {0b1: 1}}
    kind = node(zones, devices=devices, topology="restricted", max_zones=zones, **STATIC).kind
    assert is_wide(kind, aligned) is (expected and zones > 2)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(
    ("request_input", "empty", "zones"),
    [
        (AlignedRequest(6, (), ()), (), 0b10),
        (AlignedRequest(6, (), ()), ("cpu",), 0b11),
        (AlignedRequest(0, (("memory", 9 * GIB),), ()), (), 0b10),
        (AlignedRequest(0, (("memory", 9 * GIB),), ()), ("memory",), 0b11),
    ],
)
def test_a_resource_without_hints(
    request_input: AlignedRequest, empty: tuple[str, ...], zones: int, *, wide: bool
) -> None:
    """The merged hint of best-effort is not preferred. The other resources decide; here there are none."""
    state = node(2, 4, topology="best-effort", **STATIC)
    state = update_machine_state(state, 0b01, "memory", 8 * GIB)._replace(free_cpus=0b1111_1111_0000_0000)
    calculate = calculate_wide_affinity if wide else scope.calculate_affinity
    affinity = calculate(AdmissionContext(state, pod()), request_input, "misaligned", empty)
    assert affinity == TopologyHint(zones, preferred=not empty)


@pytest.mark.parametrize("wide", [False, True])
def test_a_merge_without_a_common_preferred_hint_is_not_preferred(*, wide: bool) -> None:
    """An idle zone would have enough CPUs, but half of them are left."""
    state = node(2, 4, topology="best-effort", **STATIC)._replace(free_cpus=0b1111_0000_1111)
    calculate = calculate_wide_affinity if wide else scope.calculate_affinity
    affinity = calculate(AdmissionContext(state, pod()), AlignedRequest(6, (), ()), "misaligned", ())
    assert affinity == TopologyHint(0b11, preferred=False)


@pytest.mark.parametrize("topology", POLICIES)
def test_sixteen_zones(topology: str) -> None:
    """A request for the CPUs and memory of one zone is aligned to the only zone that has both free."""
    state = node(16, 2, gib=4, topology=topology, max_zones=16, **STATIC)
    busy = sum(0b11 << 4 * zone for zone in range(16) if zone != 11)
    verdict = admit(state._replace(free_cpus=state.free_cpus & ~busy), pod(container(cpus=4, gib=4)))
    (assignment,) = verdict.assignments
    assert assignment.cpus == 0b1111 << 44
    assert [block.zones for block in assignment.memory] == [1 << 11]


def test_half_of_sixteen_zones() -> None:
    """Under restricted, eight zones are preferred for the resources of eight zones: the lowest that are free."""
    state = node(16, 2, gib=4, topology="restricted", max_zones=16, **STATIC)
    state = state._replace(free_cpus=state.free_cpus & ~0b1111)
    verdict = admit(state, pod(container(cpus=32, gib=32)))
    assert verdict.assignments[0].cpus == ((1 << 32) - 1) << 4
    assert verdict.assignments[0].memory[0].zones == 0b111111110
    shortage = admit(state, pod(container(cpus=64, gib=32)))
    assert shortage.reason == "TopologyAffinityError"
    assert explain_rejection(state, pod(container(cpus=64, gib=32)), shortage) == (
        "needs 64 CPUs and 32 GiB of memory in the same zones; no set of its 16 zones has that"
    )


@pytest.mark.parametrize("zones", [17, 36, 64])
@pytest.mark.parametrize("topology", POLICIES)
def test_too_many_zones_give_no_verdict(zones: int, topology: str) -> None:
    """The kubelet would evaluate 2^zones sets. The node is not considered for this pod, and the message states why."""
    state = node(zones, 1, topology=topology, max_zones=64, **STATIC)
    verdict = admit(state, pod(container(cpus=1, gib=1)))
    assert (verdict.admitted, verdict.reason) == (False, "")
    assert verdict.message.startswith("unknown: too many zones: hints of cpu are made of 2^")
    assert explain_rejection(state, pod(container(cpus=1, gib=1)), verdict) == verdict.message


def test_too_many_zones_without_a_policy() -> None:
    """Under policy none, only the Memory Manager makes hints."""
    state = node(36, 1, topology="none", **STATIC)
    assert admit(state, pod(container(cpus=1, gib=1))).message.startswith("unknown: too many zones: hints of memory")
    assert admit(state, pod(container(cpus=1, gib=1), qos="Burstable")).admitted


@pytest.mark.parametrize("topology", POLICIES)
def test_only_zones_with_the_resource_count(topology: str) -> None:
    """Two of 36 zones have CPUs and GPUs, as on a GB200: the verdict is exact. Before 1.36, all zones count."""
    many = node(36, 2, devices={GPU: {1: 2, 2: 2}}, topology=topology, max_zones=36, cpu="static")
    cpus = type(many.kind.cpus)(many.kind.cpus.cores[:4], many.kind.cpus.zones[:2], many.kind.cpus.packages[:2])
    kind = type(many.kind)(many.kind.policies, many.kind.zones, (), cpus, devices=many.kind.devices)
    state = many._replace(kind=kind, free_cpus=cpus.cpus, memory_free=(), memory_groups=())
    verdict = admit(state, pod(container(cpus=4, gib=1, devices={GPU: 2})))
    assert [(each.cpus, each.devices[0].zones) for each in verdict.assignments] == [(0b1111, 1)]
    old = type(kind)(kind.policies._replace(release=(1, 35)), kind.zones, (), cpus, devices=kind.devices)
    late = admit(state._replace(kind=old), pod(container(cpus=4, gib=1, devices={GPU: 2})))
    assert late.message.startswith(f"unknown: too many zones: hints of {GPU} are made of 2^36 sets")


@given(st.integers(1, 20))
def test_best_effort_admits_any_number_of_free_cpus(cpus: int) -> None:
    """Best-effort never rejects a request that the node can serve, whichever zones are busy."""
    state = node(16, 1, gib=4, topology="best-effort", max_zones=16, cpu="static")
    state = state._replace(free_cpus=state.free_cpus & 0x11111111_55555555)
    verdict = admit(state, pod(container(cpus=cpus, gib=1)))
    assert verdict.admitted == (cpus <= state.free_cpus.bit_count())
