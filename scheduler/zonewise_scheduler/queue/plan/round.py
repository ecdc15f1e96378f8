"""One decision: cycles until nothing more can start.

Those that make others give way wait until these are gone. That they start now is promised to them, so that nobody
takes what is left to them; and their queues are through for this time. So is a StrictFIFO queue whose first cannot
start.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from zonewise_scheduler.queue.plan.ahead import has_room
from zonewise_scheduler.queue.plan.values import Promise, Step, Victim
from zonewise_scheduler.queue.quota.cycle.cycle import admitted, run_cycle
from zonewise_scheduler.queue.quota.cycle.values import Head
from zonewise_scheduler.queue.quota.flavors.assignment import START
from zonewise_scheduler.queue.quota.order.heads import take_heads
from zonewise_scheduler.queue.quota.order.outlook import Outlook

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.queue.plan.line import Line
    from zonewise_scheduler.queue.plan.planner import Planner
    from zonewise_scheduler.queue.quota.cycle.values import Decision
    from zonewise_scheduler.queue.quota.model.workload import Workload
    from zonewise_scheduler.queue.quota.order.outlook import Refusal


class Round:
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
        later = planner.promised if planner.rules.reserves else None
        self._outlook = Outlook(planner.snapshot, planner.settings, later)
        self._number = 0
        """Of the cycle."""
        self._passed: set[str] = set()
        """Queues that let their turn pass in it."""

    def run(self) -> Step:
        """Decide."""
        planner = self._planner
        again = [Head(one, planner.snapshot.queue_of(one).name) for one in planner.runs.unplaced()]
        heads = [*again, *self._heads()]
        while heads:
            self._decide(heads)
            heads = self._heads()
        self._renew()
        for decision in self._held:
            planner.lines[decision.head.queue].pending.put_back(decision)
        made = planner.promised.made
        promised = tuple(made[key] for key in self._promised if key in made)
        return Step(
            tuple(self._admitted),
            tuple(self._victims),
            planner.stops(),
            tuple(self._placed),
            promised,
            self._decisions,
            planner.wake,
        )

    def _decide(self, heads: list[Head]) -> None:
        planner, before = self._planner, len(self._admitted)
        planner.promised.open(self.now)
        found = run_cycle(planner.snapshot, heads, planner.settings, self.now, self._number, planner.promised)
        for decision in sorted(found, key=_what_it_takes):
            self._take(decision)
        if not self._passed and all(one.status == "skipped" for one in found):  # who took their room is through
            self._through.update(one.head.queue for one in found)
        if len(self._admitted) > before:
            self._outlook.forget()

    def _heads(self) -> list[Head]:
        """Take the next head of each queue in which somebody may have his turn, in the next cycle that has any."""
        planner = self._planner
        self._number = planner.next_cycle()
        names = [name for name in planner.awake if name not in self._through]
        turns = self._turns(names)
        self._pass_over(names, turns)
        lines = [planner.lines[name].pending for name in names if name not in self._passed]
        heads = take_heads(lines, planner.snapshot, None, self._number, turns)
        going = {one.queue for one in heads} | self._passed
        for name in names:
            if name not in going:
                del planner.awake[name]
        return heads

    def _pass_over(self, names: list[str], turns: Mapping[str, str]) -> None:
        """Let the turn pass of those who would be refused as they were before, and cycles in which all are such.

        It is as if they had been looked at, so that those behind them have their turn in the same cycles as ever. Where
        a refusal leaves traces in the cycle, all who have their turn have to be such.
        """
        planner, alone = self._planner, True
        if planner.rules.reserves:  # then the outlook asks what is promised
            planner.promised.open(self.now)
        while alone:
            hopeless, alone = self._hopeless(names, turns)
            self._passed = {name for name in hopeless if alone or not self._outlook.leaves_traces(name)}
            for name in self._passed:
                planner.lines[name].pending.pass_over(*hopeless[name])
            if not hopeless:
                return
            if alone:
                self._number = planner.next_cycle()

    def _hopeless(self, names: list[str], turns: Mapping[str, str]) -> tuple[dict[str, tuple[str, Refusal]], bool]:
        """Return by queue who would be refused of those whose turn it is; tell whether nobody else has his turn."""
        planner, alone = self._planner, not turns
        found: dict[str, tuple[str, Refusal]] = {}
        for name in names:
            line = planner.lines[name]
            if name in turns or name in planner.snapshot.inactive:
                continue
            key = line.pending.first(planner.snapshot.usage_of_local_queues)
            if not key:
                continue
            refusal = "" if line.strict or self._is_due(key) else self._refusal(line, key)
            if refusal:
                found[name] = key, refusal
            else:
                alone = False
        return found, alone

    def _refusal(self, line: Line, key: str) -> Refusal:
        """Tell whether one would certainly be refused.

        One that is promised a start would be in nobody's way from then on: until then somebody is in its own.
        """
        promise = self._planner.promised.made.get(key)
        return line.pending.refusal(key, self._outlook, inf if promise is None else promise.start - self.now)

    def _is_due(self, key: str) -> bool:
        """Tell whether one is looked at whatever it lacks: it may be promised a start now, or have been by now."""
        promise = self._planner.promised.made.get(key)
        return key in self._tried if promise is None else promise.start <= self.now

    def _turns(self, names: list[str]) -> dict[str, str]:
        """Return whose turn it is by time."""
        planner = self._planner
        if not planner.promised.made and not planner.rules.reserves:
            return {}
        promises: dict[str, list[Promise]] = {}
        for one in planner.promised.made.values():
            promises.setdefault(one.queue, []).append(one)
        found: dict[str, str] = {}
        for name in names:
            key = planner.lines[name].due(self.now, promises.get(name, ()), self._tried, len(self._admitted))
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
        line = planner.lines[head.queue]
        if decision.status == "admitted":
            self._admitted.append(decision.workload)
            planner.started(decision.workload)
            return
        if decision.status == "inadmissible":
            planner.unpromise(head.workload.key)
        if decision.status in {"waiting", "skipped"} and self._as_promised(decision):
            return
        if decision.status in {"preempting", "deferred", "gated"}:
            self._hold(decision)
        else:
            line.pending.put_back(self._once_round(decision))
        if decision.status == "skipped":  # another took the quota for this cycle alone
            self._tried.pop(head.workload.key, None)
        elif line.strict:
            self._through.add(head.queue)
        if head.workload.key in self._tried and decision.status == "waiting":
            self._promise(head)

    def _once_round(self, decision: Decision) -> Decision:
        """Return a decision by which a workload waits whose scan of flavors has come round to where it was before.

        Of several pod sets one may have flavors left to try whenever another has none; Kueue tries for ever.
        """
        seen = self._scans.setdefault(decision.head.workload.key, [])
        if decision.progress.pending and decision.progress.tried in seen:
            return decision._replace(progress=START)
        seen.append(decision.progress.tried)
        return decision

    def _as_promised(self, decision: Decision) -> bool:
        """Start one whose promise has come just as it was promised, where others were in the way of all else."""
        planner, key = self._planner, decision.head.workload.key
        promise = planner.promised.made.get(key)
        if promise is None or promise.start > self.now or promise.workload.admission is None:
            return False
        workload = replace(promise.workload, admission=promise.workload.admission._replace(at=self.now))
        planner.promised.open(self.now)
        if not has_room(planner.snapshot, workload) or planner.promised.delays(workload, ()):
            return False
        planner.promised.take(workload, ())
        planner.snapshot.add(workload)
        self._take(decision._replace(status="admitted", workload=workload, why="", detail="", again="", delays=""))
        return True

    def _take_again(self, decision: Decision) -> None:
        """Do what was decided about one that has its quota, and is to have places."""
        planner = self._planner
        self._give_way(decision)
        if decision.status == "admitted":
            self._placed.append(decision.workload)
            planner.placed(decision.workload)
        elif decision.status == "evicted":
            planner.stop(decision.workload, "NodeFailures")

    def _promise(self, head: Head) -> None:
        """Promise a start; what is promised stays so until all is decided, since others may have been in the way."""
        promised, key = self._planner.promised, head.workload.key
        if key not in promised.made and promised.make(head):
            self._promised.append(key)

    def _renew(self) -> None:
        """Find another start for those who have not had theirs; that is not to be expected."""
        promised = self._planner.promised
        waiting = {key for key, one in self._decisions.items() if one.status == "waiting"}
        for promise in [one for key, one in promised.made.items() if one.start <= self.now and key in waiting]:
            promised.make(promise.head)

    def _hold(self, decision: Decision) -> None:
        """Keep what a workload will use, and have others give way."""
        planner, head = self._planner, decision.head
        self._held.append(decision)
        self._through.add(head.queue)
        self._give_way(decision)
        if decision.status != "gated" and decision.assignment is not None and head.workload.admission is None:
            new = admitted(head.workload, planner.snapshot.queues[head.queue].spec, decision.assignment, self.now)
            victims = tuple(one.workload for one in decision.targets)
            if not self._delays(decision, new):
                planner.promised.keep(Promise(new, head, self.now, (), victims))

    def _give_way(self, decision: Decision) -> None:
        """Have others give way."""
        for one in decision.targets:
            if self._planner.told_to_leave(one.workload, "Preempted"):
                self._victims.append(Victim(one.workload, decision.head.workload, one.reason))
                self._planner.snapshot.yielded.add(decision.head.workload.key, one.workload.key)

    def _delays(self, decision: Decision, workload: Workload) -> bool:
        """Tell whether one that waits for the victims of others would delay a promise: of that no gate was asked."""
        if decision.status != "deferred":
            return False
        self._planner.promised.open(self.now)
        return bool(self._planner.promised.delays(workload, ()))


def _what_it_takes(decision: Decision) -> int:
    """Sort what runs, then what will when others are gone, before the rest: promises to the others are beside these."""
    order = {"admitted": 0, "preempting": 1, "deferred": 2}
    return order.get(decision.status, len(order))
