"""The reader of Workloads: valid fields are read, and other fields are reported with path and value."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.json_edits import JSON_VALUES, Json, with_field
from zonewise_common.k8s.labels import Requirement
from zonewise_common.k8s.nodeaffinity import NodeSelectorTerm
from zonewise_common.k8s.taints import Toleration
from zonewise_scheduler.admission.pod_spec import read_pod
from zonewise_scheduler.nodes.node.avoided_conditions import SINGLE_POD
from zonewise_scheduler.quota.api.resource_quota import FlavorResource
from zonewise_scheduler.quota.api.resource_settings import parse_resource_settings
from zonewise_scheduler.quota.api.workload_reader import PRIORITY_BOOST_ANNOTATION, read_workload
from zonewise_scheduler.quota.api.workload_types import (
    Admission,
    Eviction,
    PodSet,
    PodSetAdmission,
    TopologyRequest,
)
from zonewise_scheduler.quota.topology.types import PodSetTopologyRequest

if TYPE_CHECKING:
    from zonewise_scheduler.quota.api.workload_types import Workload

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


def read_valid(obj: Json) -> Workload:
    workload = read_workload(obj).workload
    assert workload is not None
    return workload


def test_workload() -> None:
    result = read_workload(WORKLOAD)
    workload = result.workload
    assert workload is not None
    assert (result.problems, result.finished) == ((), False)
    assert workload.failed_checks == ("two",)
    assert (workload.key, workload.uid, workload.queue_name) == ("ns/job", "u", "lq")
    assert (workload.priority, workload.created_at) == (3, 10.0)
    assert (workload.walltime, workload.history_keys) == (60, ("ns", "lq", "job"))
    assert workload.eviction == Eviction("Preempted", 30.0)
    assert workload.preemption_gated
    admitted = (PodSetAdmission("main", {"cpu": "spot"}, {"cpu": 6_000}, 4),)
    assert workload.admission == Admission("q", admitted, 20.0, ("one", "two"))
    assert {key.flavor: amount for key, amount in workload.usage.items()} == {"spot": 4_500}
    assert workload.pod_sets == (
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


@pytest.mark.parametrize(
    ("counts", "tolerates"), [((1,), True), ((4,), False), ((1, 1), False), ((0,), True), ((0, 1), True)]
)
def test_only_a_single_pod_tolerates_the_conditions_that_gangs_avoid(counts: tuple[int, ...], tolerates: bool) -> None:
    pod_sets = [{"name": f"set-{i}", "count": count, "template": TEMPLATE} for i, count in enumerate(counts)]
    workload = read_workload(with_field(WORKLOAD, "spec.podSets", pod_sets)).workload
    assert workload is not None
    assert {SINGLE_POD in pod_set.tolerations for pod_set in workload.pod_sets} == {tolerates}


def test_a_request_of_zero_is_a_request() -> None:
    """A resource with a request of 0 gets a flavor; a resource without a request gets none."""
    for requests in ({"cpu": "1", "nvidia.com/gpu": "0"}, {"cpu": "1"}):
        spec = {"containers": [{"name": "c", "resources": {"requests": requests}}]}
        workload = read_valid(with_field(WORKLOAD, "spec.podSets.0.template", {"spec": spec}))
        assert workload.pod_sets[0].requests.keys() == requests.keys()


def test_pod_set_updates_of_passed_checks_count() -> None:
    """Once the workload has quota, their node selectors and tolerations are added to those of the template."""
    obj = copy.deepcopy(WORKLOAD)
    tolerations = [{"key": "new"}, {"key": "age", "operator": "Lt", "value": "9"}]
    update: Json = {"name": "main", "nodeSelector": {"provisioned-for": "job"}, "tolerations": tolerations}
    other: Json = {"name": "main", "nodeSelector": {"no": "such"}}
    obj["status"]["admissionChecks"] = [
        {"name": "one", "state": "Ready", "podSetUpdates": [update]},
        *({"name": state, "state": state, "podSetUpdates": [other]} for state in ("Pending", "Retry", "Rejected")),
    ]
    pod_set = read_valid(obj).pod_sets[0]
    assert [requirement.key for requirement in pod_set.node_selector] == ["type", "provisioned-for"]
    assert [toleration.key for toleration in pod_set.tolerations] == ["spot", "new", "age"]
    update["nodeSelector"] = {"provisioned-for": 1}
    field = "status.admissionChecks[0].podSetUpdates[0].nodeSelector.provisioned-for"
    assert read_workload(obj).problems == (f"{field}: not a string: 1",)
    del obj["status"]["conditions"]
    assert len(read_valid(obj).pod_sets[0].node_selector) == 1


@pytest.mark.parametrize(
    ("request_", "explicit"),
    [({"unconstrained": False}, True), ({"podSetSliceSize": 2}, True), ({"podSetGroupName": "g"}, False), ({}, False)],
)
def test_explicit_topology_requests(request_: Json, explicit: bool) -> None:
    """Any field about levels or slices makes the request explicit, whatever its value is."""
    topology = read_valid(with_field(WORKLOAD, "spec.podSets.0.topologyRequest", request_)).pod_sets[0].topology
    assert topology is not None
    assert topology.explicit is explicit


def test_the_priority_boost_counts_if_its_gate_is_enabled() -> None:
    """An invalid boost is reported and counts as 0."""
    boosted = read_workload(WORKLOAD, priority_boost=True).workload
    assert boosted is not None
    assert boosted.priority == 8
    obj = with_field(WORKLOAD, "metadata.annotations", {PRIORITY_BOOST_ANNOTATION: "h" * 81})
    result = read_workload(obj, priority_boost=True)
    assert result.workload is not None
    assert result.workload.priority == 3
    field = f"metadata.annotations.{PRIORITY_BOOST_ANNOTATION}"
    assert result.problems == (f"{field}: not a whole number: '{'h' * 80}'",)


def test_open_preemption_gates() -> None:
    obj = with_field(WORKLOAD, "status.preemptionGates", [{"name": "gate", "position": "Open"}])
    assert not read_valid(obj).preemption_gated


def test_a_workload_starts_when_its_last_check_passes() -> None:
    admitted = {"type": "Admitted", "status": "True", "lastTransitionTime": "1970-01-01T00:00:25Z"}
    conditions = [*WORKLOAD["status"]["conditions"], admitted]
    workload = read_valid(with_field(WORKLOAD, "status.conditions", conditions))
    admission = workload.admission
    assert admission is not None
    assert (admission.reserved_at, admission.started_at, admission.pending_checks) == (20.0, 25.0, ())
    assert workload.max_duration == 60


@pytest.mark.parametrize(
    ("usage", "requests"),
    [
        ({"cpu": "6"}, {"cpu": 1_500, "nvidia.com/gpu": 2}),
        ({"cpu": "8"}, {"cpu": 2_000, "nvidia.com/gpu": 2}),
        ({"cpu": "8003m"}, {"cpu": 2_000, "nvidia.com/gpu": 2}),
        ({"nvidia.com/gpu": "4", "memory": "8"}, {"cpu": 1_500, "nvidia.com/gpu": 1}),
    ],
)
def test_an_admitted_pod_counts_on_its_node_like_its_quota(usage: Json, requests: dict[str, int]) -> None:
    """Resources that the quota counts have the quota's amount; other requests of the template are added."""
    obj = with_field(WORKLOAD, "status.admission.podSetAssignments.0.resourceUsage", usage)
    [pod_set] = read_valid(obj).pod_sets
    assert pod_set.requests_on_node == requests
    assert all(isinstance(amount, int) for amount in pod_set.requests_on_node.values())
    assert pod_set.requests == {"cpu": 1_500, "nvidia.com/gpu": 2}
    [pending] = read_valid(with_field(obj, "status.conditions", [])).pod_sets
    assert pending.requests_on_node == pending.requests


