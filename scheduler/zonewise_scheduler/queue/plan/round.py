"""One decision: cycles until nothing more can start.

Those that make others give way wait until these are gone. That they start now is promised to them, so that nobody
takes what is left to them; and their queues are through for this time. So is a StrictFIFO queue whose first cannot
start.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from zonewise_scheduler.queue.plan.values import Promise, Step, Victim
from zonewise_scheduler.queue.quota.cycle.cycle import admitted, run_cycle
from zonewise_scheduler.queue.quota.order.heads import take_heads

if TYPE_CHECKING:
    from zonewise_scheduler.queue.plan.planner import Planner
    from zonewise_scheduler.queue.quota.cycle.values import Decision, Head
    from zonewise_scheduler.queue.quota.model.workload import Workload


class Round:
    """One decision under way."""

    def __init__(self, planner: Planner, now: float) -> None:
        self.now = now
        self._planner = planner
        self._tried: dict[str, int] = {}
        """Those whose turn it was by time, with how many others had started by then."""
        self._through: set[str] = set()
        """Queues of which nothing more is decided."""
        self._held: list[Decision] = []
        """Of those that are to wait in their queues only when all is decided."""
        self._admitted: list[Workload] = []
        self._victims: list[Victim] = []
        self._promised: list[str] = []
        self._decisions: dict[str, Decision] = {}

    def run(self) -> Step:
        """Decide."""
        planner = self._planner
        while heads := self._heads(number := planner.next_cycle()):
            planner.promised.open(self.now)
            found = run_cycle(planner.snapshot, heads, planner.settings, self.now, number, planner.promised)
            for decision in sorted(found, key=_starts_first):
                self._take(decision)
            if all(one.status == "skipped" for one in found):  # who took their room is through
                self._through.update(one.head.queue for one in found)
        self._renew()
        for decision in self._held:
            planner.lines[decision.head.queue].pending.put_back(decision)
        made = planner.promised.made
        wake = min((one.start for one in made.values() if one.start > self.now), default=inf)
        promised = tuple(made[key] for key in self._promised if key in made)
        return Step(tuple(self._admitted), tuple(self._victims), promised, self._decisions, wake)

    def _heads(self, number: int) -> list[Head]:
        """Take the next head of each queue in which somebody may have his turn."""
        planner = self._planner
        names = [name for name in planner.awake if name not in self._through]
        turns = self._turns(names)
        lines = [planner.lines[name].pending for name in names]
        heads = take_heads(lines, planner.snapshot, None, number, turns)
        going = {one.queue for one in heads}
        for name in names:
            if name not in going:
                del planner.awake[name]
        return heads

    def _turns(self, names: list[str]) -> dict[str, str]:
        """Return whose turn it is by time."""
        planner = self._planner
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
        line = planner.lines[head.queue]
        if decision.status == "admitted":
            self._admitted.append(decision.workload)
            planner.started(decision.workload, self.now)
            return
        if decision.status in {"preempting", "deferred", "gated"}:
            self._hold(decision)
        else:
            line.pending.put_back(decision)
        if decision.status == "skipped":  # another took the quota for this cycle alone
            self._tried.pop(head.workload.key, None)
        elif line.strict:
            self._through.add(head.queue)
        if head.workload.key in self._tried and decision.status == "waiting":
            self._promise(head)

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
        for one in decision.targets:
            if planner.told_to_leave(one.workload.key):
                self._victims.append(Victim(one.workload, head.workload, one.reason))
        if decision.status != "gated" and decision.assignment is not None and head.workload.admission is None:
            new = admitted(head.workload, head.queue, decision.assignment, self.now)
            victims = tuple(one.workload for one in decision.targets)
            planner.promised.keep(Promise(new, head, self.now, (), victims))


def _starts_first(decision: Decision) -> bool:
    """Sort what has been admitted before the rest: what is promised to others is beside all that runs."""
    return decision.status != "admitted"
