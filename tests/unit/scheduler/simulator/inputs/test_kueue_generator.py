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
    [one] = read_documents(str(SCENARIOS / name))
    assert is_generator(one.content)
    found = read_generator(one.content, one.where)
    assert found.problems == ()
    return found


def changed(path: str, value: object) -> dict[str, Any]:
    """The file with another value at a path, such as "cohorts.0.count"."""
    made = deepcopy(FILE)
    at: Any = made
    *keys, last = [int(key) if key.isdecimal() else key for key in path.split(".")]
    for key in keys:
        at = at[key]
    at[last] = value
    return made


SET = "cohorts.0.queuesSets.0.workloadsSets.0"


def test_the_baseline() -> None:
    found = of_file("kueue-baseline.yaml")
    assert (len(found.arrivals), len(found.queues), len(found.cohorts), found.nodes) == (15_000, 30, 5, None)
    assert Counter(one.kind for one in found.arrivals) == {"small": 10_500, "medium": 3_000, "large": 1_500}
    ends = {one.kind: one.workload.created_at for one in found.arrivals}
    assert ends == {"small": pytest.approx(35), "medium": pytest.approx(50), "large": pytest.approx(60)}
    work = sum(one.workload.total_requests[0].requests["cpu"] * one.run_time for one in found.arrivals)
    assert work / (30 * 20_000) == pytest.approx(66, abs=1), "seconds; the least that the queues need"


def test_the_large_scale() -> None:
    found = of_file("kueue-large-scale.yaml")
    assert (len(found.arrivals), len(found.queues), len(found.cohorts)) == (50_000, 1_000, 10)
    assert len({one.workload.key for one in found.arrivals}) == 50_000


def test_the_one_with_topologies() -> None:
    """Three ways to ask for a rack, of workloads that take as much in all as those of the baseline."""
    found = of_file("kueue-tas.yaml")
    assert found.nodes is not None
    assert (len(found.arrivals), len(found.queues), len(found.nodes)) == (15_000, 30, 640)
    assert list(found.topologies.values()) == [
        ("cloud.provider.com/topology-block", "cloud.provider.com/topology-rack", "kubernetes.io/hostname")
    ]
    assert found.flavors[0].topology_name in found.topologies
    rack = "cloud.provider.com/topology-rack"
    asked = Counter(
        (one.kind, topology.request)
        for one in found.arrivals
        for topology in [one.workload.pod_sets[0].topology]
        if topology
    )
    assert asked["small-required", PodSetTopologyRequest(required=rack)] == 30 * 120
    assert asked["medium-preferred", PodSetTopologyRequest(preferred=rack)] == 30 * 33
    assert asked["large-balanced", PodSetTopologyRequest(slice_constraints=(SliceConstraint(rack, 4),))] == 30 * 16
    baseline = of_file("kueue-baseline.yaml")
    for size in ("small", "medium", "large"):
        amounts = {
            one.workload.total_requests[0].requests["cpu"] for one in found.arrivals if one.kind.startswith(size)
        }
        assert amounts == {
            one.workload.total_requests[0].requests["cpu"] for one in baseline.arrivals if one.kind == size
        }


def test_a_set_begins_after_one_interval_and_its_templates_alternate() -> None:
    other = {**WORKLOAD, "className": "large"}
    found = read_generator(changed(f"{SET}.workloads", [WORKLOAD, other]), "f")
    mine = [one for one in found.arrivals if one.queue == "cq-0-0-cohort-0"]
    assert [(round(one.workload.created_at, 6), one.workload.name) for one in mine] == [
        (0.1, "small-0-0-0"), (0.2, "large-0-0-1"), (0.3, "small-0-1-0"), (0.4, "large-0-1-1"),
        (0.5, "small-0-2-0"), (0.6, "large-0-2-1"),
    ]  # fmt: skip


