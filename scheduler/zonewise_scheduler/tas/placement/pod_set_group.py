"""The topology assignment of one pod set, or of a leader with its workers.

pkg/cache/scheduler/tas_flavor_snapshot.go findTopologyAssignment. Phase 1 counts the pods of each leaf and sums them.
Phase 2a selects the level and its domains. Phase 2b assigns pods from there down to the leaves.
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
from zonewise_scheduler.tas.tree.topology_assignments import build_assignment, truncate_assignment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zonewise_scheduler.quota.topology.types import TopologyAssignment
    from zonewise_scheduler.tas.placement.descent import DomainAllotment
    from zonewise_scheduler.tas.snapshot.assignment_failure import ExclusionStats
    from zonewise_scheduler.tas.snapshot.domain_states import DomainStates
    from zonewise_scheduler.tas.snapshot.flavor_snapshot import TASFlavorSnapshot
    from zonewise_scheduler.tas.tree.assignment_parameters import TopologyAssignmentParameters
    from zonewise_scheduler.tas.tree.tas_usage import TASUsage
    from zonewise_scheduler.tas.tree.topology_tree import TopologyTree
    from zonewise_scheduler.tas.types import TASFeatureGates, TASPodSetRequests


class PodSetGroup(NamedTuple):
    """Pod sets that are assigned together."""

    workers: TASPodSetRequests
    leader: TASPodSetRequests | None = None

    @property
    def pod_sets(self) -> tuple[TASPodSetRequests, ...]:
        """Return the workers, then the leader if there is one."""
        return (self.workers,) if self.leader is None else (self.workers, self.leader)


def find_topology_assignment(
    snapshot: TASFlavorSnapshot,
    group: PodSetGroup,
    assumed_usage: TASUsage,
    gates: TASFeatureGates,
    required_replacement_domain: tuple[int, int] | None = None,
) -> dict[str, TopologyAssignment] | TopologyAssignmentFailure:
    """Return the assignments by pod set, or why there are none.

    The last slice may have fewer pods than the others, but needs the same capacity. So if more pods fit, fewer pods do.
    `assumed_usage`: usage in addition to the snapshot's. `required_replacement_domain`: the range of leaves that the
    pods may use; None: all.
    """
    tree, workers, leader = snapshot.tree, group.workers, group.leader
    params = topology_assignment_parameters(tree.level_keys, workers, gates, has_leader=leader is not None)
    if isinstance(params, str):
        return TopologyAssignmentFailure(workers.name, tree.name, params)
    if not tree.leaf_count:
        return TopologyAssignmentFailure(
            workers.name, tree.name, f"no topology domains at level: {tree.level_keys[params.requested_level]}"
        )
    bounded = leader is not None or workers.max_pods is not None or workers.max_pods_with_leader is not None
    if not (bounded or assumed_usage or required_replacement_domain is not None):
        return _find_with_incremental_counts(snapshot, workers, params, gates)
    leaves, exclusions = fill_leaf_counts(snapshot, workers, leader, assumed_usage, required_replacement_domain)
    levels = fill_in_counts(leaves, tree.child_offsets, 0, params)
    return _build_assignments(tree, levels, group, params, lambda: exclusions)


def _find_with_incremental_counts(
    snapshot: TASFlavorSnapshot,
    pod_set: TASPodSetRequests,
    params: TopologyAssignmentParameters,
    gates: TASFeatureGates,
) -> dict[str, TopologyAssignment] | TopologyAssignmentFailure:
    """Return the result for a pod set bounded only by its requests and filters; it is cached until a change."""
    counts = snapshot.incremental_counts(pod_set, params)
    key = pod_set.name, pod_set.pod_count, pod_set.topology_request, gates
    result = counts.results.get(key)
    if result is None:
        group = PodSetGroup(pod_set)
        result = _build_assignments(snapshot.tree, counts.domain_states, group, params, counts.exclusions)
        counts.results[key] = result
    return result


def _build_assignments(
    tree: TopologyTree,
    levels: Sequence[DomainStates],
    group: PodSetGroup,
    params: TopologyAssignmentParameters,
    exclusions: Callable[[], ExclusionStats],
) -> dict[str, TopologyAssignment] | TopologyAssignmentFailure:
    allotment = _assign_leaves(tree, levels, params)
    if isinstance(allotment, InsufficientLevel):
        return _failure(tree, levels, params, allotment, exclusions(), group.workers.name)
    whole_slices = build_assignment(tree, allotment.domains, allotment.units)
    assignments = {group.workers.name: truncate_assignment(whole_slices, group.workers.pod_count)}
    if group.leader is not None:
        assignments[group.leader.name] = build_assignment(tree, allotment.domains, allotment.leader_count)
    return assignments


def _assign_leaves(
    tree: TopologyTree, levels: Sequence[DomainStates], params: TopologyAssignmentParameters
) -> DomainAllotment | InsufficientLevel:
    """Return the pods of each leaf; balanced if the parameters require it and a balanced placement exists."""
    balanced = find_balanced_placement(tree, levels, params) if params.balanced else None
    if balanced is not None:
        allotment = assign_down_to_leaves(tree, balanced.levels, balanced.fit, params, per_domain=True)
        if allotment is not None:
            return allotment
    fit = find_level_with_fit_domains(levels, params)
    if isinstance(fit, InsufficientLevel):
        return fit
    return assign_down_to_leaves(tree, levels, fit, params) or InsufficientLevel(fit.level, 0)


def _failure(
    tree: TopologyTree,
    levels: Sequence[DomainStates],
    params: TopologyAssignmentParameters,
    insufficient: InsufficientLevel,
    exclusions: ExclusionStats,
    pod_set: str,
) -> TopologyAssignmentFailure:
    level = insufficient.level
    best_domain = int(levels[level].slice_count.argmax())
    return TopologyAssignmentFailure(
        pod_set,
        tree.name,
        level=tree.level_keys[level] if params.required else "",
        domain=tree.level_values(level, best_domain) if params.required else (),
        fit_count=insufficient.fit_count,
        slice_count=params.slice_count,
        slice_size=params.slice_size,
        layer_fits=_layer_fits(tree, levels, params, level, best_domain) if params.slice_size_at_level else (),
        exclusions=exclusions,
    )


def _layer_fits(
    tree: TopologyTree, levels: Sequence[DomainStates], params: TopologyAssignmentParameters, level: int, domain: int
) -> tuple[LayerFit, ...]:
    """Return the fit of each slice layer in a domain (multiLayerNotFitMessage)."""
    ranges = dict(zip(tree.level_keys[level:], tree.descendant_ranges(level, domain, domain + 1), strict=True))
    fits: list[LayerFit] = []
    for key, size in params.slice_constraints:
        pods = levels[tree.level_keys.index(key)].pod_count[slice(*ranges[key])]
        fits.append(LayerFit(key, int(np.sum(pods // size)), params.pod_count // size))
    return tuple(fits)
