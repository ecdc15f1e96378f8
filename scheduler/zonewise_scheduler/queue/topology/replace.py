"""The pods of a failed node, placed anew beside those that stay.

pkg/cache/scheduler/tas_flavor_snapshot.go findReplacementAssignment, requiredReplacementDomain,
findIncompleteSliceDomain; KEP-2724.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zonewise_scheduler.fit.model.fields import part, parts
from zonewise_scheduler.queue.topology.assignments import joined, without
from zonewise_scheduler.queue.topology.group import Group, place_group
from zonewise_scheduler.queue.topology.model import Layer, Options, Request
from zonewise_scheduler.queue.topology.place import Placed
from zonewise_scheduler.queue.topology.refusal import Refused
from zonewise_scheduler.queue.topology.shape import shape_of
from zonewise_scheduler.queue.topology.usage import with_pods

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.queue.topology.model import Assignment, PodSet
    from zonewise_scheduler.queue.topology.supply import Supply
    from zonewise_scheduler.queue.topology.tree import Tree
    from zonewise_scheduler.queue.topology.usage import Usage

GROUP = "kueue.x-k8s.io/is-group-workload"
"""The annotation of Workloads of pod groups."""

_DEFAULTS = Options()


def of_one_pod(metadata: Mapping[str, Any]) -> bool:
    """Tell whether a Workload is of a single pod, which stays where it is and dies with its node.

    pkg/workload/workload.go OwnedBySinglePod. Raises FieldError for what no API server would take.
    """
    owners = [(one.get("apiVersion"), one.get("kind")) for one in parts(metadata, "ownerReferences", "metadata.")]
    return owners == [("v1", "Pod")] and part(metadata, "annotations", "metadata.").get(GROUP) != "true"


def replace(
    supply: Supply,
    pod_sets: Sequence[PodSet],
    assignments: Mapping[str, Assignment],
    failed: str,
    options: Options = _DEFAULTS,
    assumed: Usage | None = None,
) -> Placed | Refused:
    """Return the assignments with the pods of a failed node elsewhere, or why there is no such place.

    All pods of a set stay in one domain of the required level, and slices stay whole. What the workload uses is no part
    of the supply. Sets without an assignment are passed over; a leader is placed like any other set.
    """
    placed: dict[str, Assignment] = {}
    usage: Usage = assumed or {}
    for pods in pod_sets:
        if pods.name not in assignments:
            continue
        kept, missing = without(assignments[pods.name], failed)
        new = _moved(supply, pods._replace(size=missing), kept, failed, options, usage)
        if isinstance(new, Refused):
            return new
        usage = with_pods(supply.tree, usage, new, pods.requests)
        placed[pods.name] = joined(supply.tree, new, kept)
    return Placed(placed)


def _moved(
    supply: Supply, pods: PodSet, kept: Assignment, failed: str, options: Options, assumed: Usage
) -> Assignment | Refused:
    """Return where the missing pods go."""
    tree = supply.tree
    stale = tree.stale(kept)
    shape = shape_of(tree.keys, pods._replace(size=0), options, leader=False)
    if stale:
        problem = "the existing topologyAssignment is invalid, as it contains the stale domain"
        return Refused(pods.name, tree.name, f"Cannot replace the node, because {problem} {stale}")
    if isinstance(shape, str):
        return Refused(pods.name, tree.name, shape)
    within: tuple[int, int] | None = None
    if pods.size % shape.size and kept.domains:
        broken = next(layer for layer in reversed(shape.layers) if pods.size % layer.size)
        within = _incomplete(tree, kept, pods.size, broken)
        if within is None:
            return Refused(pods.name, tree.name, f"no slice on level {broken.level} lacks the {pods.size} pod(s)")
        pods = pods._replace(request=_mended(pods.request, pods.size))
    elif shape.required and kept.domains:
        within = tree.within(shape.level, tree.above(_leaves(tree, kept)[0][0], shape.level))
    found = place_group(supply, Group(pods), assumed, options, within)
    if isinstance(found, Refused):
        return found
    if not found[pods.name].domains:
        return Refused(pods.name, tree.name, f"cannot find replacement assignment for unhealthy node: {failed}")
    return found[pods.name]


def _incomplete(tree: Tree, kept: Assignment, missing: int, layer: Layer) -> tuple[int, int] | None:
    """Return the leaves of the domain in which the missing pods make slices whole again."""
    level = tree.keys.index(layer.level)
    counts: dict[int, int] = {}
    for leaf, pods in _leaves(tree, kept):
        at = tree.above(leaf, level)
        counts[at] = counts.get(at, 0) + pods
    whole = (domain for domain in sorted(counts) if (counts[domain] + missing) % layer.size == 0)
    found = next(whole, None)
    return None if found is None else tree.within(level, found)


def _leaves(tree: Tree, kept: Assignment) -> list[tuple[int, int]]:
    """Return the leaves of an assignment, and how many pods each has."""
    found = ((tree.leaf(domain.values), domain.pods) for domain in kept.domains)
    return [(leaf, pods) for leaf, pods in found if leaf is not None]


def _mended(request: Request | None, missing: int) -> Request | None:
    """Return the request with the innermost layer alone of those that the missing pods are whole slices of."""
    if request is None:
        return None
    whole = [layer for layer in request.layers if missing % layer.size == 0]
    return request._replace(layers=tuple(whole[-1:]))
