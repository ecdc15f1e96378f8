"""Recorded cases of Kueue's topology-aware scheduling: the same domains, or the same failure messages.

Input and output of each case are recorded from Kueue's tests (pkg/cache/scheduler).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.kubelet_cases import ABSENT, Json
from support.kueue_cases import assignment as read_assignment
from support.kueue_tas_cases import (
    as_case,
    cases_of,
    level_of,
    nodes_of,
    parameters_of_case,
    replay,
    tas_cases,
    tree_of_case,
)
from support.tas_trees import topology_tree_from_paths
from zonewise_scheduler.quota.topology.request_reader import read_topology_request
from zonewise_scheduler.tas.placement.balanced_placement import place_slices_on_domains_balanced
from zonewise_scheduler.tas.placement.domain_order import sorted_domains, sorted_domains_with_leader
from zonewise_scheduler.tas.placement.flavor_assignments import TASAssignments
from zonewise_scheduler.tas.placement.optimal_domain_set import select_optimal_domain_set_to_fit
from zonewise_scheduler.tas.snapshot.assignment_failure import TopologyAssignmentFailure
from zonewise_scheduler.tas.tree.assignment_parameters import has_level
from zonewise_scheduler.tas.tree.tas_usage import TASUsage, sum_usage, with_assignment_usage
from zonewise_scheduler.tas.tree.topology_assignments import merge_topology_assignments, truncate_assignment

OMITTED_CASES: dict[str, str] = {}
"""Cases with a deliberately different result, and the reason."""

TESTS = {
    "TestFindTopologyAssignments",
    "TestFindTopologyAssignmentsMultiLayerReplacement",
    "TestMergeTopologyAssignments",
    "TestHasLevel",
    "TestSortedDomains",
    "TestSortedDomainsWithLeader",
    "TestIsTopologyAssignmentStale",
    "TestCountPodsInAssignment",
    "TestComputeAssumedUsageFromAssignment",
    "TestAddAssumedUsage",
    "TestTruncateAssignment",
    "TestSelectOptimalDomainSetToFit",
    "TestPlaceSlicesOnDomainsBalanced",
}

needs_cases = pytest.mark.skipif(not tas_cases(), reason=ABSENT)


def parametrized(*tests: str) -> Any:
    cases = cases_of(*tests)
    names = [name for name in cases if name not in OMITTED_CASES]
    return pytest.mark.parametrize("case", [cases[name] for name in names], ids=names)


@needs_cases
def test_all_cases_are_covered() -> None:
    """Every test of Kueue is covered, and every omitted case exists."""
    assert {case["test"] for case in tas_cases()} <= TESTS
    assert set(OMITTED_CASES) <= {case["id"] for case in tas_cases()}


@parametrized("TestFindTopologyAssignments", "TestFindTopologyAssignmentsMultiLayerReplacement")
def test_placement(case: Json) -> None:
    """The result has the same domains, or the same failure message, as Kueue's."""
    expected = case["expected"]["podSets"]
    result = replay(case)
    reasons = {pod_set["podSet"]: pod_set["failureReason"] for pod_set in expected if pod_set["failureReason"]}
    if isinstance(result, TopologyAssignmentFailure):
        assert reasons.get(result.pod_set) == str(result)
    else:
        assert not reasons
        assert {name: as_case(pod_set) for name, pod_set in result.assignments.items()} == {
            pod_set["podSet"]: pod_set["assignment"] for pod_set in expected
        }


@parametrized("TestMergeTopologyAssignments")
def test_merge_topology_assignments(case: Json) -> None:
    tree = tree_of_case(case, nodes_of(case))
    first, second = (read_assignment(case["input"][name]) for name in ("a", "b"))
    assert as_case(merge_topology_assignments(tree, first, second)) == case["expected"]


@parametrized("TestHasLevel")
def test_has_level(case: Json) -> None:
    assert (
        has_level(case["input"]["levels"], read_topology_request(case["input"]["topologyRequest"])) == case["expected"]
    )


