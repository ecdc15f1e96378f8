"""Recorded admissions of a real kubelet's managers for many machines, options and pods: every result is predicted.

They cover more than the cases next to the project:

- gaps in zone ids, zones without CPUs or memory, more packages than zones, and L3 groups
- all options of the CPU Manager together
- pods with pod-level resources
- the state afterwards
"""

from __future__ import annotations

import functools
import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.fit_cases import (
    certain_part,
    pod_of_case,
    policies_of_case,
    predicted_result,
    recorded_result,
    state_of_case,
)
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.explain.rejection import explain_rejection
from zonewise_scheduler.admission.node import Resource

if TYPE_CHECKING:
    from support.kubelet_cases import Json
    from zonewise_scheduler.admission.verdict import Verdict

RECORDED = Path(__file__).parents[1] / "fixtures" / "fit" / "admissions.json.gz"


@functools.cache
def recording() -> Json:
    return json.loads(gzip.decompress(RECORDED.read_bytes()))


@functools.cache
def predicted(index: int) -> Verdict:
    case = recording()["cases"][index]
    return admit(state_of_case(case), pod_of_case(case))


def outcomes(case: Json) -> list[dict[str, Any]]:
    """Return all results of the kubelet for the same input.

    A pod that is allocated as a whole gets its devices when its containers start. If this fails for one, its devices
    are omitted.
    """
    if "devicesAtStart" in case:
        later = {case["pod"]["metadata"]["uid"]: case["devicesAtStart"].get("deviceAssignments")}
        return [recorded_result(case, case | {"allocation": case["allocation"] | {"deviceAssignments": later}})]
    return [recorded_result(case, each) for each in (case, *case.get("alternatives", ()))]


def test_results() -> None:
    """The prediction has the kubelet's verdict, reason, message, CPU ids, memory and devices.

    For devices that the kubelet picks at random between zones, only the count is compared.
    """
    wrong: list[object] = []
    for index, case in enumerate(recording()["cases"]):
        verdict = predicted(index)
        result = certain_part(predicted_result(verdict), verdict)
        if "error" in case.get("devicesAtStart", ()):
            result["devices"] = {}
        expected = [certain_part(each, verdict) for each in outcomes(case)]
        if result not in expected:
            wrong.append((case["id"], result, expected))
    assert wrong == []


def test_the_node_afterwards() -> None:
    """After the admission, free CPUs, free memory, groups of zones and assigned zones are the kubelet's."""
    wrong: list[object] = []
    for index, case in enumerate(recording()["cases"]):
        after = predicted(index).after
        if after is None or "alternatives" in case:
            continue
        expected = state_of_case(case, case["after"])._replace(device_free=after.device_free)
        if after != expected:
            wrong.append((case["id"], after, expected))
    assert wrong == []


def test_the_general_admission_checks() -> None:
    """The rest of the kubelet checks the total requests; its reason names one of several insufficient resources."""
    wrong: list[object] = []
    for case in recording()["cases"]:
        if "room" not in case:
            continue
        available, expected = case["room"], case["expectWithRoom"]
        scalar_resources = tuple(sorted(available["others"].items()))
        verdict = admit(
            state_of_case(case),
            pod_of_case(case),
            Resource(
                available["milliCpus"], available["memory"], available["pods"], available["storage"], scalar_resources
            ),
        )
        # the kubelet skips resources that its node does not have; for a scheduler, they are insufficient
        absent = verdict.resource not in {*available["others"], "cpu", "memory", "pods", "ephemeral-storage", ""}
        extended = "/" in verdict.reason and "/" in expected["reason"]
        if not absent and not extended and verdict.reason != expected["reason"]:
            wrong.append((case["id"], verdict.reason, expected["reason"]))
    assert wrong == []


def test_endless_requests_are_rejected() -> None:
    """If distribute-cpus-across-numa never terminates in the kubelet, the pod is rejected."""
    for case in recording()["endless"]:
        verdict = admit(state_of_case(case), pod_of_case(case))
        assert not verdict.admitted
        assert "never ends" in verdict.message
        assert "cannot distribute" in explain_rejection(state_of_case(case), pod_of_case(case), verdict)


def test_older_releases() -> None:
    """Kubelets of 1.33 and 1.35 are predicted in cases where they differ from 1.36."""
    wrong: list[object] = []
    for case in recording()["older"]:
        major, minor = map(int, case["kubelet"]["release"].split("."))
        state = state_of_case(case)
        policies = state.kind.policies._replace(release=(major, minor))
        verdict = admit(state._replace(kind=replace(state.kind, policies=policies)), pod_of_case(case))
        result = certain_part(predicted_result(verdict), verdict)
        expected = [certain_part(each, verdict) for each in outcomes(case)]
        if result not in expected:
            wrong.append((case["id"], result, expected))
    assert wrong == []
    assert {case["kubelet"]["release"] for case in recording()["older"]} == {"1.33", "1.35"}


def test_explanations() -> None:
    """One complete sentence explains every rejection, with the need, or with the reason why it cannot be met."""
    sentences = [
        explain_rejection(state_of_case(case), pod_of_case(case), predicted(index))
        for index, case in enumerate(recording()["cases"])
        if not case["expect"]["admit"]
    ]
    assert all(sentences)
    assert not any("  " in text or text.endswith(("; ", " ", ";")) or " 1 are " in text for text in sentences)
    needs = ("needs ", "leaves nothing", "requests no memory")
    assert all(any(need in text for need in needs) for text in sentences)


def test_all_kinds_of_cases_are_recorded() -> None:
    """Every policy, scope, option and reason occurs often."""
    cases = recording()["cases"]
    assert len(cases) == recording()["count"] == 600
    policies = [policies_of_case(case) for case in cases]
    assert {each.topology for each in policies} == {"none", "best-effort", "restricted", "single-numa-node"}
    for option in (
        "prefer_closest",
        "full_cores",
        "strict_reservation",
        "distribute_across_zones",
        "align_by_package",
        "distribute_across_cores",
        "align_by_cache",
        "pod_level_managers",
    ):
        assert sum(getattr(each, option) for each in policies) > 20, option
    assert {case["expect"]["reason"] for case in cases} == {
        "",
        "TopologyAffinityError",
        "SMTAlignmentError",
        "UnexpectedAdmissionError",
        "EmptyPodSharedPoolError",
    }
