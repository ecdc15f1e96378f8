"""Replacement of an unhealthy node: its pods are assigned to other leaves, and all other pods keep theirs.

pkg/cache/scheduler/tas_flavor_snapshot.go findReplacementAssignment, requiredReplacementDomain,
findIncompleteSliceDomain; KEP-2724.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.tas.placement.flavor_assignments import TASAssignments
from zonewise_scheduler.tas.placement.pod_set_group import PodSetGroup, find_topology_assignment
from zonewise_scheduler.tas.snapshot.assignment_failure import TopologyAssignmentFailure
from zonewise_scheduler.tas.tree.assignment_parameters import topology_assignment_parameters
from zonewise_scheduler.tas.tree.tas_usage import with_assignment_usage
from zonewise_scheduler.tas.tree.topology_assignments import delete_domain, merge_topology_assignments
from zonewise_scheduler.tas.types import TASFeatureGates

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.quota.topology.types import PodSetTopologyRequest, SliceConstraint, TopologyAssignment
    from zonewise_scheduler.tas.snapshot.flavor_snapshot import TASFlavorSnapshot
    from zonewise_scheduler.tas.tree.tas_usage import TASUsage
    from zonewise_scheduler.tas.tree.topology_tree import TopologyTree
    from zonewise_scheduler.tas.types import TASPodSetRequests

_DEFAULTS = TASFeatureGates()
_NO_GROUPS: Mapping[str, str] = MappingProxyType({})


def find_replacement_assignments(
    snapshot: TASFlavorSnapshot,
    pod_sets: Sequence[TASPodSetRequests],
    assignments: Mapping[str, TopologyAssignment],
    unhealthy_node: str,
    gates: TASFeatureGates = _DEFAULTS,
    groups: Mapping[str, str] = _NO_GROUPS,
) -> TASAssignments | TopologyAssignmentFailure:
    """Return the assignments, with the pods of an unhealthy node moved to other nodes, or why there are none.

    All pods of a pod set remain in one domain of the required level, and slices remain whole. If the pod set has no
    other pods, it remains in the domain of its group. `groups`: the group of each pod set in `assignments`, if it has
    one. The snapshot must not contain the workload's own usage. Pod sets without an assignment are skipped. A leader is
    replaced like any pod set.
    """
    new_assignments: dict[str, TopologyAssignment] = {}
    usage: TASUsage = {}
    for pod_set in pod_sets:
        if pod_set.name not in assignments:
            continue
        remaining, missing_count = delete_domain(assignments[pod_set.name], unhealthy_node)
        missing = _Missing(pod_set._replace(pod_count=missing_count), remaining)
        if not remaining.domains and (group := groups.get(pod_set.name)):
            in_group = (delete_domain(assignments[name], unhealthy_node)[0] for name in groups if groups[name] == group)
            missing = missing._replace(neighbors=next((one for one in in_group if one.domains), remaining))
        replacement = _find_replacement_assignment(snapshot, missing, unhealthy_node, gates, usage)
        if isinstance(replacement, TopologyAssignmentFailure):
            return replacement
        usage = with_assignment_usage(snapshot.tree, usage, replacement, pod_set.single_pod_requests)
        new_assignments[pod_set.name] = merge_topology_assignments(snapshot.tree, replacement, remaining)
    return TASAssignments(new_assignments)


class _Missing(NamedTuple):
    """The pods of a pod set that lose their node."""

    pod_set: TASPodSetRequests
    remaining: TopologyAssignment
    """The other pods of the pod set."""
    neighbors: TopologyAssignment | None = None
    """Pods of the same group, if no pod of the pod set remains."""


def _find_replacement_assignment(
    snapshot: TASFlavorSnapshot,
    pods: _Missing,
    unhealthy_node: str,
    gates: TASFeatureGates,
    assumed_usage: TASUsage,
) -> TopologyAssignment | TopologyAssignmentFailure:
    """Return the assignment of the missing pods; the remaining pods keep theirs."""
    tree, missing, remaining = snapshot.tree, pods.pod_set, pods.remaining
    stale_domain = tree.stale_domain(remaining)
    params = topology_assignment_parameters(tree.level_keys, missing._replace(pod_count=0), gates, has_leader=False)
    if stale_domain:
        problem = "the existing topologyAssignment is invalid, as it contains the stale domain"
        return TopologyAssignmentFailure(
            missing.name, tree.name, f"Cannot replace the node, because {problem} {stale_domain}"
        )
    if isinstance(params, str):
        return TopologyAssignmentFailure(missing.name, tree.name, params)
    required_domain: tuple[int, int] | None = None
    layers = params.slice_constraints if remaining.domains else ()
    whole_layers = tuple(layer for layer in layers if _are_slices(tree, remaining, missing.pod_count, layer))
    if whole_layers != layers:
        broken_layer = next(layer for layer in reversed(layers) if layer not in whole_layers)
        required_domain = _incomplete_slice_domain(tree, remaining, missing.pod_count, broken_layer)
        if required_domain is None:
            problem = f"no slice on level {broken_layer.level} lacks the {missing.pod_count} pod(s)"
            return TopologyAssignmentFailure(missing.name, tree.name, problem)
        missing = missing._replace(topology_request=_with_layers(missing.topology_request, whole_layers))
    elif params.required and (neighbors := _pods_by_leaf(tree, pods.neighbors or remaining)):
        first_leaf = neighbors[0][0]
        domain = tree.ancestor(first_leaf, params.requested_level)
        required_domain = tree.leaf_range(params.requested_level, domain)
    result = find_topology_assignment(snapshot, PodSetGroup(missing), assumed_usage, gates, required_domain)
    if isinstance(result, TopologyAssignmentFailure):
        return result
    if not result[missing.name].domains:
        return TopologyAssignmentFailure(
            missing.name, tree.name, f"cannot find replacement assignment for unhealthy node: {unhealthy_node}"
        )
    return result[missing.name]


def _are_slices(tree: TopologyTree, remaining: TopologyAssignment, missing_count: int, layer: SliceConstraint) -> bool:
    """Return whether the missing pods share no slice of a layer with remaining ones.

    They are then whole slices, or the smaller last slice if all others are whole.
    """
    pod_counts = _pods_by_domain(tree, remaining, layer).values()
    last_slice_size = (sum(pod_counts) + missing_count) % layer.size
    surplus = missing_count % layer.size
    return not surplus or (surplus == last_slice_size and not any(pods % layer.size for pods in pod_counts))


def _incomplete_slice_domain(
    tree: TopologyTree, remaining: TopologyAssignment, missing_count: int, layer: SliceConstraint
) -> tuple[int, int] | None:
    """Return the leaves of the domain whose slices the missing pods complete (findIncompleteSliceDomain).

    If no domain then has only whole slices, it is the domain of the smaller last slice.
    """
    pod_counts = _pods_by_domain(tree, remaining, layer)
    last_slice_size = (sum(pod_counts.values()) + missing_count) % layer.size
    completed = (
        domain
        for surplus in (0, last_slice_size)
        for domain in sorted(pod_counts)
        if (pod_counts[domain] + missing_count) % layer.size == surplus
    )
    domain = next(completed, None)
    return None if domain is None else tree.leaf_range(tree.level_keys.index(layer.level), domain)


def _pods_by_domain(tree: TopologyTree, assignment: TopologyAssignment, layer: SliceConstraint) -> dict[int, int]:
    """Return the number of pods in each domain of a layer."""
    level = tree.level_keys.index(layer.level)
    pod_counts: dict[int, int] = {}
    for leaf, pods in _pods_by_leaf(tree, assignment):
        domain = tree.ancestor(leaf, level)
        pod_counts[domain] = pod_counts.get(domain, 0) + pods
    return pod_counts


def _pods_by_leaf(tree: TopologyTree, assignment: TopologyAssignment) -> list[tuple[int, int]]:
    """Return the leaves of an assignment, each with its number of pods."""
    pods_by_leaf = ((tree.find_leaf(domain.values), domain.pods) for domain in assignment.domains)
    return [(leaf, pods) for leaf, pods in pods_by_leaf if leaf is not None]


def _with_layers(
    request: PodSetTopologyRequest | None, layers: tuple[SliceConstraint, ...]
) -> PodSetTopologyRequest | None:
    """Return the request with other slice layers. If no layer and no level remains, the pods are unconstrained."""
    if request is None:
        return None
    return request._replace(
        unconstrained=not (layers or request.required or request.preferred), slice_constraints=layers
    )
