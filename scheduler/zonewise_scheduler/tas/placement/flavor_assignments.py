"""Topology assignments in one flavor, either for all pod sets of a workload or for none.

pkg/cache/scheduler/tas_flavor_snapshot.go FindTopologyAssignmentsForFlavor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.tas.placement.elastic_workloads import handle_elastic_workload
from zonewise_scheduler.tas.placement.pod_set_group import PodSetGroup, find_topology_assignment
from zonewise_scheduler.tas.snapshot.assignment_failure import TopologyAssignmentFailure
from zonewise_scheduler.tas.tree.tas_usage import with_assignment_usage
from zonewise_scheduler.tas.types import TASFeatureGates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.quota.topology.types import TopologyAssignment
    from zonewise_scheduler.tas.snapshot.flavor_snapshot import TASFlavorSnapshot
    from zonewise_scheduler.tas.tree.tas_usage import TASUsage
    from zonewise_scheduler.tas.types import TASPodSetRequests

_DEFAULTS = TASFeatureGates()


class TASAssignments(NamedTuple):
    """The assignments of all pod sets; they do not change the snapshot."""

    assignments: dict[str, TopologyAssignment]
    """Assignments by name of the pod set."""


def find_topology_assignments_for_flavor(
    snapshot: TASFlavorSnapshot,
    pod_sets: Sequence[TASPodSetRequests],
    gates: TASFeatureGates = _DEFAULTS,
    assumed_usage: TASUsage | None = None,
) -> TASAssignments | TopologyAssignmentFailure:
    """Return the assignments of all pod sets, or why there are none; `assumed_usage` adds to the snapshot's usage.

    For one pod set, or one leader with its workers, the search is exact: it fails only if no assignment exists. Several
    groups are assigned one after the other, without backtracking. The result does not depend on the order of nodes.

    Raises ValueError for a negative number of pods, for duplicate names, and for an invalid group. A valid group is a
    leader, which is one pod, and its workers.
    """
    _check(pod_sets)
    assignments: dict[str, TopologyAssignment] = {}
    usage: TASUsage = assumed_usage or {}
    previous_pod_sets: Sequence[TASPodSetRequests] = ()
    for group in _group_pod_sets(pod_sets):
        for pod_set in previous_pod_sets:
            usage = with_assignment_usage(snapshot.tree, usage, assignments[pod_set.name], pod_set.single_pod_requests)
        result = handle_elastic_workload(snapshot, group, usage, gates) if gates.elastic_jobs else None
        if result is None:
            result = find_topology_assignment(snapshot, group, usage, gates)
        if isinstance(result, TopologyAssignmentFailure):
            return result
        assignments |= result
        previous_pod_sets = group.pod_sets
    return TASAssignments(assignments)


def _group_pod_sets(pod_sets: Sequence[TASPodSetRequests]) -> list[PodSetGroup]:
    """Return the groups in the order of their first pod sets; the smaller of two pod sets is the leader."""
    sets_by_group: dict[tuple[str, int], list[TASPodSetRequests]] = {}
    for i, pod_set in enumerate(pod_sets):
        sets_by_group.setdefault((pod_set.group_name, -1 if pod_set.group_name else i), []).append(pod_set)
    groups: list[PodSetGroup] = []
    for group in sets_by_group.values():
        if len(group) == 1:
            groups.append(PodSetGroup(group[0]))
            continue
        first, second = group
        groups.append(PodSetGroup(second, first) if second.pod_count > first.pod_count else PodSetGroup(first, second))
    return groups


def _check(pod_sets: Sequence[TASPodSetRequests]) -> None:
    sizes: dict[str, list[int]] = {}
    for pod_set in pod_sets:
        if pod_set.pod_count < 0:
            raise ValueError(f"pod set {pod_set.name}: size: negative: {pod_set.pod_count}")
        if pod_set.group_name:
            sizes.setdefault(pod_set.group_name, []).append(pod_set.pod_count)
    if len({pod_set.name for pod_set in pod_sets}) < len(pod_sets):
        raise ValueError(f"pod sets: names are not unique: {', '.join(pod_set.name for pod_set in pod_sets)}")
    for group, pod_counts in sizes.items():
        if len(pod_counts) > 2 or (len(pod_counts) == 2 and min(pod_counts) != 1):
            raise ValueError(f"group {group}: not a leader of one pod and its workers: {pod_counts}")
