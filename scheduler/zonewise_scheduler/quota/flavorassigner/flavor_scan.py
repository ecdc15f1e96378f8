"""Scans a resource group for the flavor of pod sets (flavorassigner.go findFlavorForPodSets).

All pod sets of a podset group get the same flavor. Each flavor is checked in three steps: taints and labels, topology,
and quota.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.labels import selects
from zonewise_common.k8s.taints import find_matching_untolerated_taint
from zonewise_scheduler.quota.api.amount import hash_resource_name, minus, plus
from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS
from zonewise_scheduler.quota.api.queue_types import ResourceFlavor
from zonewise_scheduler.quota.api.resource_quota import FlavorResource
from zonewise_scheduler.quota.flavorassigner.assignment import (
    NO_LAST_ASSIGNMENT,
    SCAN_ENDED,
    ConsideredFlavor,
    FlavorAssignment,
    FlavorStatus,
)
from zonewise_scheduler.quota.flavorassigner.granular_mode import (
    BEST_GRANULAR_MODE,
    WORST_GRANULAR_MODE,
    FlavorAssignmentMode,
    GranularMode,
    PreemptionMode,
    is_preferred,
    should_try_next_flavor,
)
from zonewise_scheduler.quota.hierarchy.resource_node import find_height_of_lowest_subtree_that_fits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.quota.api.configuration import QuotaSettings
    from zonewise_scheduler.quota.api.resource_quota import ResourceGroup
    from zonewise_scheduler.quota.api.workload_types import Amounts, PodSet, Usage, Workload
    from zonewise_scheduler.quota.flavorassigner.assignment import AssignmentClusterQueueState
    from zonewise_scheduler.quota.hierarchy.resource_node import ClusterQueueSnapshot
    from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
    from zonewise_scheduler.quota.hierarchy.topology_snapshot import TopologySnapshot
    from zonewise_scheduler.quota.preemption.preemption_oracle import PreemptionOracle, PreemptionPossibility

_PREEMPTION_MODE: dict[PreemptionPossibility, PreemptionMode] = {
    "NoCandidates": PreemptionMode.NO_CANDIDATES, "Preempt": PreemptionMode.PREEMPT, "Reclaim": PreemptionMode.RECLAIM,
}  # fmt: skip


@dataclass(frozen=True)
class FlavorAssigner:
    """A workload to which flavors are assigned, with everything on which the assignment depends."""

    snapshot: Snapshot
    workload: Workload
    queue: ClusterQueueSnapshot
    oracle: PreemptionOracle
    settings: QuotaSettings = DEFAULT_SETTINGS
    last_assignment: AssignmentClusterQueueState = NO_LAST_ASSIGNMENT
    replace_workload_slice: Workload | None = None
    """A slice of the same job that this workload replaces. The workload gets the same flavors, and only its additional
    usage counts."""
    nomination_mapping: Mapping[str, Mapping[str, str]] | None = None
    """The only flavors to try, by pod set and resource; None for all flavors."""

    def resource_flavor(self, name: str) -> ResourceFlavor | None:
        """Return a flavor; None if it is missing."""
        flavors = self.snapshot.resource_flavors
        return ResourceFlavor(name) if flavors is None else flavors.get(name)

    @cached_property
    def is_tas_only(self) -> bool:
        """Whether all flavors of the queue have topologies, so that all its pods are placed."""
        names = [name for group in self.queue.spec.resource_groups for name in group.flavor_names]
        return bool(names) and all(map(self.snapshot.tas_snapshot.has_topology, names))


class FlavorScan(NamedTuple):
    """The result of a scan."""

    flavors: Mapping[str, FlavorAssignment]
    """Flavors by resource; empty if no flavor fits."""
    statuses: tuple[FlavorStatus, ...]
    """Statuses of all flavors that were tried; empty if one fits at once."""
    considered_flavors: tuple[ConsideredFlavor, ...]


class _EvaluatedFlavor(NamedTuple):
    mode: GranularMode
    flavors: dict[str, FlavorAssignment]
    considered: ConsideredFlavor


def find_flavor_for_pod_sets(
    assigner: FlavorAssigner, pod_sets: Sequence[int], requests: Amounts, resource: str, assignment_usage: Usage
) -> FlavorScan:
    """Return the flavor for all resources of the group that covers `resource`.

    `pod_sets` are indices. `requests` is the sum over these pod sets. `assignment_usage` is the usage of the pod sets
    that already have flavors.
    """
    group = assigner.queue.rg_by_resource[resource]
    group_requests = {
        name: requests[name] for name in sorted(requests, key=hash_resource_name) if name in group.covered_resources
    }
    fungibility = assigner.queue.spec.flavor_fungibility
    best: _EvaluatedFlavor | None = None
    considered_flavors: list[ConsideredFlavor] = []
    statuses: list[FlavorStatus] = []
    tried = SCAN_ENDED
    specs = [assigner.workload.pod_sets[i] for i in pod_sets]
    for index in range(assigner.last_assignment.next_flavor_to_try(specs[0].name, resource), len(group.flavors)):
        name = group.flavors[index].name
        if _is_excluded(assigner, specs, name, resource):
            statuses.append(FlavorStatus("", name, resource, message="it is not among the flavors that may be tried"))
            continue
        problem = _mismatch(assigner, specs, name, group)
        if problem:
            statuses.append(FlavorStatus("NoMatchingFlavor", name, message=problem))
            considered_flavors.append(ConsideredFlavor(name, FlavorAssignmentMode.NO_FIT, (statuses[-1],)))
            continue
        evaluated = _evaluate(assigner, pod_sets, name, group_requests, assignment_usage)
        considered_flavors.append(evaluated.considered)
        statuses += evaluated.considered.statuses
        if not should_try_next_flavor(evaluated.mode, fungibility):
            best = evaluated
            tried = index if group.flavors[index + 1 :] else SCAN_ENDED
            break
        if is_preferred(evaluated.mode, WORST_GRANULAR_MODE if best is None else best.mode, fungibility):
            best = evaluated
    if best is None:
        return FlavorScan({}, tuple(statuses), tuple(considered_flavors))
    flavors = {name: flavor._replace(tried_flavor_idx=tried) for name, flavor in best.flavors.items()}
    fits = best.considered.mode is FlavorAssignmentMode.FIT
    return FlavorScan(flavors, () if fits else tuple(statuses), tuple(considered_flavors))


def is_flavor_suitable(assigner: FlavorAssigner, pod_sets: Sequence[int], name: str, group: ResourceGroup) -> bool:
    """Return whether a flavor of a group may be tried for pod sets and its nodes suit them, regardless of quota."""
    specs = [assigner.workload.pod_sets[i] for i in pod_sets]
    excluded = any(_is_excluded(assigner, specs, name, resource) for resource in group.covered_resources)
    return not excluded and not _mismatch(assigner, specs, name, group)


def _is_excluded(assigner: FlavorAssigner, specs: Sequence[PodSet], name: str, resource: str) -> bool:
    """Return whether a flavor must not be tried."""
    mapping, allowed = assigner.nomination_mapping, assigner.workload.allowed_flavors
    if mapping is not None and all(mapping.get(spec.name, {}).get(resource) != name for spec in specs):
        return True
    return allowed is not None and name not in allowed


def _mismatch(assigner: FlavorAssigner, specs: Sequence[PodSet], name: str, group: ResourceGroup) -> str:
    """Return why the nodes of a flavor do not suit the pod sets; "" if they do."""
    flavor, tas_snapshot, is_tas_only = (
        assigner.resource_flavor(name),
        assigner.snapshot.tas_snapshot,
        assigner.is_tas_only,
    )
    if flavor is None:
        return "the flavor does not exist"
    problems = (
        check_pod_set_and_flavor_match_for_tas(spec, flavor, group, tas_snapshot, is_tas_only=is_tas_only)
        or check_flavor_for_pod_set(spec, flavor)
        for spec in specs
    )
    return next(filter(None, problems), "")


def _evaluate(
    assigner: FlavorAssigner, pod_sets: Sequence[int], name: str, requests: Amounts, assignment_usage: Usage
) -> _EvaluatedFlavor:
    """Return the mode of one flavor: the worst mode of its resources."""
    worst = BEST_GRANULAR_MODE
    flavors: dict[str, FlavorAssignment] = {}
    statuses: list[FlavorStatus] = []
    for resource, amount in requests.items():
        key = FlavorResource(name, resource)
        replaced_amount, replaced_flavor = _replaced(assigner, pod_sets, key)
        if replaced_flavor:
            worst = WORST_GRANULAR_MODE
            statuses.append(FlavorStatus("NoMatchingFlavor", name, resource, message=f"the job has {replaced_flavor}"))
        total = plus(assignment_usage.get(key, 0), amount - replaced_amount)
        fair_sharing = assigner.settings.fair_sharing
        mode, status = fits_resource_quota(
            assigner.queue, assigner.workload, key, total, assigner.oracle, fair_sharing=fair_sharing
        )
        if status is not None:
            statuses.append(status)
        if is_preferred(worst, mode, assigner.queue.spec.flavor_fungibility):
            worst = mode
        flavors[resource] = FlavorAssignment(name, mode.preemption_mode.flavor_assignment_mode, mode.borrowing_level)
    considered = ConsideredFlavor(name, worst.preemption_mode.flavor_assignment_mode, tuple(statuses))
    return _EvaluatedFlavor(worst, flavors, considered)


def _replaced(assigner: FlavorAssigner, pod_sets: Sequence[int], key: FlavorResource) -> tuple[int, str]:
    """Return the usage of the replaced slice, and its flavor if that differs from the key's, or else ""."""
    amount = 0
    if assigner.replace_workload_slice is not None:
        for i in pod_sets:
            admitted = assigner.replace_workload_slice.admitted_pod_sets.get(assigner.workload.pod_sets[i].name)
            if admitted is None or admitted.flavors.get(key.resource) != key.flavor:
                return amount, "none" if admitted is None else admitted.flavors.get(key.resource, "none")
            amount += admitted.usage.get(key.resource, 0)
    return amount, ""


