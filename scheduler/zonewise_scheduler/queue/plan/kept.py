"""What was promised, as plain values, so that a scheduler that is started anew keeps it.

The new Planner is given the same queues and what runs in them, with the admissions that it has, and is told who waits;
then what was promised, and only then what has happened since. Nobody who was promised a start has it later for the
restart. Nor is any LocalQueue better off: what they have used is kept too.

In what is kept there are only dicts, lists, strings and numbers, as JSON has them; an unknown start is None.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, TypedDict, cast

from zonewise_scheduler.queue.plan.values import Promise
from zonewise_scheduler.queue.quota.cycle.checks import required_checks
from zonewise_scheduler.queue.quota.cycle.values import Head
from zonewise_scheduler.queue.quota.model.workload import Admission, PodSetAdmission
from zonewise_scheduler.queue.quota.order.usage import Used
from zonewise_scheduler.queue.topology.model import Assignment, Domain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.queue.plan.planner import Planner
    from zonewise_scheduler.queue.quota.model.workload import Delayed


class KeptPlace(TypedDict):
    """Where pods go."""

    levels: list[str]
    domains: list[tuple[list[str], int]]
    """By the values of their levels, with how many pods each has."""


class KeptPodSet(TypedDict):
    """What a pod set will be given."""

    name: str
    flavors: dict[str, str]
    usage: dict[str, int]
    pods: int
    place: KeptPlace | None
    delayed: Delayed


class KeptPromise(TypedDict):
    """One promise; workloads are their keys."""

    workload: str
    queue: str
    start: float | None
    pod_sets: list[KeptPodSet]
    after: list[str]
    victims: list[str]


class KeptUsage(TypedDict):
    """What a LocalQueue has used."""

    consumed: dict[str, float]
    at: float
    entering: dict[str, float]


class Kept(TypedDict):
    """All that a Planner cannot be told anew."""

    promises: list[KeptPromise]
    """In the order in which they were made."""
    used: dict[str, KeptUsage]
    """By key of the LocalQueue."""


def keep(planner: Planner) -> Kept:
    """Return what is to be kept, between two decisions."""
    used: Mapping[str, Used] = {} if planner.sharing is None else planner.sharing.used
    return {
        "promises": [_kept(one) for one in planner.promised.made.values()],
        "used": {
            key: {"consumed": dict(one.consumed), "at": one.at, "entering": dict(one.entering)}
            for key, one in used.items()
        },
    }


def restore(kept: Kept, planner: Planner) -> None:
    """Promise the same in a new Planner.

    Those that do not wait any more are passed over; what cannot be kept any more is promised anew, as early as can be.
    """
    found = [_promise(one, planner) for one in kept["promises"]]
    planner.promised.restore(one for one in found if one is not None)
    planner.nodes_changed()
    if planner.sharing is not None:
        planner.sharing.restore(
            {key: Used(one["consumed"], one["at"], one["entering"]) for key, one in kept["used"].items()}
        )
        planner.sharing.show(planner.snapshot, planner.entrance)


def _kept(promise: Promise) -> KeptPromise:
    admission = promise.workload.admission
    return {
        "workload": promise.workload.key,
        "queue": promise.queue,
        "start": None if promise.start == inf else promise.start,
        "pod_sets": [_kept_pod_set(one) for one in (() if admission is None else admission.pod_sets)],
        "after": list(promise.after),
        "victims": [one.key for one in promise.victims],
    }


def _kept_pod_set(one: PodSetAdmission) -> KeptPodSet:
    place: KeptPlace | None = None
    if one.place is not None:
        at = cast("Assignment", one.place)
        place = {"levels": list(at.levels), "domains": [(list(domain.values), domain.pods) for domain in at.domains]}
    return {
        "name": one.name,
        "flavors": dict(one.flavors),
        "usage": dict(one.usage),
        "pods": one.pods,
        "place": place,
        "delayed": one.delayed,
    }


def _promise(kept: KeptPromise, planner: Planner) -> Promise | None:
    """Return a promise as a Planner has it; None where its workload does not wait in a queue that admits."""
    key, queue = kept["workload"], kept["queue"]
    if planner.waiting.get(key) != queue or queue in planner.snapshot.inactive:
        return None
    workload = planner.lines[queue].pending.get(key)
    if workload is None:
        return None
    start = inf if kept["start"] is None else kept["start"]
    admission = Admission(queue, tuple(_pod_set(one) for one in kept["pod_sets"]), start)
    admission = admission._replace(checks=required_checks(planner.snapshot.queues[queue].spec, admission))
    promised = replace(workload, admission=admission, eviction=None, failed_nodes=())
    victims = tuple(planner.running[one].workload for one in kept["victims"] if one in planner.running)
    return Promise(promised, Head(workload, queue), start, tuple(kept["after"]), victims)


def _pod_set(kept: KeptPodSet) -> PodSetAdmission:
    place = None if kept["place"] is None else _place(kept["place"])
    return PodSetAdmission(kept["name"], kept["flavors"], kept["usage"], kept["pods"], place, kept["delayed"])


def _place(kept: KeptPlace) -> Assignment:
    domains = tuple(Domain(tuple(values), pods) for values, pods in kept["domains"])
    return Assignment(tuple(kept["levels"]), domains)
