"""Kueue's own test cases, recorded beside the project, with their objects as the project's values.

Strings are quantities. Amounts of usage are in milli-CPU and in units. {"t": s} is a time in seconds.
"""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

import pytest

from support.kubelet_cases import ABSENT, CASES, Json
from zonewise_common.k8s.labels import Requirement
from zonewise_common.k8s.nodeaffinity import read_node_selector, read_required_terms
from zonewise_common.k8s.taints import read_taints, read_tolerations
from zonewise_scheduler.quota.api.amount import amount_from_quantity, resource_value
from zonewise_scheduler.quota.api.queue_types import (
    AdmissionCheckStrategyRule,
    ClusterQueue,
    ClusterQueuePreemption,
    Cohort,
    FlavorFungibility,
    LocalQueue,
    ResourceFlavor,
)
from zonewise_scheduler.quota.api.resource_quota import (
    FlavorQuotas,
    FlavorResource,
    ResourceGroup,
    ResourceQuota,
    resource_group,
)
from zonewise_scheduler.quota.api.workload_types import (
    Admission,
    Eviction,
    PodSet,
    PodSetAdmission,
    TopologyRequest,
    Workload,
)
from zonewise_scheduler.quota.topology.request_reader import read_topology_request
from zonewise_scheduler.quota.topology.types import PodSetTopologyRequest, TopologyAssignment, TopologyDomainAssignment

if TYPE_CHECKING:
    from collections.abc import Mapping

PRIORITY_BOOST_ANNOTATION = "kueue.x-k8s.io/priority-boost"


@functools.cache
def table(name: str) -> Json:
    """Return a file of cases; an empty object if the data are absent."""
    file = CASES / f"kueue_{name}_cases.json"
    return json.loads(file.read_text()) if file.exists() else {"cases": [], "fixtures": {}}


def cases_of(name: str, test: str) -> Any:
    """Parametrize a test with the cases of one upstream test."""
    params = [pytest.param(case, id=case["name"]) for case in table(name)["cases"] if case["test"] == test]
    return pytest.mark.parametrize("case", params or [pytest.param({}, marks=pytest.mark.skip(reason=ABSENT))])


def part(obj: Json, name: str) -> Json:
    """Return a nested object; an empty one if it is absent."""
    return obj.get(name) or {}


# --- queues


def cluster_queue(obj: Json) -> ClusterQueue:
    preemption, fungibility = part(obj, "preemption"), part(obj, "flavorFungibility")
    borrow = part(preemption, "borrowWithinCohort")
    return ClusterQueue(
        obj["name"],
        resource_groups(obj.get("resourceGroups")),
        obj.get("cohort", ""),
        obj.get("queueingStrategy", "BestEffortFIFO"),
        ClusterQueuePreemption(
            preemption.get("withinClusterQueue", "" if preemption else "Never"),
            preemption.get("reclaimWithinCohort", "" if preemption else "Never"),
            borrow.get("policy", "Never"),
            borrow.get("maxPriorityThreshold"),
        ),
        FlavorFungibility(
            fungibility.get("whenCanBorrow", "MayStopSearch"),
            fungibility.get("whenCanPreempt", "TryNextFlavor"),
            fungibility.get("preference", "BorrowingOverPreemption"),
        ),
        float(obj.get("fairWeight", 1)),
        obj.get("stopPolicy", "None"),
        _namespace_selector(obj.get("namespaceSelector")),
        (
            *(AdmissionCheckStrategyRule(check) for check in obj.get("admissionChecks") or ()),
            *(
                AdmissionCheckStrategyRule(check["name"], frozenset(check.get("onFlavors") or ()))
                for check in obj.get("admissionChecksStrategy") or ()
            ),
        ),
        obj.get("admissionMode") == "UsageBasedAdmissionFairSharing",
    )


def cohort(obj: Json) -> Cohort:
    groups = resource_groups(obj.get("resourceGroups"))
    return Cohort(obj["name"], obj.get("parent", ""), groups, float(obj.get("fairWeight", 1)))


def resource_groups(groups: list[list[Json]] | None) -> tuple[ResourceGroup, ...]:
    return tuple(resource_group(*map(_flavor_quotas, flavors)) for flavors in groups or () if flavors)


def _flavor_quotas(obj: Json) -> FlavorQuotas:
    def amount(resource: Json, field: str) -> int | None:
        return amount_from_quantity(resource["name"], resource[field]) if field in resource else None

    return FlavorQuotas(
        obj["name"],
        tuple(
            (
                resource["name"],
                ResourceQuota(
                    amount_from_quantity(resource["name"], resource["nominalQuota"]),
                    amount(resource, "borrowingLimit"),
                    amount(resource, "lendingLimit"),
                ),
            )
            for resource in obj["resources"]
        ),
    )


def _namespace_selector(selector: Json | None) -> tuple[Requirement, ...]:
    selector = selector or {}
    labels = [Requirement(key, "In", (value,)) for key, value in part(selector, "matchLabels").items()]
    expressions: list[Json] = selector.get("matchExpressions") or []
    return (
        *labels,
        *(
            Requirement(expression["key"], expression["operator"], tuple(expression.get("values") or ()))
            for expression in expressions
        ),
    )


