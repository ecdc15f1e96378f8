"""One cycle of decisions (pkg/scheduler/scheduler.go): nominate all heads, then decide one after the other.

What is decided counts at once for those behind: admitted workloads and those that wait for a preemption take their
room, so that what was nominated is checked again in turn. Two preemptors never count on the same victim: the later one
looks for others, keeping to its flavors, or waits for the earlier one's victims to be gone. So it is with places.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from zonewise_scheduler.queue.quota.cycle.checks import required_checks
from zonewise_scheduler.queue.quota.cycle.nominate import nominate, pinned, request_of
from zonewise_scheduler.queue.quota.cycle.turns import in_turn
from zonewise_scheduler.queue.quota.cycle.values import Decision, Entry, Open
from zonewise_scheduler.queue.quota.flavors.assignment import START, Progress
from zonewise_scheduler.queue.quota.flavors.modes import Mode
from zonewise_scheduler.queue.quota.model.amounts import minus, plus
from zonewise_scheduler.queue.quota.model.workload import Admission, PodSetAdmission
from zonewise_scheduler.queue.quota.tree.snapshot import fits

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping

    from zonewise_scheduler.queue.quota.cycle.values import Gate, Head, Reason
    from zonewise_scheduler.queue.quota.flavors.assignment import Assignment
    from zonewise_scheduler.queue.quota.model.queues import ClusterQueue
    from zonewise_scheduler.queue.quota.model.quotas import FlavorResource
    from zonewise_scheduler.queue.quota.model.workload import Settings, Usage, Workload
    from zonewise_scheduler.queue.quota.tree.node import Node, QueueNode
    from zonewise_scheduler.queue.quota.tree.snapshot import Snapshot

_OPEN = Open()


def run_cycle(
    snapshot: Snapshot, heads: Iterable[Head], settings: Settings, now: float, number: int = 0, gate: Gate = _OPEN
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
            assignment, targets = nominate(request_of(snapshot, head, settings))
            progress = Progress(assignment.tried, number)
            entries.append(Entry(head, snapshot.queues[head.queue], assignment, targets, progress))
    cycle = _Cycle(snapshot, settings, now, gate)
    for entry in in_turn(entries, settings):
        cycle.decide(entry)
        if entry.decision is not None:
            decisions.append(entry.decision)
    cycle.settle()
    return decisions


def _barred(snapshot: Snapshot, head: Head) -> Decision | None:
    """Decide about a head that no quota helps; None for the others."""
    reason: tuple[Reason, str] | None = None
    if head.barred == "checks":
        reason = "PendingEvaluation", "its admission checks have failed"
    elif head.queue in snapshot.inactive:
        reason = "Suspended", f"ClusterQueue {head.queue} is inactive: {snapshot.inactive[head.queue]}"
    elif head.queue not in snapshot.queues:
        reason = "Misconfigured", f"there is no ClusterQueue {head.queue}"
    elif head.barred == "namespace":
        reason = "Misconfigured", f"ClusterQueue {head.queue} is not for namespace {head.workload.namespace}"
    if reason is None:
        return None
    again = "NamespaceMismatch" if head.barred == "namespace" and reason[0] == "Misconfigured" else ""
    return Decision(head, "inadmissible", head.workload, None, (), *reason, again, head.progress)


class _Cycle:
    """The state of a cycle: what was taken so far, and who has been told to give way."""

    def __init__(self, snapshot: Snapshot, settings: Settings, now: float, gate: Gate) -> None:
        self._snapshot = snapshot
        self._settings = settings
        self._now = now
        self._gate = gate
        self._victims: dict[Node, dict[str, Workload]] = {}
        """By tree, by key."""
        self._taken: list[tuple[QueueNode, Usage]] = []
        self._placed: list[tuple[Workload, Workload]] = []
        """Those that were admitted, and are not in the snapshot yet: as they are now, and as they were."""
        self._kept: list[tuple[Workload, Workload]] = []
        """Those that wait, with the places that are kept for them, and as they are."""

    def decide(self, entry: Entry) -> None:
        """Decide about one head (processEntry)."""
        deferred = self._renominate(entry)
        mode = entry.assignment.mode
        broken = self._snapshot.places.broken(entry.head.workload)
        if broken and mode != Mode.FIT and self._settings.evict_unplaced:
            entry.decide(
                "evicted", "NodeFailures", detail=f"nodes failed: {', '.join(entry.head.workload.failed_nodes)}"
            )
        elif mode == Mode.NO_FIT:
            entry.decide("waiting", entry.assignment.why, "NoFit")
        elif deferred:
            self._take(entry, entry.usage, self._kept)
            entry.decide("deferred", "WaitingForPreemptedWorkloads", "PendingPreemption")
        elif mode == Mode.PREEMPT and not entry.targets:
            if entry.queue.spec.preemption.reclaim != "Any":
                held = entry.head.workload.admission is not None
                self._take(entry, {} if held else reservation(entry.queue, entry.assignment), self._kept)
            entry.decide("waiting", "WaitingForQuota", "NoCandidates")
        elif mode == Mode.PREEMPT and entry.head.workload.gated:
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
            self._snapshot.places.remove(new, old)
        for new, old in self._placed:
            if old.admission is not None:
                self._snapshot.remove(old)
            self._snapshot.add(new)

    def _delays(self, entry: Entry) -> str:
        """Return whose promised start it would delay, "" where nobody's; what has its quota was asked before."""
        if entry.head.workload.admission is not None:
            return ""
        return self._gate.delays(self._as_admitted(entry), entry.victims)

    def _go_on(self, entry: Entry, mode: Mode) -> None:
        if entry.head.workload.admission is None:
            self._gate.take(self._as_admitted(entry), entry.victims)
        self._victims.setdefault(entry.tree, {}).update((one.workload.key, one.workload) for one in entry.targets)
        if mode == Mode.PREEMPT:
            self._take(entry, entry.usage, self._kept)
            entry.decide("preempting", "WaitingForPreemptedWorkloads", "PendingPreemption")
            return
        entry.decide("admitted")
        if entry.decision is not None:
            entry.decision = entry.decision._replace(workload=self._take(entry, entry.usage, self._placed))

    def _renominate(self, entry: Entry) -> bool:
        """Nominate anew where others have the victims, or the places; tell whether it fits once those are gone."""
        overlaps = self._overlaps(entry)
        if not overlaps and not self._lost_places(entry):
            return False
        request = pinned(
            request_of(self._snapshot, entry.head._replace(progress=START), self._settings), entry.assignment
        )
        with self._snapshot.without(self._gone(entry) if overlaps else ()):
            entry.assignment, entry.targets = nominate(request)
        entry.progress = entry.progress._replace(tried=entry.assignment.tried)
        return overlaps and entry.assignment.mode == Mode.FIT

    def _lost_places(self, entry: Entry) -> bool:
        """Tell whether places were found for it, and were then given to another."""
        if not self._settings.place_anew or not entry.assignment.is_placed or entry.assignment.mode == Mode.NO_FIT:
            return False
        return self._missing(entry) == "places"

    def _overlaps(self, entry: Entry) -> bool:
        victims = self._victims.get(entry.tree, {})
        return any(one.workload.key in victims for one in entry.targets)

    def _gone(self, entry: Entry) -> list[Workload]:
        """Return the victims so far: of its tree, which has its quota, or of all where they have places in common."""
        trees = self._victims.values() if entry.assignment.is_placed else [self._victims.get(entry.tree, {})]
        return [one for found in trees for one in found.values()]

    def _missing(self, entry: Entry) -> Literal["", "quota", "places"]:
        """Return what it lacks now, without its victims and those of others.

        Pods that start at once need places that are free while the victims run, too: Kueue looks at what is to be.
        """
        gone = self._gone(entry)
        with self._snapshot.without([*gone, *(one.workload for one in entry.targets)]):
            if not fits(entry.queue, entry.usage):
                return "quota"
            if not self._has_places(entry):
                return "places"
        if entry.assignment.mode != Mode.FIT or not gone:
            return ""
        with self._without_kept():
            return "" if self._has_places(entry) else "places"

    def _has_places(self, entry: Entry) -> bool:
        """Tell whether there is room still at the places that were found for it."""
        if not entry.assignment.is_placed:
            return True
        return self._snapshot.places.fits(self._as_admitted(entry), entry.head.workload)

    @contextmanager
    def _without_kept(self) -> Generator[None]:
        """Give back for a while the places that are kept for those who wait."""
        for new, old in self._kept:
            self._snapshot.places.remove(new, old)
        try:
            yield
        finally:
            for new, old in self._kept:
                self._snapshot.places.add(new, old)

    def _take(self, entry: Entry, usage: Usage, places: list[tuple[Workload, Workload]]) -> Workload:
        """Take quota and places, if they were found; return the workload with them. Those it leaves are free later."""
        entry.queue.add_usage(usage)
        self._taken.append((entry.queue, usage))
        new, old = self._as_admitted(entry), entry.head.workload
        self._snapshot.places.add(new, old)
        places.append((new, old))
        return new

    def _as_admitted(self, entry: Entry) -> Workload:
        return admitted(entry.head.workload, entry.queue.spec, entry.assignment, self._now)


