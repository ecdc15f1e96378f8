"""One pod set, or a leader with its workers, over the levels of a tree.

pkg/cache/scheduler/tas_flavor_snapshot.go findTopologyAssignment: counts are worked out in the leaves and added up, the
level and its domains chosen, and the pods handed down from there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.tas.placement.balanced_placement import find_balanced_placement
from zonewise_scheduler.tas.placement.descent import assign_down_to_leaves
from zonewise_scheduler.tas.placement.fit_domains import InsufficientLevel, find_level_with_fit_domains
from zonewise_scheduler.tas.snapshot.assignment_failure import LayerFit, TopologyAssignmentFailure
from zonewise_scheduler.tas.snapshot.domain_states import fill_in_counts
from zonewise_scheduler.tas.snapshot.leaf_counts import fill_leaf_counts
from zonewise_scheduler.tas.tree.assignment_parameters import topology_assignment_parameters
from zonewise_scheduler.tas.tree.topology_assignments import build_assignment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zonewise_scheduler.quota.topology.types import TASFeatureGates, TASPodSetRequests, TopologyAssignment
    from zonewise_scheduler.tas.placement.minimum_counts import DomainAllotment
    from zonewise_scheduler.tas.snapshot.domain_states import DomainStates
    from zonewise_scheduler.tas.snapshot.exclusion_stats import ExclusionStats
    from zonewise_scheduler.tas.snapshot.flavor_snapshot import TASFlavorSnapshot
    from zonewise_scheduler.tas.tree.assignment_parameters import TopologyAssignmentParameters
    from zonewise_scheduler.tas.tree.tas_usage import TASUsage
    from zonewise_scheduler.tas.tree.topology_tree import TopologyTree


class PodSetGroup(NamedTuple):
    """Pod sets that are placed together."""

    workers: TASPodSetRequests
    leader: TASPodSetRequests | None = None

    @property
    def pod_sets(self) -> tuple[TASPodSetRequests, ...]:
        """Return the pod sets."""
        return (self.workers,) if self.leader is None else (self.workers, self.leader)


def find_topology_assignment(
    snapshot: TASFlavorSnapshot,
    group: PodSetGroup,
    assumed_usage: TASUsage,
    gates: TASFeatureGates,
    required_replacement_domain: tuple[int, int] | None = None,
) -> dict[str, TopologyAssignment] | TopologyAssignmentFailure:
    """Return where the pods go, by the name of the set; or why there is no place.

    `assumed`: what is promised beside what the supply knows to be used. `within`: the leaves that may hold them.
    """
    tree, workers, leader = snapshot.tree, group.workers, group.leader
    shape = topology_assignment_parameters(tree.level_keys, workers, gates, has_leader=leader is not None)
    if isinstance(shape, str):
        return TopologyAssignmentFailure(workers.name, tree.name, shape)
    if not tree.leaf_count:
        return TopologyAssignmentFailure(
            workers.name, tree.name, f"no topology domains at level: {tree.level_keys[shape.requested_level]}"
        )
    bound = leader is not None or workers.max_pods is not None or workers.max_pods_with_leader is not None
    if not (bound or assumed_usage or required_replacement_domain is not None):
        return _again(snapshot, workers, shape, gates)
    leaves, excluded = fill_leaf_counts(snapshot, workers, leader, assumed_usage, required_replacement_domain)
    return _placed(tree, fill_in_counts(leaves, tree.child_offsets, 0, shape), group, shape, lambda: excluded)


def _again(
    supply: TASFlavorSnapshot, pods: TASPodSetRequests, shape: TopologyAssignmentParameters, options: TASFeatureGates
) -> dict[str, TopologyAssignment] | TopologyAssignmentFailure:
    """Return where pods go, or why there is no place, that depend on nothing but what they ask for themselves."""
    standing = supply.incremental_counts(pods, shape)
    asked = pods.name, pods.pod_count, pods.topology_request, options
    found = standing.results.get(asked)
    if found is None:
        found = _placed(supply.tree, standing.domain_states, PodSetGroup(pods), shape, standing.exclusions)
        standing.results[asked] = found
    return found


def _placed(
    tree: TopologyTree,
    levels: Sequence[DomainStates],
    group: PodSetGroup,
    shape: TopologyAssignmentParameters,
    excluded: Callable[[], ExclusionStats],
) -> dict[str, TopologyAssignment] | TopologyAssignmentFailure:
    share = _found(tree, levels, shape)
    if isinstance(share, InsufficientLevel):
        return _refused(tree, levels, shape, share, excluded(), group.workers.name)
    placed = {group.workers.name: build_assignment(tree, share.domains, share.units)}
    if group.leader is not None:
        placed[group.leader.name] = build_assignment(tree, share.domains, share.leader_count)
    return placed


def _found(
    tree: TopologyTree, levels: Sequence[DomainStates], shape: TopologyAssignmentParameters
) -> DomainAllotment | InsufficientLevel:
    """Return the pods of the leaves: balanced, where that is asked for and can be."""
    even = find_balanced_placement(tree, levels, shape) if shape.balanced else None
    share = assign_down_to_leaves(tree, even.levels, even.fit, shape, per_domain=True) if even is not None else None
    if share is not None:
        return share
    found = find_level_with_fit_domains(levels, shape)
    if isinstance(found, InsufficientLevel):
        return found
    return assign_down_to_leaves(tree, levels, found, shape) or InsufficientLevel(found.level, 0)


def _refused(
    tree: TopologyTree,
    levels: Sequence[DomainStates],
    shape: TopologyAssignmentParameters,
    short: InsufficientLevel,
    excluded: ExclusionStats,
    name: str,
) -> TopologyAssignmentFailure:
    counts = levels[short.level]
    best = int(counts.slice_count.argmax())
    return TopologyAssignmentFailure(
        name,
        tree.name,
        level=tree.level_keys[short.level] if shape.required else "",
        domain=tree.level_values(short.level, best) if shape.required else (),
        fit_count=short.fit_count,
        slice_count=shape.slice_count,
        slice_size=shape.slice_size,
        layer_fits=_layers(tree, levels, shape, short.level, best) if shape.slice_size_at_level else (),
        exclusions=excluded,
    )


def _layers(
    tree: TopologyTree, levels: Sequence[DomainStates], shape: TopologyAssignmentParameters, level: int, domain: int
) -> tuple[LayerFit, ...]:
    """Return what would fit of each layer in a domain."""
    ranges = dict(zip(tree.level_keys[level:], tree.descendant_ranges(level, domain, domain + 1), strict=True))
    found: list[LayerFit] = []
    for key, size in shape.slice_constraints:
        pods = levels[tree.level_keys.index(key)].pod_count[slice(*ranges[key])]
        found.append(LayerFit(key, int(np.sum(pods // size)), shape.pod_count // size))
    return tuple(found)
