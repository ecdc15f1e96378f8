"""One cycle of decisions (pkg/scheduler/scheduler.go): nominate all heads, then decide one after the other.

What is decided counts at once for those behind: admitted workloads and those that wait for a preemption take their
room, so that what was nominated is checked again in turn. Two preemptors never count on the same victim: the later one
looks for others, keeping to its flavors, or waits for the earlier one's victims to be gone. So it is with places.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from zonewise_scheduler.quota.api.amount import minus, plus
from zonewise_scheduler.quota.api.workload_types import Admission, PodSetAdmission
from zonewise_scheduler.quota.cycle.admission_checks import admission_checks_for_workload
from zonewise_scheduler.quota.cycle.entry import Decision, Entry, NoReservations
from zonewise_scheduler.quota.cycle.entry_iterator import make_iterator
from zonewise_scheduler.quota.cycle.nomination import flavor_assigner, nominate, pin_flavors
from zonewise_scheduler.quota.flavorassigner.assignment import NO_LAST_ASSIGNMENT, AssignmentClusterQueueState
from zonewise_scheduler.quota.flavorassigner.granular_mode import FlavorAssignmentMode
from zonewise_scheduler.quota.hierarchy.snapshot import fits

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping

    from zonewise_scheduler.quota.api.queue_types import ClusterQueue
    from zonewise_scheduler.quota.api.resource_quota import FlavorResource
    from zonewise_scheduler.quota.api.workload_types import QuotaSettings, Usage, Workload
    from zonewise_scheduler.quota.cycle.entry import Head, QuotaReservedReason, ReservationGate
    from zonewise_scheduler.quota.flavorassigner.assignment import Assignment
    from zonewise_scheduler.quota.hierarchy.resource_node import ClusterQueueSnapshot, ResourceNode
    from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot

_OPEN = NoReservations()


def run_cycle(
    snapshot: Snapshot,
    heads: Iterable[Head],
    settings: QuotaSettings,
    now: float,
    number: int = 0,
    gate: ReservationGate = _OPEN,
) -> list[Decision]:
    """Decide about the heads; the snapshot then has those admitted. Victims run on in it until they are removed.

    `now`: seconds; `number`: of the cycle; `gate`: keeps what was promised to others. Decisions come in the order in
    which they were made, those about heads that no quota helps first.
    """
    decisions: list[Decision] = []
    entries: list[Entry] = []
    for head in heads:
        barred = _barred(snapshot, head)
        if barred is not None:
            decisions.append(barred)
        else:
            assignment, targets = nominate(flavor_assigner(snapshot, head, settings))
            progress = AssignmentClusterQueueState(assignment.last_tried_flavor_idx, number)
            entries.append(Entry(head, snapshot.cluster_queues[head.cluster_queue], assignment, targets, progress))
    cycle = _Cycle(snapshot, settings, now, gate)
    for entry in make_iterator(entries, settings):
        cycle.decide(entry)
        if entry.decision is not None:
            decisions.append(entry.decision)
    cycle.settle()
    return decisions


def _barred(snapshot: Snapshot, head: Head) -> Decision | None:
    """Decide about a head that no quota helps; None for the others."""
    reason: tuple[QuotaReservedReason, str] | None = None
    if head.inadmissible_reason == "checks":
        reason = "PendingEvaluation", "its admission checks have failed"
    elif head.cluster_queue in snapshot.inactive:
        reason = "Suspended", f"ClusterQueue {head.cluster_queue} is inactive: {snapshot.inactive[head.cluster_queue]}"
    elif head.cluster_queue not in snapshot.cluster_queues:
        reason = "Misconfigured", f"there is no ClusterQueue {head.cluster_queue}"
    elif head.inadmissible_reason == "namespace":
        reason = "Misconfigured", f"ClusterQueue {head.cluster_queue} is not for namespace {head.workload.namespace}"
    if reason is None:
        return None
    again = "NamespaceMismatch" if head.inadmissible_reason == "namespace" and reason[0] == "Misconfigured" else ""
    return Decision(head, "inadmissible", head.workload, None, (), *reason, again, head.last_assignment)


class _Cycle:
    """The state of a cycle: what was taken so far, and who has been told to give way."""

    def __init__(self, snapshot: Snapshot, settings: QuotaSettings, now: float, gate: ReservationGate) -> None:
        self._snapshot = snapshot
        self._settings = settings
        self._now = now
        self._gate = gate
        self._victims: dict[ResourceNode, dict[str, Workload]] = {}
        """By tree, by key."""
        self._taken: list[tuple[ClusterQueueSnapshot, Usage]] = []
        self._placed: list[tuple[Workload, Workload]] = []
        """Those that were admitted, and are not in the snapshot yet: as they are now, and as they were."""
        self._kept: list[tuple[Workload, Workload]] = []
        """Those that wait, with the places that are kept for them, and as they are."""

    def decide(self, entry: Entry) -> None:
        """Decide about one head (processEntry)."""
        deferred = self._renominate(entry)
        mode = entry.assignment.representative_mode
        broken = self._snapshot.tas_snapshot.pod_sets_on_unhealthy_nodes(entry.head.workload)
        if broken and mode != FlavorAssignmentMode.FIT and self._settings.fail_fast_node_replacement:
            entry.decide(
                "evicted", "NodeFailures", message=f"nodes failed: {', '.join(entry.head.workload.unhealthy_nodes)}"
            )
        elif mode == FlavorAssignmentMode.NO_FIT:
            entry.decide("waiting", entry.assignment.no_fit_reason, "NoFit")
        elif deferred:
            self._take(entry, entry.assignment_usage, self._kept)
            entry.decide("deferred", "WaitingForPreemptedWorkloads", "PendingPreemption")
        elif mode == FlavorAssignmentMode.PREEMPT and not entry.preemption_targets:
            if entry.cq.spec.preemption.reclaim_within_cohort != "Any":
                held = entry.head.workload.admission is not None
                self._take(entry, {} if held else quota_resources_to_reserve(entry.cq, entry.assignment), self._kept)
            entry.decide("waiting", "WaitingForQuota", "NoCandidates")
        elif mode == FlavorAssignmentMode.PREEMPT and entry.head.workload.preemption_gated:
            entry.decide("gated", "AdmissionGated", "PreemptionGated")
        elif self._overlaps(entry):
            entry.decide("skipped", "WaitingForQuota", "FailedAfterNomination", "its victims are another workload's")
        elif self._missing(entry):
            entry.decide("skipped", "WaitingForQuota", "FailedAfterNomination", "another workload was before it")
        elif delayed := self._delays(entry):
            entry.decide("waiting", "Reserved", "Reserved", f"it would delay {delayed}", delayed)
        else:
            self._go_on(entry, mode)

    def settle(self) -> None:
        """Leave in the snapshot what was admitted, and nothing that was only set aside."""
        for queue, usage in reversed(self._taken):
            queue.remove_usage(usage)
        for new, old in (*self._kept, *self._placed):
            self._snapshot.tas_snapshot.remove(new, old)
        for new, old in self._placed:
            if old.admission is not None:
                self._snapshot.remove_workload(old)
            self._snapshot.add_workload(new)

    def _delays(self, entry: Entry) -> str:
        """Return whose promised start it would delay, "" where nobody's; what has its quota was asked before."""
        if entry.head.workload.admission is not None:
            return ""
        return self._gate.delayed_reservation(self._as_admitted(entry), entry.victims)

    def _go_on(self, entry: Entry, mode: FlavorAssignmentMode) -> None:
        if entry.head.workload.admission is None:
            self._gate.record_start(self._as_admitted(entry), entry.victims)
        self._victims.setdefault(entry.root, {}).update(
            (one.workload.key, one.workload) for one in entry.preemption_targets
        )
        if mode == FlavorAssignmentMode.PREEMPT:
            self._take(entry, entry.assignment_usage, self._kept)
            entry.decide("preempting", "WaitingForPreemptedWorkloads", "PendingPreemption")
            return
        entry.decide("admitted")
        if entry.decision is not None:
            entry.decision = entry.decision._replace(workload=self._take(entry, entry.assignment_usage, self._placed))

    def _renominate(self, entry: Entry) -> bool:
        """Nominate anew where others have the victims, or the places; tell whether it fits once those are gone."""
        overlaps = self._overlaps(entry)
        if not overlaps and not self._lost_places(entry):
            return False
        request = pin_flavors(
            flavor_assigner(self._snapshot, entry.head._replace(last_assignment=NO_LAST_ASSIGNMENT), self._settings),
            entry.assignment,
        )
        with self._snapshot.simulate_workload_removal(self._gone(entry) if overlaps else ()):
            entry.assignment, entry.preemption_targets = nominate(request)
        entry.last_assignment = entry.last_assignment._replace(
            last_tried_flavor_idx=entry.assignment.last_tried_flavor_idx
        )
        return overlaps and entry.assignment.representative_mode == FlavorAssignmentMode.FIT

    def _lost_places(self, entry: Entry) -> bool:
        """Tell whether places were found for it, and were then given to another."""
        if (
            not self._settings.recompute_topology_assignment
            or not entry.assignment.has_topology_assignment
            or entry.assignment.representative_mode == FlavorAssignmentMode.NO_FIT
        ):
            return False
        return self._missing(entry) == "places"

    def _overlaps(self, entry: Entry) -> bool:
        victims = self._victims.get(entry.root, {})
        return any(one.workload.key in victims for one in entry.preemption_targets)

    def _gone(self, entry: Entry) -> list[Workload]:
        """Return the victims so far: of its tree, which has its quota, or of all where they have places in common."""
        trees = (
            self._victims.values() if entry.assignment.has_topology_assignment else [self._victims.get(entry.root, {})]
        )
        return [one for found in trees for one in found.values()]

    def _missing(self, entry: Entry) -> Literal["", "quota", "places"]:
        """Return what it lacks now, without its victims and those of others.

        Pods that start at once need places that are free while the victims run, too: Kueue looks at what is to be.
        """
        gone = self._gone(entry)
        with self._snapshot.simulate_workload_removal([*gone, *(one.workload for one in entry.preemption_targets)]):
            if not fits(entry.cq, entry.assignment_usage):
                return "quota"
            if not self._has_places(entry):
                return "places"
        if entry.assignment.representative_mode != FlavorAssignmentMode.FIT or not gone:
            return ""
        with self._without_kept():
            return "" if self._has_places(entry) else "places"

    def _has_places(self, entry: Entry) -> bool:
        """Tell whether there is room still at the places that were found for it."""
        if not entry.assignment.has_topology_assignment:
            return True
        return self._snapshot.tas_snapshot.fits(self._as_admitted(entry), entry.head.workload)

    @contextmanager
    def _without_kept(self) -> Generator[None]:
        """Give back for a while the places that are kept for those who wait."""
        for new, old in self._kept:
            self._snapshot.tas_snapshot.remove(new, old)
        try:
            yield
        finally:
            for new, old in self._kept:
                self._snapshot.tas_snapshot.add(new, old)

    def _take(self, entry: Entry, usage: Usage, places: list[tuple[Workload, Workload]]) -> Workload:
        """Take quota and places, if they were found; return the workload with them. Those it leaves are free later."""
        entry.cq.add_usage(usage)
        self._taken.append((entry.cq, usage))
        new, old = self._as_admitted(entry), entry.head.workload
        self._snapshot.tas_snapshot.add(new, old)
        places.append((new, old))
        return new

    def _as_admitted(self, entry: Entry) -> Workload:
        return with_admission(entry.head.workload, entry.cq.spec, entry.assignment, self._now)


