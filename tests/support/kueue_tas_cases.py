"""Kueue's own cases of topology-aware placement, recorded beside the project: their inputs as values of ours."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from support.kubelet_cases import CASES, Json, given
from support.kueue_cases import assignment
from zonewise_scheduler.nodes.filters.constraints import read_constraints
from zonewise_scheduler.nodes.filters.info_table import NodeInfoTable
from zonewise_scheduler.nodes.node.node_info import read_node_info, read_pod_info
from zonewise_scheduler.quota.api.workload_reader import owned_by_single_pod
from zonewise_scheduler.quota.topology.request_reader import read_preferred_terms, read_topology_request
from zonewise_scheduler.quota.topology.types import HOSTNAME, TopologyAssignment, TopologyDomainAssignment
from zonewise_scheduler.tas.placement.flavor_assignments import TASAssignments, find_topology_assignments_for_flavor
from zonewise_scheduler.tas.replacement import find_replacement_assignments
from zonewise_scheduler.tas.snapshot.domain_states import DomainStates
from zonewise_scheduler.tas.snapshot.flavor_snapshot import NodeTASFlavorSnapshot, nodes_matching_flavor
from zonewise_scheduler.tas.tree.assignment_parameters import TopologyAssignmentParameters
from zonewise_scheduler.tas.tree.tas_usage import TASUsage, with_assignment_usage
from zonewise_scheduler.tas.tree.topology_tree import TopologyTree, topology_tree_from_nodes, topology_tree_from_paths
from zonewise_scheduler.tas.types import TASFeatureGates, TASPodSetRequests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from zonewise_scheduler.tas.snapshot.assignment_failure import TopologyAssignmentFailure

NAME = "default"
"""The Topology's, in messages."""

FINISHED = {"Succeeded", "Failed"}
BEFORE = ("priorOwnUsage", "priorFlavorUsage", "aggregatedDomainUsages")


@functools.cache
def tas_cases() -> tuple[Json, ...]:
    """The cases; none where the data are absent."""
    file = CASES / "kueue_tas_cases.json"
    return tuple(json.loads(file.read_text())["cases"]) if file.exists() else ()


def cases_of(*tests: str) -> dict[str, Json]:
    """The cases of some of Kueue's tests, by id."""
    return {case["id"]: case for case in tas_cases() if case["test"] in tests}


# --- values


def as_case(one: TopologyAssignment) -> Json:
    """An assignment in the notation of the cases."""
    domains = [{"count": domain.pods, "values": list(domain.values)} for domain in one.domains]
    return {"domains": domains, "levels": list(one.levels)}


def options_of(gates: Mapping[str, bool]) -> TASFeatureGates:
    return TASFeatureGates(
        gates.get("TASProfileMixed", True),
        gates.get("TASBalancedPlacement", False),
        gates.get("TASRespectNodeAffinityPreferred", False),
        gates.get("ElasticJobsViaWorkloadSlicesWithTAS", False),
    )


def pod_set_of(one: Json) -> TASPodSetRequests:
    request = one["topologyRequest"]
    spec = {
        "nodeSelector": one.get("nodeSelector"),
        "tolerations": one.get("tolerations"),
        "affinity": {"nodeAffinity": one.get("nodeAffinity")},
    }
    before = one.get("previousAssignment")
    return TASPodSetRequests(
        one["name"],
        one["count"],
        one["singlePodRequests"],
        None if request is None else read_topology_request(request),
        read_constraints({"spec": spec}),
        read_preferred_terms(spec),
        one.get("podSetGroupName") or "",
        None if before is None else assignment(before),
    )


def nodes_of(case: Json) -> NodeInfoTable:
    """The nodes, with the pods on them that still run."""
    held: dict[str, list[Any]] = {}
    for pod in case["input"].get("pods", []):
        if pod["phase"] not in FINISHED:
            spec = {"containers": [{"name": "c", "resources": {"requests": pod["requests"]}}]}
            held.setdefault(pod["nodeName"], []).append(read_pod_info({"spec": spec}))
    return NodeInfoTable(
        [
            read_node_info(
                {
                    "metadata": {"name": node["name"], "labels": node["labels"]},
                    "spec": {"taints": node.get("taints"), "unschedulable": node.get("unschedulable")},
                    "status": {"allocatable": node.get("allocatable")},
                },
                held.get(node["name"], ()),
            )
            for node in case["input"]["nodes"]
        ]
    )