def test_queues_are_as_the_file_says() -> None:
    found = read_generator(FILE, "f")
    assert [one.name for one in found.queues] == [
        "cq-0-0-cohort-0", "cq-0-1-cohort-0", "cq-0-0-cohort-1", "cq-0-1-cohort-1"
    ]  # fmt: skip
    one = found.queues[0]
    assert (one.cohort_name, one.preemption) == ("cohort-0", ClusterQueuePreemption("LowerPriority", "Any"))
    [(resource, quota)] = one.resource_groups[0].flavors[0].quotas
    assert (resource, quota.nominal, quota.borrowing_limit, quota.lending_limit) == ("cpu", 20_000, 100_000, None)
    assert one.resource_groups[0].flavor_names == ("rf",) == (found.flavors[0].name,)
    first = found.arrivals[0]
    assert (first.queue, first.run_time, first.kind, first.workload.priority) == (one.name, 0.2, "small", 50)
    assert first.workload.total_requests[0].requests == {"cpu": 500}


def test_arrivals_are_by_time() -> None:
    times = [one.workload.created_at for one in of_file("kueue-tas.yaml").arrivals]
    assert times == sorted(times)


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (f"{SET}.workloads.0.request", "lots", "workloads[0].request: not a quantity: 'lots'"),
        (f"{SET}.workloads.0.runtimeMs", -1, "workloads[0].runtimeMs: not from 0 to 9007199254740992: -1"),
        (f"{SET}.workloads.0.tasConstraint", "loose", "not one of required, preferred, balanced: 'loose'"),
        (f"{SET}.count", "3", "workloadsSets[0].count: not a whole number: '3'"),
        (f"{SET}.creationIntervalMs", None, "workloadsSets[0].creationIntervalMs: there is none"),
        ("cohorts.0.queuesSets.0.nominalQuota", "", "queuesSets[0].nominalQuota: not a quantity: ''"),
        ("cohorts.0.queuesSets.0.withinClusterQueue", "Any", "withinClusterQueue: not one of"),
        ("cohorts.0.className", 3, "cohorts[0].className: not a string: 3"),
    ],
)
def test_what_is_damaged_is_reported_and_the_rest_is_made(path: str, value: object, told: str) -> None:
    made = changed(path, value)
    made["cohorts"].append({"className": "sound", "queuesSets": [QUEUES]})
    found = read_generator(made, "f.yaml")
    assert any(told in one for one in found.problems), found.problems
    assert all(one.startswith("f.yaml: cohorts[0].") for one in found.problems)
    assert sum(one.queue.endswith("sound-0") for one in found.arrivals) == 2 * 3


def test_the_time_of_a_damaged_template_passes_too() -> None:
    """Else those after it would all come earlier."""
    found = read_generator(changed(f"{SET}.workloads", [{"className": "bad"}, WORKLOAD]), "f")
    assert found.arrivals[0].workload.created_at == pytest.approx(0.2)
    assert found.arrivals[0].workload.name == "small-0-0-1"


def test_fields_that_are_not_known_are_reported() -> None:
    found = read_generator(changed(f"{SET}.color", "red"), "f")
    assert found.problems == ("f: cohorts[0].queuesSets[0].workloadsSets[0].color: not a known field",)
    assert len(found.arrivals) == 12


NOTHING_LEFT: list[tuple[Any, str]] = [
    ({"cohorts": []}, "cohorts: they have no workloads"),
    ({"cohorts": 7}, "cohorts: they have no workloads; cohorts: not a list: 7"),
    (changed(f"{SET}.count", 750_001), "cohorts: more than 3000000 workloads"),
    (changed("cohorts.0.count", 50_001), "cohorts: more than 100000 queues"),
    (FILE | {"topology": {"name": "t", "levels": []}}, r"topology.levels: there must be two or more"),
    (
        FILE | {"topology": {"name": "t", "levels": [{"name": "a", "count": 2, "nodeLabel": "a"}] * 2}},
        "resourceFlavor: with a topology it has a nodeLabel and a topologyName",
    ),
]


@pytest.mark.parametrize(("given", "told"), NOTHING_LEFT)
def test_where_nothing_can_be_made_there_is_an_error(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=rf"^f\.yaml: {told}"):
        read_generator(given, "f.yaml")
