"""Cases recorded of the upstream scheduler plugin: our account of it agrees in all, and where we know better is listed.

The tables are the plugin's own tests with what its code returned, and kubelet admissions with what its filter said.
"""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest

from support.kubelet_cases import ABSENT, CASES, Json, cases
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.pod_spec import read_pod
from zonewise_scheduler.admission.report.interning import KindInterner
from zonewise_scheduler.admission.report.node_report import read_nrt
from zonewise_scheduler.nodes.noderesourcetopology import FilterStatus, filter_node, score_node

DIFFERENT = {
    "filter-034": "requests of devices without limits, which the plugin compares: the kubelet gives devices by limits "
    "(and the API server takes no such pod)",
    "filter-045": "a kubelet with a zone of id 75 panics, since its bit masks have 64 bits: the plugin passes over it",
}
"""The cases in which the exact mode answers otherwise, and why."""


@functools.cache
def table(name: str) -> list[Json]:
    """The cases of a table; none where the data are absent."""
    file = CASES / f"nrt_{name}_cases.json"
    return json.loads(file.read_text())["cases"] if file.exists() else []


def by_id(name: str) -> Any:
    found = table(name)
    return pytest.mark.parametrize("case", found, ids=[case["id"] for case in found])


recorded = pytest.mark.skipif(not table("filter") or not cases(), reason=ABSENT)


# --- as upstream


@by_id("filter")
def test_filter(case: Json) -> None:
    observed = case["referenceObserved"]
    answer = filter_node(case["nrts"][0], case["pod"], case["node"]["status"]["allocatable"])
    assert answer == FilterStatus("passes" if observed["code"] == "Success" else "rejects", observed["reason"])


@by_id("score")
def test_score(case: Json) -> None:
    """Of every node, not only of the winner."""
    strategy = case["pluginArgs"]["scoringStrategy"]
    weights = {resource["name"]: resource["weight"] for resource in strategy["resources"]}
    reports = {nrt["metadata"]["name"]: nrt for nrt in case["nrts"]}
    names = [node["metadata"]["name"] for node in case["nodes"]]
    found = {name: score_node(reports.get(name), case["pod"], strategy["type"], weights) for name in names}
    assert {name: answer.score for name, answer in found.items()} == case["referenceScores"]
    assert {answer.outcome for answer in found.values()} == {"scored"}


@recorded
def test_filter_on_recorded_nodes() -> None:
    """The verdict and the message of the real plugin on every kubelet case that has a report."""
    reported = [case for case in cases() if "nodeResourceTopology" in case]
    assert reported
    for case in reported:
        said = case["upstreamPluginFilter"]
        answer = filter_node(case["nodeResourceTopology"], case["pod"], allocatable(case))
        assert (answer.passes, answer.message) == (said["pass"], said["message"]), case["id"]


def allocatable(case: Json) -> set[str]:
    """What the node of a case has, devices near no zone too."""
    zones = case["nodeResourceTopology"]["zones"]
    return {resource["name"] for zone in zones for resource in zone["resources"]} | set(case["machine"]["devices"])


@recorded
def test_how_often_it_is_wrong() -> None:
    """It admits what the kubelet refuses, and refuses what the kubelet admits, exactly where the recording says so."""
    for case in cases():
        if "nodeResourceTopology" in case:
            passes = filter_node(case["nodeResourceTopology"], case["pod"], allocatable(case)).passes
            admits = case["expect"]["admit"]
            assert (passes and not admits) == ("upstream-plugin-false-admit" in case["tags"])
            assert (admits and not passes) == ("upstream-plugin-false-reject" in case["tags"])


# --- as the kubelet


def whole(nrt: Json) -> Json:
    """The object with what the tables leave at 0 and an agent would not: all that there is can be given."""
    zones = [
        {**zone, "resources": [{**one, "allocatable": one["capacity"]} for one in zone["resources"]]}
        for zone in nrt["zones"]
    ]
    return {**nrt, "zones": zones}


def proper(pod: Json) -> Json:
    """The pod with a name for each container, and with a container, which some in the tables lack."""
    spec = pod["spec"]
    containers: dict[str, list[Json]] = {
        "initContainers": spec.get("initContainers") or [],
        "containers": spec.get("containers") or [{}],
    }
    named = {
        field: [{**one, "name": f"{field}-{place}"} for place, one in enumerate(found)]
        for field, found in containers.items()
    }
    return {**pod, "spec": {**spec, **named}}


def admitted(nrt: Json, pod: Json) -> bool:
    """What a kubelet with such a report would say."""
    report = read_nrt(whole(nrt), KindInterner())
    assert report.state is not None
    assert report.problems == ()
    return admit(report.state, read_pod(proper(pod))).admitted


@recorded
def test_where_we_know_better() -> None:
    """Exactly the listed cases differ between what the plugin lets through and what a kubelet admits."""
    different = {
        case["id"]
        for case in table("filter")
        if admitted(case["nrts"][0], case["pod"]) != (case["referenceObserved"]["code"] == "Success")
    }
    assert different == set(DIFFERENT)


@recorded
def test_scores_are_of_nodes_that_admit() -> None:
    """In the tables no node has a score that would refuse the pod, and none has 0 that would admit it."""
    for case in table("score"):
        for nrt in case["nrts"]:
            assert admitted(nrt, case["pod"]) == (case["referenceScores"][nrt["metadata"]["name"]] > 0)