def ready_of(case: Json) -> NDArray[np.bool_]:
    """Which of the nodes are ready; (nodes,)."""
    return np.array([node.get("ready", True) for node in case["input"]["nodes"]], np.bool_)


def tree_of_case(case: Json, nodes: NodeInfoTable) -> TopologyTree:
    labels = case["input"].get("flavorNodeLabels", {})
    return topology_tree_from_nodes(
        NAME, case["input"]["levels"], nodes, nodes_matching_flavor(nodes, labels) & ready_of(case)
    )


def used_of(case: Json, tree: TopologyTree) -> TASUsage:
    """What was booked before: of the same flavor, or of all that share the nodes where leaves are nodes."""
    used: TASUsage = {}
    for field in BEFORE[1:] if case["input"]["levels"][-1] == HOSTNAME else BEFORE[:1]:
        for one in case["input"].get(field) or ():
            assignment = TopologyAssignment(
                tree.assignment_levels, (TopologyDomainAssignment(tuple(one["values"]), one["count"]),)
            )
            used = with_assignment_usage(tree, used, assignment, one["singlePodRequests"])
    return used


# --- decisions


def decide(case: Json) -> TASAssignments | TopologyAssignmentFailure:
    """What we say to a whole case."""
    nodes = nodes_of(case)
    tree = tree_of_case(case, nodes)
    supply = NodeTASFlavorSnapshot(tree, nodes, used_of(case, tree))
    pod_sets = [pod_set_of(one) for one in case["input"]["podSets"]]
    gates = given(case["input"].get("featureGates"))
    workload: Json = given(case["input"].get("workload"))
    failed: list[str] = workload.get("unhealthyNodes", [])
    if not failed:
        return find_topology_assignments_for_flavor(supply, pod_sets, options_of(gates))
    placed: list[Json] = workload["admission"]["podSetAssignments"]
    assignments: dict[str, TopologyAssignment] = {one["name"]: assignment(one["topologyAssignment"]) for one in placed}
    if gates.get("SkipReassignmentForPodOwnedWorkloads", True) and owned_by_single_pod(metadata_of(workload)):
        return TASAssignments(assignments)
    return find_replacement_assignments(supply, pod_sets, assignments, failed[0], options_of(gates))


def metadata_of(workload: Json) -> Json:
    owners = [
        {"apiVersion": "/".join(filter(None, (one["group"], one["version"]))), "kind": one["kind"]}
        for one in workload.get("ownerReferences") or ()
    ]
    return {"ownerReferences": owners, "annotations": workload.get("annotations")}


# --- single steps


def level_of(case: Json) -> tuple[list[str], TopologyTree, DomainStates]:
    """The names of the domains of a step's only level, in its order, the level, and what they take."""
    domains = sorted(case["input"]["domains"], key=lambda domain: domain["levelValues"])
    tree = topology_tree_from_paths(NAME, ["level"], [domain["levelValues"] for domain in domains])
    fields = ("podCount", "sliceCount", "podCountWithLeader", "sliceCountWithLeader", "leaderCount", "affinityScore")
    counts = DomainStates(*(np.array([domain[field] for domain in domains], np.int64) for field in fields))
    return [domain["id"] for domain in domains], tree, counts


def shape_of_case(case: Json) -> TopologyAssignmentParameters:
    """What a step asks for."""
    entered = case["input"]
    size = entered.get("sliceSize", 1)
    options = options_of(given(entered.get("featureGates")))
    unconstrained = entered.get("unconstrained", False)
    return TopologyAssignmentParameters(
        entered.get("workerCount", entered.get("sliceCount", 0)) * size,
        entered.get("leaderCount", 0) > 0,
        0,
        0,
        size,
        {},
        (),
        required=False,
        unconstrained=unconstrained,
        least_free_capacity=unconstrained and options.profile_mixed,
        by_affinity_score=options.respect_node_affinity_preferred,
        balanced=True,
    )
