"""Kueue's generator files."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from zonewise_scheduler.quota.api.queue_types import ClusterQueuePreemption
from zonewise_scheduler.quota.topology.types import PodSetTopologyRequest, SliceConstraint
from zonewise_scheduler.simulator.inputs.documents import read_documents
from zonewise_scheduler.simulator.inputs.kueue_generator import is_generator, read_generator
from zonewise_scheduler.simulator.inputs.source_files import InputError

if TYPE_CHECKING:
    from zonewise_scheduler.simulator.scenario import Scenario

SCENARIOS = Path(__file__).parents[5] / "demo/scenarios"

WORKLOAD = {"className": "small", "runtimeMs": 200, "priority": 50, "request": "500m"}
QUEUES = {
    "className": "cq", "count": 2, "nominalQuota": 20, "borrowingLimit": "100",
    "reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority",
    "workloadsSets": [{"count": 3, "creationIntervalMs": 100, "workloads": [WORKLOAD]}],
}  # fmt: skip
FILE: dict[str, Any] = {"cohorts": [{"className": "cohort", "count": 2, "queuesSets": [QUEUES]}]}


def of_file(name: str) -> Scenario:
    [entry] = read_documents(str(SCENARIOS / name))
    assert is_generator(entry.content)
    result = read_generator(entry.content, entry.where)
    assert result.problems == ()
    return result


def changed(path: str, value: object) -> dict[str, Any]:
    """Return the file with another value at a path such as "cohorts.0.count"."""
    built = deepcopy(FILE)
    at: Any = built
    *keys, last = [int(key) if key.isdecimal() else key for key in path.split(".")]
    for key in keys:
        at = at[key]
    at[last] = value
    return built


SET = "cohorts.0.queuesSets.0.workloadsSets.0"


def test_the_baseline() -> None:
    result = of_file("kueue-baseline.yaml")
    assert (len(result.arrivals), len(result.queues), len(result.cohorts), result.nodes) == (15_000, 30, 5, None)
    assert Counter(entry.kind for entry in result.arrivals) == {"small": 10_500, "medium": 3_000, "large": 1_500}
    ends = {entry.kind: entry.workload.created_at for entry in result.arrivals}
    assert ends == {"small": pytest.approx(35), "medium": pytest.approx(50), "large": pytest.approx(60)}
    work = sum(entry.workload.total_requests[0].requests["cpu"] * entry.run_time for entry in result.arrivals)
    assert work / (30 * 20_000) == pytest.approx(66, abs=1), "seconds; the least that the queues need"


def test_the_large_scale() -> None:
    result = of_file("kueue-large-scale.yaml")
    assert (len(result.arrivals), len(result.queues), len(result.cohorts)) == (50_000, 1_000, 10)
    assert len({entry.workload.key for entry in result.arrivals}) == 50_000


def test_the_configuration_with_topologies() -> None:
    """Workloads request a rack in three ways; in total they use as much as those of the baseline."""
    result = of_file("kueue-tas.yaml")
    assert result.nodes is not None
    assert (len(result.arrivals), len(result.queues), len(result.nodes)) == (15_000, 30, 640)
    assert list(result.topologies.values()) == [
        ("cloud.provider.com/topology-block", "cloud.provider.com/topology-rack", "kubernetes.io/hostname")
    ]
    assert result.flavors[0].topology_name in result.topologies
    rack = "cloud.provider.com/topology-rack"
    requested = Counter(
        (entry.kind, topology.request)
        for entry in result.arrivals
        for topology in [entry.workload.pod_sets[0].topology]
        if topology
    )
    assert requested["small-required", PodSetTopologyRequest(required=rack)] == 30 * 120
    assert requested["medium-preferred", PodSetTopologyRequest(preferred=rack)] == 30 * 33
    assert requested["large-balanced", PodSetTopologyRequest(slice_constraints=(SliceConstraint(rack, 4),))] == 30 * 16
    baseline = of_file("kueue-baseline.yaml")
    for size in ("small", "medium", "large"):
        amounts = {
            entry.workload.total_requests[0].requests["cpu"] for entry in result.arrivals if entry.kind.startswith(size)
        }
        assert amounts == {
            entry.workload.total_requests[0].requests["cpu"] for entry in baseline.arrivals if entry.kind == size
        }


def test_a_set_begins_after_one_interval_and_its_templates_alternate() -> None:
    other = {**WORKLOAD, "className": "large"}
    result = read_generator(changed(f"{SET}.workloads", [WORKLOAD, other]), "f")
    mine = [entry for entry in result.arrivals if entry.queue == "cq-0-0-cohort-0"]
    assert [(round(entry.workload.created_at, 6), entry.workload.name) for entry in mine] == [
        (0.1, "small-0-0-0"), (0.2, "large-0-0-1"), (0.3, "small-0-1-0"), (0.4, "large-0-1-1"),
        (0.5, "small-0-2-0"), (0.6, "large-0-2-1"),
    ]  # fmt: skip


def test_queues_follow_the_file() -> None:
    result = read_generator(FILE, "f")
    assert [entry.name for entry in result.queues] == [
        "cq-0-0-cohort-0", "cq-0-1-cohort-0", "cq-0-0-cohort-1", "cq-0-1-cohort-1"
    ]  # fmt: skip
    entry = result.queues[0]
    assert (entry.cohort_name, entry.preemption) == ("cohort-0", ClusterQueuePreemption("LowerPriority", "Any"))
    [(resource, quota)] = entry.resource_groups[0].flavors[0].quotas
    assert (resource, quota.nominal, quota.borrowing_limit, quota.lending_limit) == ("cpu", 20_000, 100_000, None)
    assert entry.resource_groups[0].flavor_names == ("rf",) == (result.flavors[0].name,)
    first = result.arrivals[0]
    assert (first.queue, first.run_time, first.kind, first.workload.priority) == (entry.name, 0.2, "small", 50)
    assert first.workload.total_requests[0].requests == {"cpu": 500}


def test_arrivals_are_by_time() -> None:
    times = [entry.workload.created_at for entry in of_file("kueue-tas.yaml").arrivals]
    assert times == sorted(times)


@pytest.mark.parametrize(
    ("path", "value", "reported"),
    [
        (f"{SET}.workloads.0.request", "lots", "workloads[0].request: not a quantity: 'lots'"),
        (f"{SET}.workloads.0.runtimeMs", -1, "workloads[0].runtimeMs: not between 0 and 9007199254740992: -1"),
        (f"{SET}.workloads.0.tasConstraint", "loose", "not one of required, preferred, balanced: 'loose'"),
        (f"{SET}.count", "3", "workloadsSets[0].count: not a whole number: '3'"),
        (f"{SET}.creationIntervalMs", None, "workloadsSets[0].creationIntervalMs: is missing"),
        ("cohorts.0.queuesSets.0.nominalQuota", "", "queuesSets[0].nominalQuota: not a quantity: ''"),
        ("cohorts.0.queuesSets.0.withinClusterQueue", "Any", "withinClusterQueue: not one of"),
        ("cohorts.0.className", 3, "cohorts[0].className: not a string: 3"),
    ],
)
def test_damaged_parts_are_reported_and_the_rest_is_generated(path: str, value: object, reported: str) -> None:
    built = changed(path, value)
    built["cohorts"].append({"className": "sound", "queuesSets": [QUEUES]})
    result = read_generator(built, "f.yaml")
    assert any(reported in entry for entry in result.problems), result.problems
    assert all(entry.startswith("f.yaml: cohorts[0].") for entry in result.problems)
    assert sum(entry.queue.endswith("sound-0") for entry in result.arrivals) == 2 * 3


def test_the_interval_of_a_damaged_template_still_counts() -> None:
    """Otherwise all following workloads would be submitted earlier."""
    result = read_generator(changed(f"{SET}.workloads", [{"className": "bad"}, WORKLOAD]), "f")
    assert result.arrivals[0].workload.created_at == pytest.approx(0.2)
    assert result.arrivals[0].workload.name == "small-0-0-1"


def test_unknown_fields_are_reported() -> None:
    result = read_generator(changed(f"{SET}.color", "red"), "f")
    assert result.problems == ("f: cohorts[0].queuesSets[0].workloadsSets[0].color: unknown field",)
    assert len(result.arrivals) == 12


NOTHING_LEFT: list[tuple[Any, str]] = [
    ({"cohorts": []}, "cohorts: they have no workloads"),
    ({"cohorts": 7}, "cohorts: they have no workloads; cohorts: not a list: 7"),
    (changed(f"{SET}.count", 750_001), "cohorts: more than 3000000 workloads"),
    (changed("cohorts.0.count", 50_001), "cohorts: more than 100000 queues"),
    (FILE | {"topology": {"name": "t", "levels": []}}, r"topology.levels: at least two levels are required"),
    (
        FILE | {"topology": {"name": "t", "levels": [{"name": "a", "count": 2, "nodeLabel": "a"}] * 2}},
        "resourceFlavor: with a topology it has a nodeLabel and a topologyName",
    ),
]


@pytest.mark.parametrize(("given", "reported"), NOTHING_LEFT)
def test_a_file_that_generates_nothing_is_an_error(given: dict[str, Any], reported: str) -> None:
    with pytest.raises(InputError, match=rf"^f\.yaml: {reported}"):
        read_generator(given, "f.yaml")
