"""A pod set's topology request, resolved to the levels of a tree.

pkg/cache/scheduler/tas_flavor_snapshot.go topologyAssignmentParameters, HasLevel, levelKey, buildSliceSizeAtLevel.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.quota.topology.types import PodSetTopologyRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.quota.topology.types import SliceConstraint
    from zonewise_scheduler.tas.types import TASFeatureGates, TASPodSetRequests


class TopologyAssignmentParameters(NamedTuple):
    """The parameters of one search; a level is its index in the tree's level keys."""

    pod_count: int
    """Number of pods without the leader, rounded up to whole slices."""
    has_leader: bool
    requested_level: int
    """Level at which the search begins: the required or preferred level; the lowest for unconstrained pods."""
    slice_level: int
    slice_size: int
    """Pods in a slice of the outermost layer; 1 without slices."""
    slice_size_at_level: Mapping[int, int]
    """By level below the slice level: the inner layer's size; between two layers, the size of the lower one."""
    slice_constraints: tuple[SliceConstraint, ...]
    required: bool
    unconstrained: bool
    least_free_capacity: bool
    """Whether to use the profile LeastFreeCapacity instead of BestFit."""
    by_affinity_score: bool
    balanced: bool

    @property
    def slice_count(self) -> int:
        """Return the number of slices of the outermost layer."""
        return self.pod_count // self.slice_size


def has_level(level_keys: Sequence[str], request: PodSetTopologyRequest | None) -> bool:
    """Return whether a topology has every level of a request; False if the request names no topology (HasLevel)."""
    if request is None or not (
        request.required or request.preferred or request.unconstrained or request.slice_constraints
    ):
        return False
    return all(level in level_keys for level in request.levels)


def topology_assignment_parameters(
    level_keys: Sequence[str], pod_set: TASPodSetRequests, gates: TASFeatureGates, *, has_leader: bool
) -> TopologyAssignmentParameters | str:
    """Return the parameters, or Kueue's message on a request that is invalid for these levels."""
    request = pod_set.topology_request or PodSetTopologyRequest(unconstrained=True)
    slice_size = request.slice_constraints[0].size if request.slice_constraints else 1
    if slice_size < 1:
        return "slice topology requested, but slice size not provided"
    level_key = _level_key(level_keys, request)
    slice_level_key = request.slice_constraints[0].level if request.slice_constraints else level_keys[-1]
    problem = _level_problem(level_keys, level_key, slice_level_key)
    slice_size_at_level = problem or _slice_size_at_level(level_keys, request.slice_constraints)
    if isinstance(slice_size_at_level, str):
        return slice_size_at_level
    slices_only = bool(request.slice_constraints) and not (request.required or request.preferred)
    unconstrained = request.unconstrained or slices_only
    return TopologyAssignmentParameters(
        -(-pod_set.pod_count // slice_size) * slice_size,
        has_leader,
        level_keys.index(level_key),
        level_keys.index(slice_level_key),
        slice_size,
        slice_size_at_level,
        request.slice_constraints,
        required=bool(request.required),
        unconstrained=unconstrained,
        least_free_capacity=unconstrained and gates.profile_mixed,
        by_affinity_score=gates.respect_node_affinity_preferred,
        balanced=gates.balanced_placement and not request.required and not unconstrained,
    )


def _level_key(level_keys: Sequence[str], request: PodSetTopologyRequest) -> str:
    """Return the level at which the search begins; "" if the request implies none."""
    highest = level_keys[0] if request.slice_constraints else ""
    lowest = level_keys[-1] if request.unconstrained else ""
    return request.required or request.preferred or highest or lowest


def _level_problem(level_keys: Sequence[str], level_key: str, slice_level_key: str) -> str:
    if not level_key:
        return "topology level not specified"
    if level_key not in level_keys:
        return f"no requested topology level: {level_key}"
    if slice_level_key not in level_keys:
        return f"no requested topology level for slices: {slice_level_key}"
    if level_keys.index(level_key) > level_keys.index(slice_level_key):
        return f"podset slice topology {slice_level_key} is above the podset topology {level_key}"
    return ""


def _slice_size_at_level(level_keys: Sequence[str], layers: Sequence[SliceConstraint]) -> dict[int, int] | str:
    """Return the slice sizes, by level, of all layers except the outermost, or the problem with the layers."""
    sizes: dict[int, int] = {}
    for outer, inner in pairwise(layers):
        if inner.level not in level_keys:
            return f"no requested topology level for additional slice layer: {inner.level}"
        begin, end = level_keys.index(outer.level) + 1, level_keys.index(inner.level) + 1
        if begin >= end:
            return f"additional slice layer topology {inner.level} must be at a lower level than {outer.level}"
        if inner.size < 1 or outer.size % inner.size:
            return f"additional slice layer size {inner.size} must evenly divide parent layer size {outer.size}"
        sizes |= dict.fromkeys(range(begin, end), inner.size)
    return sizes
