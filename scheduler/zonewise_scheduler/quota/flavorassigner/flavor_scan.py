"""The scan of a resource group's flavors for pod sets that get the same ones (findFlavorForPodSets)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.quota.api.amount import hash_resource_name, plus
from zonewise_scheduler.quota.api.queue_types import ResourceFlavor
from zonewise_scheduler.quota.api.resource_quota import FlavorResource
from zonewise_scheduler.quota.api.workload_types import DEFAULT_SETTINGS
from zonewise_scheduler.quota.flavorassigner.assignment import (
    NO_LAST_ASSIGNMENT,
    ConsideredFlavor,
    FlavorAssignment,
    FlavorStatus,
)
from zonewise_scheduler.quota.flavorassigner.flavor_match import (
    check_flavor_for_pod_set,
    check_pod_set_and_flavor_match_for_tas,
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
from zonewise_scheduler.quota.flavorassigner.quota_fit import PREEMPTION_POSSIBILITY, fits_resource_quota

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.quota.api.resource_quota import ResourceGroup
    from zonewise_scheduler.quota.api.workload_types import Amounts, PodSet, QuotaSettings, Usage, Workload
    from zonewise_scheduler.quota.flavorassigner.assignment import AssignmentClusterQueueState
    from zonewise_scheduler.quota.hierarchy.resource_node import ClusterQueueSnapshot
    from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
    from zonewise_scheduler.quota.preemption.preemption_oracle import PreemptionOracle


@dataclass(frozen=True)
class FlavorAssigner:
    """A workload that asks for flavors."""

    snapshot: Snapshot
    workload: Workload
    queue: ClusterQueueSnapshot
    oracle: PreemptionOracle
    settings: QuotaSettings = DEFAULT_SETTINGS
    last_assignment: AssignmentClusterQueueState = NO_LAST_ASSIGNMENT
    replace_workload_slice: Workload | None = None
    """A slice of the same job that it takes the place of: it gets the same flavors, and only the rest is new."""
    nomination_mapping: Mapping[str, Mapping[str, str]] | None = None
    """Flavors by pod set and resource, from which it does not turn away; None: it is free."""

    def resource_flavor(self, name: str) -> ResourceFlavor | None:
        """Return a flavor; None where it is missing."""
        flavors = self.snapshot.resource_flavors
        return ResourceFlavor(name) if flavors is None else flavors.get(name)

    @cached_property
    def is_tas_only(self) -> bool:
        """Tell whether all flavors of the queue have topologies, so that all its pods are placed."""
        names = [name for group in self.queue.spec.resource_groups for name in group.flavor_names]
        return bool(names) and all(map(self.snapshot.tas_snapshot.has_topology, names))


class FlavorScan(NamedTuple):
    """What a scan found."""

    flavors: Mapping[str, FlavorAssignment]
    """By resource; empty where no flavor can be had."""
    statuses: tuple[FlavorStatus, ...]
    """Of all flavors that were tried; none where one can be had at once."""
    considered_flavors: tuple[ConsideredFlavor, ...]


class _Graded(NamedTuple):
    grade: GranularMode
    choices: dict[str, FlavorAssignment]
    attempt: ConsideredFlavor


def find_flavor_for_pod_sets(
    assigner: FlavorAssigner, pod_sets: Sequence[int], requests: Amounts, resource: str, assignment_usage: Usage
) -> FlavorScan:
    """Return the flavor for all resources of the group that `resource` is of.

    `requests` are of the pod sets together; `used` is what other pod sets of the workload get.
    """
    group = assigner.queue.rg_by_resource[resource]
    wanted = {
        name: requests[name] for name in sorted(requests, key=hash_resource_name) if name in group.covered_resources
    }
    rules = assigner.queue.spec.flavor_fungibility
    best: _Graded | None = None
    attempts: list[ConsideredFlavor] = []
    hindrances: list[FlavorStatus] = []
    at = -1
    specs = [assigner.workload.pod_sets[place] for place in pod_sets]
    for at in range(assigner.last_assignment.next_flavor_to_try(specs[0].name, resource), len(group.flavors)):
        name = group.flavors[at].name
        if _passed_over(assigner, specs, name, resource):
            hindrances.append(FlavorStatus("", name, resource, message="it is not among the flavors that may be tried"))
            continue
        problem = _unsuited(assigner, specs, name, group)
        if problem:
            hindrances.append(FlavorStatus("NoMatchingFlavor", name, message=problem))
            attempts.append(ConsideredFlavor(name, FlavorAssignmentMode.NO_FIT, statuses=(hindrances[-1],)))
            continue
        graded = _grade(assigner, pod_sets, name, wanted, assignment_usage)
        attempts.append(graded.attempt)
        hindrances += graded.attempt.statuses
        if not should_try_next_flavor(graded.grade, rules):
            best = graded
            break
        if is_preferred(graded.grade, WORST_GRANULAR_MODE if best is None else best.grade, rules):
            best = graded
    if best is None:
        return FlavorScan({}, tuple(hindrances), tuple(attempts))
    tried = -1 if at == len(group.flavors) - 1 else at
    choices = {name: choice._replace(tried_flavor_idx=tried) for name, choice in best.choices.items()}
    return FlavorScan(
        choices, () if best.grade.preemption_mode == PreemptionMode.FIT else tuple(hindrances), tuple(attempts)
    )


def is_flavor_suitable(assigner: FlavorAssigner, pod_sets: Sequence[int], name: str, group: ResourceGroup) -> bool:
    """Tell whether a flavor of a group may be tried for pod sets, and is one for them."""
    specs = [assigner.workload.pod_sets[place] for place in pod_sets]
    passed = any(_passed_over(assigner, specs, name, resource) for resource in group.covered_resources)
    return not passed and not _unsuited(assigner, specs, name, group)


def _passed_over(request: FlavorAssigner, specs: Sequence[PodSet], name: str, resource: str) -> bool:
    """Tell whether a flavor is not to be tried."""
    pinned, allowed = request.nomination_mapping, request.workload.allowed_flavors
    if pinned is not None and all(pinned.get(one.name, {}).get(resource) != name for one in specs):
        return True
    return allowed is not None and name not in allowed


def _unsuited(request: FlavorAssigner, specs: Sequence[PodSet], name: str, group: ResourceGroup) -> str:
    """Return why a flavor is no flavor for the pod sets, "" if it is."""
    flavor, places, everywhere = request.resource_flavor(name), request.snapshot.tas_snapshot, request.is_tas_only
    if flavor is None:
        return "there is no such flavor"
    problems = (
        check_pod_set_and_flavor_match_for_tas(one, flavor, group, places, is_tas_only=everywhere)
        or check_flavor_for_pod_set(one, flavor)
        for one in specs
    )
    return next(filter(None, problems), "")


def _grade(request: FlavorAssigner, pod_sets: Sequence[int], name: str, wanted: Amounts, used: Usage) -> _Graded:
    """Grade one flavor: as the worst of its resources."""
    worst, borrowing = BEST_GRANULAR_MODE, 0
    choices: dict[str, FlavorAssignment] = {}
    hindrances: list[FlavorStatus] = []
    for resource, amount in wanted.items():
        key = FlavorResource(name, resource)
        before, differs = _before(request, pod_sets, key)
        if differs:
            worst = WORST_GRANULAR_MODE
            hindrances.append(FlavorStatus("NoMatchingFlavor", name, resource, message=f"the job has {differs}"))
        asked = plus(used.get(key, 0), amount - before)
        fair = request.settings.fair_sharing
        grade, problem = fits_resource_quota(
            request.queue, request.workload, key, asked, request.oracle, fair_sharing=fair
        )
        if problem is not None:
            hindrances.append(problem)
        borrowing = max(borrowing, grade.borrowing_level)
        if is_preferred(worst, grade, request.queue.spec.flavor_fungibility):
            worst = grade
        choices[resource] = FlavorAssignment(name, grade.preemption_mode.flavor_assignment_mode, grade.borrowing_level)
    possibility = PREEMPTION_POSSIBILITY.get(worst.preemption_mode)
    return _Graded(
        worst,
        choices,
        ConsideredFlavor(name, worst.preemption_mode.flavor_assignment_mode, borrowing, possibility, tuple(hindrances)),
    )


def _before(request: FlavorAssigner, pod_sets: Sequence[int], key: FlavorResource) -> tuple[int, str]:
    """Return what the replaced slice has of the resource, and its flavor where that is another."""
    amount = 0
    if request.replace_workload_slice is not None:
        for place in pod_sets:
            held = request.replace_workload_slice.admitted_pod_sets.get(request.workload.pod_sets[place].name)
            if held is None or held.flavors.get(key.resource) != key.flavor:
                return amount, "none" if held is None else held.flavors.get(key.resource, "none")
            amount += held.usage.get(key.resource, 0)
    return amount, ""
