"""The scan of a resource group's flavors for pod sets that get the same ones (findFlavorForPodSets)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.queue.quota.flavors.assignment import START, Attempt, FlavorChoice, Hindrance
from zonewise_scheduler.queue.quota.flavors.match import mismatch, misplaced
from zonewise_scheduler.queue.quota.flavors.modes import BEST, WORST, Grade, Mode, Reach, goes_on, preferred
from zonewise_scheduler.queue.quota.flavors.room import POSSIBILITY, grade_of
from zonewise_scheduler.queue.quota.model.amounts import plus, turn_of
from zonewise_scheduler.queue.quota.model.queues import ResourceFlavor
from zonewise_scheduler.queue.quota.model.quotas import FlavorResource
from zonewise_scheduler.queue.quota.model.workload import DEFAULTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.queue.quota.flavors.assignment import Progress
    from zonewise_scheduler.queue.quota.model.quotas import ResourceGroup
    from zonewise_scheduler.queue.quota.model.workload import Amounts, PodSet, Settings, Usage, Workload
    from zonewise_scheduler.queue.quota.preemption.targets import Oracle
    from zonewise_scheduler.queue.quota.tree.node import QueueNode
    from zonewise_scheduler.queue.quota.tree.snapshot import Snapshot


@dataclass(frozen=True)
class Request:
    """A workload that asks for flavors."""

    snapshot: Snapshot
    workload: Workload
    queue: QueueNode
    oracle: Oracle
    settings: Settings = DEFAULTS
    progress: Progress = START
    replaced: Workload | None = None
    """A slice of the same job that it takes the place of: it gets the same flavors, and only the rest is new."""
    pinned: Mapping[str, Mapping[str, str]] | None = None
    """Flavors by pod set and resource, from which it does not turn away; None: it is free."""

    def flavor(self, name: str) -> ResourceFlavor | None:
        """Return a flavor; None where it is missing."""
        flavors = self.snapshot.flavors
        return ResourceFlavor(name) if flavors is None else flavors.get(name)

    @cached_property
    def everywhere(self) -> bool:
        """Tell whether all flavors of the queue have topologies, so that all its pods are placed."""
        names = [name for group in self.queue.spec.groups for name in group.names]
        return bool(names) and all(map(self.snapshot.places.has, names))


class Scan(NamedTuple):
    """What a scan found."""

    choices: Mapping[str, FlavorChoice]
    """By resource; empty where no flavor can be had."""
    hindrances: tuple[Hindrance, ...]
    """Of all flavors that were tried; none where one can be had at once."""
    attempts: tuple[Attempt, ...]


class _Graded(NamedTuple):
    grade: Grade
    choices: dict[str, FlavorChoice]
    attempt: Attempt


def scan(request: Request, pod_sets: Sequence[int], requests: Amounts, resource: str, used: Usage) -> Scan:
    """Return the flavor for all resources of the group that `resource` is of.

    `requests` are of the pod sets together; `used` is what other pod sets of the workload get.
    """
    group = request.queue.group_of[resource]
    wanted = {name: requests[name] for name in sorted(requests, key=turn_of) if name in group.covered}
    rules = request.queue.spec.fungibility
    best: _Graded | None = None
    attempts: list[Attempt] = []
    hindrances: list[Hindrance] = []
    at = -1
    specs = [request.workload.pod_sets[place] for place in pod_sets]
    for at in range(request.progress.next(specs[0].name, resource), len(group.flavors)):
        name = group.flavors[at].name
        if _passed_over(request, specs, name, resource):
            hindrances.append(Hindrance("", name, resource, detail="it is not among the flavors that may be tried"))
            continue
        problem = _unsuited(request, specs, name, group)
        if problem:
            hindrances.append(Hindrance("NoMatchingFlavor", name, detail=problem))
            attempts.append(Attempt(name, Mode.NO_FIT, hindrances=(hindrances[-1],)))
            continue
        graded = _grade(request, pod_sets, name, wanted, used)
        attempts.append(graded.attempt)
        hindrances += graded.attempt.hindrances
        if not goes_on(graded.grade, rules):
            best = graded
            break
        if preferred(graded.grade, WORST if best is None else best.grade, rules):
            best = graded
    if best is None:
        return Scan({}, tuple(hindrances), tuple(attempts))
    tried = -1 if at == len(group.flavors) - 1 else at
    choices = {name: choice._replace(tried=tried) for name, choice in best.choices.items()}
    return Scan(choices, () if best.grade.reach == Reach.FIT else tuple(hindrances), tuple(attempts))


def suits(request: Request, pod_sets: Sequence[int], name: str, group: ResourceGroup) -> bool:
    """Tell whether a flavor of a group may be tried for pod sets, and is one for them."""
    specs = [request.workload.pod_sets[place] for place in pod_sets]
    passed = any(_passed_over(request, specs, name, resource) for resource in group.covered)
    return not passed and not _unsuited(request, specs, name, group)


def _passed_over(request: Request, specs: Sequence[PodSet], name: str, resource: str) -> bool:
    """Tell whether a flavor is not to be tried."""
    pinned, allowed = request.pinned, request.workload.allowed_flavors
    if pinned is not None and all(pinned.get(one.name, {}).get(resource) != name for one in specs):
        return True
    return allowed is not None and name not in allowed


def _unsuited(request: Request, specs: Sequence[PodSet], name: str, group: ResourceGroup) -> str:
    """Return why a flavor is no flavor for the pod sets, "" if it is."""
    flavor, places, everywhere = request.flavor(name), request.snapshot.places, request.everywhere
    if flavor is None:
        return "there is no such flavor"
    problems = (misplaced(one, flavor, group, places, everywhere=everywhere) or mismatch(one, flavor) for one in specs)
    return next(filter(None, problems), "")


def _grade(request: Request, pod_sets: Sequence[int], name: str, wanted: Amounts, used: Usage) -> _Graded:
    """Grade one flavor: as the worst of its resources."""
    worst, borrowing = BEST, 0
    choices: dict[str, FlavorChoice] = {}
    hindrances: list[Hindrance] = []
    for resource, amount in wanted.items():
        key = FlavorResource(name, resource)
        before, differs = _before(request, pod_sets, key)
        if differs:
            worst = WORST
            hindrances.append(Hindrance("NoMatchingFlavor", name, resource, detail=f"the job has {differs}"))
        asked = plus(used.get(key, 0), amount - before)
        fair = request.settings.fair_sharing
        grade, problem = grade_of(request.queue, request.workload, key, asked, request.oracle, fair=fair)
        if problem is not None:
            hindrances.append(problem)
        borrowing = max(borrowing, grade.borrowing)
        if preferred(worst, grade, request.queue.spec.fungibility):
            worst = grade
        choices[resource] = FlavorChoice(name, grade.reach.mode, grade.borrowing)
    possibility = POSSIBILITY.get(worst.reach)
    return _Graded(worst, choices, Attempt(name, worst.reach.mode, borrowing, possibility, tuple(hindrances)))


def _before(request: Request, pod_sets: Sequence[int], key: FlavorResource) -> tuple[int, str]:
    """Return what the replaced slice has of the resource, and its flavor where that is another."""
    amount = 0
    if request.replaced is not None:
        for place in pod_sets:
            held = request.replaced.held.get(request.workload.pod_sets[place].name)
            if held is None or held.flavors.get(key.resource) != key.flavor:
                return amount, "none" if held is None else held.flavors.get(key.resource, "none")
            amount += held.usage.get(key.resource, 0)
    return amount, ""