# --- nodes


def check_flavor_for_pod_set(pod_set: PodSet, flavor: ResourceFlavor) -> str:
    """Return why taints or labels keep the pods off a flavor's nodes; "" if they do not (checkFlavorForPodSets).

    Of the nodes' labels, only those of the flavor are known. Requirements on other labels are ignored. The affinity
    holds if one of its terms concerns only other labels.
    """
    taint = find_matching_untolerated_taint(flavor.node_taints, (*pod_set.tolerations, *flavor.tolerations))
    if taint is not None:
        return f"taint {taint} is not tolerated"
    if not _selects(pod_set, flavor.node_labels):
        return "the node selector or affinity requires other labels"
    return ""


def check_pod_set_and_flavor_match_for_tas(
    pod_set: PodSet, flavor: ResourceFlavor, group: ResourceGroup, tas_snapshot: TopologySnapshot, *, is_tas_only: bool
) -> str:
    """Return why a flavor's topology does not suit the pods; "" if it does.

    `is_tas_only`: all flavors of the queue have topologies, so all pods are placed, with or without a request. A flavor
    without a topology suits pods with a request if its group covers none of their requests to their nodes.
    """
    request = pod_set.topology
    if request is None or not request.explicit:
        return "" if is_tas_only or not flavor.topology_name else "its nodes are only for pods that request placement"
    if not flavor.topology_name:
        return "" if group.covered_resources.isdisjoint(pod_set.requests_on_node) else "it has no topology"
    if not tas_snapshot.has_topology(flavor.name):
        return "its topology is unknown"
    if tas_snapshot.has_level(flavor.name, request):
        return ""
    return f"its topology {flavor.topology_name} lacks a requested level: {', '.join(request.request.levels)}"


