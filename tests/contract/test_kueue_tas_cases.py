"""Kueue's own cases of topology-aware placement: the domains are equal, and so are the reasons where there are none.

Recorded from the tests of Kueue (pkg/cache/scheduler), as inputs and what came out.
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
    replay,
    level_of,
    nodes_of,
    parameters_of_case,
    tas_cases,
    tree_of_case,
)
from zonewise_scheduler.quota.topology.request_reader import read_topology_request
from zonewise_scheduler.tas.placement.balanced_placement import place_slices_on_domains_balanced
from zonewise_scheduler.tas.placement.domain_order import sorted_domains, sorted_domains_with_leader
from zonewise_scheduler.tas.placement.flavor_assignments import TASAssignments
from zonewise_scheduler.tas.placement.optimal_domain_set import select_optimal_domain_set_to_fit
from zonewise_scheduler.tas.snapshot.assignment_failure import TopologyAssignmentFailure
from zonewise_scheduler.tas.tree.assignment_parameters import has_level
from zonewise_scheduler.tas.tree.tas_usage import TASUsage, sum_usage, with_assignment_usage
from zonewise_scheduler.tas.tree.topology_assignments import merge_topology_assignments, truncate_assignment
from zonewise_scheduler.tas.tree.topology_tree import topology_tree_from_paths

LEFT_OUT: dict[str, str] = {}
"""Cases of which another outcome is right, and why."""

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

recorded = pytest.mark.skipif(not tas_cases(), reason=ABSENT)


def of(*tests: str) -> Any:
    found = cases_of(*tests)
    names = [name for name in found if name not in LEFT_OUT]
    return pytest.mark.parametrize("case", [found[name] for name in names], ids=names)


@recorded
def test_all_cases_are_read() -> None:
    """No kind of case is passed over, and no reason is given for a case that is not there."""
    assert {case["test"] for case in tas_cases()} <= TESTS
    assert set(LEFT_OUT) <= {case["id"] for case in tas_cases()}


@of("TestFindTopologyAssignments", "TestFindTopologyAssignmentsMultiLayerReplacement")
def test_placement(case: Json) -> None:
    """The same domains, or none, in Kueue's own words."""
    expected = case["expected"]["podSets"]
    found = replay(case)
    reasons = {one["podSet"]: one["failureReason"] for one in expected if one["failureReason"]}
    if isinstance(found, TopologyAssignmentFailure):
        assert reasons.get(found.pod_set) == str(found)
    else:
        assert not reasons
        assert {name: as_case(one) for name, one in found.assignments.items()} == {
            one["podSet"]: one["assignment"] for one in expected
        }


@of("TestMergeTopologyAssignments")
def test_joined(case: Json) -> None:
    tree = tree_of_case(case, nodes_of(case))
    one, other = (read_assignment(case["input"][name]) for name in ("a", "b"))
    assert as_case(merge_topology_assignments(tree, one, other)) == case["expected"]


@of("TestHasLevel")
def test_levels(case: Json) -> None:
    assert (
        has_level(case["input"]["levels"], read_topology_request(case["input"]["topologyRequest"])) == case["expected"]
    )


@of("TestSortedDomains", "TestSortedDomainsWithLeader")
def test_order(case: Json) -> None:
    names, _, counts = level_of(case)
    sort = sorted_domains_with_leader if case["test"].endswith("Leader") else sorted_domains
    order = sort(counts, np.arange(len(names)), parameters_of_case(case))
    assert [names[domain] for domain in order.tolist()] == case["expected"]["order"]


@of("TestIsTopologyAssignmentStale")
def test_stale(case: Json) -> None:
    found = tree_of_case(case, nodes_of(case)).stale_domain(read_assignment(case["input"]["assignment"]))
    assert (bool(found), found) == (case["expected"]["stale"], case["expected"].get("staleDomain", ""))


@of("TestCountPodsInAssignment")
def test_pods(case: Json) -> None:
    assert read_assignment(case["input"]).pod_count == case["expected"]


@of("TestComputeAssumedUsageFromAssignment", "TestAddAssumedUsage")
def test_usage(case: Json) -> None:
    """By domain, what pods take, beside what was assumed before."""
    entered = case["input"]
    assignment = read_assignment(entered["assignment"])
    names = sorted({domain.values[-1] for domain in assignment.domains} | set(entered.get("assumedUsage", {})))
    tree = topology_tree_from_paths("default", assignment.levels, [[name] for name in names])
    usage: TASUsage = {}
    for name, amounts in entered.get("assumedUsage", {}).items():
        at = np.array([one == name for one in names], np.int64)
        usage = sum_usage(usage, {resource: at * amount for resource, amount in amounts.items()})
    found = with_assignment_usage(tree, usage, assignment, entered["singlePodRequests"])
    assert {
        name: {resource: int(amounts[place]) for resource, amounts in found.items()} for place, name in enumerate(names)
    } == case["expected"]


@of("TestTruncateAssignment")
def test_cut(case: Json) -> None:
    assert (
        as_case(truncate_assignment(read_assignment(case["input"]["assignment"]), case["input"]["newCount"]))
        == case["expected"]
    )


@of("TestSelectOptimalDomainSetToFit")
def test_fewest(case: Json) -> None:
    names, _, counts = level_of(case)
    shape = parameters_of_case(case)
    order = range(len(names))
    if case["input"]["prioritizeByEntropy"]:  # of domains without children none is more even than another
        order = sorted(order, key=lambda one: (-counts.leader_count[one], -counts.slice_count_with_leader[one], one))
    found = select_optimal_domain_set_to_fit(counts, list(order), shape) or []
    assert sorted(names[domain] for domain in found) == sorted(case["expected"]["setUnordered"])


@of("TestPlaceSlicesOnDomainsBalanced")
def test_evenly(case: Json) -> None:
    names, _, counts = level_of(case)
    found = place_slices_on_domains_balanced(
        counts, np.arange(len(names)), case["input"]["threshold"], parameters_of_case(case)
    )
    if found is None:
        assert not case["expected"]
        return
    even, order = found
    fields = ("podCount", "sliceCount", "podCountWithLeader", "sliceCountWithLeader", "leaderCount")
    assert {
        names[domain]: {field: int(part[domain]) for field, part in zip(fields, even, strict=False)}
        for domain in order.tolist()
    } == case["expected"]


@recorded
def test_both_outcomes_are_there() -> None:
    """The cases place some pods, and refuse others."""
    found = [replay(case) for case in cases_of("TestFindTopologyAssignments").values()]
    assert sum(isinstance(one, TASAssignments) for one in found) > 0
    assert sum(isinstance(one, TopologyAssignmentFailure) for one in found) > 0
