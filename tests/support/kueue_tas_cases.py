"""Recorded cases of Kueue's tests of topology-aware scheduling, with their input as the project's values."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from support.kubelet_cases import CASES, Json, given
from support.kueue_cases import assignment
from support.tas_trees import topology_tree_from_paths
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
from zonewise_scheduler.tas.tree.topology_tree import TopologyTree, topology_tree_from_nodes
from zonewise_scheduler.tas.types import TASFeatureGates, TASPodSetRequests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from zonewise_scheduler.tas.snapshot.assignment_failure import TopologyAssignmentFailure

NAME = "default"
"""The name of the Topology in messages."""

FINISHED = {"Succeeded", "Failed"}
PRIOR_USAGE_FIELDS = ("priorOwnUsage", "priorFlavorUsage", "aggregatedDomainUsages")


@functools.cache
def tas_cases() -> tuple[Json, ...]:
    """Return the cases; empty if the data are absent."""
    file = CASES / "kueue_tas_cases.json"
    return tuple(json.loads(file.read_text())["cases"]) if file.exists() else ()


def cases_of(*tests: str) -> dict[str, Json]:
    """Return the cases of the given Kueue tests, by id."""
    return {case["id"]: case for case in tas_cases() if case["test"] in tests}


# --- values


def as_case(topology_assignment: TopologyAssignment) -> Json:
    """Return an assignment in the notation of the cases."""
    domains = [{"count": domain.pods, "values": list(domain.values)} for domain in topology_assignment.domains]
    return {"domains": domains, "levels": list(topology_assignment.levels)}


def feature_gates_of(gates: Mapping[str, bool]) -> TASFeatureGates:
    return TASFeatureGates(
        gates.get("TASProfileMixed", True),
        gates.get("TASBalancedPlacement", False),
        gates.get("TASRespectNodeAffinityPreferred", False),
        gates.get("ElasticJobsViaWorkloadSlicesWithTAS", False),
    )


def pod_set_of(pod_set: Json) -> TASPodSetRequests:
    request = pod_set["topologyRequest"]
    spec = {
        "nodeSelector": pod_set.get("nodeSelector"),
        "tolerations": pod_set.get("tolerations"),
        "affinity": {"nodeAffinity": pod_set.get("nodeAffinity")},
    }
    previous = pod_set.get("previousAssignment")
    return TASPodSetRequests(
        pod_set["name"],
        pod_set["count"],
        pod_set["singlePodRequests"],
        None if request is None else read_topology_request(request),
        read_constraints({"spec": spec}),
        read_preferred_terms(spec),
        pod_set.get("podSetGroupName") or "",
        None if previous is None else assignment(previous),
    )


def nodes_of(case: Json) -> NodeInfoTable:
    """Return the nodes with their running pods."""
    pods_by_node: dict[str, list[Any]] = {}
    for pod in case["input"].get("pods", []):
        if pod["phase"] not in FINISHED:
            spec = {"containers": [{"name": "c", "resources": {"requests": pod["requests"]}}]}
            pods_by_node.setdefault(pod["nodeName"], []).append(read_pod_info({"spec": spec}))
    return NodeInfoTable(
        [
            read_node_info(
                {
                    "metadata": {"name": node["name"], "labels": node["labels"]},
                    "spec": {"taints": node.get("taints"), "unschedulable": node.get("unschedulable")},
                    "status": {"allocatable": node.get("allocatable")},
                },
                pods_by_node.get(node["name"], ()),
            )
            for node in case["input"]["nodes"]
        ]
    )


def ready_of(case: Json) -> NDArray[np.bool_]:
    """Return which nodes are ready. Shape: (nodes,)."""
    return np.array([node.get("ready", True) for node in case["input"]["nodes"]], np.bool_)


def tree_of_case(case: Json, nodes: NodeInfoTable) -> TopologyTree:
    labels = case["input"].get("flavorNodeLabels", {})
    return topology_tree_from_nodes(
        NAME, case["input"]["levels"], nodes, nodes_matching_flavor(nodes, labels) & ready_of(case)
    )


def prior_usage_of(case: Json, tree: TopologyTree) -> TASUsage:
    """Return the prior usage of the flavor, or of all flavors with common nodes if leaves are nodes."""
    usage: TASUsage = {}
    for field in PRIOR_USAGE_FIELDS[1:] if case["input"]["levels"][-1] == HOSTNAME else PRIOR_USAGE_FIELDS[:1]:
        for domain_usage in case["input"].get(field) or ():
            domain_assignment = TopologyAssignment(
                tree.assignment_levels,
                (TopologyDomainAssignment(tuple(domain_usage["values"]), domain_usage["count"]),),
            )
            usage = with_assignment_usage(tree, usage, domain_assignment, domain_usage["singlePodRequests"])
    return usage


# --- decisions


def replay(case: Json) -> TASAssignments | TopologyAssignmentFailure:
    """Return the project's result for a whole case."""
    nodes = nodes_of(case)
    tree = tree_of_case(case, nodes)
    snapshot = NodeTASFlavorSnapshot(tree, nodes, prior_usage_of(case, tree))
    pod_sets = [pod_set_of(recorded) for recorded in case["input"]["podSets"]]
    gates = given(case["input"].get("featureGates"))
    workload: Json = given(case["input"].get("workload"))
    unhealthy_nodes: list[str] = workload.get("unhealthyNodes", [])
    if not unhealthy_nodes:
        return find_topology_assignments_for_flavor(snapshot, pod_sets, feature_gates_of(gates))
    admitted: list[Json] = workload["admission"]["podSetAssignments"]
    assignments: dict[str, TopologyAssignment] = {
        recorded["name"]: assignment(recorded["topologyAssignment"]) for recorded in admitted
    }
    if gates.get("SkipReassignmentForPodOwnedWorkloads", True) and owned_by_single_pod(metadata_of(workload)):
        return TASAssignments(assignments)
    return find_replacement_assignments(snapshot, pod_sets, assignments, unhealthy_nodes[0], feature_gates_of(gates))


