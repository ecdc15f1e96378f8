"""Recorded cases of the upstream scheduler plugin: our model of it agrees in all; deliberate differences are listed.

The tables are the plugin's own tests with the results of its code, and kubelet admissions with the results of its
filter.
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
"""The cases in which the exact mode decides differently, and the reasons."""


@functools.cache
def table(name: str) -> list[Json]:
    """Return the cases of a table; none if the data are absent."""
    file = CASES / f"nrt_{name}_cases.json"
    return json.loads(file.read_text())["cases"] if file.exists() else []


def by_id(name: str) -> Any:
    found = table(name)
    return pytest.mark.parametrize("case", found, ids=[case["id"] for case in found])


recorded = pytest.mark.skipif(not table("filter") or not cases(), reason=ABSENT)


# --- our model of the plugin


@by_id("filter")
def test_filter(case: Json) -> None:
    observed = case["referenceObserved"]
    answer = filter_node(case["nrts"][0], case["pod"], case["node"]["status"]["allocatable"])
    assert answer == FilterStatus("passes" if observed["code"] == "Success" else "rejects", observed["reason"])


@by_id("score")
def test_score(case: Json) -> None:
    """The score of every node is compared, not only that of the best one."""
    strategy = case["pluginArgs"]["scoringStrategy"]
    weights = {resource["name"]: resource["weight"] for resource in strategy["resources"]}
    reports = {nrt["metadata"]["name"]: nrt for nrt in case["nrts"]}
    names = [node["metadata"]["name"] for node in case["nodes"]]
    found = {name: score_node(reports.get(name), case["pod"], strategy["type"], weights) for name in names}
    assert {name: answer.score for name, answer in found.items()} == case["referenceScores"]
    assert {answer.outcome for answer in found.values()} == {"scored"}


@recorded
def test_filter_on_recorded_nodes() -> None:
    """Verdict and message are those of the real plugin, for every kubelet case with a report."""
    reported = [case for case in cases() if "nodeResourceTopology" in case]
    assert reported
    for case in reported:
        said = case["upstreamPluginFilter"]
        answer = filter_node(case["nodeResourceTopology"], case["pod"], allocatable(case))
        assert (answer.passes, answer.message) == (said["pass"], said["message"]), case["id"]


def allocatable(case: Json) -> set[str]:
    """Return the resources of a case's node, including devices without a zone."""
    zones = case["nodeResourceTopology"]["zones"]
    return {resource["name"] for zone in zones for resource in zone["resources"]} | set(case["machine"]["devices"])


@recorded
def test_recorded_errors_of_the_plugin() -> None:
    """The plugin admits pods that the kubelet rejects, and the reverse, exactly in the recorded cases."""
    for case in cases():
        if "nodeResourceTopology" in case:
            passes = filter_node(case["nodeResourceTopology"], case["pod"], allocatable(case)).passes
            admits = case["expect"]["admit"]
            assert (passes and not admits) == ("upstream-plugin-false-admit" in case["tags"])
            assert (admits and not passes) == ("upstream-plugin-false-reject" in case["tags"])


# --- our model of the kubelet


def whole(nrt: Json) -> Json:
    """Return the object with full allocatable amounts, which the tables, unlike agents, leave at 0."""
    zones = [
        {**zone, "resources": [{**one, "allocatable": one["capacity"]} for one in zone["resources"]]}
        for zone in nrt["zones"]
    ]
    return {**nrt, "zones": zones}


def proper(pod: Json) -> Json:
    """Return the pod with a name for each container, and with a container, which some pods in the tables lack."""
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
    """Return whether a kubelet with such a report would admit the pod."""
    report = read_nrt(whole(nrt), KindInterner())
    assert report.state is not None
    assert report.problems == ()
    return admit(report.state, read_pod(proper(pod))).admitted


@recorded
def test_deliberate_differences_from_the_plugin() -> None:
    """The plugin and a kubelet decide differently exactly in the listed cases."""
    different = {
        case["id"]
        for case in table("filter")
        if admitted(case["nrts"][0], case["pod"]) != (case["referenceObserved"]["code"] == "Success")
    }
    assert different == set(DIFFERENT)


@recorded
def test_only_nodes_that_admit_have_a_score() -> None:
    """In the tables, a node has a score above 0 exactly if it would admit the pod."""
    for case in table("score"):
        for nrt in case["nrts"]:
            assert admitted(nrt, case["pod"]) == (case["referenceScores"][nrt["metadata"]["name"]] > 0)
