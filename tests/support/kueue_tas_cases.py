"""Kueue's own cases of topology-aware placement, recorded beside the project: their inputs as values of ours."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from support.kubelet_cases import CASES, Json, given
from support.kueue_cases import assignment
from zonewise_scheduler.fit.nodes.constraints import read_constraints
from zonewise_scheduler.fit.nodes.info import read_held, read_node
from zonewise_scheduler.fit.nodes.table import NodeTable
from zonewise_scheduler.queue.topology.counts import Counts
from zonewise_scheduler.queue.topology.model import HOSTNAME, Assignment, Domain, Options, PodSet
from zonewise_scheduler.queue.topology.place import Placed, place
from zonewise_scheduler.queue.topology.read import read_preferences, read_request
from zonewise_scheduler.queue.topology.replace import of_one_pod, replace
from zonewise_scheduler.queue.topology.shape import Shape
from zonewise_scheduler.queue.topology.supply import NodeSupply, eligible
from zonewise_scheduler.queue.topology.tree import Tree, tree_of, tree_of_paths
from zonewise_scheduler.queue.topology.usage import Usage, with_pods

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from zonewise_scheduler.queue.topology.refusal import Refused

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


def as_case(one: Assignment) -> Json:
    """An assignment in the notation of the cases."""
    domains = [{"count": domain.pods, "values": list(domain.values)} for domain in one.domains]
    return {"domains": domains, "levels": list(one.levels)}


def options_of(gates: Mapping[str, bool]) -> Options:
    return Options(
        gates.get("TASProfileMixed", True),
        gates.get("TASBalancedPlacement", False),
        gates.get("TASRespectNodeAffinityPreferred", False),
        gates.get("ElasticJobsViaWorkloadSlicesWithTAS", False),
    )


def pod_set_of(one: Json) -> PodSet:
    request = one["topologyRequest"]
    spec = {
        "nodeSelector": one.get("nodeSelector"),
        "tolerations": one.get("tolerations"),
        "affinity": {"nodeAffinity": one.get("nodeAffinity")},
    }
    before = one.get("previousAssignment")
    return PodSet(
        one["name"],
        one["count"],
        one["singlePodRequests"],
        None if request is None else read_request(request),
        read_constraints({"spec": spec}),
        read_preferences(spec),
        one.get("podSetGroupName") or "",
        None if before is None else assignment(before),
    )


def nodes_of(case: Json) -> NodeTable:
    """The nodes, with the pods on them that still run."""
    held: dict[str, list[Any]] = {}
    for pod in case["input"].get("pods", []):
        if pod["phase"] not in FINISHED:
            spec = {"containers": [{"name": "c", "resources": {"requests": pod["requests"]}}]}
            held.setdefault(pod["nodeName"], []).append(read_held({"spec": spec}))
    return NodeTable(
        [
            read_node(
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


def tree_of_case(case: Json, nodes: NodeTable) -> Tree:
    labels = case["input"].get("flavorNodeLabels", {})
    return tree_of(NAME, case["input"]["levels"], nodes, eligible(nodes, labels) & ready_of(case))


def used_of(case: Json, tree: Tree) -> Usage:
    """What was booked before: of the same flavor, or of all that share the nodes where leaves are nodes."""
    used: Usage = {}
    for field in BEFORE[1:] if case["input"]["levels"][-1] == HOSTNAME else BEFORE[:1]:
        for one in case["input"].get(field) or ():
            assignment = Assignment(tree.levels, (Domain(tuple(one["values"]), one["count"]),))
            used = with_pods(tree, used, assignment, one["singlePodRequests"])
    return used


# --- decisions


def decide(case: Json) -> Placed | Refused:
    """What we say to a whole case."""
    nodes = nodes_of(case)
    tree = tree_of_case(case, nodes)
    supply = NodeSupply(tree, nodes, used_of(case, tree))
    pod_sets = [pod_set_of(one) for one in case["input"]["podSets"]]
    gates = given(case["input"].get("featureGates"))
    workload: Json = given(case["input"].get("workload"))
    failed: list[str] = workload.get("unhealthyNodes", [])
    if not failed:
        return place(supply, pod_sets, options_of(gates))
    placed: list[Json] = workload["admission"]["podSetAssignments"]
    assignments: dict[str, Assignment] = {one["name"]: assignment(one["topologyAssignment"]) for one in placed}
    if gates.get("SkipReassignmentForPodOwnedWorkloads", True) and of_one_pod(metadata_of(workload)):
        return Placed(assignments)
    return replace(supply, pod_sets, assignments, failed[0], options_of(gates))


def metadata_of(workload: Json) -> Json:
    owners = [
        {"apiVersion": "/".join(filter(None, (one["group"], one["version"]))), "kind": one["kind"]}
        for one in workload.get("ownerReferences") or ()
    ]
    return {"ownerReferences": owners, "annotations": workload.get("annotations")}


# --- single steps


def level_of(case: Json) -> tuple[list[str], Tree, Counts]:
    """The names of the domains of a step's only level, in its order, the level, and what they take."""
    domains = sorted(case["input"]["domains"], key=lambda domain: domain["levelValues"])
    tree = tree_of_paths(NAME, ["level"], [domain["levelValues"] for domain in domains])
    fields = ("podCount", "sliceCount", "podCountWithLeader", "sliceCountWithLeader", "leaderCount", "affinityScore")
    counts = Counts(*(np.array([domain[field] for domain in domains], np.int64) for field in fields))
    return [domain["id"] for domain in domains], tree, counts


def shape_of_case(case: Json) -> Shape:
    """What a step asks for."""
    entered = case["input"]
    size = entered.get("sliceSize", 1)
    options = options_of(given(entered.get("featureGates")))
    unconstrained = entered.get("unconstrained", False)
    return Shape(
        entered.get("workerCount", entered.get("sliceCount", 0)) * size,
        entered.get("leaderCount", 0) > 0,
        0,
        0,
        size,
        {},
        (),
        required=False,
        unconstrained=unconstrained,
        least_free=unconstrained and options.mixed_profile,
        by_score=options.preferred_affinity,
        balanced=True,
    )
