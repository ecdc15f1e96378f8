"""Objects of kueue.x-k8s.io: what is sound is read, what is not is told by field and value; nothing else is lost."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.k8s.labels import Requirement
from zonewise_common.k8s.nodeaffinity import NodeSelectorTerm
from zonewise_common.k8s.taints import Taint, Toleration
from zonewise_scheduler.admission.pod_spec import read_pod
from zonewise_scheduler.quota.api.amount import UNLIMITED
from zonewise_scheduler.quota.api.queue_reader import (
    read_cluster_queue,
    read_cohort,
    read_local_queue,
    read_resource_flavor,
    read_workload_priority_class,
)
from zonewise_scheduler.quota.api.queue_types import (
    AdmissionCheckStrategyRule,
    ClusterQueue,
    ClusterQueuePreemption,
    Cohort,
    FlavorFungibility,
    LocalQueue,
    ResourceFlavor,
)
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, ResourceGroup, ResourceQuota
from zonewise_scheduler.quota.api.workload_reader import PRIORITY_BOOST_ANNOTATION, read_workload
from zonewise_scheduler.quota.api.workload_types import (
    Admission,
    Eviction,
    PodSet,
    PodSetAdmission,
    WorkloadPriorityClass,
    TopologyRequest,
)
from zonewise_scheduler.quota.topology.types import PodSetTopologyRequest

Json = dict[str, Any]

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


def changed(one: Json, path: str, value: Any) -> Json:
    """A copy with one field set, or taken away by None."""
    found = copy.deepcopy(one)
    owner: Any = found
    *way, last = path.split(".")
    for name in way:
        owner = owner[int(name) if name.isdecimal() else name]
    if value is None:
        del owner[last]
    else:
        owner[last] = value
    return found


# --- queues


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
    """Without a namespaceSelector it is for nobody; with an empty one for all."""
    bare = {"metadata": {"name": "q"}, "spec": {}}
    assert read_cluster_queue(bare) == (ClusterQueue("q", namespace_selector=None), ())
    assert read_cluster_queue(changed(bare, "spec.namespaceSelector", {})) == (ClusterQueue("q"), ())


def test_v1beta1() -> None:
    """The names of v1beta1 mean the same."""
    old: Json = {
        "metadata": {"name": "q"},
        "spec": {
            "cohort": "all",
            "admissionChecks": ["check"],
            "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"},
        },
    }
    found, problems = read_cluster_queue(old)
    assert (found.cohort_name, found.admission_checks, problems) == ("all", (AdmissionCheckStrategyRule("check"),), ())
    assert found.flavor_fungibility == FlavorFungibility("MayStopSearch", "MayStopSearch")


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("spec.queueingStrategy", "LIFO", "spec.queueingStrategy: not one of StrictFIFO, BestEffortFIFO: 'LIFO'"),
        ("spec.surprise", 1, "spec.surprise: not a known field"),
        ("spec.preemption.surprise", 1, "spec.preemption.surprise: not a known field"),
        (
            "spec.preemption.borrowWithinCohort.maxPriorityThreshold",
            "3",
            "maxPriorityThreshold: not a whole number: '3'",
        ),
        ("spec.fairSharing.weight", "-1", "spec.fairSharing.weight: negative: '-1'"),
        ("spec.fairSharing.weight", "much", "spec.fairSharing.weight: not a quantity: 'much'"),
        ("spec.stopPolicy", 3, "spec.stopPolicy: not one of None, Hold, HoldAndDrain: 3"),
        ("spec.cohortName", 3, "spec.cohortName: not a string: 3"),
        ("spec.admissionChecksStrategy", [], "spec.admissionChecksStrategy: not an object: []"),
        ("metadata.name", None, "metadata.name: not a name: None"),
        ("oops", 1, "oops: not a known field"),
    ],
)
def test_what_is_wrong_is_told(path: str, value: object, problem: str) -> None:
    """And the quotas are as they were."""
    found, problems = read_cluster_queue(changed(QUEUE, path, value))
    assert len(problems) == 1
    assert problem in problems[0]
    assert found.resource_groups == READ_GROUPS


@pytest.mark.parametrize("field", ["nominalQuota", "borrowingLimit", "lendingLimit"])
@pytest.mark.parametrize("value", ["many", -1, True, {}])
def test_a_resource_with_an_invalid_quota_has_none(field: str, value: object) -> None:
    """No quota is not zero, and no limit is not unlimited: the resource is left out of the group."""
    found, problems = read_cluster_queue(changed(QUEUE, f"spec.resourceGroups.0.flavors.0.resources.0.{field}", value))
    assert [one.covered_resources for one in found.resource_groups] == [frozenset({"memory"})]
    assert f"spec.resourceGroups[0].flavors[0].resources[0].{field}" in problems[0]


def test_a_namespace_selector_that_is_invalid_is_for_nobody() -> None:
    wrong = [{"key": "tier", "operator": "Near", "values": ["x"]}]
    found, problems = read_cluster_queue(changed(QUEUE, "spec.namespaceSelector.matchExpressions", wrong))
    assert found.namespace_selector is None
    assert "spec.namespaceSelector.matchExpressions" in problems[0]


def test_a_quota_beyond_64_bits_is_unlimited() -> None:
    found, problems = read_cluster_queue(
        changed(QUEUE, "spec.resourceGroups.0.flavors.0.resources.0.nominalQuota", "1E")
    )
    assert found.resource_groups[0].flavors[0].quotas[0] == ("cpu", ResourceQuota(UNLIMITED, 500, 2_000))
    assert not problems


def test_cohort() -> None:
    given: Json = {"metadata": {"name": "c"}, "spec": {"parentName": "root", "resourceGroups": GROUPS}}
    assert read_cohort(given) == (Cohort("c", "root", READ_GROUPS), ())
    assert read_cohort(changed(given, "spec.parent", "x"))[1] == ("spec.parent: not a known field",)


def test_local_queue() -> None:
    given: Json = {
        "metadata": {"name": "lq", "namespace": "ns"},
        "spec": {"clusterQueue": "q", "stopPolicy": "HoldAndDrain", "fairSharing": {"weight": 3}},
    }
    assert read_local_queue(given) == (LocalQueue("ns", "lq", "q", "HoldAndDrain", 3.0), ())


def test_flavor() -> None:
    given: Json = {
        "metadata": {"name": "spot"},
        "spec": {
            "nodeLabels": {"type": "spot"},
            "nodeTaints": [{"key": "spot", "effect": "NoSchedule"}],
            "tolerations": [{"key": "spot", "operator": "Exists"}],
            "topologyName": "racks",
        },
    }
    taints, tolerations = (Taint("spot", "", "NoSchedule"),), (Toleration("spot", "Exists"),)
    assert read_resource_flavor(given) == (ResourceFlavor("spot", {"type": "spot"}, taints, tolerations, "racks"), ())
    found, problems = read_resource_flavor(changed(given, "spec.nodeTaints", [{"key": 3}]))
    assert found.node_labels == {"type": "spot"}
    assert len(problems) == 1


def test_priority_class() -> None:
    assert read_workload_priority_class({"metadata": {"name": "high"}, "value": 7}) == (WorkloadPriorityClass("high", 7), ())


# --- workloads

TEMPLATE: Json = {
    "spec": {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1500m", "nvidia.com/gpu": "2"}}}],
        "nodeSelector": {"type": "spot"},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
    }
}
WORKLOAD: Json = {
    "metadata": {
        "name": "job",
        "namespace": "ns",
        "uid": "u",
        "creationTimestamp": "1970-01-01T00:00:10Z",
        "annotations": {PRIORITY_BOOST_ANNOTATION: "5"},
    },
    "spec": {
        "podSets": [
            {
                "name": "main",
                "count": 4,
                "minCount": 2,
                "template": TEMPLATE,
                "topologyRequest": {"required": "rack", "podSetGroupName": "g"},
            }
        ],
        "queueName": "lq",
        "priority": 3,
        "maximumExecutionTimeSeconds": 60,
        "preemptionGates": [{"name": "gate"}],
    },
    "status": {
        "admission": {
            "clusterQueue": "q",
            "podSetAssignments": [
                {"name": "main", "flavors": {"cpu": "spot"}, "resourceUsage": {"cpu": "6"}, "count": 4}
            ],
        },
        "conditions": [
            {"type": "QuotaReserved", "status": "True", "lastTransitionTime": "1970-01-01T00:00:20Z"},
            {"type": "Evicted", "status": "True", "reason": "Preempted", "lastTransitionTime": "1970-01-01T00:00:30Z"},
            {"type": "Finished", "status": "False"},
        ],
        "reclaimablePods": [{"name": "main", "count": 1}],
        "admissionChecks": [{"name": "one", "state": "Pending"}, {"name": "two", "state": "Retry"}],
    },
}


def test_workload() -> None:
    found = read_workload(WORKLOAD)
    one = found.workload
    assert one is not None
    assert (found.problems, found.finished) == ((), False)
    assert one.failed_checks == ("two",)
    assert (one.key, one.uid, one.queue_name, one.priority, one.created_at) == ("ns/job", "u", "lq", 3, 10.0)
    assert (one.walltime, one.history_keys) == (60, ("ns", "lq", "job"))
    assert one.eviction == Eviction("Preempted", 30.0)
    assert one.preemption_gated
    given_to_it = (PodSetAdmission("main", {"cpu": "spot"}, {"cpu": 6_000}, 4),)
    assert one.admission == Admission("q", given_to_it, 20.0, ("one", "two"))
    assert {key.flavor: amount for key, amount in one.usage.items()} == {"spot": 4_500}
    assert one.pod_sets == (
        PodSet(
            "main",
            4,
            {"cpu": 1500, "nvidia.com/gpu": 2},
            2,
            (Requirement("type", "In", ("spot",)),),
            None,
            (Toleration("spot", "Exists"),),
            TopologyRequest(PodSetTopologyRequest("rack"), "g"),
            shape=read_pod(WORKLOAD["spec"]["podSets"][0]["template"]),
        ),
    )


def test_nothing_of_a_resource_is_a_request_too() -> None:
    """What is asked for as 0 has its flavor like all else; what is not named has none."""
    for asked in ({"cpu": "1", "nvidia.com/gpu": "0"}, {"cpu": "1"}):
        spec = {"containers": [{"name": "c", "resources": {"requests": asked}}]}
        given = copy.deepcopy(WORKLOAD)
        given["spec"]["podSets"][0]["template"] = {"spec": spec}
        one = read_workload(given).workload
        assert one is not None
        assert one.pod_sets[0].requests.keys() == asked.keys()


def test_nodes_that_were_made_for_it() -> None:
    """What a check that has passed asks of nodes counts with what the template does, once there is quota."""
    given = copy.deepcopy(WORKLOAD)
    update: Json = {"name": "main", "nodeSelector": {"made-for": "job"}, "tolerations": [{"key": "new"}]}
    given["status"]["admissionChecks"] = [
        {"name": "one", "state": "Ready", "podSetUpdates": [update]},
        {"name": "two", "state": "Pending", "podSetUpdates": [{"name": "main", "nodeSelector": {"no": "such"}}]},
    ]
    one = read_workload(given).workload
    assert one is not None
    assert [need.key for need in one.pod_sets[0].node_selector] == ["type", "made-for"]
    assert [each.key for each in one.pod_sets[0].tolerations] == ["spot", "new"]
    update["nodeSelector"] = {"made-for": 1}
    found = read_workload(given)
    (problem,) = found.problems
    assert problem.startswith("status.admissionChecks[0].podSetUpdates[0].nodeSelector.made-for: ")
    del given["status"]["conditions"]
    one = read_workload(given).workload
    assert one is not None
    assert len(one.pod_sets[0].node_selector) == 1


@pytest.mark.parametrize(
    ("request_", "explicit"),
    [({"unconstrained": False}, True), ({"podSetSliceSize": 2}, True), ({"podSetGroupName": "g"}, False), ({}, False)],
)
def test_what_is_a_request_for_places(request_: Json, explicit: bool) -> None:
    """Any word about levels or slices, whatever it says."""
    given = copy.deepcopy(WORKLOAD)
    given["spec"]["podSets"][0]["topologyRequest"] = request_
    one = read_workload(given).workload
    assert one is not None
    topology = one.pod_sets[0].topology
    assert topology is not None
    assert topology.explicit is explicit


def test_boost_counts_by_its_gate() -> None:
    """An invalid one is told, and is none."""
    boosted = read_workload(WORKLOAD, priority_boost=True).workload
    assert boosted is not None
    assert boosted.priority == 8
    found = read_workload(
        changed(WORKLOAD, "metadata.annotations", {PRIORITY_BOOST_ANNOTATION: "high"}), priority_boost=True
    )
    assert found.workload is not None
    assert (found.workload.priority, len(found.problems)) == (3, 1)


def test_gates_that_are_open() -> None:
    opened = changed(WORKLOAD, "status.preemptionGates", [{"name": "gate", "position": "Open"}])
    found = read_workload(opened).workload
    assert found is not None
    assert not found.preemption_gated


def test_it_runs_since_its_checks_were_passed() -> None:
    passed = {"type": "Admitted", "status": "True", "lastTransitionTime": "1970-01-01T00:00:25Z"}
    conditions = [*WORKLOAD["status"]["conditions"], passed]
    found = read_workload(changed(WORKLOAD, "status.conditions", conditions)).workload
    assert found is not None
    assert found.admission is not None
    assert (found.admission.reserved_at, found.admission.started_at, found.admission.pending_checks) == (20.0, 25.0, ())
    assert found.max_duration == 60


def test_without_quota_it_has_no_admission() -> None:
    found = read_workload(changed(WORKLOAD, "status.conditions", [])).workload
    assert found is not None
    assert (found.admission, found.eviction, dict(found.usage)) == (None, None, {})


def test_required_affinity() -> None:
    terms = [{"matchExpressions": [{"key": "type", "operator": "In", "values": ["a"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    path = "spec.podSets.0.template.spec.affinity"
    found = read_workload(changed(WORKLOAD, path, {"nodeAffinity": required})).workload
    assert found is not None
    assert found.pod_sets[0].required_terms == (NodeSelectorTerm((Requirement("type", "In", ("a",)),)),)


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("spec.podSets.0.template.spec.containers.0.resources.requests.cpu", "lots", "requests.cpu"),
        ("spec.podSets.0.template.spec.nodeSelector", [], "spec.podSets[0].template.spec.nodeSelector"),
        ("spec.podSets.0.count", -1, "spec.podSets[0].count"),
        ("spec.podSets.0.count", "four", "spec.podSets[0].count"),
    ],
)
def test_what_it_asks_for_cannot_be_told(path: str, value: object, told: str) -> None:
    """It is not read as asking for nothing."""
    found = read_workload(changed(WORKLOAD, path, value))
    assert found.workload is None
    assert any(told in problem for problem in found.problems)


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)
PLACES = [
    (path, read)
    for one, read in ((QUEUE, read_cluster_queue), (WORKLOAD, read_workload))
    for path in (
        [
            "metadata",
            "spec",
            "status",
            *(f"spec.{name}" for name in one["spec"]),
            *(f"status.{name}" for name in one["status"]),
        ]
    )
]


@given(st.sampled_from(PLACES), ANY)
def test_nothing_is_raised_whatever_comes(place: Any, value: object) -> None:
    path, read = place
    read(changed(QUEUE if read is read_cluster_queue else WORKLOAD, path, value))
