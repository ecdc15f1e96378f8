"""Kueue's own cases, recorded beside the project: their objects as our values, read by path; nothing is decided here.

Strings are quantities; amounts of usage are in milli-CPU and in units; {"t": s} is a time in seconds.
"""

from __future__ import annotations

import functools
import json
from typing import Any

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

BOOST = "kueue.x-k8s.io/priority-boost"


@functools.cache
def table(name: str) -> Json:
    """A file of cases; an empty one where the data are absent."""
    file = CASES / f"kueue_{name}_cases.json"
    return json.loads(file.read_text()) if file.exists() else {"cases": [], "fixtures": {}}


def cases_of(name: str, test: str) -> Any:
    """Parametrize with the cases of one upstream test."""
    found = [pytest.param(case, id=case["name"]) for case in table(name)["cases"] if case["test"] == test]
    return pytest.mark.parametrize("case", found or [pytest.param({}, marks=pytest.mark.skip(reason=ABSENT))])


def part(one: Json, name: str) -> Json:
    """An object within another; an empty one where it is absent."""
    return one.get(name) or {}


# --- queues


def cluster_queue(one: Json) -> ClusterQueue:
    preemption, fungibility = part(one, "preemption"), part(one, "flavorFungibility")
    borrow = part(preemption, "borrowWithinCohort")
    return ClusterQueue(
        one["name"],
        groups(one.get("resourceGroups")),
        one.get("cohort", ""),
        one.get("queueingStrategy", "BestEffortFIFO"),
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
        float(one.get("fairWeight", 1)),
        one.get("stopPolicy", "None"),
        _namespaces(one.get("namespaceSelector")),
        (
            *(AdmissionCheckStrategyRule(check) for check in one.get("admissionChecks") or ()),
            *(
                AdmissionCheckStrategyRule(check["name"], frozenset(check.get("onFlavors") or ()))
                for check in one.get("admissionChecksStrategy") or ()
            ),
        ),
        one.get("admissionMode") == "UsageBasedAdmissionFairSharing",
    )


def cohort(one: Json) -> Cohort:
    return Cohort(
        one["name"], one.get("parent", ""), groups(one.get("resourceGroups")), float(one.get("fairWeight", 1))
    )


def groups(given: list[list[Json]] | None) -> tuple[ResourceGroup, ...]:
    return tuple(resource_group(*map(_flavor_quotas, flavors)) for flavors in given or () if flavors)


def _flavor_quotas(one: Json) -> FlavorQuotas:
    def amount(resource: Json, field: str) -> int | None:
        return amount_from_quantity(resource["name"], resource[field]) if field in resource else None

    return FlavorQuotas(
        one["name"],
        tuple(
            (
                resource["name"],
                ResourceQuota(
                    amount_from_quantity(resource["name"], resource["nominalQuota"]),
                    amount(resource, "borrowingLimit"),
                    amount(resource, "lendingLimit"),
                ),
            )
            for resource in one["resources"]
        ),
    )


def _namespaces(selector: Json | None) -> tuple[Requirement, ...]:
    given: Json = selector or {}
    labels = [Requirement(key, "In", (value,)) for key, value in part(given, "matchLabels").items()]
    expressions: list[Json] = given.get("matchExpressions") or []
    return (*labels, *(Requirement(one["key"], one["operator"], tuple(one.get("values") or ())) for one in expressions))


def local_queue(one: Json) -> LocalQueue:
    weight = float(part(one, "fairSharing").get("weight", 1))
    return LocalQueue(one["namespace"], one["name"], one["clusterQueue"], one.get("stopPolicy", "None"), weight)


def flavor(one: Json) -> ResourceFlavor:
    return ResourceFlavor(
        one["name"],
        part(one, "nodeLabels"),
        read_taints({"taints": one.get("nodeTaints")}),
        read_tolerations({"tolerations": one.get("tolerations")}, comparisons=True),
        one.get("topologyName", ""),
    )


# --- workloads