def test_without_quota_there_is_no_admission() -> None:
    workload = read_valid(with_field(WORKLOAD, "status.conditions", []))
    assert (workload.admission, workload.eviction, dict(workload.usage)) == (None, None, {})


def test_required_affinity() -> None:
    terms = [{"matchExpressions": [{"key": "type", "operator": "In", "values": ["a"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    path = "spec.podSets.0.template.spec.affinity"
    workload = read_valid(with_field(WORKLOAD, path, {"nodeAffinity": required}))
    assert workload.pod_sets[0].required_terms == (NodeSelectorTerm((Requirement("type", "In", ("a",)),)),)


@pytest.mark.parametrize(
    ("path", "value", "reported"),
    [
        ("spec.podSets.0.template.spec.containers.0.resources.requests.cpu", "lots", "requests.cpu"),
        (
            "spec.podSets.0.template.spec.nodeSelector",
            [],
            "spec.podSets[0].template.spec.nodeSelector: not an object: []",
        ),
        ("spec.podSets.0.count", -1, "spec.podSets[0].count"),
        ("spec.podSets.0.count", "four", "spec.podSets[0].count"),
        ("spec.podSets.0.count", True, "spec.podSets[0].count"),
        ("spec.podSets.0.count", 1 << 31, "spec.podSets[0].count: not between 0 and 2147483647: 2147483648"),
    ],
)
def test_unknown_requests_make_a_workload_unreadable(path: str, value: object, reported: str) -> None:
    """Unknown requests do not count as 0."""
    result = read_workload(with_field(WORKLOAD, path, value))
    assert result.workload is None
    assert any(reported in problem for problem in result.problems)


PATHS = [
    "metadata",
    "spec",
    "status",
    *(f"spec.{name}" for name in WORKLOAD["spec"]),
    *(f"status.{name}" for name in WORKLOAD["status"]),
]


@given(st.sampled_from(["spec.podSets.0.template", "spec.podSets.0.template.spec", *PATHS]), JSON_VALUES)
def test_reading_pod_sets_again_gives_the_same_values_and_problems(path: str, value: object) -> None:
    obj = with_field(WORKLOAD, path, value)
    first, again = read_workload(obj), read_workload(copy.deepcopy(obj))
    assert again.problems == first.problems
    assert (None if again.workload is None else again.workload.pod_sets) == (
        None if first.workload is None else first.workload.pod_sets
    )


def test_equal_pod_sets_are_one_value_and_large_ones_are_not_cached() -> None:
    pending = {name: value for name, value in WORKLOAD.items() if name != "status"}
    first, again = read_valid(pending), read_valid(copy.deepcopy(pending))
    assert first.pod_sets is again.pod_sets
    large = with_field(pending, "spec.podSets.0.template.spec.nodeSelector", {"type": "x" * 10_000})
    assert read_valid(large).pod_sets == read_valid(large).pod_sets
    assert read_valid(large).pod_sets is not read_valid(large).pod_sets


@given(st.sampled_from(PATHS), JSON_VALUES)
def test_no_object_makes_the_reader_raise(path: str, value: object) -> None:
    read_workload(with_field(WORKLOAD, path, value))


def test_a_pod_set_may_have_as_many_pods_as_a_32_bit_number_counts() -> None:
    assert read_valid(with_field(WORKLOAD, "spec.podSets.0.count", (1 << 31) - 1)).pod_sets[0].pods == (1 << 31) - 1


def test_absent_fields_of_a_workload_have_defaults() -> None:
    """Without a priority it is 0, a pod set has one pod, and an admission has as many pods as the pod set.

    A pod set without a name is called main. An admission of an unknown pod set has one pod.
    """
    obj = copy.deepcopy(WORKLOAD)
    del obj["spec"]["priority"]
    assert read_valid(obj).priority == 0
    for count, pods in ((None, 4), (3, 3)):
        assignment = obj["status"]["admission"]["podSetAssignments"][0]
        assignment.pop("count", None)
        assignment |= {} if count is None else {"count": count}
        admission = read_valid(obj).admission
        assert admission is not None
        assert [pod_set.pods for pod_set in admission.pod_sets] == [pods]
    obj["status"]["admission"]["podSetAssignments"] = [{"name": "gone"}]
    admission = read_valid(obj).admission
    assert admission is not None
    assert [(pod_set.name, pod_set.pods) for pod_set in admission.pod_sets] == [("gone", 1)]
    for field in ("count", "minCount"):
        del obj["spec"]["podSets"][0][field]
    obj["spec"]["podSets"] = [obj["spec"]["podSets"][0] | {"name": name} for name in ("a", "", None)]
    pod_sets = read_valid(obj).pod_sets
    assert [(pod_set.name, pod_set.pods) for pod_set in pod_sets] == [("a", 1), ("main", 1), ("main", 1)]
    workload = read_valid({"spec": {}})
    assert (workload.created_at, workload.active, workload.reclaimable_pods) == (0.0, True, {})


@pytest.mark.parametrize("active", [True, False])
def test_a_workload_may_be_inactive(active: bool) -> None:
    assert read_valid(with_field(WORKLOAD, "spec.active", active)).active is active


@pytest.mark.parametrize(("count", "pods", "problems"), [(2, 2, 0), (0, 0, 0), (None, 0, 0), (-1, 0, 1), ("2", 0, 1)])
def test_reclaimable_pods_without_a_number_are_none(count: object, pods: int, problems: int) -> None:
    obj = with_field(WORKLOAD, "status.reclaimablePods", [{"name": "main", "count": count}])
    assert read_valid(obj).reclaimable_pods == {"main": pods}
    assert len(read_workload(obj).problems) == problems


@pytest.mark.parametrize("status", ["True", "False", "Unknown", ""])
def test_only_true_conditions_count(status: str) -> None:
    """A condition without a time holds since 1970."""
    conditions = [{"type": kind, "status": status} for kind in ("QuotaReserved", "Evicted", "Finished")]
    result = read_workload(with_field(WORKLOAD, "status.conditions", conditions))
    workload = result.workload
    assert workload is not None
    is_true = status == "True"
    assert result.finished is is_true
    assert workload.eviction == (Eviction("", 0.0) if is_true else None)
    assert (None if workload.admission is None else workload.admission.reserved_at) == (0.0 if is_true else None)


def test_tolerations_may_compare_numbers() -> None:
    tolerations = [{"key": "age", "operator": operator, "value": "9"} for operator in ("Gt", "Lt")]
    workload = read_valid(with_field(WORKLOAD, "spec.podSets.0.template.spec.tolerations", tolerations))
    assert workload.pod_sets[0].tolerations == (Toleration("age", "Gt", "9"), Toleration("age", "Lt", "9"))


@pytest.mark.parametrize(
    ("owners", "single_pod", "problems"),
    [
        ([{"apiVersion": "v1", "kind": "Pod"}], True, ()),
        ([{"apiVersion": "batch/v1", "kind": "Job"}], False, ()),
        ("Pod", False, ("metadata.ownerReferences: not a list: 'Pod'",)),
    ],
)
def test_invalid_owners_are_reported_and_count_as_none(
    owners: object, single_pod: bool, problems: tuple[str, ...]
) -> None:
    obj = with_field(WORKLOAD, "metadata.ownerReferences", owners)
    assert read_valid(obj).owned_by_single_pod is single_pod
    assert [problem for problem in read_workload(obj).problems if "template" not in problem] == [*problems]


def nested_list(depth: int) -> list[object]:
    """Return a list of lists that is nested this deeply."""
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value", [object(), "\ud800", nested_list(100_000)], ids=["no JSON", "no Unicode", "deeply nested"]
)
def test_an_unencodable_value_does_not_make_a_pod_set_unreadable(value: object) -> None:
    """The pod set does not depend on that value."""
    expected = read_valid(WORKLOAD).pod_sets
    obj = copy.deepcopy(WORKLOAD)
    obj["spec"]["podSets"][0]["template"]["metadata"] = {"managedFields": value}
    assert read_valid(obj).pod_sets == expected


def test_a_pod_set_requests_all_resources_but_the_number_of_pods() -> None:
    obj = copy.deepcopy(WORKLOAD)
    requests = {"cpu": "1", "example.com/device": "2", "pods": "3", "rdma/hca": "4"}
    obj["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"]["requests"] = requests
    [pod_set] = read_valid(obj).pod_sets
    assert pod_set.requests == {"cpu": 1000, "example.com/device": 2, "rdma/hca": 4}


def test_the_devices_of_claims_count_with_those_of_extended_resources() -> None:
    """A DeviceClass may have an extended resource of its own, which a pod requests without a claim (KEP-5004)."""
    obj = with_field(WORKLOAD, "spec.podSets.0.deviceRequests", {"gpu": 2, "nic": 3000, "invalid": "x"})
    implicit = {"requests": {"deviceclass.resource.kubernetes.io/gpu": "4"}}
    obj = with_field(obj, "spec.podSets.0.template.spec.containers.0.resources", implicit)
    result = read_workload(obj, resources=parse_resource_settings({"deviceClassMappings": [
        {"name": "gpus", "deviceClassNames": ["gpu"]}, {"name": "nics", "deviceClassNames": ["nic"]},
    ]}))  # fmt: skip
    assert result.workload is not None
    [pod_set] = result.workload.pod_sets
    assert {name: pod_set.requests[name] for name in ("gpus", "nics")} == {"gpus": 6, "nics": 3000}
    assert pod_set.requests["deviceclass.resource.kubernetes.io/invalid"] == 0
    assert [problem for problem in result.problems if "deviceRequests.invalid" in problem]


def test_requests_that_count_as_others_remain_requests_on_nodes() -> None:
    """Before and after the admission: only quotas use the outputs of a transformation."""
    setting = {"excludeResourcePrefixes": ["cpu"], "transformations": [
        {"input": "nvidia.com/gpu", "strategy": "Replace", "outputs": {"credits": "250m"}}
    ]}  # fmt: skip
    resources = parse_resource_settings(setting)
    usage = {"flavors": {"credits": "spot"}, "resourceUsage": {"credits": "4"}}
    admission = {"clusterQueue": "q", "podSetAssignments": [{"name": "main", "count": 4, **usage}]}
    for obj in (with_field(WORKLOAD, "status", {}), with_field(WORKLOAD, "status.admission", admission)):
        workload = read_workload(obj, resources=resources).workload
        assert workload is not None
        (pod_set,) = workload.pod_sets
        assert (pod_set.requests, pod_set.requests_on_node) == ({"credits": 1}, {"cpu": 1500, "nvidia.com/gpu": 2})
    assert dict(workload.usage) == {FlavorResource("spot", "credits"): 3}


def test_an_output_that_is_added_to_a_request_does_not_count_on_nodes() -> None:
    """Also after the admission, which records the sum."""
    resources = parse_resource_settings({"transformations": [{"input": "nvidia.com/gpu", "outputs": {"cpu": "1"}}]})
    assignment = {"name": "main", "count": 4, "flavors": {"cpu": "spot"}, "resourceUsage": {"cpu": "14"}}
    admission = {"clusterQueue": "q", "podSetAssignments": [assignment]}
    workload = read_workload(with_field(WORKLOAD, "status.admission", admission), resources=resources).workload
    assert workload is not None
    (pod_set,) = workload.pod_sets
    assert (pod_set.requests["cpu"], pod_set.requests_on_node["cpu"]) == (3500, 1500)
