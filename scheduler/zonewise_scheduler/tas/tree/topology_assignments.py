"""Assignments: joined, cut, and by rank (pkg/util/tas/tas_assignment.go; pkg/controller/tas/topology_ungater.go)."""

from __future__ import annotations

from itertools import chain, repeat
from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.quota.topology.types import TopologyAssignment, TopologyDomainAssignment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from zonewise_scheduler.tas.tree.topology_tree import TopologyTree


def build_assignment(tree: TopologyTree, leaves: NDArray[np.int64], counts: NDArray[np.int64]) -> TopologyAssignment:
    """Return the assignment of pods to leaves, one domain each, without those that get none."""
    order = np.argsort(leaves, kind="stable")
    pairs = zip(leaves[order].tolist(), counts[order].tolist(), strict=True)
    return TopologyAssignment(
        tree.assignment_levels,
        tuple(TopologyDomainAssignment(tree.leaf_values(leaf), count) for leaf, count in pairs if count),
    )


def merge_topology_assignments(
    tree: TopologyTree, first: TopologyAssignment, second: TopologyAssignment
) -> TopologyAssignment:
    """Return an assignment with the pods of both.

    Raises ValueError, naming it, for a domain that is no leaf of the tree.
    """
    counts: dict[int, int] = {}
    for domain in chain(first.domains, second.domains):
        leaf = tree.find_leaf(domain.values)
        if leaf is None:
            raise ValueError(f"assignment: no domain of the topology: {'/'.join(domain.values)}")
        counts[leaf] = counts.get(leaf, 0) + domain.pods
    return TopologyAssignment(
        tree.assignment_levels,
        tuple(TopologyDomainAssignment(tree.leaf_values(leaf), counts[leaf]) for leaf in sorted(counts)),
    )


def truncate_assignment(assignment: TopologyAssignment, new_count: int) -> TopologyAssignment:
    """Return an assignment of so many pods at most: its last ones are left out, those of the highest ranks."""
    kept: list[TopologyDomainAssignment] = []
    for domain in assignment.domains:
        if new_count <= 0:
            break
        kept.append(domain._replace(pods=min(domain.pods, new_count)))
        new_count -= domain.pods
    return assignment._replace(domains=tuple(kept))


def delete_domain(assignment: TopologyAssignment, node: str) -> tuple[TopologyAssignment, int]:
    """Return an assignment without the pods of a node, and how many these are; the innermost level is the hostname."""
    kept = tuple(domain for domain in assignment.domains if domain.values[-1] != node)
    return assignment._replace(domains=kept), assignment.pod_count - sum(domain.pods for domain in kept)


def node_selectors_by_rank(assignment: TopologyAssignment) -> tuple[Mapping[str, str], ...]:
    """Return the node selector of each pod by its rank: neighbours in rank are neighbours in the topology.

    A rank is the pod's index: its completion index, or that of its job times the job's size, plus its own there.
    """
    selectors = (
        repeat(dict(zip(assignment.levels, domain.values, strict=True)), domain.pods) for domain in assignment.domains
    )
    return tuple(chain.from_iterable(selectors))
