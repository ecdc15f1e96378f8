"""Assigns flavors to all pod sets of a workload (pkg/scheduler/flavorassigner/flavorassigner.go assignFlavors).

Pod sets get flavors in order; those of a podset group (leader and workers) get them together. Each pod set takes into
account the usage of earlier ones. All resources of a resource group get the same flavor. If a pod set gets no flavor,
the remaining ones are not tried.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zonewise_scheduler.quota.api.amount import hash_resource_name, plus
from zonewise_scheduler.quota.api.resource_quota import FlavorResource
from zonewise_scheduler.quota.api.workload_types import PodSetAdmission
from zonewise_scheduler.quota.flavorassigner.assignment import (
    Assignment,
    FlavorAssignment,
    FlavorStatus,
    PodSetAssignment,
    least_severe_reason,
    most_severe_reason,
)
from zonewise_scheduler.quota.flavorassigner.flavor_scan import FlavorScan, find_flavor_for_pod_sets, is_flavor_suitable
from zonewise_scheduler.quota.flavorassigner.granular_mode import FlavorAssignmentMode
from zonewise_scheduler.quota.flavorassigner.tas_flavorassigner import update_assignment_for_tas

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zonewise_scheduler.quota.api.workload_types import PodSetResources, Workload
    from zonewise_scheduler.quota.flavorassigner.assignment import ConsideredFlavor, NoFitReason
    from zonewise_scheduler.quota.flavorassigner.flavor_scan import FlavorAssigner

_PODS = "pods"

FlavorRequests = tuple[tuple[FlavorResource, int], ...]
"""The amounts of one flavor that a workload needs."""
FlavorAlternatives = tuple[FlavorRequests, ...]
"""Alternatives; a workload needs all amounts of one of them."""


def assign_flavors(assigner: FlavorAssigner, counts: Sequence[int] | None = None) -> Assignment:
    """Return the flavors of a workload; `counts`: numbers of pods by pod set, or None for all pods.

    A workload with quota is a head again only for its placement. It keeps the flavors of its admission, regardless of
    the current quotas of its queue.
    """
    workload = assigner.workload
    assignment = _scan_flavors(assigner, counts) if workload.admission is None else _admitted_assignment(workload)
    if assignment.representative_mode is not FlavorAssignmentMode.NO_FIT:
        assignment = update_assignment_for_tas(assigner, assignment)
    if assignment.representative_mode is not FlavorAssignmentMode.NO_FIT:
        return assignment
    return replace(assignment, no_fit_reason=_resolve_no_fit_reason(assigner, assignment))


def _scan_flavors(assigner: FlavorAssigner, counts: Sequence[int] | None) -> Assignment:
    """Return the flavors of a workload without quota, still without placements."""
    requests = assigner.workload.total_requests
    if counts is not None:
        requests = tuple(pod_set.scaled_to(count) for pod_set, count in zip(requests, counts, strict=True))
    requests = tuple(_with_pods(assigner, pod_set) for pod_set in requests)
    by_index: dict[int, PodSetAssignment] = {}
    usage: dict[FlavorResource, int] = {}
    for indices in _podset_groups(assigner):
        by_index |= _assign_podset_group(assigner, indices, requests, usage)
        for i in indices:
            _add_usage(assigner, by_index[i], usage)
        if any(by_index[i].representative_mode is FlavorAssignmentMode.NO_FIT for i in indices):
            break
    return Assignment(tuple(by_index[i] for i in sorted(by_index)), usage)


def _admitted_assignment(workload: Workload) -> Assignment:
    """Return the admitted flavors, pods and placements (pkg/workload/workload.go totalRequestsFromAdmission).

    Fewer pods may have quota than the pod set has; if the admission lacks the pod set, none has quota.
    """
    admitted_pod_sets = (
        workload.admitted_pod_sets.get(pod_set.name, PodSetAdmission(pod_set.name, {}, {}, 0))
        for pod_set in workload.pod_sets
    )
    pod_sets = tuple(
        PodSetAssignment(
            admitted.name,
            admitted.pods,
            admitted.usage,
            {name: FlavorAssignment(flavor, FlavorAssignmentMode.FIT) for name, flavor in admitted.flavors.items()},
            topology_assignment=admitted.topology_assignment,
            delayed_topology_request=admitted.delayed_topology_request,
        )
        for admitted in admitted_pod_sets
    )
    return Assignment(pod_sets, workload.usage)


def flavor_alternatives(assigner: FlavorAssigner) -> FlavorAlternatives | None:
    """Return a workload's requests for each flavor that suits it and has enough potential quota.

    Returns None if a single scan does not decide the assignment: with several podset groups or resource groups, or if
    fewer pods may be admitted. The same applies to a workload that replaces a slice, since it also gets its usage.
    """
    groups, rg_by_resource = _podset_groups(assigner), assigner.queue.rg_by_resource
    shrinks = any(pod_set.min_pods not in {None, pod_set.pods} for pod_set in assigner.workload.pod_sets)
    if len(groups) != 1 or assigner.workload.admission is not None or (shrinks and assigner.settings.partial_admission):
        return None
    if assigner.replace_workload_slice is not None:
        return None
    [indices] = groups
    sums = _sum_requests(indices, [_with_pods(assigner, pod_set) for pod_set in assigner.workload.total_requests])
    nonzero = {name: amount for name, amount in sums.items() if amount}
    covering = {id(group): group for name, group in rg_by_resource.items() if name in sums}
    if len(covering) != 1 or not nonzero.keys() <= rg_by_resource.keys():
        return None
    [group] = covering.values()
    alternatives = [
        tuple((FlavorResource(name, resource), amount) for resource, amount in nonzero.items())
        for name in group.flavor_names
        if is_flavor_suitable(assigner, indices, name, group)
    ]
    return tuple(
        requests
        for requests in alternatives
        if all(amount <= assigner.queue.potential_available(key) for key, amount in requests)
    )


def _with_pods(assigner: FlavorAssigner, pod_set: PodSetResources) -> PodSetResources:
    """Return the requests of a pod set, including its number of pods if the queue has a quota of pods."""
    if _PODS not in assigner.queue.rg_by_resource:
        return pod_set
    return pod_set._replace(requests={**pod_set.requests, _PODS: pod_set.pods})


def _podset_groups(assigner: FlavorAssigner) -> list[list[int]]:
    """Return the indices of the pod sets, grouped by podset group."""
    groups: dict[str | int, list[int]] = {}
    for i, pod_set in enumerate(assigner.workload.pod_sets):
        name = pod_set.topology.pod_set_group_name if pod_set.topology is not None else ""
        groups.setdefault(name or i, []).append(i)
    return list(groups.values())


def _assign_podset_group(
    assigner: FlavorAssigner,
    indices: list[int],
    requests: tuple[PodSetResources, ...],
    usage: dict[FlavorResource, int],
) -> dict[int, PodSetAssignment]:
    scan = _scan_resources(assigner, indices, _sum_requests(indices, requests), usage)
    return {
        i: PodSetAssignment(
            requests[i].name,
            requests[i].pods,
            requests[i].requests,
            _resolve_pod_set_flavors(assigner, requests[i], i, scan.flavors),
            scan.statuses,
            considered_flavors=scan.considered_flavors,
        )
        for i in indices
    }


def _sum_requests(indices: Iterable[int], requests: Sequence[PodSetResources]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for i in indices:
        for name, amount in requests[i].requests.items():
            sums[name] = plus(sums.get(name, 0), amount)
    return sums


def _scan_resources(
    assigner: FlavorAssigner, indices: list[int], sums: Mapping[str, int], usage: dict[FlavorResource, int]
) -> FlavorScan:
    """Return the flavors of a podset group, resource by resource; no flavors if one resource gets none."""
    rg_by_resource = assigner.queue.rg_by_resource
    blocks_undeclared = assigner.settings.resources.quota_check_strategy == "BlockUndeclared"
    flavors: dict[str, FlavorAssignment] = {}
    statuses: list[FlavorStatus] = []
    considered_flavors: list[ConsideredFlavor] = []
    for resource in sorted(sums, key=hash_resource_name):
        if resource not in rg_by_resource and sums[resource] and blocks_undeclared:
            status = FlavorStatus("NoMatchingFlavor", resource=resource, message="the queue has no quota for it")
            return FlavorScan({}, (status,), tuple(considered_flavors))
        if resource in flavors or resource not in rg_by_resource:
            continue
        scan = find_flavor_for_pod_sets(assigner, indices, sums, resource, usage)
        considered_flavors += scan.considered_flavors
        if not scan.flavors:
            return FlavorScan({}, scan.statuses, tuple(considered_flavors))
        flavors |= scan.flavors
        statuses += scan.statuses
    return FlavorScan(flavors, tuple(statuses), tuple(considered_flavors))


def _resolve_pod_set_flavors(
    assigner: FlavorAssigner, requests: PodSetResources, index: int, group_flavors: Mapping[str, FlavorAssignment]
) -> Mapping[str, FlavorAssignment]:
    """Return the flavors of a podset group for the requests of one pod set (resolvePodSetFlavors).

    A pod set without requests (a leader) gets the flavors with a topology, so that it is placed with its group.
    """
    if requests.requests:
        return {resource: flavor for resource, flavor in group_flavors.items() if resource in requests.requests}
    topology = assigner.workload.pod_sets[index].topology
    if topology is None or not topology.pod_set_group_name:
        return {}
    has_topology = assigner.snapshot.tas_snapshot.has_topology
    return {resource: flavor for resource, flavor in group_flavors.items() if has_topology(flavor.name)}


def _add_usage(assigner: FlavorAssigner, pod_set: PodSetAssignment, usage: dict[FlavorResource, int]) -> None:
    """Add the usage of a pod set, minus that of the slice that it replaces."""
    replaced = assigner.replace_workload_slice
    admitted = None if replaced is None else replaced.admitted_pod_sets.get(pod_set.name)
    for resource, flavor in pod_set.flavors.items():
        replaced_amount = 0 if admitted is None else admitted.usage.get(resource, 0)
        key = FlavorResource(flavor.name, resource)
        usage[key] = plus(usage.get(key, 0), pod_set.requests.get(resource, 0) - replaced_amount)


def _resolve_no_fit_reason(assigner: FlavorAssigner, assignment: Assignment) -> NoFitReason:
    """Return the reason to report (resolveNoFitReason).

    Among the flavors of a resource group, which are alternatives, the least severe reason counts. Among resource groups
    and pod sets, which are all needed, the most severe reason counts.
    """
    reasons: list[NoFitReason] = []
    for pod_set in assignment.pod_sets:
        if pod_set.representative_mode is not FlavorAssignmentMode.NO_FIT:
            continue
        if not pod_set.considered_flavors:
            reasons.append("NoMatchingFlavor")
        by_group: dict[object, list[NoFitReason]] = {}
        for considered in pod_set.considered_flavors:
            if considered.mode is FlavorAssignmentMode.NO_FIT:
                group = _resource_group_key(assigner, considered.flavor)
                by_group.setdefault(group, []).append(considered.no_fit_reason)
        reasons += map(least_severe_reason, by_group.values())
    return most_severe_reason(reasons)


def _resource_group_key(assigner: FlavorAssigner, flavor: str) -> object:
    """Return the index of the resource group that contains a flavor, or the flavor if none does."""
    for i, group in enumerate(assigner.queue.spec.resource_groups):
        if flavor in group.flavor_names:
            return i
    return flavor
