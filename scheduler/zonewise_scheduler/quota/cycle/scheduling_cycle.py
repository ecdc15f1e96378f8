"""One scheduling cycle: nominate all heads, then decide about them one after the other (pkg/scheduler/scheduler.go).

A decision takes effect at once for later entries: admitted workloads, and those that wait for a preemption, hold their
quota and placement. Each nomination is therefore checked again when its decision is due. Two preemptors never rely on
the same victim. The later one searches for other victims with the same flavors, or waits until the victims of the
earlier one have ended. The same applies to placements.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from zonewise_scheduler.quota.api.amount import minus, plus
from zonewise_scheduler.quota.api.workload_types import Admission, PodSetAdmission
from zonewise_scheduler.quota.cycle.entry import Decision, Entry, NoReservations
from zonewise_scheduler.quota.cycle.entry_iterator import make_iterator
from zonewise_scheduler.quota.cycle.nomination import flavor_assigner, nominate, pin_flavors
from zonewise_scheduler.quota.flavorassigner.assignment import NO_LAST_ASSIGNMENT, AssignmentClusterQueueState
from zonewise_scheduler.quota.flavorassigner.granular_mode import FlavorAssignmentMode
from zonewise_scheduler.quota.hierarchy.snapshot import fits

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping

    from zonewise_scheduler.quota.api.configuration import QuotaSettings
    from zonewise_scheduler.quota.api.queue_types import ClusterQueue
    from zonewise_scheduler.quota.api.resource_quota import FlavorResource
    from zonewise_scheduler.quota.api.workload_types import Usage, Workload
    from zonewise_scheduler.quota.cycle.entry import Head, QuotaReservedReason, ReservationGate
    from zonewise_scheduler.quota.flavorassigner.assignment import Assignment
    from zonewise_scheduler.quota.hierarchy.resource_node import ClusterQueueSnapshot, ResourceNode
    from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot

_NO_RESERVATIONS = NoReservations()


def run_cycle(
    snapshot: Snapshot,
    heads: Iterable[Head],
    settings: QuotaSettings,
    now: float,
    number: int = 0,
    gate: ReservationGate = _NO_RESERVATIONS,
    blocking: Iterable[Entry] = (),
) -> list[Decision]:
    """Decide about the heads, and add admitted workloads to the snapshot. Victims remain there until they are removed.

    `now`: in seconds; `number`: that of the cycle; `gate`: protects reservations. `blocking`: entries that an
    earlier cycle has decided about, and that hold their quota in this one too. Decisions are in the order in which they
    were made; inadmissible heads come first.
    """
    decisions: list[Decision] = []
    entries: list[Entry] = []
    for head in heads:
        inadmissible = _decide_inadmissible(snapshot, head)
        if inadmissible is not None:
            decisions.append(inadmissible)
        else:
            assigner = flavor_assigner(snapshot, head, settings)
            assignment, targets = nominate(assigner)
            state = AssignmentClusterQueueState(assignment.last_tried_flavor_idx, number)
            replaced = assigner.replace_workload_slice
            entries.append(Entry(head, assigner.queue, assignment, targets, state, replaced))
    cycle = _Cycle(snapshot, settings, now, gate)
    roots = {entry.root for entry in entries}
    for entry in make_iterator([*entries, *(entry for entry in blocking if entry.root in roots)], settings):
        if entry.decision is not None:  # an earlier cycle has made it
            cycle.hold_quota(entry)
            continue
        cycle.process_entry(entry)
        if entry.decision is not None:
            decisions.append(entry.decision)
    cycle.finish()
    return decisions


def _decide_inadmissible(snapshot: Snapshot, head: Head) -> Decision | None:
    """Return the decision about a head that is inadmissible regardless of quota; None for other heads."""
    reason: tuple[QuotaReservedReason, str] | None = None
    name = head.cluster_queue
    if head.inadmissible_reason == "checks":
        reason = "PendingEvaluation", "its admission checks have failed"
    elif name in snapshot.inactive:
        reason = "Suspended", f"ClusterQueue {name} is inactive: {snapshot.inactive[name]}"
    elif name not in snapshot.cluster_queues:
        reason = "Misconfigured", f"there is no ClusterQueue {name}"
    elif head.inadmissible_reason == "namespace":
        reason = "Misconfigured", f"ClusterQueue {name} is not for namespace {head.workload.namespace}"
    if reason is None:
        return None
    mismatch = head.inadmissible_reason == "namespace" and reason[0] == "Misconfigured"
    requeue_reason = "NamespaceMismatch" if mismatch else ""
    return Decision(head, "inadmissible", head.workload, None, (), *reason, requeue_reason, head.last_assignment)


class _Cycle:
    """The state of a cycle: its victims, and the quota and placements that its entries hold."""

    def __init__(self, snapshot: Snapshot, settings: QuotaSettings, now: float, gate: ReservationGate) -> None:
        self._snapshot = snapshot
        self._settings = settings
        self._now = now
        self._gate = gate
        self._victims: dict[ResourceNode, dict[str, Workload]] = {}
        """Victims by root of the tree and by key."""
        self._held_usage: list[tuple[ClusterQueueSnapshot, Usage]] = []
        self._admitted: list[tuple[Workload, Workload]] = []
        """Workloads admitted in this cycle, with their new and old admissions; they are not in the snapshot yet. The
        old admission of a slice is that of the slice that it replaces."""
        self._waiting: list[tuple[Workload, Workload]] = []
        """Workloads that wait with a held placement, with their future admission and in their current state."""

    def process_entry(self, entry: Entry) -> None:
        """Decide about one head (processEntry)."""
        deferred = self._update_assignment_if_needed(entry)
        mode, workload = entry.assignment.representative_mode, entry.head.workload
        unhealthy = self._snapshot.tas_snapshot.pod_sets_on_unhealthy_nodes(workload)
        if unhealthy and mode is not FlavorAssignmentMode.FIT and self._settings.fail_fast_node_replacement:
            entry.decide("evicted", "NodeFailures", message=f"nodes failed: {', '.join(workload.unhealthy_nodes)}")
        elif mode is FlavorAssignmentMode.NO_FIT:
            entry.decide("waiting", entry.assignment.no_fit_reason, "NoFit")
        elif deferred:
            self._hold(entry, entry.assignment_usage, self._waiting)
            entry.decide("deferred", "WaitingForPreemptedWorkloads", "PendingPreemption")
        elif mode is FlavorAssignmentMode.PREEMPT and not entry.preemption_targets:
            holds_quota = entry.cq.spec.preemption.reclaim_within_cohort != "Any" or self._has_protected_targets(entry)
            if holds_quota:
                self.hold_quota(entry)
            entry.decide("waiting", "WaitingForQuota", "NoCandidates", holds_quota=holds_quota)
        elif mode is FlavorAssignmentMode.PREEMPT and workload.preemption_gated:
            entry.decide("gated", "AdmissionGated", "PreemptionGated")
        elif self._has_overlapping_targets(entry):
            entry.decide("skipped", "WaitingForQuota", "FailedAfterNomination", "its victims end for another workload")
        elif self._missing(entry):
            entry.decide("skipped", "WaitingForQuota", "FailedAfterNomination", "another workload got its quota first")
        elif delayed := self._delayed_reservation(entry):
            entry.decide("waiting", "Reserved", "Reserved", f"it would delay {delayed}", delayed)
        else:
            self._admit_or_preempt(entry, mode)

    def hold_quota(self, entry: Entry) -> None:
        """Hold the quota of a waiting head, so that later entries do not borrow it (quotaResourcesToReserve)."""
        has_quota = entry.head.workload.admission is not None
        usage: Usage = {} if has_quota else quota_resources_to_reserve(entry.cq, entry.assignment)
        self._hold(entry, usage, self._waiting)

    def finish(self) -> None:
        """Add the admitted workloads to the snapshot, and release the quota and placements that entries held."""
        for queue, usage in reversed(self._held_usage):
            queue.remove_usage(usage)
        for new, old in (*self._waiting, *self._admitted):
            self._snapshot.tas_snapshot.remove(new, old)
        for new, old in self._admitted:
            if old.admission is not None:
                self._snapshot.remove_workload(old)
            self._snapshot.add_workload(new)

    def _delayed_reservation(self, entry: Entry) -> str:
        """Return the key of the workload whose reservation is delayed; "" if none is, or if the entry has quota."""
        if entry.head.workload.admission is not None:
            return ""
        return self._gate.delayed_reservation(self._with_admission(entry), entry.ending)

    def _admit_or_preempt(self, entry: Entry, mode: FlavorAssignmentMode) -> None:
        if entry.head.workload.admission is None:
            self._gate.record_start(self._with_admission(entry), entry.ending)
        self._victims.setdefault(entry.root, {}).update((victim.key, victim) for victim in entry.victims)
        if mode is FlavorAssignmentMode.PREEMPT:
            self._hold(entry, entry.assignment_usage, self._waiting)
            entry.decide("preempting", "WaitingForPreemptedWorkloads", "PendingPreemption")
            return
        entry.decide("admitted")
        if entry.decision is not None:
            admitted = self._hold(entry, entry.assignment_usage, self._admitted)
            entry.decision = entry.decision._replace(workload=admitted)

    def _update_assignment_if_needed(self, entry: Entry) -> bool:
        """Nominate again if an earlier entry has the same victims or took the placement (updateAssignmentIfNeeded).

        Returns whether the workload fits once those victims have ended.
        """
        overlaps = self._has_overlapping_targets(entry)
        if not overlaps and not self._has_lost_placement(entry):
            return False
        head = entry.head._replace(last_assignment=NO_LAST_ASSIGNMENT)
        assigner = pin_flavors(flavor_assigner(self._snapshot, head, self._settings), entry.assignment)
        with self._snapshot.simulate_workload_removal(self._victims_for(entry) if overlaps else ()):
            entry.assignment, entry.preemption_targets = nominate(assigner)
            entry.with_admission = None
        last_tried = entry.assignment.last_tried_flavor_idx
        entry.last_assignment = entry.last_assignment._replace(last_tried_flavor_idx=last_tried)
        return overlaps and entry.assignment.representative_mode is FlavorAssignmentMode.FIT

    def _has_lost_placement(self, entry: Entry) -> bool:
        """Return whether an earlier entry took the placement of its nomination."""
        if (
            not self._settings.recompute_topology_assignment
            or not self._held_usage  # there is no earlier entry that took anything
            or not entry.assignment.has_topology_assignment
            or entry.assignment.representative_mode is FlavorAssignmentMode.NO_FIT
        ):
            return False
        return self._missing(entry) == "placement"

    def _has_overlapping_targets(self, entry: Entry) -> bool:
        victims = self._victims.get(entry.root, {})
        return any(target.workload.key in victims for target in entry.preemption_targets)

    def _has_protected_targets(self, entry: Entry) -> bool:
        """Return whether a head could preempt workloads that are only protected for now (Snapshot.not_preempted)."""
        protected = self._snapshot.not_preempted
        if not protected:
            return False
        self._snapshot.not_preempted = set()
        try:
            return bool(nominate(flavor_assigner(self._snapshot, entry.head, self._settings))[1])
        finally:
            self._snapshot.not_preempted = protected

    def _victims_for(self, entry: Entry) -> list[Workload]:
        """Return the relevant victims so far: those of its tree or, with a placement, those of all trees."""
        has_placement = entry.assignment.has_topology_assignment
        trees = self._victims.values() if has_placement else [self._victims.get(entry.root, {})]
        return [victim for tree_victims in trees for victim in tree_victims.values()]

    def _missing(self, entry: Entry) -> Literal["", "quota", "placement"]:
        """Return what an entry lacks now, without its own victims and those of earlier entries.

        Pods that start at once need a placement that is also available while the victims still run. Kueue checks only
        the state after the preemptions.
        """
        victims = self._victims_for(entry)
        with self._snapshot.simulate_workload_removal([*victims, *entry.victims]):
            if not fits(entry.cq, entry.assignment_usage):
                return "quota"
            if not self._has_placement(entry):
                return "placement"
        if entry.assignment.representative_mode is not FlavorAssignmentMode.FIT or not victims:
            return ""
        with self._without_waiting_placements():
            return "" if self._has_placement(entry) else "placement"

    def _has_placement(self, entry: Entry) -> bool:
        """Return whether the placement of its nomination is still available."""
        if not entry.assignment.has_topology_assignment:
            return True
        return self._snapshot.tas_snapshot.fits(self._with_admission(entry), entry.held)

    @contextmanager
    def _without_waiting_placements(self) -> Generator[None]:
        """Temporarily remove the placements that are held for waiting workloads."""
        for new, old in self._waiting:
            self._snapshot.tas_snapshot.remove(new, old)
        try:
            yield
        finally:
            for new, old in self._waiting:
                self._snapshot.tas_snapshot.add(new, old)

    def _hold(self, entry: Entry, usage: Usage, holders: list[tuple[Workload, Workload]]) -> Workload:
        """Hold quota and any placement until the cycle ends; return the workload with its admission.

        A placement that the workload leaves becomes available only after the cycle.
        """
        entry.cq.add_usage(usage)
        self._held_usage.append((entry.cq, usage))
        new, old = self._with_admission(entry), entry.held
        self._snapshot.tas_snapshot.add(new, old)
        holders.append((new, old))
        return new

    def _with_admission(self, entry: Entry) -> Workload:
        if entry.with_admission is None:
            entry.with_admission = with_admission(entry.head.workload, entry.cq.spec, entry.assignment, self._now)
        return entry.with_admission


def with_admission(workload: Workload, queue: ClusterQueue, assignment: Assignment, now: float) -> Workload:
    """Return a workload with the admission from an assignment at `now`, in seconds.

    A workload that has quota keeps the time of its admission and the state of its admission checks.
    """
    pod_sets = tuple(
        PodSetAdmission(
            pod_set.name,
            {resource: flavor.name for resource, flavor in pod_set.flavors.items()},
            {resource: pod_set.requests.get(resource, 0) for resource in pod_set.flavors},
            pod_set.pods,
            pod_set.topology_assignment,
            pod_set.delayed_topology_request,
        )
        for pod_set in assignment.pod_sets
    )
    if workload.admission is None:
        admission = Admission(queue.name, pod_sets, now)
        admission = admission._replace(pending_checks=admission_checks_for_workload(queue, admission))
    else:
        admission = workload.admission._replace(pod_sets=pod_sets)
    return workload.admitted(admission)


def admission_checks_for_workload(spec: ClusterQueue, admission: Admission) -> tuple[str, ...]:
    """Return the admission checks that a workload must pass; some apply only to certain flavors.

    pkg/workload/workload.go AdmissionChecksForWorkload, KEP-993.
    """
    flavors = {name for pod_set in admission.pod_sets for name in pod_set.flavors.values()}
    return tuple(
        check.name
        for check in spec.admission_checks
        if not check.on_flavors or not check.on_flavors.isdisjoint(flavors)
    )


def quota_resources_to_reserve(queue: ClusterQueueSnapshot, assignment: Assignment) -> Mapping[FlavorResource, int]:
    """Return the quota that a workload without victims holds in the cycle while it waits (quotaResourcesToReserve).

    This prevents workloads of other queues from overtaking it forever. It holds what is left of the queue's nominal
    quota or, if it borrows, what the queue may still borrow. The held quota is never negative. Upstream, it can be, and
    later entries then get what the queue uses beyond its borrowing limit.
    """
    if assignment.representative_mode is not FlavorAssignmentMode.PREEMPT:
        return assignment.usage
    reserved: dict[FlavorResource, int] = {}
    for key, amount in assignment.usage.items():
        quota, nominal, usage = queue.quotas.get(key), queue.subtree_quota[key], queue.usage[key]
        if not assignment.borrows:
            reserved[key] = max(0, min(amount, minus(nominal, usage)))
        elif quota is None or quota.borrowing_limit is None:
            reserved[key] = amount
        else:
            reserved[key] = max(0, min(amount, minus(plus(nominal, quota.borrowing_limit), usage)))
    return reserved
