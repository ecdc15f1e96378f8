"""What was promised, as plain values, so that a scheduler that is started anew keeps it.

The new PlannerState is given the same queues and what runs in them, with their admissions, and who waits;
then what was promised, and only then what has happened since. Nobody who was promised a start has it later for the
restart. Nor is any LocalQueue better off: what they have used is kept too.

In what is kept there are only dicts, lists, strings and numbers, as JSON has them; an unknown start is None.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, TypedDict

from zonewise_scheduler.backfill.events import nodes_changed
from zonewise_scheduler.backfill.types import Reservation
from zonewise_scheduler.quota.api.workload_types import Admission, PodSetAdmission
from zonewise_scheduler.quota.cycle.entry import Head
from zonewise_scheduler.quota.cycle.scheduling_cycle import admission_checks_for_workload
from zonewise_scheduler.quota.queue.usage_ledger import UsageLedgerEntry
from zonewise_scheduler.quota.topology.types import TopologyAssignment, TopologyDomainAssignment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.backfill.planner_state import PlannerState
    from zonewise_scheduler.quota.api.workload_types import DelayedTopologyRequest


class CheckpointPlacement(TypedDict):
    """Where pods go."""

    levels: list[str]
    domains: list[tuple[list[str], int]]
    """By the values of their levels, with how many pods each has."""


class CheckpointPodSet(TypedDict):
    """What a pod set will be given."""

    name: str
    flavors: dict[str, str]
    usage: dict[str, int]
    pods: int
    place: CheckpointPlacement | None
    delayed: DelayedTopologyRequest


class CheckpointReservation(TypedDict):
    """One promise; workloads are their keys."""

    workload: str
    queue: str
    start: float | None
    pod_sets: list[CheckpointPodSet]
    after: list[str]
    victims: list[str]


class CheckpointUsage(TypedDict):
    """What a LocalQueue has used."""

    consumed: dict[str, float]
    at: float
    entering: dict[str, float]


class Checkpoint(TypedDict):
    """All that a PlannerState cannot be told anew."""

    promises: list[CheckpointReservation]
    """In the order in which they were made."""
    used: dict[str, CheckpointUsage]
    """By key of the LocalQueue."""


def make_checkpoint(planner: PlannerState) -> Checkpoint:
    """Return what is to be kept, between two decisions."""
    used: Mapping[str, UsageLedgerEntry] = (
        {} if planner.fair_sharing is None else planner.fair_sharing.usage_by_local_queue
    )
    return {
        "promises": [_kept(one) for one in planner.reservations.by_key.values()],
        "used": {
            key: {"consumed": dict(one.consumed), "at": one.last_update, "entering": dict(one.pending_penalty)}
            for key, one in used.items()
        },
    }


def restore_checkpoint(checkpoint: Checkpoint, planner: PlannerState) -> None:
    """Promise the same in a new PlannerState.

    Those that do not wait any more are passed over; what cannot be kept any more is promised anew, as early as can be.
    """
    found = [_promise(one, planner) for one in checkpoint["promises"]]
    planner.reservations.restore(one for one in found if one is not None)
    nodes_changed(planner)
    if planner.fair_sharing is not None:
        planner.fair_sharing.restore(
            {
                key: UsageLedgerEntry(one["consumed"], one["at"], one["entering"])
                for key, one in checkpoint["used"].items()
            }
        )
        planner.fair_sharing.update_snapshot(planner.snapshot, planner.router)


def _kept(promise: Reservation) -> CheckpointReservation:
    admission = promise.workload.admission
    return {
        "workload": promise.workload.key,
        "queue": promise.queue,
        "start": None if promise.start == inf else promise.start,
        "pod_sets": [_kept_pod_set(one) for one in (() if admission is None else admission.pod_sets)],
        "after": list(promise.waits_for),
        "victims": [one.key for one in promise.victims],
    }


def _kept_pod_set(one: PodSetAdmission) -> CheckpointPodSet:
    place: CheckpointPlacement | None = None
    if one.topology_assignment is not None:
        at = one.topology_assignment
        place = {"levels": list(at.levels), "domains": [(list(domain.values), domain.pods) for domain in at.domains]}
    return {
        "name": one.name,
        "flavors": dict(one.flavors),
        "usage": dict(one.usage),
        "pods": one.pods,
        "place": place,
        "delayed": one.delayed_topology_request,
    }


def _promise(kept: CheckpointReservation, planner: PlannerState) -> Reservation | None:
    """Return a promise as a PlannerState has it; None where its workload does not wait in a queue that admits."""
    key, queue = kept["workload"], kept["queue"]
    if planner.pending.get(key) != queue or queue in planner.snapshot.inactive:
        return None
    workload = planner.pending_queues[queue].heap.get(key)
    if workload is None:
        return None
    start = inf if kept["start"] is None else kept["start"]
    admission = Admission(queue, tuple(_pod_set(one) for one in kept["pod_sets"]), start)
    admission = admission._replace(
        pending_checks=admission_checks_for_workload(planner.snapshot.cluster_queues[queue].spec, admission)
    )
    promised = replace(workload, admission=admission, eviction=None, unhealthy_nodes=())
    victims = tuple(planner.running[one].workload for one in kept["victims"] if one in planner.running)
    return Reservation(promised, Head(workload, queue), start, tuple(kept["after"]), victims)


def _pod_set(kept: CheckpointPodSet) -> PodSetAdmission:
    place = None if kept["place"] is None else _place(kept["place"])
    return PodSetAdmission(kept["name"], kept["flavors"], kept["usage"], kept["pods"], place, kept["delayed"])


def _place(kept: CheckpointPlacement) -> TopologyAssignment:
    domains = tuple(TopologyDomainAssignment(tuple(values), pods) for values, pods in kept["domains"])
    return TopologyAssignment(tuple(kept["levels"]), domains)