def admitted(workload: Workload, queue: ClusterQueue, assignment: Assignment, at: float) -> Workload:
    """Return a workload with the admission that an assignment gives it.

    One that has its quota keeps its time, and what has become of its checks.
    """
    sets = tuple(
        PodSetAdmission(
            one.name,
            {resource: choice.name for resource, choice in one.flavors.items()},
            {resource: amount for resource, amount in one.requests.items() if resource in one.flavors},
            one.pods,
            one.place,
            one.delayed,
        )
        for one in assignment.pod_sets
    )
    if workload.admission is None:
        new = Admission(queue.name, sets, at)
        new = new._replace(checks=required_checks(queue, new))
    else:
        new = workload.admission._replace(pod_sets=sets)
    return replace(workload, admission=new, eviction=None, failed_nodes=())


def reservation(queue: QueueNode, assignment: Assignment) -> Mapping[FlavorResource, int]:
    """Return the quota kept for a workload that waits and may make nobody give way (quotaResourcesToReserve).

    So that those of other queues do not overtake it for ever: as much as its queue's nominal quota has left, or where
    it borrows, as much as the queue may borrow. Never less than nothing: Kueue gives away to the others of the cycle
    what a queue has beyond its borrowing limit.
    """
    if assignment.mode != Mode.PREEMPT:
        return assignment.usage
    kept: dict[FlavorResource, int] = {}
    for key, amount in assignment.usage.items():
        quota, used = queue.quotas.get(key), queue.usage.get(key, 0)
        nominal = 0 if quota is None else quota.nominal
        if not assignment.borrowing:
            kept[key] = max(0, min(amount, minus(nominal, used)))
        elif quota is None or quota.borrowing is None:
            kept[key] = amount
        else:
            kept[key] = max(0, min(amount, minus(plus(nominal, quota.borrowing), used)))
    return kept