def local_queue(obj: Json) -> LocalQueue:
    weight = float(part(obj, "fairSharing").get("weight", 1))
    return LocalQueue(obj["namespace"], obj["name"], obj["clusterQueue"], obj.get("stopPolicy", "None"), weight)


def flavor(obj: Json) -> ResourceFlavor:
    return ResourceFlavor(
        obj["name"],
        part(obj, "nodeLabels"),
        read_taints({"taints": obj.get("nodeTaints")}),
        read_tolerations({"tolerations": obj.get("tolerations")}, comparisons=True),
        obj.get("topologyName", ""),
    )


# --- workloads


def usage(amounts: dict[str, int | str] | None) -> dict[FlavorResource, int]:
    """Return usage by flavor and resource.

    Keys are "flavor/resource", and a resource may contain a slash; strings are quantities.
    """
    by_key: dict[FlavorResource, int] = {}
    for key, value in (amounts or {}).items():
        name, resource = key.split("/", 1)
        by_key[FlavorResource(name, resource)] = value if isinstance(value, int) else resource_value(resource, value)
    return by_key


def flat_usage(amounts: Mapping[FlavorResource, int]) -> dict[str, int]:
    """Return amounts by flavor and resource with the keys of the cases."""
    return {f"{key.flavor}/{key.resource}": amount for key, amount in amounts.items()}


def workload(obj: Json, *, priority_boost: bool = False) -> Workload:
    """Return a Workload; `priority_boost`: whether the feature gate PriorityBoost is on."""
    pod_sets = tuple(map(pod_set, obj["podSets"]))
    conditions = {
        condition["type"]: condition for condition in obj.get("conditions") or () if condition["status"] == "True"
    }
    evicted = conditions.get("Evicted")
    return Workload(
        obj.get("namespace", ""),
        obj["name"],
        pod_sets,
        obj.get("uid", ""),
        obj.get("queue", ""),
        obj.get("priority", 0) + (_priority_boost(obj) if priority_boost else 0),
        time_of(obj.get("creation")),
        _admission(obj.get("quotaReserved"), pod_sets),
        None if evicted is None else Eviction(evicted.get("reason", ""), time_of(evicted.get("lastTransitionTime"))),
        preemption_gated=bool(obj.get("preemptionGates")),
        unhealthy_nodes=tuple(obj.get("unhealthyNodes") or ()),
    )


def _priority_boost(obj: Json) -> int:
    text: str = part(obj, "annotations").get(PRIORITY_BOOST_ANNOTATION, "0")
    return int(text) if text.lstrip("-").isdecimal() else 0


def time_of(time: Json | None) -> float:
    return float(time["t"]) if time else 0.0


def pod_set(obj: Json) -> PodSet:
    containers: list[Json] = obj.get("containers") or [obj]
    requests: dict[str, int] = {}
    for container in containers:
        for name, quantity in part(container, "requests").items():
            requests[name] = requests.get(name, 0) + resource_value(name, quantity)
    terms = obj.get("requiredNodeSelectorTerms")
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms} if terms else None}
    spec: Json = {"nodeSelector": obj.get("nodeSelector"), "affinity": {"nodeAffinity": required}}
    return PodSet(
        obj.get("name", "main"),
        obj.get("count", 1),
        requests,
        obj.get("minCount"),
        read_node_selector(spec),
        read_required_terms(spec),
        read_tolerations({"tolerations": obj.get("tolerations")}, comparisons=True),
        topology_request(obj.get("topologyRequest")),
    )


def topology_request(obj: Json | None) -> TopologyRequest | None:
    if obj is None:
        return None
    request = read_topology_request(obj)
    return TopologyRequest(request, obj.get("podSetGroupName", ""), request != PodSetTopologyRequest())


def assignment(obj: Json) -> TopologyAssignment:
    domains = [TopologyDomainAssignment(tuple(domain["values"]), domain.get("count", 0)) for domain in obj["domains"]]
    return TopologyAssignment(tuple(obj.get("levels", ())), tuple(domains))


def _admission(obj: Json | None, pod_sets: tuple[PodSet, ...]) -> Admission | None:
    """Return an admission. A usage of "podSet requests x count" means that product."""
    if obj is None:
        return None
    specs = {spec.name: spec for spec in pod_sets}
    admitted: list[PodSetAdmission] = []
    for pods in obj.get("podSetAssignments") or ():
        count: int = pods.get("count", specs[pods["name"]].pods)
        if isinstance(pods.get("resourceUsage"), str):
            amounts = {name: amount * count for name, amount in specs[pods["name"]].requests.items()}
        else:
            amounts = {name: resource_value(name, quantity) for name, quantity in part(pods, "resourceUsage").items()}
        placement = assignment(pods["topologyAssignment"]) if pods.get("topologyAssignment") else None
        delayed = pods.get("delayedTopologyRequest", "")
        admitted.append(PodSetAdmission(pods["name"], part(pods, "flavors"), amounts, count, placement, delayed))
    return Admission(obj["clusterQueue"], tuple(admitted), time_of(obj.get("at")))
