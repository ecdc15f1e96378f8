"""Readers of queues, cohorts, flavors and priority classes: errors report invalid fields with path and value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.json_edits import JSON_VALUES, Json, with_field
from zonewise_common.k8s.labels import Requirement
from zonewise_common.k8s.taints import Taint, Toleration
from zonewise_scheduler.quota.api.amount import UNLIMITED
from zonewise_scheduler.quota.api.queue_reader import (
    read_admission_check,
    read_cluster_queue,
    read_cohort,
    read_local_queue,
    read_resource_flavor,
    read_topology,
    read_workload_priority_class,
)
from zonewise_scheduler.quota.api.queue_types import (
    AdmissionCheck,
    AdmissionCheckStrategyRule,
    ClusterQueue,
    ClusterQueuePreemption,
    Cohort,
    FlavorFungibility,
    LocalQueue,
    ResourceFlavor,
    Topology,
)
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, ResourceGroup, ResourceQuota
from zonewise_scheduler.quota.api.workload_types import WorkloadPriorityClass

GROUPS: list[Json] = [
    {
        "coveredResources": ["cpu", "memory"],
        "flavors": [
            {
                "name": "old",
                "resources": [
                    {"name": "cpu", "nominalQuota": 10, "borrowingLimit": "500m", "lendingLimit": "2"},
                    {"name": "memory", "nominalQuota": "4Gi"},
                ],
            }
        ],
    }
]
QUEUE: Json = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ClusterQueue",
    "metadata": {"name": "team", "uid": "1"},
    "spec": {
        "resourceGroups": GROUPS,
        "cohortName": "all",
        "queueingStrategy": "StrictFIFO",
        "namespaceSelector": {
            "matchLabels": {"dep": "eng"},
            "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["x"]}],
        },
        "flavorFungibility": {"whenCanBorrow": "TryNextFlavor", "preference": "PreemptionOverBorrowing"},
        "preemption": {
            "withinClusterQueue": "LowerPriority",
            "reclaimWithinCohort": "Any",
            "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": -3},
        },
        "admissionChecksStrategy": {"admissionChecks": [{"name": "check", "onFlavors": ["old"]}]},
        "stopPolicy": "Hold",
        "fairSharing": {"weight": "2500m"},
        "admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"},
    },
    "status": {"anything": 1},
}
READ_GROUPS = (
    ResourceGroup(
        (FlavorQuotas("old", (("cpu", ResourceQuota(10_000, 500, 2_000)), ("memory", ResourceQuota(4 << 30)))),),
        frozenset({"cpu", "memory"}),
    ),
)


def test_cluster_queue() -> None:
    assert read_cluster_queue(QUEUE) == (
        ClusterQueue(
            "team",
            READ_GROUPS,
            "all",
            "StrictFIFO",
            ClusterQueuePreemption("LowerPriority", "Any", "LowerPriority", -3),
            FlavorFungibility("TryNextFlavor", "TryNextFlavor", "PreemptionOverBorrowing"),
            2.5,
            "Hold",
            (Requirement("dep", "In", ("eng",)), Requirement("tier", "NotIn", ("x",))),
            (AdmissionCheckStrategyRule("check", frozenset({"old"})),),
            usage_based_admission=True,
        ),
        (),
    )


def test_defaults() -> None:
    """Without a namespaceSelector no namespace matches; an empty one matches all namespaces."""
    bare = {"metadata": {"name": "q"}, "spec": {}}
    assert read_cluster_queue(bare) == (ClusterQueue("q", namespace_selector=None), ())
    assert read_cluster_queue(with_field(bare, "spec.namespaceSelector", {})) == (ClusterQueue("q"), ())


def test_v1beta1() -> None:
    """The names of v1beta1 have the same meaning as those of the current version."""
    obj: Json = {
        "metadata": {"name": "q"},
        "spec": {
            "cohort": "all",
            "admissionChecks": ["check"],
            "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"},
        },
    }
    queue, problems = read_cluster_queue(obj)
    assert (queue.cohort_name, queue.admission_checks, problems) == ("all", (AdmissionCheckStrategyRule("check"),), ())
    assert queue.flavor_fungibility == FlavorFungibility("MayStopSearch", "MayStopSearch")


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("spec.queueingStrategy", "LIFO", "spec.queueingStrategy: not one of StrictFIFO, BestEffortFIFO: 'LIFO'"),
        ("spec.surprise", 1, "spec.surprise: unknown field"),
        ("spec.preemption.surprise", 1, "spec.preemption.surprise: unknown field"),
        (
            "spec.preemption.borrowWithinCohort.maxPriorityThreshold",
            "3",
            "maxPriorityThreshold: not a whole number: '3'",
        ),
        ("spec.fairSharing.weight", "-1", "spec.fairSharing.weight: negative: '-1'"),
        ("spec.fairSharing.weight", "1n", "spec.fairSharing.weight: must be 0, or above 1n: '1n'"),
        ("spec.fairSharing.weight", "much", "spec.fairSharing.weight: not a quantity: 'much'"),
        ("spec.stopPolicy", 3, "spec.stopPolicy: not one of None, Hold, HoldAndDrain: 3"),
        ("spec.cohortName", 3, "spec.cohortName: not a string: 3"),
        ("spec.admissionChecksStrategy", [], "spec.admissionChecksStrategy: not an object: []"),
        ("metadata.name", None, "metadata.name: not a name: None"),
        ("oops", 1, "oops: unknown field"),
    ],
)
def test_an_invalid_field_is_reported(path: str, value: object, problem: str) -> None:
    """The quotas are read nevertheless."""
    queue, problems = read_cluster_queue(with_field(QUEUE, path, value))
    assert len(problems) == 1
    assert problem in problems[0]
    assert queue.resource_groups == READ_GROUPS


@pytest.mark.parametrize("field", ["nominalQuota", "borrowingLimit", "lendingLimit"])
@pytest.mark.parametrize("value", ["many", -1, True, {}])
def test_a_resource_with_an_invalid_quota_has_none(field: str, value: object) -> None:
    """An invalid quota is not 0, and an invalid limit is not unlimited: the resource is omitted from the group."""
    queue, problems = read_cluster_queue(
        with_field(QUEUE, f"spec.resourceGroups.0.flavors.0.resources.0.{field}", value)
    )
    assert [group.covered_resources for group in queue.resource_groups] == [frozenset({"memory"})]
    assert f"spec.resourceGroups[0].flavors[0].resources[0].{field}" in problems[0]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("matchExpressions", [{"key": "tier", "operator": "Near", "values": ["x"]}]),
        ("matchLabels", {"a b": "c"}),
        ("matchLabels", {"a": "b c"}),
    ],
)
def test_an_invalid_namespace_selector_matches_no_namespace(field: str, value: object) -> None:
    queue, problems = read_cluster_queue(with_field(QUEUE, f"spec.namespaceSelector.{field}", value))
    assert queue.namespace_selector is None
    assert problems == (f"spec.namespaceSelector.{field}: not valid: {value!r}",)


def test_a_resource_that_is_covered_twice_or_only_has_a_quota_is_reported() -> None:
    """The quota of memory would have no effect."""
    queue, problems = read_cluster_queue(with_field(QUEUE, "spec.resourceGroups.0.coveredResources", ["cpu", "cpu"]))
    assert [group.covered_resources for group in queue.resource_groups] == [frozenset({"cpu"})]
    assert problems == (
        "spec.resourceGroups[0].coveredResources: cpu is listed 2 times: keep it once",
        "spec.resourceGroups[0].flavors: memory has a quota, but is not in coveredResources",
    )


def test_a_quota_beyond_64_bits_is_unlimited() -> None:
    path = "spec.resourceGroups.0.flavors.0.resources.0.nominalQuota"
    queue, problems = read_cluster_queue(with_field(QUEUE, path, "1E"))
    assert queue.resource_groups[0].flavors[0].quotas[0] == ("cpu", ResourceQuota(UNLIMITED, 500, 2_000))
    assert not problems


def test_cohort() -> None:
    obj: Json = {"metadata": {"name": "c"}, "spec": {"parentName": "root", "resourceGroups": GROUPS}}
    assert read_cohort(obj) == (Cohort("c", "root", READ_GROUPS), ())
    assert read_cohort(with_field(obj, "spec.parent", "x"))[1] == ("spec.parent: unknown field",)


def test_local_queue() -> None:
    obj: Json = {
        "metadata": {"name": "lq", "namespace": "ns"},
        "spec": {"clusterQueue": "q", "stopPolicy": "HoldAndDrain", "fairSharing": {"weight": 3}},
    }
    assert read_local_queue(obj) == (LocalQueue("ns", "lq", "q", "HoldAndDrain", 3.0), ())


def test_resource_flavor() -> None:
    obj: Json = {
        "metadata": {"name": "spot"},
        "spec": {
            "nodeLabels": {"type": "spot"},
            "nodeTaints": [{"key": "spot", "effect": "NoSchedule"}],
            "tolerations": [{"key": "spot", "operator": "Exists"}, {"key": "age", "operator": "Gt", "value": "9"}],
            "topologyName": "racks",
        },
    }
    taints = (Taint("spot", "", "NoSchedule"),)
    tolerations = Toleration("spot", "Exists"), Toleration("age", "Gt", "9")
    assert read_resource_flavor(obj) == (ResourceFlavor("spot", {"type": "spot"}, taints, tolerations, "racks"), ())
    flavor, problems = read_resource_flavor(with_field(obj, "spec.nodeTaints", [{"key": 3}]))
    assert flavor.node_labels == {"type": "spot"}
    assert len(problems) == 1


def test_flavors_that_no_pod_can_have() -> None:
    labels = {"team": "a b", "a b": "c", "example.com/pool": "x"}
    obj = {
        "metadata": {"name": "f"},
        "spec": {"nodeLabels": labels, "tolerations": [{"key": "k e", "operator": "Exists"}]},
    }
    flavor, problems = read_resource_flavor(obj)
    assert flavor.node_labels == labels
    assert problems == (
        "spec.nodeLabels: team: a b is not a valid label",
        "spec.nodeLabels: a b: c is not a valid label",
        "spec.tolerations: k e is not the key of a taint",
    )


@pytest.mark.parametrize(
    ("taints", "problem"),
    [
        ([{"key": "a b", "effect": "NoSchedule"}], "spec.nodeTaints: a b= is not a valid taint"),
        ([{"key": "a", "value": "x y", "effect": "NoSchedule"}], "spec.nodeTaints: a=x y is not a valid taint"),
        ([{"key": "a", "effect": "NoSchedule", "value": value} for value in "xy"],
         "spec.nodeTaints: a:NoSchedule is listed 2 times: keep it once"),
    ],
)  # fmt: skip
def test_taints_that_no_node_can_have(taints: list[Json], problem: str) -> None:
    assert read_resource_flavor({"metadata": {"name": "f"}, "spec": {"nodeTaints": taints}})[1] == (problem,)


def test_two_taints_of_one_key_may_have_different_effects() -> None:
    taints = [{"key": "a", "effect": effect} for effect in ("NoSchedule", "NoExecute")]
    flavor, problems = read_resource_flavor({"metadata": {"name": "f"}, "spec": {"nodeTaints": taints}})
    assert (len(flavor.node_taints), problems) == (2, ())


@pytest.mark.parametrize(("text", "weight"), [("0", 0.0), ("333333u", 0.333333), ("2n", 2e-9), (3, 3.0), ("5k", 5e3)])
def test_a_weight_is_exact(text: object, weight: float) -> None:
    queue, problems = read_cluster_queue(with_field(QUEUE, "spec.fairSharing.weight", text))
    assert (queue.fair_weight, problems) == (weight, ())


def test_a_quota_of_what_is_not_a_resource_is_reported() -> None:
    groups = [{"coveredResources": ["@cpu"], "flavors": [{"name": "f", "resources": [
        {"name": "@cpu", "nominalQuota": 1}]}]}]  # fmt: skip
    _, problems = read_cluster_queue({"metadata": {"name": "q"}, "spec": {"resourceGroups": groups}})
    assert problems == ("spec.resourceGroups: '@cpu' is not the name of a resource",)


@pytest.mark.parametrize(
    ("fields", "value", "problems"),
    [
        ({"value": 7}, 7, ()),
        ({"value": 0}, 0, ()),
        ({}, 0, ()),
        ({"value": "7"}, 0, ("value: not a whole number: '7'",)),
    ],
)
def test_workload_priority_class(fields: Json, value: int, problems: tuple[str, ...]) -> None:
    """A class without a value has the value 0."""
    obj = {"metadata": {"name": "high"}, **fields}
    assert read_workload_priority_class(obj) == (WorkloadPriorityClass("high", value), problems)


@pytest.mark.parametrize(
    ("kind", "status", "is_active"),
    [
        ("Active", "True", True), ("Active", "False", False), ("Active", "Unknown", False), ("Active", "", False),
        ("Ready", "True", False), ("Accepted", "True", False), ("Ready", "Unknown", False),
    ],
)  # fmt: skip
def test_the_active_condition_makes_an_admission_check_active(kind: str, status: str, is_active: bool) -> None:
    obj: Json = {
        "metadata": {"name": "check"},
        "spec": {"controllerName": "example.com/c", "parameters": {}, "retryDelayMinutes": 1},
        "status": {"conditions": [{"type": kind, "status": status}]},
    }
    assert read_admission_check(obj) == (AdmissionCheck("check", "example.com/c", is_active), ())
    obj["status"] = {"conditions": [{"type": "Other", "status": "False"}, {"type": kind, "status": status}]}
    assert read_admission_check(obj)[0].is_active is is_active


@pytest.mark.parametrize(
    ("mode", "usage_based"), [("UsageBasedAdmissionFairSharing", True), ("NoAdmissionFairSharing", False), ("", False)]
)
def test_only_one_mode_admits_by_usage(mode: str, usage_based: bool) -> None:
    queue, _ = read_cluster_queue(with_field(QUEUE, "spec.admissionScope.admissionMode", mode))
    assert queue.usage_based_admission is usage_based


@pytest.mark.parametrize(
    ("nominal", "quotas", "problems"),
    [
        ({"nominalQuota": 0}, (("cpu", ResourceQuota(0)),), ()),
        ({}, None, ("spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: is missing",)),
        (
            {"nominalQuota": "many"},
            None,
            ("spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: not a quantity: 'many'",),
        ),
    ],
)
def test_a_quota_may_be_0_but_neither_absent_nor_invalid(
    nominal: Json, quotas: tuple[tuple[str, ResourceQuota], ...] | None, problems: tuple[str, ...]
) -> None:
    """A group without a valid resource is omitted, and each resource without a quota is reported."""
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "old", "resources": [{"name": "cpu", **nominal}]}]}
    queue, reported = read_cluster_queue({"metadata": {"name": "q"}, "spec": {"resourceGroups": [group]}})
    groups = [] if quotas is None else [ResourceGroup((FlavorQuotas("old", quotas),), frozenset({"cpu"}))]
    assert queue.resource_groups == tuple(groups)
    missing = ("spec.resourceGroups[0].coveredResources: not every flavor has a quota for cpu",)
    assert reported == (problems + missing if problems else ())


PATHS = [
    "metadata",
    "spec",
    "status",
    *(f"spec.{name}" for name in QUEUE["spec"]),
    *(f"status.{name}" for name in QUEUE["status"]),
]


@given(st.sampled_from(PATHS), JSON_VALUES)
def test_no_object_makes_the_reader_raise(path: str, value: object) -> None:
    read_cluster_queue(with_field(QUEUE, path, value))


@pytest.mark.parametrize("levels", [[], [{"nodeLabel": ""}], [{"nodeLabel": "block"}, {"nodeLabel": ""}]])
def test_a_topology_without_a_label_for_each_level_has_none(levels: list[Json]) -> None:
    topology, problems = read_topology({"metadata": {"name": "racks"}, "spec": {"levels": levels}})
    assert topology == Topology("racks", ())
    assert any("not labels of nodes" in problem for problem in problems)


def test_the_levels_of_a_topology_are_labels() -> None:
    spec = {"levels": [{"nodeLabel": "block"}, {"nodeLabel": "rack"}]}
    assert read_topology({"metadata": {"name": "racks"}, "spec": spec}) == (Topology("racks", ("block", "rack")), ())
