"""What pods take of the leaves of a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.quota.topology.types import PODS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from zonewise_scheduler.quota.topology.types import TopologyAssignment
    from zonewise_scheduler.tas.tree.topology_tree import TopologyTree

TASUsage = dict[str, "NDArray[np.int64]"]
"""By resource, (leaves,): milli-CPU, bytes, counts. Absent: none; the arrays are not to be changed."""


def one_pod_requests(requests: Mapping[str, int]) -> dict[str, int]:
    """Return what a pod takes, itself too (pkg/resources OnePodRequest)."""
    return {**requests, PODS: requests.get(PODS, 0) + 1}


def with_assignment_usage(
    tree: TopologyTree, usage: TASUsage, assignment: TopologyAssignment, single_pod_requests: Mapping[str, int]
) -> TASUsage:
    """Return the usage with the pods of an assignment; those in leaves that are no more take nothing."""
    found = [(tree.find_leaf(domain.values), domain.pods) for domain in assignment.domains]
    there = [(leaf, count) for leaf, count in found if leaf is not None]
    counts = np.zeros(tree.leaf_count, np.int64)
    np.add.at(counts, [leaf for leaf, _ in there], [count for _, count in there])
    return sum_usage(usage, {name: counts * amount for name, amount in one_pod_requests(single_pod_requests).items()})


def sum_usage(first: TASUsage, second: TASUsage) -> TASUsage:
    """Return the sum of two."""
    return first | {name: first[name] + amount if name in first else amount for name, amount in second.items()}
