"""One decision: cycles until nothing more can start.

Those that make others give way wait until these are gone. That they start now is promised to them, so that nobody
takes what is left to them; and their queues are through for this time. So is a StrictFIFO queue whose first cannot
start.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from zonewise_scheduler.backfill.timeline import has_capacity
from zonewise_scheduler.backfill.types import Plan, Reservation, Victim
from zonewise_scheduler.quota.cycle.entry import Head
from zonewise_scheduler.quota.cycle.scheduling_cycle import run_cycle, with_admission
from zonewise_scheduler.quota.flavorassigner.assignment import NO_LAST_ASSIGNMENT
from zonewise_scheduler.quota.queue.headroom_bound import HeadroomBound
from zonewise_scheduler.quota.queue.heads import pop_heads

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.backfill.pending_queue import PendingQueue
    from zonewise_scheduler.backfill.planner import Planner
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.cycle.entry import Decision
    from zonewise_scheduler.quota.queue.headroom_bound import BoundReason


class SchedulingPass:
    """One decision under way."""

    def __init__(self, planner: Planner, now: float) -> None:
        self.now = now
        self._planner = planner
        self._tried: dict[str, int] = {}
        """Those whose turn it was by time, with how many others had started by then."""
        self._scans: dict[str, list[Mapping[str, Mapping[str, int]]]] = {}
        """Where the scans of flavors have come to that go on in the next cycle, by key."""
        self._through: set[str] = set()
        """Queues of which nothing more is decided."""
        self._held: list[Decision] = []
        """Of those that are to wait in their queues only when all is decided."""
        self._admitted: list[Workload] = []
        self._placed: list[Workload] = []
        self._victims: list[Victim] = []
        self._promised: list[str] = []
        self._decisions: dict[str, Decision] = {}
        later = planner.reservations if planner.policy.reserves else None
        self._outlook = HeadroomBound(planner.snapshot, planner.settings, later)
        self._number = 0
        """Of the cycle."""
        self._passed: set[str] = set()
        """Queues that let their turn pass in it."""

    def run(self) -> Plan:
        """Decide."""
        planner = self._planner
        again = [
            Head(one, planner.snapshot.cluster_queue_of(one).name)
            for one in planner.running_workloads.awaiting_placement()
        ]
        heads = [*again, *self._heads()]
        while heads:
            self._decide(heads)
            heads = self._heads()
        self._renew()
        for decision in self._held:
            planner.pending_queues[decision.head.cluster_queue].heap.requeue(decision)
        made = planner.reservations.by_key
        promised = tuple(made[key] for key in self._promised if key in made)
        return Plan(
            tuple(self._admitted),
            tuple(self._victims),
            planner.drain_stops(),
            tuple(self._placed),
            promised,
            self._decisions,
            planner.wake_at,
        )

    def _decide(self, heads: list[Head]) -> None:
        planner, before = self._planner, len(self._admitted)
        planner.reservations.begin_cycle(self.now)
        found = run_cycle(planner.snapshot, heads, planner.settings, self.now, self._number, planner.reservations)
        for decision in sorted(found, key=_what_it_takes):
            self._take(decision)
        if not self._passed and all(one.status == "skipped" for one in found):  # who took their room is through
            self._through.update(one.head.cluster_queue for one in found)
        if len(self._admitted) > before:
            self._outlook.invalidate()

    def _heads(self) -> list[Head]:
        """Take the next head of each queue in which somebody may have his turn, in the next cycle that has any."""
        planner = self._planner
        self._number = planner.next_cycle()
        names = [name for name in planner.active_queues if name not in self._through]
        turns = self._turns(names)
        self._pass_over(names, turns)
        lines = [planner.pending_queues[name].heap for name in names if name not in self._passed]
        heads = pop_heads(lines, planner.snapshot, None, self._number, turns)
        going = {one.cluster_queue for one in heads} | self._passed
        for name in names:
            if name not in going:
                del planner.active_queues[name]
        return heads

    def _pass_over(self, names: list[str], turns: Mapping[str, str]) -> None:
        """Let the turn pass of those who would be refused as they were before, and cycles in which all are such.

        It is as if they had been looked at, so that those behind them have their turn in the same cycles as ever. Where
        a refusal leaves traces in the cycle, all who have their turn have to be such.
        """
        planner, alone = self._planner, True
        if planner.policy.reserves:  # then the outlook asks what is promised
            planner.reservations.begin_cycle(self.now)
        while alone:
            hopeless, alone = self._hopeless(names, turns)
            self._passed = {name for name in hopeless if alone or not self._outlook.affects_cycle(name)}
            for name in self._passed:
                planner.pending_queues[name].heap.mark_inadmissible(*hopeless[name])
            if not hopeless:
                return
            if alone:
                self._number = planner.next_cycle()

    def _hopeless(self, names: list[str], turns: Mapping[str, str]) -> tuple[dict[str, tuple[str, BoundReason]], bool]:
        """Return by queue who would be refused of those whose turn it is; tell whether nobody else has his turn."""
        planner, alone = self._planner, not turns
        found: dict[str, tuple[str, BoundReason]] = {}
        for name in names:
            line = planner.pending_queues[name]
            if name in turns or name in planner.snapshot.inactive:
                continue
            key = line.heap.head_key(planner.snapshot.local_queue_usage)
            if not key:
                continue
            refusal = "" if line.strict or self._is_due(key) else self._refusal(line, key)
            if refusal:
                found[name] = key, refusal
            else:
                alone = False
        return found, alone

    def _refusal(self, line: PendingQueue, key: str) -> BoundReason:
        """Tell whether one would certainly be refused.

        One that is promised a start would be in nobody's way from then on: until then somebody is in its own.
        """
        promise = self._planner.reservations.by_key.get(key)
        return line.heap.inadmissible_reason(key, self._outlook, inf if promise is None else promise.start - self.now)

    def _is_due(self, key: str) -> bool:
        """Tell whether one is looked at whatever it lacks: it may be promised a start now, or have been by now."""
        promise = self._planner.reservations.by_key.get(key)
        return key in self._tried if promise is None else promise.start <= self.now

    def _turns(self, names: list[str]) -> dict[str, str]:
        """Return whose turn it is by time."""
        planner = self._planner
        if not planner.reservations.by_key and not planner.policy.reserves:
            return {}
        promises: dict[str, list[Reservation]] = {}
        for one in planner.reservations.by_key.values():
            promises.setdefault(one.queue, []).append(one)
        found: dict[str, str] = {}
        for name in names:
            key = planner.pending_queues[name].next_due(
                self.now, promises.get(name, ()), self._tried, len(self._admitted)
            )
            if key:
                found[name] = key
                self._tried[key] = len(self._admitted)
        return found

    def _take(self, decision: Decision) -> None:
        """Do what was decided about a head."""
        planner, head = self._planner, decision.head
        self._decisions[head.workload.key] = decision
        if head.workload.admission is not None:
            self._take_again(decision)
            return
        line = planner.pending_queues[head.cluster_queue]
        if decision.status == "admitted":
            self._admitted.append(decision.workload)
            planner.record_admission(decision.workload)
            return
        if decision.status == "inadmissible":
            planner.release_reservation(head.workload.key)
        if decision.status in {"waiting", "skipped"} and self._as_promised(decision):
            return
        if decision.status in {"preempting", "deferred", "gated"}:
            self._hold(decision)
        else:
            line.heap.requeue(self._once_round(decision))
        if decision.status == "skipped":  # another took the quota for this cycle alone
            self._tried.pop(head.workload.key, None)
        elif line.strict:
            self._through.add(head.cluster_queue)
        if head.workload.key in self._tried and decision.status == "waiting":
            self._promise(head)

    def _once_round(self, decision: Decision) -> Decision:
        """Return a decision by which a workload waits whose scan of flavors has come round to where it was before.

        Of several pod sets one may have flavors left to try whenever another has none; Kueue tries for ever.
        """
        seen = self._scans.setdefault(decision.head.workload.key, [])
        if decision.last_assignment.pending_flavors and decision.last_assignment.last_tried_flavor_idx in seen:
            return decision._replace(last_assignment=NO_LAST_ASSIGNMENT)
        seen.append(decision.last_assignment.last_tried_flavor_idx)
        return decision

    def _as_promised(self, decision: Decision) -> bool:
        """Start one whose promise has come just as it was promised, where others were in the way of all else."""
        planner, key = self._planner, decision.head.workload.key
        promise = planner.reservations.by_key.get(key)
        if promise is None or promise.start > self.now or promise.workload.admission is None:
            return False
        workload = replace(promise.workload, admission=promise.workload.admission._replace(reserved_at=self.now))
        planner.reservations.begin_cycle(self.now)
        if not has_capacity(planner.snapshot, workload) or planner.reservations.delayed_reservation(workload, ()):
            return False
        planner.reservations.record_start(workload, ())
        planner.snapshot.add_workload(workload)
        self._take(
            decision._replace(
                status="admitted", workload=workload, reason="", message="", requeue_reason="", delayed_reservation=""
            )
        )
        return True

    def _take_again(self, decision: Decision) -> None:
        """Do what was decided about one that has its quota, and is to have places."""
        planner = self._planner
        self._give_way(decision)
        if decision.status == "admitted":
            self._placed.append(decision.workload)
            planner.record_placement(decision.workload)
        elif decision.status == "evicted":
            planner.stop(decision.workload, "NodeFailures")

    def _promise(self, head: Head) -> None:
        """Promise a start; what is promised stays so until all is decided, since others may have been in the way."""
        promised, key = self._planner.reservations, head.workload.key
        if key not in promised.by_key and promised.reserve(head):
            self._promised.append(key)

    def _renew(self) -> None:
        """Find another start for those who have not had theirs; that is not to be expected."""
        promised = self._planner.reservations
        waiting = {key for key, one in self._decisions.items() if one.status == "waiting"}
        for promise in [one for key, one in promised.by_key.items() if one.start <= self.now and key in waiting]:
            promised.reserve(promise.head)

    def _hold(self, decision: Decision) -> None:
        """Keep what a workload will use, and have others give way."""
        planner, head = self._planner, decision.head
        self._held.append(decision)
        self._through.add(head.cluster_queue)
        self._give_way(decision)
        if decision.status != "gated" and decision.assignment is not None and head.workload.admission is None:
            new = with_admission(
                head.workload, planner.snapshot.cluster_queues[head.cluster_queue].spec, decision.assignment, self.now
            )
            victims = tuple(one.workload for one in decision.preemption_targets)
            if not self._delays(decision, new):
                planner.reservations.record(Reservation(new, head, self.now, (), victims))

    def _give_way(self, decision: Decision) -> None:
        """Have others give way."""
        for one in decision.preemption_targets:
            if self._planner.mark_stopping(one.workload, "Preempted"):
                self._victims.append(Victim(one.workload, decision.head.workload, one.reason))
                self._planner.snapshot.preemption_graph.add(decision.head.workload.key, one.workload.key)

    def _delays(self, decision: Decision, workload: Workload) -> bool:
        """Tell whether one that waits for the victims of others would delay a promise: of that no gate was asked."""
        if decision.status != "deferred":
            return False
        self._planner.reservations.begin_cycle(self.now)
        return bool(self._planner.reservations.delayed_reservation(workload, ()))


def _what_it_takes(decision: Decision) -> int:
    """Sort what runs, then what will when others are gone, before the rest: promises to the others are beside these."""
    order = {"admitted": 0, "preempting": 1, "deferred": 2}
    return order.get(decision.status, len(order))
