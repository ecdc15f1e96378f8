"""A pod set's request, resolved to the levels of a tree."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from zonewise_scheduler.quota.topology.types import (
    PodSetTopologyRequest,
    SliceConstraint,
    TASFeatureGates,
    TASPodSetRequests,
)


class TopologyAssignmentParameters(NamedTuple):
    """What is to be found; levels are places in the keys of a tree."""

    pod_count: int
    """How many, without the leader."""
    has_leader: bool
    requested_level: int
    """Where the search begins: of the required or preferred domain; the innermost for pods without constraint."""
    slice_level: int
    slice_size: int
    """Pods of a slice of the outermost layer; 1 where none are asked for."""
    slice_size_at_level: Mapping[int, int]
    """By level below the slices' one: the inner layer's size, that of the next layer further in between two."""
    slice_constraints: tuple[SliceConstraint, ...]
    required: bool
    unconstrained: bool
    least_free_capacity: bool
    """The profile LeastFreeCapacity, else BestFit."""
    by_affinity_score: bool
    balanced: bool

    @property
    def slice_count(self) -> int:
        """Return how many slices of the outermost layer there are."""
        return self.pod_count // self.slice_size


def has_level(level_keys: Sequence[str], request: PodSetTopologyRequest | None) -> bool:
    """Tell whether a topology has all levels that a request names, and whether it names any (HasLevel)."""
    if request is None or not (
        request.required or request.preferred or request.unconstrained or request.slice_constraints
    ):
        return False
    named = [request.required or request.preferred, *(layer.level for layer in request.slice_constraints)]
    return all(level in level_keys for level in named if level)


def topology_assignment_parameters(
    level_keys: Sequence[str], pod_set: TASPodSetRequests, gates: TASFeatureGates, *, has_leader: bool
) -> TopologyAssignmentParameters | str:
    """Return what is asked for, or in the words of Kueue why it makes no sense on these levels."""
    request = pod_set.topology_request or PodSetTopologyRequest(unconstrained=True)
    size = request.slice_constraints[0].size if request.slice_constraints else 1
    if size < 1:
        return "slice topology requested, but slice size not provided"
    key = _level(level_keys, request)
    slice_key = request.slice_constraints[0].level if request.slice_constraints else level_keys[-1]
    problem = _level_problem(level_keys, key, slice_key)
    sizes = problem or _inner_sizes(level_keys, request.slice_constraints)
    if isinstance(sizes, str):
        return sizes
    if pod_set.pod_count % size:
        return f"slice size {size} must evenly divide the pod set's {pod_set.pod_count} pods"
    only_slices = bool(request.slice_constraints) and not (request.required or request.preferred)
    unconstrained = request.unconstrained or only_slices
    return TopologyAssignmentParameters(
        pod_set.pod_count,
        has_leader,
        level_keys.index(key),
        level_keys.index(slice_key),
        size,
        sizes,
        request.slice_constraints,
        required=bool(request.required),
        unconstrained=unconstrained,
        least_free_capacity=unconstrained and gates.profile_mixed,
        by_affinity_score=gates.respect_node_affinity_preferred,
        balanced=gates.balanced_placement and not request.required and not unconstrained,
    )


def _level(keys: Sequence[str], request: PodSetTopologyRequest) -> str:
    """Return the level where the search begins; "" where the request names none."""
    outermost = keys[0] if request.slice_constraints else ""
    innermost = keys[-1] if request.unconstrained else ""
    return request.required or request.preferred or outermost or innermost


def _level_problem(keys: Sequence[str], key: str, slice_key: str) -> str:
    if not key:
        return "topology level not specified"
    if key not in keys:
        return f"no requested topology level: {key}"
    if slice_key not in keys:
        return f"no requested topology level for slices: {slice_key}"
    if keys.index(key) > keys.index(slice_key):
        return f"podset slice topology {slice_key} is above the podset topology {key}"
    return ""


def _inner_sizes(keys: Sequence[str], layers: Sequence[SliceConstraint]) -> dict[int, int] | str:
    """Return the sizes of the layers but the outermost, by level."""
    found: dict[int, int] = {}
    for outer, inner in pairwise(layers):
        if inner.level not in keys:
            return f"no requested topology level for additional slice layer: {inner.level}"
        begin, end = keys.index(outer.level) + 1, keys.index(inner.level) + 1
        if begin >= end:
            return f"additional slice layer topology {inner.level} must be at a lower level than {outer.level}"
        if inner.size < 1 or outer.size % inner.size:
            return f"additional slice layer size {inner.size} must evenly divide parent layer size {outer.size}"
        found |= dict.fromkeys(range(begin, end), inner.size)
    return found
