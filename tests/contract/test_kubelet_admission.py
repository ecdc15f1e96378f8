"""The verdicts against what real kubelets answered: their managers on random machines, and a whole kubelet in a lab."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from support.fit_cases import (
    answer_of_case,
    answer_of_verdict,
    certain_part,
    pod_of_case,
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


@pytest.mark.parametrize("case", cases(), ids=lambda case: str(case["id"]))
def test_every_recorded_admission_is_foretold(case: Json) -> None:
    """Verdict, reason, message, CPUs, memory and the counts of devices by their zones are the kubelet's."""
    verdict = admit(state_of_case(case), pod_of_case(case))
    assert certain_part(answer_of_verdict(verdict), verdict) == certain_part(answer_of_case(case), verdict)


@pytest.mark.parametrize("case", [case for case in cases() if not case["expect"]["admit"]], ids=lambda case: case["id"])
def test_every_refusal_is_explained(case: Json) -> None:
    """A person gets one line without the kubelet's internals, which names the container where there are several."""
    state, pod = state_of_case(case), pod_of_case(case)
    verdict = admit(state, pod)
    told = explain_rejection(state, pod, verdict)
    assert told
    assert "\n" not in told
    assert not INTERNALS.search(told)
    if len(pod.containers) > 1 and verdict.container:
        assert told.startswith(f"container {verdict.container} ")


def test_no_recorded_admission_is_uncertain_about_more_than_picks_at_random() -> None:
    """With all of the kubelet's state known, the only doubts are about devices that it picks at random."""
    doubts = {doubt for case in cases() for doubt in admit(state_of_case(case), pod_of_case(case)).uncertain}
    assert all(doubt.startswith("the kubelet picks ") for doubt in doubts)


@pytest.mark.parametrize("name", traces())
def test_a_whole_kubelet_is_foretold(name: str) -> None:
    """Pods that come one after the other: who is refused and why, which CPUs each has, and what is left."""
    trace = traces()[name]
    state = state_of_trace(trace, final=False)
    denied: list[tuple[str, str, str]] = []
    cpus: list[str] = []
    for pod in trace["pods"]:
        verdict = admit(state, read_pod(pod))
        if verdict.after is None:
            denied.append((pod["metadata"]["name"], verdict.reason, verdict.message))
            continue
        cpus += [str(CpuSet.from_bits(one.cpus)) for one in verdict.assignments if one.cpus]
        state = verdict.after
    assert denied == [(one["pod"], one["reason"], one["message"]) for one in trace["admission_denied"]]
    held = CpuSet.union(CpuSet.parse_list(text) for text in _recorded(trace))
    residue = held - CpuSet.union(map(CpuSet.parse_list, cpus))
    assert set(cpus) <= set(_recorded(trace))
    # what a pod had before its memory failed stays with it until the kubelet's next look, some seconds later
    assert not residue or any(reason == "UnexpectedAdmissionError" for _, reason, _ in denied)
    final = state_of_trace(trace, final=True)
    assert state._replace(device_free=()) == final._replace(device_free=(), free_cpus=final.free_cpus | residue.bits)


def _recorded(trace: Json) -> list[str]:
    entries = trace["cpu_manager_state"].get("entries", {})
    return [text for containers in entries.values() for text in containers.values()]
