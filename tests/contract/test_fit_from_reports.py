"""Recorded admissions predicted from reports: our agent's object is complete, and a plain one rejects no pod wrongly.

The tests cover the whole path: the kubelet's responses and files, the agent's usage, the object, the state, the
verdict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.fit_cases import (
    certain_part,
    kind_of_case,
    pod_of_case,
    policies_of_case,
    predicted_result,
    recorded_result,
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
"""Tags of cases in which counts by zone are known to be insufficient."""


def published(machine: Machine, report: KubeletReport) -> Json:
    """Return the object that our agent publishes."""
    usage = node_usage(machine, report)
    assert not isinstance(usage, KubeletNotReady)
    return machine_to_nrt(machine, "node", usage, report.config)


def read_back(report: NodeReport) -> NodeState:
    """Return the state of a report, which must have no problems."""
    assert report.problems == ()
    assert report.state is not None
    return report.state


@recorded
def test_reports_of_our_agent_are_complete() -> None:
    """For all recorded admissions, the prediction has the kubelet's verdict, reason, message, CPU ids, memory and
    devices.

    The zones of devices that the kubelet picks at random are the exception.
    """
    interner, wrong = KindInterner(), list[object]()
    for case in cases():
        state = read_back(read_nrt(published(machine_of_case(case), report_of_case(case)), interner))
        verdict = admit(state, pod_of_case(case))
        predicted, expected = (
            certain_part(result, verdict) for result in (predicted_result(verdict), recorded_result(case))
        )
        if predicted != expected or state.kind.unknown:
            wrong.append((case["id"], predicted, expected, state.kind.unknown))
    assert wrong == []
    assert len(cases()) == 813


@recorded
def test_state_files() -> None:
    """The kubelet's own files give exactly the recorded state."""
    for case in cases():
        report, kind = report_of_case(case), kind_of_case(case)
        assert report.config is not None
        devices = tuple(
            ContainerDevices(resource, (device["id"],), tuple(device["numa"] or ()))
            for resource, group in case["machine"]["devices"].items()
            for device in group
        )
        hardware = NodeHardware(kind.cpus, devices, kind.zones, kind.distances)
        assert read_state_files(report.state, report.config, hardware) == state_of_case(case)


@pytest.mark.skipif(not traces(), reason=ABSENT)
@pytest.mark.parametrize("name", traces())
def test_whole_kubelets(name: str) -> None:
    """The state of each kubelet equals that of its files, CPU by CPU and byte by byte."""
    trace = traces()[name]
    state = read_back(read_nrt(published(machine_of_trace(trace), report_of_trace(trace)), KindInterner()))
    truth = state_of_trace(trace, final=True)
    assert state[1:5] == truth[1:5]
    kind, expected = state.kind, truth.kind
    assert (kind.policies, kind.zones, kind.distances) == (expected.policies, expected.zones, expected.distances)
    assert (kind.memory_types, kind.allocatable) == (expected.memory_types, expected.allocatable)
    assert (kind.cpus, kind.devices, kind.unknown) == (expected.cpus, expected.devices, ())


# --- plain objects


def predicted_from_plain(case: Json, interner: KindInterner, *, configured: bool) -> Verdict:
    """Return the verdict from a plain object, with the kubelet's configuration if `configured`."""
    plain = case["nodeResourceTopology"]
    if configured:
        threads = case["machine"]["threadsPerCore"]
        report = read_nrt(plain, interner, policies=policies_of_case(case), threads=threads)
    else:
        report = read_nrt(plain, interner)
    return admit(read_back(report), pod_of_case(case))


def mistakes(*, configured: bool) -> tuple[set[int], set[int]]:
    """Return the wrongly rejected cases, and those wrongly admitted cases whose tags do not explain the mistake."""
    interner, rejected, admitted = KindInterner(), set[int](), set[int]()
    for case in cases():
        if not case.get("nodeResourceTopology"):
            continue
        verdict = predicted_from_plain(case, interner, configured=configured)
        if case["expect"]["admit"] and not verdict.admitted:
            rejected.add(case["id"])
        elif verdict.admitted and not case["expect"]["admit"] and not WEAKER & set(case["tags"]):
            admitted.add(case["id"])
    return rejected, admitted


@recorded
def test_plain_reports_and_the_configuration() -> None:
    """With the kubelet's configuration, counts by zone reject no pod wrongly.

    They admit three cases beyond the tagged ones. A plain object lacks one fact in each: assigned memory that is all
    free (103367), zones in a group (107792), a resource without healthy devices (117435).
    """
    assert mistakes(configured=True) == (set(), {103367, 107792, 117435})


@recorded
def test_plain_reports_without_the_configuration() -> None:
    """Without the configuration, no pod is rejected wrongly either.

    The kubelet rejects all other wrongly admitted pods because of whole cores.
    """
    rejected, admitted = mistakes(configured=False)
    assert rejected == set()
    reasons = {case["id"]: case["expect"]["reason"] for case in cases()}
    assert {number for number in admitted if reasons[number] != "SMTAlignmentError"} == {103367, 107792, 117435}


@recorded
def test_plain_reports_have_unknown_facts() -> None:
    """Every case that is predicted wrongly from only a plain object has a kind with unknown facts."""
    interner = KindInterner()
    for case in cases():
        if case.get("nodeResourceTopology"):
            assert read_back(read_nrt(case["nodeResourceTopology"], interner)).kind.unknown != ()