def usage(given: dict[str, int | str] | None) -> dict[FlavorResource, int]:
    """The keys are "flavor/resource", and the resource may have a slash too; strings are quantities."""
    found: dict[FlavorResource, int] = {}
    for key, value in (given or {}).items():
        name, resource = key.split("/", 1)
        found[FlavorResource(name, resource)] = value if isinstance(value, int) else resource_value(resource, value)
    return found


def flat(found: Any) -> dict[str, int]:
    """Amounts by flavor and resource, with the keys of the cases."""
    return {f"{key.flavor}/{key.resource}": amount for key, amount in found.items()}


def workload(one: Json, *, boosts: bool = False) -> Workload:
    """`boosts`: the gate PriorityBoost."""
    pod_sets = tuple(pod_set(each) for each in one["podSets"])
    found = {each["type"]: each for each in one.get("conditions") or () if each["status"] == "True"}
    evicted = found.get("Evicted")
    return Workload(
        one.get("namespace", ""),
        one["name"],
        pod_sets,
        one.get("uid", ""),
        one.get("queue", ""),
        one.get("priority", 0) + (_boost(one) if boosts else 0),
        time_of(one.get("creation")),
        _admission(one.get("quotaReserved"), pod_sets),
        None if evicted is None else Eviction(evicted.get("reason", ""), time_of(evicted.get("lastTransitionTime"))),
        preemption_gated=bool(one.get("preemptionGates")),
        unhealthy_nodes=tuple(one.get("unhealthyNodes") or ()),
    )


def _boost(one: Json) -> int:
    text: str = part(one, "annotations").get(BOOST, "0")
    return int(text) if text.lstrip("-").isdecimal() else 0


def time_of(given: Json | None) -> float:
    return float(given["t"]) if given else 0.0


def pod_set(one: Json) -> PodSet:
    containers: list[Json] = one.get("containers") or [one]
    requests: dict[str, int] = {}
    for container in containers:
        for name, quantity in part(container, "requests").items():
            requests[name] = requests.get(name, 0) + resource_value(name, quantity)
    terms = one.get("requiredNodeSelectorTerms")
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms} if terms else None}
    spec: Json = {"nodeSelector": one.get("nodeSelector"), "affinity": {"nodeAffinity": required}}
    return PodSet(
        one.get("name", "main"),
        one.get("count", 1),
        requests,
        one.get("minCount"),
        read_node_selector(spec),
        read_required_terms(spec),
        read_tolerations({"tolerations": one.get("tolerations")}, comparisons=True),
        topology_request(one.get("topologyRequest")),
    )


def topology_request(given: Json | None) -> TopologyRequest | None:
    if given is None:
        return None
    request = read_topology_request(given)
    return TopologyRequest(request, given.get("podSetGroupName", ""), request != PodSetTopologyRequest())


def assignment(one: Json) -> TopologyAssignment:
    domains = [TopologyDomainAssignment(tuple(domain["values"]), domain.get("count", 0)) for domain in one["domains"]]
    return TopologyAssignment(tuple(one.get("levels", ())), tuple(domains))


def _admission(given: Json | None, pod_sets: tuple[PodSet, ...]) -> Admission | None:
    """Where the usage is "podSet requests x count" it is that."""
    if given is None:
        return None
    specs = {one.name: one for one in pod_sets}
    sets: list[PodSetAdmission] = []
    for one in given.get("podSetAssignments") or ():
        count: int = one.get("count", specs[one["name"]].pods)
        if isinstance(one.get("resourceUsage"), str):
            amounts = {name: amount * count for name, amount in specs[one["name"]].requests.items()}
        else:
            amounts = {name: resource_value(name, quantity) for name, quantity in part(one, "resourceUsage").items()}
        place = assignment(one["topologyAssignment"]) if one.get("topologyAssignment") else None
        delayed = one.get("delayedTopologyRequest", "")
        sets.append(PodSetAdmission(one["name"], part(one, "flavors"), amounts, count, place, delayed))
    return Admission(given["clusterQueue"], tuple(sets), time_of(given.get("at")))
