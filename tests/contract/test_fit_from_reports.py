"""Recorded kubelets foretold from reports: our agent's object loses nothing, a plain one refuses no pod wrongly.

The way is the whole one: the kubelet's answers and files, the agent's account, the object, the state, the verdict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.fit_cases import (
    answer_of_case,
    answer_of_verdict,
    certain_part,
    kind_of_case,
    pod_of_case,
    policies_of_case,
    state_of_case,
    state_of_trace,
)
from support.kubelet_cases import (
    ABSENT,
    Json,
    cases,
    machine_of_case,
    machine_of_trace,
    report_of_case,
    report_of_trace,
    traces,
)
from support.state_file_nodes import NodeHardware, read_state_files
from zonewise.kubelet.types import ContainerDevices
from zonewise.objects.nrt import machine_to_nrt
from zonewise.usage.node_usage import KubeletNotReady, node_usage
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.report.interning import KindInterner
from zonewise_scheduler.admission.report.node_report import NodeReport, read_nrt

if TYPE_CHECKING:
    from zonewise.kubelet.types import KubeletReport
    from zonewise.machine.model.machine import Machine
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.verdict import Verdict

recorded = pytest.mark.skipif(not cases(), reason=ABSENT)
WEAKER = {"per-NUMA-counts-mispredict", "podresources-visible-state-mispredicts"}
"""Tags of cases for which counts by zone are known not to suffice."""


def published(machine: Machine, report: KubeletReport) -> Json:
    """The object of our agent."""
    usage = node_usage(machine, report)
    assert not isinstance(usage, KubeletNotReady)
    return machine_to_nrt(machine, "node", usage, report.config)


def read_back(made: NodeReport) -> NodeState:
    """The state of a report that has no problem."""
    assert made.problems == ()
    assert made.state is not None
    return made.state


@recorded
def test_our_reports_lose_nothing() -> None:
    """In all recorded admissions verdict, reason, message, CPU ids, memory and devices are the kubelet's,
    but for the zones of devices that it picks at random.
    """
    kinds, wrong = KindInterner(), list[object]()
    for case in cases():
        state = read_back(read_nrt(published(machine_of_case(case), report_of_case(case)), kinds))
        verdict = admit(state, pod_of_case(case))
        told, expected = (
            certain_part(answer, verdict) for answer in (answer_of_verdict(verdict), answer_of_case(case))
        )
        if told != expected or state.kind.unknown:
            wrong.append((case["id"], told, expected, state.kind.unknown))
    assert wrong == []
    assert len(cases()) == 813


@recorded
def test_state_files() -> None:
    """The kubelet's own files give the very state that was recorded."""
    for case in cases():
        report, kind = report_of_case(case), kind_of_case(case)
        assert report.config is not None
        devices = tuple(
            ContainerDevices(resource, (device["id"],), tuple(device["numa"] or ()))
            for resource, some in case["machine"]["devices"].items()
            for device in some
        )
        hardware = NodeHardware(kind.cpus, devices, kind.zones, kind.distances)
        assert read_state_files(report.state, report.config, hardware) == state_of_case(case)


@pytest.mark.skipif(not traces(), reason=ABSENT)
@pytest.mark.parametrize("name", traces())
def test_whole_kubelets(name: str) -> None:
    """The state of each, CPU by CPU and byte by byte, is that of its files."""
    trace = traces()[name]
    state = read_back(read_nrt(published(machine_of_trace(trace), report_of_trace(trace)), KindInterner()))
    truth = state_of_trace(trace, final=True)
    assert state[1:5] == truth[1:5]
    kind, expected = state.kind, truth.kind
    assert (kind.policies, kind.zones, kind.distances) == (expected.policies, expected.zones, expected.distances)
    assert (kind.memory_types, kind.allocatable) == (expected.memory_types, expected.allocatable)
    assert (kind.cpus, kind.devices, kind.unknown) == (expected.cpus, expected.devices, ())


# --- plain objects


def foretold(case: Json, kinds: KindInterner, *, told: bool) -> Verdict:
    """The verdict from a plain object, and from the kubelet's configuration if that is told."""
    plain = case["nodeResourceTopology"]
    if told:
        threads = case["machine"]["threadsPerCore"]
        made = read_nrt(plain, kinds, policies=policies_of_case(case), threads=threads)
    else:
        made = read_nrt(plain, kinds)
    return admit(read_back(made), pod_of_case(case))


def mistakes(*, told: bool) -> tuple[set[int], set[int]]:
    """The cases that are wrongly refused, and those that are wrongly admitted and not tagged as beyond counts."""
    kinds, refused, admitted = KindInterner(), set[int](), set[int]()
    for case in cases():
        if not case.get("nodeResourceTopology"):
            continue
        verdict = foretold(case, kinds, told=told)
        if case["expect"]["admit"] and not verdict.admitted:
            refused.add(case["id"])
        elif verdict.admitted and not case["expect"]["admit"] and not WEAKER & set(case["tags"]):
            admitted.add(case["id"])
    return refused, admitted


@recorded
def test_plain_reports_and_the_configuration() -> None:
    """Counts by zone and the kubelet's configuration refuse no pod wrongly, and admit beyond the tagged cases three:
    memory that is assigned and all free (103367), zones in a group (107792), a resource without any healthy device
    (117435), of none of which a plain object tells.
    """
    assert mistakes(told=True) == (set(), {103367, 107792, 117435})


@recorded
def test_plain_reports_alone() -> None:
    """Where nobody tells the configuration no pod is refused wrongly either; what is admitted beyond is refused for
    cores, of which whole ones have to be asked for, and for the same three reasons.
    """
    refused, admitted = mistakes(told=False)
    assert refused == set()
    reasons = {case["id"]: case["expect"]["reason"] for case in cases()}
    assert {number for number in admitted if reasons[number] != "SMTAlignmentError"} == {103367, 107792, 117435}


@recorded
def test_a_plain_report_says_what_it_does_not_tell() -> None:
    """Every case that is foretold wrongly from a plain object alone is one whose kind has something unknown."""
    kinds = KindInterner()
    for case in cases():
        if case.get("nodeResourceTopology"):
            assert read_back(read_nrt(case["nodeResourceTopology"], kinds)).kind.unknown != ()
