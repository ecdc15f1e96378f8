"""Functions that build, merge and truncate topology assignments.

pkg/util/tas/tas_assignment.go; pkg/cache/scheduler/tas_flavor_snapshot.go.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.quota.topology.types import TopologyAssignment, TopologyDomainAssignment

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zonewise_scheduler.tas.tree.topology_tree import TopologyTree


def build_assignment(
    tree: TopologyTree, leaves: NDArray[np.int64], pod_counts: NDArray[np.int64]
) -> TopologyAssignment:
    """Return the assignment of pods to distinct leaves; a leaf without pods is left out (buildAssignment)."""
    order = np.argsort(leaves, kind="stable")
    pairs = zip(leaves[order].tolist(), pod_counts[order].tolist(), strict=True)
    return TopologyAssignment(
        tree.assignment_levels,
        tuple(TopologyDomainAssignment(tree.leaf_values(leaf), pods) for leaf, pods in pairs if pods),
    )


def merge_topology_assignments(
    tree: TopologyTree, first: TopologyAssignment, second: TopologyAssignment
) -> TopologyAssignment:
    """Return one assignment with the pods of both (mergeTopologyAssignments).

    Raises ValueError, with the domain's name, if a domain is not a leaf of the tree.
    """
    pods_by_leaf: dict[int, int] = {}
    for domain in chain(first.domains, second.domains):
        leaf = tree.find_leaf(domain.values)
        if leaf is None:
            raise ValueError(f"assignment: no domain of the topology: {'/'.join(domain.values)}")
        pods_by_leaf[leaf] = pods_by_leaf.get(leaf, 0) + domain.pods
    return TopologyAssignment(
        tree.assignment_levels,
        tuple(TopologyDomainAssignment(tree.leaf_values(leaf), pods_by_leaf[leaf]) for leaf in sorted(pods_by_leaf)),
    )


def truncate_assignment(assignment: TopologyAssignment, new_count: int) -> TopologyAssignment:
    """Return the assignment with at most `new_count` pods; the highest ranks are dropped (TruncateAssignment)."""
    domains: list[TopologyDomainAssignment] = []
    for domain in assignment.domains:
        if new_count <= 0:
            break
        domains.append(domain._replace(pods=min(domain.pods, new_count)))
        new_count -= domain.pods
    return assignment._replace(domains=tuple(domains))


def delete_domain(assignment: TopologyAssignment, node: str) -> tuple[TopologyAssignment, int]:
    """Return the assignment without a node, and the number of pods removed; the lowest level must be the hostname."""
    domains = tuple(domain for domain in assignment.domains if domain.values[-1] != node)
    return assignment._replace(domains=domains), assignment.pod_count - sum(domain.pods for domain in domains)
