"""The pods of a failed node, placed anew beside those that stay.

pkg/cache/scheduler/tas_flavor_snapshot.go findReplacementAssignment, requiredReplacementDomain,
findIncompleteSliceDomain; KEP-2724.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.quota.topology.types import PodSetTopologyRequest, SliceConstraint, TASFeatureGates
from zonewise_scheduler.tas.placement.flavor_assignments import TASAssignments
from zonewise_scheduler.tas.placement.pod_set_group import PodSetGroup, find_topology_assignment
from zonewise_scheduler.tas.snapshot.assignment_failure import TopologyAssignmentFailure
from zonewise_scheduler.tas.tree.assignment_parameters import topology_assignment_parameters
from zonewise_scheduler.tas.tree.tas_usage import with_assignment_usage
from zonewise_scheduler.tas.tree.topology_assignments import delete_domain, merge_topology_assignments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.quota.topology.types import TASPodSetRequests, TopologyAssignment
    from zonewise_scheduler.tas.snapshot.flavor_snapshot import TASFlavorSnapshot
    from zonewise_scheduler.tas.tree.tas_usage import TASUsage
    from zonewise_scheduler.tas.tree.topology_tree import TopologyTree

_DEFAULTS = TASFeatureGates()


def find_replacement_assignments(
    snapshot: TASFlavorSnapshot,
    pod_sets: Sequence[TASPodSetRequests],
    assignments: Mapping[str, TopologyAssignment],
    unhealthy_node: str,
    gates: TASFeatureGates = _DEFAULTS,
    assumed_usage: TASUsage | None = None,
) -> TASAssignments | TopologyAssignmentFailure:
    """Return the assignments with the pods of a failed node elsewhere, or why there is no such place.

    All pods of a set stay in one domain of the required level, and slices stay whole. What the workload uses is no part
    of the supply. Sets without an assignment are passed over; a leader is placed like any other set.
    """
    placed: dict[str, TopologyAssignment] = {}
    usage: TASUsage = assumed_usage or {}
    for pods in pod_sets:
        if pods.name not in assignments:
            continue
        kept, missing = delete_domain(assignments[pods.name], unhealthy_node)
        new = _moved(snapshot, pods._replace(pod_count=missing), kept, unhealthy_node, gates, usage)
        if isinstance(new, TopologyAssignmentFailure):
            return new
        usage = with_assignment_usage(snapshot.tree, usage, new, pods.single_pod_requests)
        placed[pods.name] = merge_topology_assignments(snapshot.tree, new, kept)
    return TASAssignments(placed)


def _moved(
    supply: TASFlavorSnapshot,
    pods: TASPodSetRequests,
    kept: TopologyAssignment,
    failed: str,
    options: TASFeatureGates,
    assumed: TASUsage,
) -> TopologyAssignment | TopologyAssignmentFailure:
    """Return where the missing pods go."""
    tree = supply.tree
    stale = tree.stale_domain(kept)
    shape = topology_assignment_parameters(tree.level_keys, pods._replace(pod_count=0), options, has_leader=False)
    if stale:
        problem = "the existing topologyAssignment is invalid, as it contains the stale domain"
        return TopologyAssignmentFailure(pods.name, tree.name, f"Cannot replace the node, because {problem} {stale}")
    if isinstance(shape, str):
        return TopologyAssignmentFailure(pods.name, tree.name, shape)
    within: tuple[int, int] | None = None
    if pods.pod_count % shape.slice_size and kept.domains:
        broken = next(layer for layer in reversed(shape.slice_constraints) if pods.pod_count % layer.size)
        within = _incomplete(tree, kept, pods.pod_count, broken)
        if within is None:
            return TopologyAssignmentFailure(
                pods.name, tree.name, f"no slice on level {broken.level} lacks the {pods.pod_count} pod(s)"
            )
        pods = pods._replace(topology_request=_mended(pods.topology_request, pods.pod_count))
    elif shape.required and kept.domains:
        within = tree.leaf_range(shape.requested_level, tree.ancestor(_leaves(tree, kept)[0][0], shape.requested_level))
    found = find_topology_assignment(supply, PodSetGroup(pods), assumed, options, within)
    if isinstance(found, TopologyAssignmentFailure):
        return found
    if not found[pods.name].domains:
        return TopologyAssignmentFailure(
            pods.name, tree.name, f"cannot find replacement assignment for unhealthy node: {failed}"
        )
    return found[pods.name]


def _incomplete(
    tree: TopologyTree, kept: TopologyAssignment, missing: int, layer: SliceConstraint
) -> tuple[int, int] | None:
    """Return the leaves of the domain in which the missing pods make slices whole again."""
    level = tree.level_keys.index(layer.level)
    counts: dict[int, int] = {}
    for leaf, pods in _leaves(tree, kept):
        at = tree.ancestor(leaf, level)
        counts[at] = counts.get(at, 0) + pods
    whole = (domain for domain in sorted(counts) if (counts[domain] + missing) % layer.size == 0)
    found = next(whole, None)
    return None if found is None else tree.leaf_range(level, found)


def _leaves(tree: TopologyTree, kept: TopologyAssignment) -> list[tuple[int, int]]:
    """Return the leaves of an assignment, and how many pods each has."""
    found = ((tree.find_leaf(domain.values), domain.pods) for domain in kept.domains)
    return [(leaf, pods) for leaf, pods in found if leaf is not None]


def _mended(request: PodSetTopologyRequest | None, missing: int) -> PodSetTopologyRequest | None:
    """Return the request with the innermost layer alone of those that the missing pods are whole slices of."""
    if request is None:
        return None
    whole = [layer for layer in request.slice_constraints if missing % layer.size == 0]
    return request._replace(slice_constraints=tuple(whole[-1:]))
