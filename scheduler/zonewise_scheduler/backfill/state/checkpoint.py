"""The checkpoint: reservations and usage as plain values, so that a restart does not lose them.

A restart rebuilds the state: the same queues, the running workloads with their admissions, and the pending workloads.
The checkpoint is then restored before any later event is applied. So no workload loses its reservation to a start after
the restart, and no LocalQueue loses the usage charged to it.

A checkpoint holds only dicts, lists, strings and numbers, as in JSON; an unknown start is None.
"""

from __future__ import annotations

import hashlib
import json
from math import inf
from typing import TYPE_CHECKING, NotRequired, TypedDict

from zonewise_scheduler.backfill.state.events import is_still_pending, nodes_changed
from zonewise_scheduler.backfill.types import Reservation
from zonewise_scheduler.quota.api.workload_types import (
    Admission,
    DelayedTopologyRequest,
    PodSetAdmission,
)
from zonewise_scheduler.quota.cycle.entry import Head
from zonewise_scheduler.quota.cycle.scheduling_cycle import admission_checks_for_workload
from zonewise_scheduler.quota.queue.usage_ledger import UsageLedgerEntry
from zonewise_scheduler.quota.topology.types import TopologyAssignment, TopologyDomainAssignment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.backfill.state.planner_state import PlannerState
    from zonewise_scheduler.quota.api.workload_types import Workload


class CheckpointPlacement(TypedDict):
    """A topology assignment."""

    levels: list[str]
    domains: list[tuple[list[str], int]]
    """The values of the levels and the number of pods, for each domain."""


class CheckpointPodSet(TypedDict):
    """The admission of a pod set."""

    name: str
    flavors: dict[str, str]
    usage: dict[str, int]
    pods: int
    topology_assignment: CheckpointPlacement | None
    delayed_topology_request: DelayedTopologyRequest


class CheckpointReservation(TypedDict):
    """A reservation; workloads are identified by key."""

    workload: str
    queue: str
    """The ClusterQueue."""
    start: float | None
    pod_sets: list[CheckpointPodSet]
    waits_for: list[str]
    victims: list[str]
    requirements: NotRequired[str]
    """Digest of the workload's requirements (same_requirements); absent in older checkpoints."""


class CheckpointUsage(TypedDict):
    """The usage of a LocalQueue; see UsageLedgerEntry."""

    consumed: dict[str, float]
    last_update: float


class Checkpoint(TypedDict):
    """The state that the planner cannot recover from the API server."""

    reservations: list[CheckpointReservation]
    """Reservations in the order in which they were made."""
    usage: dict[str, CheckpointUsage]
    """Usage by LocalQueue key."""


def make_checkpoint(state: PlannerState) -> Checkpoint:
    """Return the checkpoint of a state between two passes."""
    usage: Mapping[str, UsageLedgerEntry] = (
        {} if state.fair_sharing is None else state.fair_sharing.usage_by_local_queue
    )
    return {
        "reservations": [_from_reservation(reservation) for reservation in state.reservations.by_key.values()],
        "usage": {
            key: {
                "consumed": dict(entry.consumed),
                "last_update": entry.last_update,
            }
            for key, entry in usage.items()
        },
    }


def restore_checkpoint(checkpoint: Checkpoint, state: PlannerState, now: float) -> None:
    """Replace the reservations and usage of a state that already has its queues and workloads; `now`: in seconds.

    Workloads that are no longer pending are skipped. An infeasible reservation moves to the earliest feasible start.
    With the time, the reservation of a workload that has begun is not mistaken for an advance reservation.
    """
    state.now = max(state.now, now)
    reservations = [_to_reservation(reservation, state) for reservation in checkpoint["reservations"]]
    state.reservations.restore(reservation for reservation in reservations if reservation is not None)
    nodes_changed(state)
    if state.fair_sharing is not None:
        state.fair_sharing.restore(
            {
                key: UsageLedgerEntry(entry["consumed"], entry["last_update"])
                for key, entry in checkpoint["usage"].items()
            }
        )
        state.fair_sharing.update_snapshot(state.snapshot, state.router)


def _from_reservation(reservation: Reservation) -> CheckpointReservation:
    admission = reservation.workload.admission
    pod_sets = () if admission is None else admission.pod_sets
    return {
        "workload": reservation.workload.key,
        "queue": reservation.queue,
        "start": None if reservation.start == inf else reservation.start,
        "pod_sets": [_from_pod_set(pod_set) for pod_set in pod_sets],
        "waits_for": list(reservation.waits_for),
        "victims": [victim.key for victim in reservation.victims],
        "requirements": _requirements(reservation.head.workload),
    }


def _requirements(workload: Workload) -> str:
    """Return a digest of a workload's requirements that is the same in every process."""
    requirements = json.dumps([workload.scheduling_shape, float(workload.walltime)], default=sorted)
    return hashlib.sha256(requirements.encode()).hexdigest()[:16]


def _from_pod_set(pod_set: PodSetAdmission) -> CheckpointPodSet:
    placement: CheckpointPlacement | None = None
    if (assignment := pod_set.topology_assignment) is not None:
        domains = [(list(domain.values), domain.pods) for domain in assignment.domains]
        placement = {"levels": list(assignment.levels), "domains": domains}
    return {
        "name": pod_set.name,
        "flavors": dict(pod_set.flavors),
        "usage": dict(pod_set.usage),
        "pods": pod_set.pods,
        "topology_assignment": placement,
        "delayed_topology_request": pod_set.delayed_topology_request,
    }


def _to_reservation(saved: CheckpointReservation, state: PlannerState) -> Reservation | None:
    """Return the saved reservation; None if its workload has changed or is not pending in an active queue."""
    queue, workload = saved["queue"], state.pending_workload(saved["workload"])
    if workload is None or not is_still_pending(state, Head(workload, queue)):
        return None
    if saved.get("requirements") not in {None, _requirements(workload)}:
        return None
    if [pod_set["name"] for pod_set in saved["pod_sets"]] != [pod_set.name for pod_set in workload.pod_sets]:
        return None  # a checkpoint of an earlier version has no requirements
    start = inf if saved["start"] is None else saved["start"]
    admission = Admission(queue, tuple(_to_pod_set(pod_set) for pod_set in saved["pod_sets"]), start)
    spec = state.snapshot.cluster_queues[queue].spec
    admission = admission._replace(pending_checks=admission_checks_for_workload(spec, admission))
    reserved = workload.admitted(admission)
    victims = tuple(state.running[victim].workload for victim in saved["victims"] if victim in state.running)
    return Reservation(reserved, Head(workload, queue), start, tuple(saved["waits_for"]), victims)


def _to_pod_set(saved: CheckpointPodSet) -> PodSetAdmission:
    placement = saved["topology_assignment"]
    return PodSetAdmission(
        saved["name"],
        saved["flavors"],
        saved["usage"],
        saved["pods"],
        None if placement is None else _to_topology_assignment(placement),
        saved["delayed_topology_request"],
    )


def _to_topology_assignment(saved: CheckpointPlacement) -> TopologyAssignment:
    domains = tuple(TopologyDomainAssignment(tuple(values), pods) for values, pods in saved["domains"])
    return TopologyAssignment(tuple(saved["levels"]), domains)
