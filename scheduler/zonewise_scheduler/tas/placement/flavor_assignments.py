"""All pod sets of a workload over the levels of one topology, or none.

pkg/cache/scheduler/tas_flavor_snapshot.go FindTopologyAssignmentsForFlavor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.quota.topology.types import TASFeatureGates, TopologyAssignment
from zonewise_scheduler.tas.placement.elastic_workloads import handle_elastic_workload
from zonewise_scheduler.tas.placement.pod_set_group import PodSetGroup, find_topology_assignment
from zonewise_scheduler.tas.snapshot.assignment_failure import TopologyAssignmentFailure
from zonewise_scheduler.tas.tree.tas_usage import with_assignment_usage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.quota.topology.types import TASPodSetRequests
    from zonewise_scheduler.tas.snapshot.flavor_snapshot import TASFlavorSnapshot
    from zonewise_scheduler.tas.tree.tas_usage import TASUsage

_DEFAULTS = TASFeatureGates()


class TASAssignments(NamedTuple):
    """Room for all pods; nothing is taken by it."""

    assignments: dict[str, TopologyAssignment]
    """By the name of the set."""


def find_topology_assignments_for_flavor(
    snapshot: TASFlavorSnapshot,
    pod_sets: Sequence[TASPodSetRequests],
    gates: TASFeatureGates = _DEFAULTS,
    assumed_usage: TASUsage | None = None,
) -> TASAssignments | TopologyAssignmentFailure:
    """Return where all pods of all sets go, or why there is no such place; `assumed` is used beside what is known.

    Exact for one set, or one leader with its workers: it is refused only if there is no place. Several are placed one
    after the other, without taking back. Equal input gives equal output, whatever the order of nodes.

    Raises ValueError for a negative number of pods, names that are not unique, and a group that is not a leader, which
    is one pod, and its workers.
    """
    _check(pod_sets)
    placed: dict[str, TopologyAssignment] = {}
    usage: TASUsage = assumed_usage or {}
    before: Sequence[TASPodSetRequests] = ()
    for group in _groups(pod_sets):
        for one in before:
            usage = with_assignment_usage(snapshot.tree, usage, placed[one.name], one.single_pod_requests)
        found = handle_elastic_workload(snapshot, group, usage, gates) if gates.elastic_jobs else None
        if found is None:
            found = find_topology_assignment(snapshot, group, usage, gates)
        if isinstance(found, TopologyAssignmentFailure):
            return found
        placed |= found
        before = group.pod_sets
    return TASAssignments(placed)


def _groups(pod_sets: Sequence[TASPodSetRequests]) -> list[PodSetGroup]:
    """Return the sets that are placed together, in the order of their first ones; the smaller of two is the leader."""
    found: dict[tuple[str, int], list[TASPodSetRequests]] = {}
    for number, one in enumerate(pod_sets):
        found.setdefault((one.group_name, -1 if one.group_name else number), []).append(one)
    groups: list[PodSetGroup] = []
    for sets in found.values():
        if len(sets) == 1:
            groups.append(PodSetGroup(sets[0]))
            continue
        first, second = sets
        groups.append(PodSetGroup(second, first) if second.pod_count > first.pod_count else PodSetGroup(first, second))
    return groups


def _check(pod_sets: Sequence[TASPodSetRequests]) -> None:
    sizes: dict[str, list[int]] = {}
    for one in pod_sets:
        if one.pod_count < 0:
            raise ValueError(f"pod set {one.name}: size: negative: {one.pod_count}")
        if one.group_name:
            sizes.setdefault(one.group_name, []).append(one.pod_count)
    if len({one.name for one in pod_sets}) < len(pod_sets):
        raise ValueError(f"pod sets: names are not unique: {', '.join(one.name for one in pod_sets)}")
    for group, counts in sizes.items():
        if len(counts) > 2 or (len(counts) == 2 and min(counts) != 1):
            raise ValueError(f"group {group}: not a leader of one pod and its workers: {counts}")
