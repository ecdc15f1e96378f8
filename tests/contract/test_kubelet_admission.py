"""Verdicts compared with those of real kubelets: their managers on random machines, and a whole kubelet in a lab."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from support.fit_cases import (
    certain_part,
    pod_of_case,
    predicted_result,
    recorded_result,
    state_of_case,
    state_of_trace,
)
from support.kubelet_cases import ABSENT, cases, traces
from zonewise_common.k8s.cpuset import CpuSet
from zonewise_scheduler.admission import admit, explain_rejection
from zonewise_scheduler.admission.pod_spec import read_pod

if TYPE_CHECKING:
    from support.kubelet_cases import Json

pytestmark = pytest.mark.skipif(not cases(), reason=ABSENT)

INTERNALS = re.compile(r"hint|affinity|bitmask|memorymanager|NUMA|None|[{}()\[\]]|\d{6,}")


def test_every_recorded_admission_is_predicted() -> None:
    """The prediction has the kubelet's verdict, reason, message, CPUs and memory, and its counts of devices by zone."""
    predicted, recorded = {}, {}
    for case in cases():
        verdict = admit(state_of_case(case), pod_of_case(case))
        predicted[case["id"]] = certain_part(predicted_result(verdict), verdict)
        recorded[case["id"]] = certain_part(recorded_result(case), verdict)
    assert predicted == recorded


def test_every_rejection_is_explained() -> None:
    """The explanation is one line without the kubelet's internals; it names the container if there are several."""
    for case in cases():
        if case["expect"]["admit"]:
            continue
        state, pod = state_of_case(case), pod_of_case(case)
        verdict = admit(state, pod)
        text = explain_rejection(state, pod, verdict)
        assert text, case["id"]
        assert "\n" not in text, case["id"]
        assert not INTERNALS.search(text), case["id"]
        if len(pod.containers) > 1 and verdict.container:
            assert text.startswith(f"container {verdict.container} "), case["id"]


def test_only_random_picks_are_uncertain() -> None:
    """If the kubelet's whole state is known, only devices that it picks at random are uncertain."""
    reasons = {reason for case in cases() for reason in admit(state_of_case(case), pod_of_case(case)).uncertain}
    assert all(reason.startswith("the kubelet picks ") for reason in reasons)


@pytest.mark.parametrize("name", traces())
def test_a_whole_kubelet_is_predicted(name: str) -> None:
    """A sequence of pods is predicted: rejection reasons, the CPUs of each pod, and remaining resources."""
    trace = traces()[name]
    state = state_of_trace(trace, final=False)
    rejected: list[tuple[str, str, str]] = []
    cpus: list[str] = []
    for pod in trace["pods"]:
        verdict = admit(state, read_pod(pod))
        if verdict.after is None:
            rejected.append((pod["metadata"]["name"], verdict.reason, verdict.message))
            continue
        cpus += [str(CpuSet.from_bits(each.cpus)) for each in verdict.assignments if each.cpus]
        state = verdict.after
    assert rejected == [(each["pod"], each["reason"], each["message"]) for each in trace["admission_denied"]]
    held = CpuSet.union(CpuSet.parse_list(text) for text in _recorded(trace))
    residue = held - CpuSet.union(map(CpuSet.parse_list, cpus))
    assert set(cpus) <= set(_recorded(trace))
    # a pod whose memory allocation failed keeps its CPUs until the kubelet cleans up, some seconds later
    assert not residue or any(reason == "UnexpectedAdmissionError" for _, reason, _ in rejected)
    final = state_of_trace(trace, final=True)
    assert state._replace(device_free=()) == final._replace(device_free=(), free_cpus=final.free_cpus | residue.bits)


def _recorded(trace: Json) -> list[str]:
    entries = trace["cpu_manager_state"].get("entries", {})
    return [text for containers in entries.values() for text in containers.values()]