def metadata_of(workload: Json) -> Json:
    owners = [
        {"apiVersion": "/".join(filter(None, (owner["group"], owner["version"]))), "kind": owner["kind"]}
        for owner in workload.get("ownerReferences") or ()
    ]
    return {"ownerReferences": owners, "annotations": workload.get("annotations")}


# --- single steps


def level_of(case: Json) -> tuple[list[str], TopologyTree, DomainStates]:
    """Return the domain ids of a step's only level in order, the tree, and the domains' states."""
    domains = sorted(case["input"]["domains"], key=lambda domain: domain["levelValues"])
    tree = topology_tree_from_paths(NAME, ["level"], [domain["levelValues"] for domain in domains])
    fields = ("podCount", "sliceCount", "podCountWithLeader", "sliceCountWithLeader", "leaderCount", "affinityScore")
    states = DomainStates(*(np.array([domain[field] for domain in domains], np.int64) for field in fields))
    return [domain["id"] for domain in domains], tree, states


def parameters_of_case(case: Json) -> TopologyAssignmentParameters:
    """Return the parameters of a step."""
    step = case["input"]
    slice_size = step.get("sliceSize", 1)
    feature_gates = feature_gates_of(given(step.get("featureGates")))
    unconstrained = step.get("unconstrained", False)
    return TopologyAssignmentParameters(
        step.get("workerCount", step.get("sliceCount", 0)) * slice_size,
        step.get("leaderCount", 0) > 0,
        0,
        0,
        slice_size,
        {},
        (),
        required=False,
        unconstrained=unconstrained,
        least_free_capacity=unconstrained and feature_gates.profile_mixed,
        by_affinity_score=feature_gates.respect_node_affinity_preferred,
        balanced=True,
    )