def with_admission(workload: Workload, queue: ClusterQueue, assignment: Assignment, at: float) -> Workload:
    """Return a workload with the admission that an assignment gives it.

    One that has its quota keeps its time, and what has become of its checks.
    """
    sets = tuple(
        PodSetAdmission(
            one.name,
            {resource: choice.name for resource, choice in one.flavors.items()},
            {resource: amount for resource, amount in one.requests.items() if resource in one.flavors},
            one.pods,
            one.topology_assignment,
            one.delayed_topology_request,
        )
        for one in assignment.pod_sets
    )
    if workload.admission is None:
        new = Admission(queue.name, sets, at)
        new = new._replace(pending_checks=admission_checks_for_workload(queue, new))
    else:
        new = workload.admission._replace(pod_sets=sets)
    return replace(workload, admission=new, eviction=None, unhealthy_nodes=())


def quota_resources_to_reserve(queue: ClusterQueueSnapshot, assignment: Assignment) -> Mapping[FlavorResource, int]:
    """Return the quota kept for a workload that waits and may make nobody give way (quotaResourcesToReserve).

    So that those of other queues do not overtake it for ever: as much as its queue's nominal quota has left, or where
    it borrows, as much as the queue may borrow. Never less than nothing: Kueue gives away to the others of the cycle
    what a queue has beyond its borrowing limit.
    """
    if assignment.representative_mode != FlavorAssignmentMode.PREEMPT:
        return assignment.usage
    kept: dict[FlavorResource, int] = {}
    for key, amount in assignment.usage.items():
        quota, used = queue.quotas.get(key), queue.usage.get(key, 0)
        nominal = 0 if quota is None else quota.nominal
        if not assignment.borrows:
            kept[key] = max(0, min(amount, minus(nominal, used)))
        elif quota is None or quota.borrowing_limit is None:
            kept[key] = amount
        else:
            kept[key] = max(0, min(amount, minus(plus(nominal, quota.borrowing_limit), used)))
    return kept