def _selects(pod_set: PodSet, labels: Mapping[str, str]) -> bool:
    if not selects((requirement for requirement in pod_set.node_selector if requirement.key in labels), labels):
        return False
    if pod_set.required_terms is None:
        return True
    terms = [
        [requirement for requirement in term.match_expressions if requirement.key in labels]
        for term in pod_set.required_terms
    ]
    return not all(terms) or any(selects(term, labels) for term in terms)


# --- quota


def fits_resource_quota(
    queue: ClusterQueueSnapshot,
    workload: Workload,
    key: FlavorResource,
    amount: int,
    oracle: PreemptionOracle,
    *,
    fair_sharing: bool,
) -> tuple[GranularMode, FlavorStatus | None]:
    """Return how a workload can get an amount, and why it cannot get it at once; None if it can (fitsResourceQuota).

    The oracle simulates a preemption only in three cases:

    - The amount is within the nominal quota.
    - A subtree smaller than the tree has enough quota.
    - The queue may preempt while it borrows.
    """
    potential = queue.potential_available(key)
    if amount > potential:
        missing = minus(amount, potential)
        status = FlavorStatus("ExceedsMaxQuota", key.flavor, key.resource, missing)
        return GranularMode(PreemptionMode.NO_FIT, 0), status
    height, within_tree = find_height_of_lowest_subtree_that_fits(queue, key, amount)
    available = max(0, queue.available(key))
    if amount <= available:
        return GranularMode(PreemptionMode.FIT, height), None
    missing = minus(amount, available)
    if (
        amount <= queue.subtree_quota[key]
        or within_tree
        or _can_preempt_while_borrowing(queue, fair_sharing=fair_sharing)
    ):
        possibility, borrowing_level = oracle(queue, workload, key, amount)
        mode = GranularMode(_PREEMPTION_MODE[possibility], borrowing_level)
        return mode, FlavorStatus("InUse", key.flavor, key.resource, missing)
    status = FlavorStatus("WaitingForQuota", key.flavor, key.resource, missing)
    return GranularMode(PreemptionMode.NO_FIT, height), status


def _can_preempt_while_borrowing(queue: ClusterQueueSnapshot, *, fair_sharing: bool) -> bool:
    preemption = queue.spec.preemption
    return preemption.borrow_within_cohort != "Never" or (fair_sharing and preemption.reclaim_within_cohort != "Never")
