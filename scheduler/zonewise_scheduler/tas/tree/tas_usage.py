"""Resources of leaves: the usage of pods with a topology assignment, and the number of pods that fit.

pkg/cache/scheduler/tas_flavor_snapshot.go addAssumedUsage; pkg/resources/requests.go CountInWithLimitingResource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.quota.topology.types import PODS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from zonewise_scheduler.quota.topology.types import TopologyAssignment
    from zonewise_scheduler.tas.tree.topology_tree import TopologyTree

_UNBOUNDED = np.iinfo(np.int32).max
"""Number of pods that fit if they request nothing; pod counts are int32 in the API."""

TASUsage = dict[str, "NDArray[np.int64]"]
"""By resource, (leaves,): milli-CPU, bytes, counts. Absent: zero. The arrays are read-only."""

FreeCapacity = dict[str, "NDArray[np.int64]"]
"""By resource, (leaves,): milli-CPU, bytes, counts; negative if usage exceeds capacity."""


def with_pod_resource(requests: Mapping[str, int]) -> dict[str, int]:
    """Return a pod's requests with one more unit of `pods`, which stands for the pod itself."""
    return {**requests, PODS: requests.get(PODS, 0) + 1}


def with_assignment_usage(
    tree: TopologyTree, usage: TASUsage, assignment: TopologyAssignment, single_pod_requests: Mapping[str, int]
) -> TASUsage:
    """Return the usage plus that of an assignment's pods; domains that are not in the tree add nothing."""
    pods_by_leaf = [(tree.find_leaf(domain.values), domain.pods) for domain in assignment.domains]
    pods_in_tree = [(leaf, pods) for leaf, pods in pods_by_leaf if leaf is not None]
    pod_counts = np.zeros(tree.leaf_count, np.int64)
    np.add.at(pod_counts, [leaf for leaf, _ in pods_in_tree], [pods for _, pods in pods_in_tree])
    return sum_usage(
        usage, {name: pod_counts * amount for name, amount in with_pod_resource(single_pod_requests).items()}
    )


def sum_usage(first: TASUsage, second: TASUsage) -> TASUsage:
    """Return the sum of two usages."""
    return first | {name: first[name] + amount if name in first else amount for name, amount in second.items()}


def count_in_with_limiting_resource(
    free: FreeCapacity, requests: Mapping[str, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return, by leaf, the number of pods that fit, and the index of the limiting resource in sorted order."""
    names = sorted(requests)
    pod_counts = np.full(len(free[names[0]]), _UNBOUNDED, np.int64)
    limiting = np.zeros(len(pod_counts), np.int64)
    for i, name in enumerate(names):
        if requests[name] > 0:
            count_in_resource = np.maximum(free[name] // requests[name], 0)
            limiting[count_in_resource < pod_counts] = i
            np.minimum(pod_counts, count_in_resource, out=pod_counts)
    return pod_counts, limiting


def count_limiting_resources(requests: Mapping[str, int], limiting: NDArray[np.int64]) -> dict[str, int]:
    """Return how many leaves each resource limits; `limiting`: indices of resources in sorted order."""
    leaf_counts = np.bincount(limiting, minlength=len(requests)).tolist()
    return {name: leaves for name, leaves in zip(sorted(requests), leaf_counts, strict=True) if leaves}
