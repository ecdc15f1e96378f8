"""The planner: what waits and runs, and what to do next.

It is led event by event by the same verbs, live and on the virtual clock. A decision is cycles of the quota
(quota.cycle), one head of each ClusterQueue at a time, until nothing more can start: so all is decided that can be
decided, not one workload of a queue.

Time comes in at two places. Whose turn it is: in each queue first whoever is promised a start that has come, then
those that have waited long enough to be promised one, then the others by the rules (queue.time.rules). One of the
former that cannot start now is promised a start. And who may start: nobody who would delay a promise (promises).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

from zonewise_scheduler.queue.plan.ahead import Ahead, Run
from zonewise_scheduler.queue.plan.line import Line
from zonewise_scheduler.queue.plan.promises import Promises
from zonewise_scheduler.queue.plan.round import Round
from zonewise_scheduler.queue.quota.model.workload import DEFAULTS
from zonewise_scheduler.queue.time.rules import ALL, Rules
from zonewise_scheduler.queue.time.state import OVERRUN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Set

    from zonewise_scheduler.queue.plan.values import Promise, Step
    from zonewise_scheduler.queue.quota.model.workload import Eviction, Settings, Workload
    from zonewise_scheduler.queue.quota.tree.snapshot import Snapshot


class Planner:
    """Workloads in ClusterQueues; times are seconds of any one clock."""

    def __init__(self, snapshot: Snapshot, rules: Rules, settings: Settings = DEFAULTS) -> None:
        """Take the queues, and what runs in them since its admission; the snapshot is the planner's from now on."""
        self.snapshot = snapshot
        self.settings = settings
        self.rules = rules
        self.promised = Promises(self, settings)
        self.lines = {name: Line(node.spec, rules, settings) for name, node in snapshot.queues.items()}
        self.awake: dict[str, None] = {}
        """Queues in which something may have its turn; ordered."""
        self._trees = _trees(snapshot)
        self._where: dict[str, str] = {}
        """The queue of each workload that waits."""
        self._runs: list[Run] = []
        """By latest end."""
        self._run_of: dict[str, Run] = {}
        self._serial = 0
        self._cycles = 0
        self._leaving: set[str] = set()
        """Who was told to give way."""
        self._now = 0.0
        """Of the last decision."""
        self._changed: set[str] = set()
        """Queues of trees in which something came free."""
        for running in snapshot.running.values():
            for one in running.values():
                self._note(one, one.admission.at if one.admission is not None else 0.0)

    def copy(self, depth: int = ALL) -> Planner:
        """Return another that goes on from here on its own; `depth`: with no more reservations of a queue than so."""
        other = copy(self)
        other.rules = self.rules._replace(depth=min(self.rules.depth, depth))
        other.snapshot = self.snapshot.copy()
        other.promised = Promises(other, self.settings)
        other.promised.restore(self._first_promises(depth))
        other.lines = {name: line.copy(other.rules) for name, line in self.lines.items()}
        other.awake, other._where, other._run_of = dict(self.awake), dict(self._where), dict(self._run_of)
        other._runs, other._leaving, other._changed = list(self._runs), set(self._leaving), set(self._changed)
        return other

    def _first_promises(self, depth: int) -> list[Promise]:
        """Return those of each queue that come first, in the order in which they were made."""
        kept: set[str] = set()
        of: Counter[str] = Counter()
        for one in self.promises:
            of[one.queue] += 1
            if of[one.queue] <= depth:
                kept.add(one.workload.key)
        return [one for key, one in self.promised.made.items() if key in kept]

    # --- what happens

    def submit(self, workload: Workload, queue: str) -> None:
        """Let a workload wait in a ClusterQueue, or take in its new state; raise KeyError for an unknown queue."""
        line = self.lines[queue]
        before = self._where.get(workload.key)
        if before is not None and before != queue:
            self.withdraw(workload.key)
        self._where[workload.key] = queue
        line.push(workload)
        self.awake[queue] = None

    def withdraw(self, key: str) -> None:
        """Forget a waiting workload; raise KeyError if it does not wait."""
        queue = self._where.pop(key)
        self.lines[queue].pending.remove(key)
        if key in self.promised.made:
            self.promised.withdraw(key)
            self._changed.update(self._trees[queue])

    def end(self, key: str) -> None:
        """Take note that a running workload has ended, and all its pods are gone; raise KeyError if it does not run."""
        run = self._run_of.pop(key)
        del self._runs[bisect_left(self._runs, (run.end, run.serial), key=_place)]
        self._leaving.discard(key)
        workload = run.workload
        self._changed.update(self._reached(workload))
        self.snapshot.remove(workload)
        self.promised.ended(workload)

    def evict(self, key: str, eviction: Eviction) -> None:
        """Take note that the pods of a running workload are gone; it waits again. Raises KeyError if it runs not."""
        workload = self._run_of[key].workload
        queue = self.snapshot.queue_of(workload).name
        self.end(key)
        self.submit(replace(workload, admission=None, eviction=eviction), queue)

    def restore(self, promises: Iterable[Promise]) -> None:
        """Take in what was promised before a restart, by start; those whose workloads do not wait are left out."""
        self.promised.restore(one for one in promises if one.workload.key in self._where)

    # --- what is

    @property
    def running(self) -> Mapping[str, Run]:
        """Those that have an admission, by key."""
        return self._run_of

    @property
    def leaving(self) -> Set[str]:
        """The keys of those that were told to give way, and run still."""
        return self._leaving

    @property
    def waiting(self) -> Mapping[str, str]:
        """The queue of each workload that waits, by key."""
        return self._where

    @property
    def promises(self) -> list[Promise]:
        """What is promised, by start."""
        return sorted(self.promised.made.values(), key=_start)

    def ahead(self, promises: Iterable[Promise]) -> Ahead:
        """Return what will be, where these are promised."""
        return Ahead(self._now, self.snapshot.copy(), self._runs, promises)

    # --- what to do

    def decide(self, now: float) -> Step:
        """Decide all that can be decided now."""
        self._now = now
        self._overrun(now)
        if self._changed:
            self._wake()
            self.promised.renew(now)
        for promise in self.promised.made.values():
            if promise.start <= now:
                self.awake[promise.queue] = None
        return Round(self, now).run()

    def next_cycle(self) -> int:
        """Return the number of the cycle that begins."""
        self._cycles += 1
        return self._cycles

    def started(self, workload: Workload, now: float) -> None:
        """Take note that a workload has its admission; it is in the snapshot."""
        self._where.pop(workload.key, None)
        self.promised.started(workload.key)
        self._note(workload, now)

    def told_to_leave(self, key: str) -> bool:
        """Take note that a workload has to give way; tell whether that is new."""
        new = key not in self._leaving
        self._leaving.add(key)
        return new

    def _note(self, workload: Workload, since: float) -> None:
        self._serial += 1
        run = Run(since + workload.limit, self._serial, workload)
        self._run_of[workload.key] = run
        insort(self._runs, run, key=_place)

    def _overrun(self, now: float) -> None:
        """Expect those that have outlived their declared run times to run for another while."""
        while self._runs and self._runs[0].end <= now:
            run = self._runs.pop(0)._replace(end=now + OVERRUN)
            self._run_of[run.workload.key] = run
            insort(self._runs, run, key=_place)
            self._changed.update(self._reached(run.workload))
            self.promised.disturbed()

    def _wake(self) -> None:
        for name in self.lines:
            if name in self._changed:
                self.lines[name].pending.wake()
                self.awake[name] = None
        self._changed.clear()

    def _reached(self, workload: Workload) -> Iterable[str]:
        """Return the queues that can have what a workload leaves: of its tree, or where it has places, all."""
        admission = workload.admission
        if admission is None:
            return ()
        if any(one.place is not None for one in admission.pod_sets):
            return self.lines
        return self._trees[admission.cluster_queue]


def _trees(snapshot: Snapshot) -> dict[str, tuple[str, ...]]:
    """Return the queues of each queue's tree, those that are held too: their quota is lent on."""
    found: dict[str, list[str]] = {}
    roots = {name: node.root for name, node in snapshot.queues.items()}
    for name, root in roots.items():
        found.setdefault(name if root is None else f"/{root.name}", []).append(name)
    return {name: tuple(names) for names in found.values() for name in names}


def _place(run: Run) -> tuple[float, int]:
    return (run.end, run.serial)


def _start(promise: Promise) -> float:
    return promise.start