@parametrized("TestSortedDomains", "TestSortedDomainsWithLeader")
def test_sorted_domains(case: Json) -> None:
    names, _, states = level_of(case)
    sort = sorted_domains_with_leader if case["test"].endswith("Leader") else sorted_domains
    order = sort(states, np.arange(len(names)), parameters_of_case(case))
    assert [names[domain] for domain in order.tolist()] == case["expected"]["order"]


@parametrized("TestIsTopologyAssignmentStale")
def test_stale_domain(case: Json) -> None:
    stale_domain = tree_of_case(case, nodes_of(case)).stale_domain(read_assignment(case["input"]["assignment"]))
    assert (bool(stale_domain), stale_domain) == (case["expected"]["stale"], case["expected"].get("staleDomain", ""))


@parametrized("TestCountPodsInAssignment")
def test_pod_count(case: Json) -> None:
    assert read_assignment(case["input"]).pod_count == case["expected"]


@parametrized("TestComputeAssumedUsageFromAssignment", "TestAddAssumedUsage")
def test_assumed_usage(case: Json) -> None:
    """The usage of each domain is added to the assumed usage."""
    step = case["input"]
    assignment = read_assignment(step["assignment"])
    names = sorted({domain.values[-1] for domain in assignment.domains} | set(step.get("assumedUsage", {})))
    tree = topology_tree_from_paths("default", assignment.levels, [[name] for name in names])
    usage: TASUsage = {}
    for name, amounts in step.get("assumedUsage", {}).items():
        is_domain = np.array([other_name == name for other_name in names], np.int64)
        usage = sum_usage(usage, {resource: is_domain * amount for resource, amount in amounts.items()})
    total = with_assignment_usage(tree, usage, assignment, step["singlePodRequests"])
    assert {
        name: {resource: int(amounts[i]) for resource, amounts in total.items()} for i, name in enumerate(names)
    } == case["expected"]


@parametrized("TestTruncateAssignment")
def test_truncate_assignment(case: Json) -> None:
    assert (
        as_case(truncate_assignment(read_assignment(case["input"]["assignment"]), case["input"]["newCount"]))
        == case["expected"]
    )


@parametrized("TestSelectOptimalDomainSetToFit")
def test_select_optimal_domain_set_to_fit(case: Json) -> None:
    names, _, states = level_of(case)
    params = parameters_of_case(case)
    order = range(len(names))
    if case["input"]["prioritizeByEntropy"]:  # domains without children have the same entropy
        order = sorted(
            order, key=lambda domain: (-states.leader_count[domain], -states.slice_count_with_leader[domain], domain)
        )
    selected = select_optimal_domain_set_to_fit(states, list(order), params) or []
    assert sorted(names[domain] for domain in selected) == sorted(case["expected"]["setUnordered"])


@parametrized("TestPlaceSlicesOnDomainsBalanced")
def test_place_slices_on_domains_balanced(case: Json) -> None:
    names, _, states = level_of(case)
    placement = place_slices_on_domains_balanced(
        states, np.arange(len(names)), case["input"]["threshold"], parameters_of_case(case)
    )
    if placement is None:
        assert not case["expected"]
        return
    new_states, order = placement
    fields = ("podCount", "sliceCount", "podCountWithLeader", "sliceCountWithLeader", "leaderCount")
    assert {
        names[domain]: {
            field: int(counts_by_domain[domain]) for field, counts_by_domain in zip(fields, new_states, strict=False)
        }
        for domain in order.tolist()
    } == case["expected"]


@needs_cases
def test_cases_contain_both_outcomes() -> None:
    """The cases contain both assignments and failures."""
    results = [replay(case) for case in cases_of("TestFindTopologyAssignments").values()]
    assert sum(isinstance(result, TASAssignments) for result in results) > 0
    assert sum(isinstance(result, TopologyAssignmentFailure) for result in results) > 0
