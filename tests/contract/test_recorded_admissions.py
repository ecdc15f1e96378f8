"""Recorded admissions of a real kubelet's managers, of many machines, options and pods: every answer is foretold.

Beside what the cases next to the project have: gaps in the zones' numbers, zones without CPUs or memory, more packages
than zones, L3 groups, all options of the CPU Manager together, pods with resources of their own, and what is left.
"""

from __future__ import annotations

import functools
import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.fit_cases import (
    answer_of_case,
    answer_of_verdict,
    certain_part,
    pod_of_case,
    policies_of_case,
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
def foretold(place: int) -> Verdict:
    case = recording()["cases"][place]
    return admit(state_of_case(case), pod_of_case(case))


def outcomes(case: Json) -> list[dict[str, Any]]:
    """All answers that the kubelet gave to the same question.

    A pod that is given whole gets its devices when its containers start; where one then fails, they are left out.
    """
    if "devicesAtStart" in case:
        later = {case["pod"]["metadata"]["uid"]: case["devicesAtStart"].get("deviceAssignments")}
        return [answer_of_case(case, case | {"allocation": case["allocation"] | {"deviceAssignments": later}})]
    return [answer_of_case(case, one) for one in (case, *case.get("alternatives", ()))]


def test_answers() -> None:
    """Verdict, reason, message, CPU ids, memory and devices are the kubelet's; of devices that it picks at random
    between zones, the count.
    """
    wrong: list[object] = []
    for place, case in enumerate(recording()["cases"]):
        verdict = foretold(place)
        told = certain_part(answer_of_verdict(verdict), verdict)
        if "error" in case.get("devicesAtStart", ()):
            told["devices"] = {}
        expected = [certain_part(one, verdict) for one in outcomes(case)]
        if told not in expected:
            wrong.append((case["id"], told, expected))
    assert wrong == []


def test_the_node_afterwards() -> None:
    """Free CPUs, free memory, groups of zones and zones in use are the kubelet's own once the pod is there."""
    wrong: list[object] = []
    for place, case in enumerate(recording()["cases"]):
        after = foretold(place).after
        if after is None or "alternatives" in case:
            continue
        expected = state_of_case(case, case["after"])._replace(device_free=after.device_free)
        if after != expected:
            wrong.append((case["id"], after, expected))
    assert wrong == []


def test_room() -> None:
    """What the rest of the kubelet says of the requests as a whole, too: of several resources that are short, one."""
    wrong: list[object] = []
    for case in recording()["cases"]:
        if "room" not in case:
            continue
        room, expected = case["room"], case["expectWithRoom"]
        others = tuple(sorted(room["others"].items()))
        verdict = admit(
            state_of_case(case),
            pod_of_case(case),
            Resource(room["milliCpus"], room["memory"], room["pods"], room["storage"], others),
        )
        # the kubelet leaves out resources that its node does not have, which to a scheduler are short
        absent = verdict.resource not in {*room["others"], "cpu", "memory", "pods", "ephemeral-storage", ""}
        extended = "/" in verdict.reason and "/" in expected["reason"]
        if not absent and not extended and verdict.reason != expected["reason"]:
            wrong.append((case["id"], verdict.reason, expected["reason"]))
    assert wrong == []


def test_a_kubelet_without_an_answer_is_given_no_pod() -> None:
    """Where distribute-cpus-across-numa makes the kubelet run for ever, the pod is refused."""
    for case in recording()["endless"]:
        verdict = admit(state_of_case(case), pod_of_case(case))
        assert not verdict.admitted
        assert "never ends" in verdict.message
        assert "cannot share out" in explain_rejection(state_of_case(case), pod_of_case(case), verdict)


def test_older_releases() -> None:
    """Kubelets of 1.33 and 1.35 are foretold where they answer otherwise than one of 1.36."""
    wrong: list[object] = []
    for case in recording()["older"]:
        major, minor = map(int, case["kubelet"]["release"].split("."))
        state = state_of_case(case)
        policies = state.kind.policies._replace(release=(major, minor))
        verdict = admit(state._replace(kind=replace(state.kind, policies=policies)), pod_of_case(case))
        told = certain_part(answer_of_verdict(verdict), verdict)
        expected = [certain_part(one, verdict) for one in outcomes(case)]
        if told not in expected:
            wrong.append((case["id"], told, expected))
    assert wrong == []
    assert {case["kubelet"]["release"] for case in recording()["older"]} == {"1.33", "1.35"}


def test_sentences() -> None:
    """Every refusal is told in one whole sentence that says what is needed, or what is wrong with that."""
    told = [
        explain_rejection(state_of_case(case), pod_of_case(case), foretold(place))
        for place, case in enumerate(recording()["cases"])
        if not case["expect"]["admit"]
    ]
    assert [one for one in told if not one or "  " in one or one.endswith(("; ", " ", ";")) or " 1 are " in one] == []
    assert all("needs " in one or "leaves nothing" in one or "has no memory of its own" in one for one in told)


def test_the_recording_is_wide() -> None:
    """Every policy, scope, option and reason is there, often."""
    cases = recording()["cases"]
    assert len(cases) == recording()["count"] == 600
    policies = [policies_of_case(case) for case in cases]
    assert {one.topology for one in policies} == {"none", "best-effort", "restricted", "single-numa-node"}
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
        assert sum(getattr(one, option) for one in policies) > 20, option
    assert {case["expect"]["reason"] for case in cases} == {
        "",
        "TopologyAffinityError",
        "SMTAlignmentError",
        "UnexpectedAdmissionError",
        "EmptyPodSharedPoolError",
    }
