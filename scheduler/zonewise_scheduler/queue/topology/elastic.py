"""A workload that grows or shrinks while it runs: pods that run stay where they are.

pkg/cache/scheduler/tas_elastic_workloads.go; KEP-77.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.queue.topology.assignments import cut, joined
from zonewise_scheduler.queue.topology.group import Group, place_group
from zonewise_scheduler.queue.topology.refusal import Refused
from zonewise_scheduler.queue.topology.usage import with_pods

if TYPE_CHECKING:
    from zonewise_scheduler.queue.topology.model import Assignment, Options, PodSet
    from zonewise_scheduler.queue.topology.supply import Supply
    from zonewise_scheduler.queue.topology.usage import Usage


def resized(supply: Supply, group: Group, assumed: Usage, options: Options) -> dict[str, Assignment] | Refused | None:
    """Return where the pods are: those of the slice before, without its last ones or with further ones beside them.

    None where there is no slice before, or any of its domains is no more: all pods are to be placed then. What the
    slice before uses is no part of the supply or of what is assumed.
    """
    before = group.workers.previous
    leader = group.leader
    if before is None or _stale(supply, group.workers) or (leader is not None and _stale(supply, leader)):
        return None
    kept = {group.workers.name: cut(before, group.workers.size)}
    if leader is not None and leader.previous is not None:
        kept[leader.name] = leader.previous
    further = group.workers._replace(size=max(group.workers.size - before.pods, 0))
    missing = [one for one in group.sets if one.name not in kept]
    if not further.size and not missing:
        return kept
    usage = assumed
    for one in group.sets:
        usage = with_pods(supply.tree, usage, kept[one.name], one.requests) if one.name in kept else usage
    found = place_group(supply, Group(further, *missing), usage, options)
    if isinstance(found, Refused):
        return found
    return found | kept | {further.name: joined(supply.tree, found[further.name], kept[further.name])}


def _stale(supply: Supply, pods: PodSet) -> bool:
    return pods.previous is not None and bool(supply.tree.stale(pods.previous))
