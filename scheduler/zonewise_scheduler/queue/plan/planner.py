"""The planner: what waits and runs, and what to do next.

It is led event by event by the same verbs, live and on the virtual clock. A decision is cycles of the quota
(quota.cycle), one head of each ClusterQueue at a time, until nothing more can start: so all is decided that can be
decided, not one workload of a queue.

Time comes in at two places. Whose turn it is: in each queue first whoever is promised a start that has come, then
those that have waited long enough to be promised one, then the others by the rules (queue.time.rules). One of the
former that cannot start now is promised a start. And who may start: nobody who would delay a promise (promises).
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from zonewise_scheduler.queue.plan.ahead import Ahead
from zonewise_scheduler.queue.plan.entrance import Aside, Entrance, Queues, alike, rebuilt, same, with_checks
from zonewise_scheduler.queue.plan.line import Line
from zonewise_scheduler.queue.plan.promises import Promises
from zonewise_scheduler.queue.plan.round import Round
from zonewise_scheduler.queue.plan.runs import Runs
from zonewise_scheduler.queue.plan.sharing import Sharing
from zonewise_scheduler.queue.plan.trees import Trees
from zonewise_scheduler.queue.plan.values import Stop
from zonewise_scheduler.queue.quota.model.workload import DEFAULTS, Eviction
from zonewise_scheduler.queue.time.rules import ALL, Rules

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Set

    from zonewise_scheduler.queue.plan.ahead import Run
    from zonewise_scheduler.queue.plan.values import Promise, Step, StopReason
    from zonewise_scheduler.queue.quota.model.queues import LocalQueue
    from zonewise_scheduler.queue.quota.model.workload import Settings, Workload
    from zonewise_scheduler.queue.quota.places import Places
    from zonewise_scheduler.queue.quota.tree.snapshot import Snapshot


class Planner:
    """Workloads in ClusterQueues; times are seconds of any one clock."""

    def __init__(
        self,
        snapshot: Snapshot,
        rules: Rules,
        settings: Settings = DEFAULTS,
        local_queues: Iterable[LocalQueue] | None = None,
        namespaces: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """Take the queues, and what runs in them since its admission; the snapshot is the planner's from now on.

        `local_queues` None: workloads are submitted to ClusterQueues, whatever LocalQueues they name; `namespaces`:
        labels by name, None where they do not matter.
        """
        self.snapshot = snapshot
        self.settings = settings
        self.rules = rules
        self.promised = Promises(self, settings)
        self.lines = {name: Line(node.spec, rules, settings) for name, node in snapshot.queues.items()}
        self.awake: dict[str, None] = {}
        """Queues in which something may have its turn; ordered."""
        self.namespaces = namespaces
        self.entrance = Entrance(local_queues)
        self.sharing = None if settings.decay is None else Sharing(settings.decay)
        self._trees = Trees(snapshot)
        self._where: dict[str, str] = {}
        """The queue of each workload that waits in a line."""
        self._aside: dict[str, Aside] = {}
        self.runs = Runs()
        self._stops: list[Stop] = []
        """Of which nobody was told yet."""
        self._cycles = 0
        self._queues = Queues(())
        """Of the last reset."""
        self._gone: set[str] = set()
        """Queues that are not there any more, but for those that run in them."""
        self._doubt = False
        """Whether there may be promises that cannot be kept any more."""
        self._now = 0.0
        """Of the last decision."""
        self._changed: set[str] = set()
        """Queues of trees in which something came free."""
        for name, running in snapshot.running.items():
            spec = snapshot.queues[name].spec
            for key, one in running.items():
                running[key] = with_checks(self.entrance.declared(one, spec), spec)
                self.runs.add(running[key])
                self._mind(running[key])

    def copy(self, depth: int = ALL) -> Planner:
        """Return another that goes on from here on its own; `depth`: with no more reservations of a queue than so."""
        other = copy(self)
        other.rules = self.rules._replace(depth=min(self.rules.depth, depth))
        other.snapshot = self.snapshot.copy()
        other.snapshot.yielded = self.snapshot.yielded.copy()
        other.promised = Promises(other, self.settings)
        other.promised.restore(self.promised.first(depth))
        other.lines = {name: line.copy(other.rules) for name, line in self.lines.items()}
        other.awake, other._where, other._aside = dict(self.awake), dict(self._where), dict(self._aside)
        other._stops = list(self._stops)
        other.runs, other._gone, other._changed = self.runs.copy(), set(self._gone), set(self._changed)
        other.sharing = None if self.sharing is None else self.sharing.copy()
        return other

    # --- what happens

    def submit(self, workload: Workload, queue: str = "") -> None:
        """Let a workload wait, or take in its new state.

        It waits in the line of the ClusterQueue that its LocalQueue leads to, or where LocalQueues do not matter, of
        `queue`; or aside, where it may not (plan.entrance).
        """
        key = workload.key
        line = self.entrance.queue_of(workload, queue)
        why = self.entrance.barred(workload, queue, self.lines)
        if self._where.get(key, line) != line or (why and key in self._where):
            self.withdraw(key)
        self._aside.pop(key, None)
        if why:
            self._aside[key] = Aside(workload, queue, why)
            return
        workload = self.entrance.declared(workload, self.lines[line].pending.spec)
        if (old := self.lines[line].pending.get(key)) is not None:
            if same(old, workload):
                return
            if not alike(old, workload):
                self.unpromise(key)
            if old.priority != workload.priority:
                self._start_anew(key, line)
        self._where[key] = line
        self.lines[line].push(workload)
        self.awake[line] = None

    def withdraw(self, key: str) -> None:
        """Forget a waiting workload; raise KeyError if it does not wait."""
        if self._aside.pop(key, None) is not None:
            return
        queue = self._where.pop(key)
        self.lines[queue].pending.remove(key)
        self.unpromise(key)
        self._start_anew(key, queue)

    def update(self, workload: Workload) -> None:
        """Take in the new state of a workload, whether it waits or runs; raise KeyError if it does neither.

        One that runs keeps the admission that it has here. It may need less (reclaimable pods), have another priority,
        be deactivated, have checks that have failed, or nodes that have, instead of which it gets others.
        """
        run = self.runs.by_key.get(workload.key)
        if run is not None:
            own, was = self.entrance.declared(workload, self.snapshot.queue_of(run.workload).spec), run.workload
            own = replace(own, admission=was.admission, eviction=was.eviction or workload.eviction)
            if not same(own, was):
                self._exchange(own)
        else:
            aside = self._aside.get(workload.key)
            self.submit(workload, self._where[workload.key] if aside is None else aside.queue)

    def checked(self, key: str, now: float) -> None:
        """Take note that a workload has passed its admission checks, and runs from now on; its latest end is known.

        Raises KeyError if it has no quota.
        """
        workload = self.runs.by_key[key].workload
        if workload.admission is not None and workload.admission.checks:
            admission = workload.admission._replace(checks=(), began=now)
            self._exchange(replace(workload, admission=admission))

    def end(self, key: str) -> None:
        """Take note that a running workload has ended, and all its pods are gone; raise KeyError if it does not run."""
        self._leave(key)
        self.snapshot.yielded.forget(key)

    def evict(self, key: str, eviction: Eviction) -> None:
        """Take note that the pods of a running workload are gone; it waits again. Raises KeyError if it runs not."""
        workload = self._leave(key)
        queue = self.snapshot.queue_of(workload).name
        self.submit(replace(workload, admission=None, eviction=eviction, failed_checks=()), queue)

    def reset(self, queues: Queues, places: Places | None = None) -> None:
        """Take in other queues, cohorts, flavors or LocalQueues, or other nodes.

        What runs is counted on; who waits keeps his place, and his promise as far as it can be kept. `places`: of other
        nodes or topologies, with nothing in them; None: they are as they were.
        """
        waiting = [(one, queue) for key, queue in self._where.items() if (one := self.lines[queue].pending.get(key))]
        waiting += [(one.workload, one.queue) for one in self._aside.values()]
        running = [run.workload for run in self.runs]
        self.snapshot, self._gone = rebuilt(self.snapshot, queues, running, places)
        self.namespaces, self.entrance = queues.namespaces, Entrance(queues.local_queues)
        self._queues, self._trees = queues, Trees(self.snapshot)
        specs = {name: node.spec for name, node in self.snapshot.queues.items() if name not in self._gone}
        self.lines = {name: Line(spec, self.rules, self.settings) for name, spec in specs.items()}
        promised = {key: self._where[key] for key in self.promised.made}
        self._where, self._aside, self.awake = {}, {}, {}
        for one, queue in waiting:
            self.submit(one, queue)
        for key, queue in promised.items():
            if self._where.get(key) != queue or queue in self.snapshot.inactive:
                self.promised.withdraw(key)
        for one in running:
            self._mind(one)
        if self.sharing is not None:
            self.sharing.show(self.snapshot, self.entrance)
        self.nodes_changed()

    def nodes_changed(self) -> None:
        """Take note that there may be other nodes, or more or less room on them, in the same places."""
        self._changed.update(self.lines)
        self._doubt = True

    # --- what is

    @property
    def running(self) -> Mapping[str, Run]:
        """Those that have an admission, by key."""
        return self.runs.by_key

    @property
    def leaving(self) -> Set[str]:
        """The keys of those that were told to stop, and run still."""
        return self.runs.leaving

    @property
    def waiting(self) -> Mapping[str, str]:
        """The queue of each workload that waits in a line, by key."""
        return self._where

    @property
    def aside(self) -> Mapping[str, Aside]:
        """Those that wait outside of all lines, by key."""
        return self._aside

    @property
    def promises(self) -> list[Promise]:
        """What is promised, by start."""
        return sorted(self.promised.made.values(), key=lambda one: one.start)

    def ahead(self, promises: Iterable[Promise]) -> Ahead:
        """Return what will be, where these are promised."""
        return Ahead(self._now, self.snapshot.copy(), self.runs, promises)

    # --- what to do

    def decide(self, now: float) -> Step:
        """Decide all that can be decided now."""
        self._now = now
        for workload in self.runs.overrun(now):
            self._changed.update(self._trees.reached(workload))
            self.promised.disturbed()
        if not all(self.snapshot.running[name] for name in self._gone):
            self.reset(self._queues)
        if self._doubt:
            self._repair()
        if self.sharing is not None and self.sharing.sample(now, self.snapshot):
            self.sharing.show(self.snapshot, self.entrance)
            self.awake.update((name, None) for name, line in self.lines.items() if line.pending.spec.by_usage)
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

    def started(self, workload: Workload) -> None:
        """Take note that a workload has its admission; it is in the snapshot."""
        self._where.pop(workload.key, None)
        self.promised.started(workload.key)
        self.runs.add(workload)
        if self.sharing is not None and self.snapshot.queue_of(workload).spec.by_usage:
            self.sharing.enter(workload)
            self.sharing.show(self.snapshot, self.entrance, [workload.local_queue])

    def unpromise(self, key: str) -> None:
        """Promise nothing to a waiting workload any more; others may come forward."""
        if key not in self.promised.made:
            return
        self._changed.update(self._trees.of(self.promised.made[key].queue))
        self.promised.withdraw(key)

    def placed(self, workload: Workload) -> None:
        """Take note that one that had its quota has its places; it is in the snapshot."""
        self.runs.exchange(workload)
        self.promised.disturbed()
        self._doubt = True

    def told_to_leave(self, workload: Workload, reason: str) -> bool:
        """Take note that one that runs is told to stop; tell whether that is new."""
        if workload.key in self.runs.leaving:
            return False
        queue = self.snapshot.queue_of(workload).name
        self.snapshot.running[queue][workload.key] = self.runs.leave(workload.key, Eviction(reason, self._now))
        return True

    def stop(self, workload: Workload, reason: StopReason) -> None:
        """Have one that runs stop, though nobody needs what it has."""
        if self.told_to_leave(workload, reason):
            self._stops.append(Stop(workload, reason))

    def stops(self) -> tuple[Stop, ...]:
        """Return those that are to stop and are not gone yet, each once."""
        found, self._stops = self._stops, []
        return tuple(one for one in found if one.workload.key in self.runs.leaving)

    @property
    def wake(self) -> float:
        """When to decide again, should nothing happen before: at a promised start, or the next sample of usage."""
        promised = min((one.start for one in self.promised.made.values() if one.start > self._now), default=inf)
        return promised if self.sharing is None else min(promised, self.sharing.wake)

    def _start_anew(self, key: str, queue: str) -> None:
        """Forget whom a waiting workload has preempted, and who it; that may have kept others from preempting."""
        if self.snapshot.yielded.forget(key):
            self._changed.update(self._trees.of(queue))

    def _leave(self, key: str) -> Workload:
        """Take out one that runs; return it."""
        workload = self.runs.remove(key).workload
        self._changed.update(self._trees.reached(workload))
        self.snapshot.remove(workload)
        self.promised.ended(workload)
        return workload

    def _exchange(self, workload: Workload) -> None:
        """Take in the new state of one that runs."""
        old = self.runs.by_key[workload.key].workload
        self._changed.update(self._trees.reached(old))
        if old.priority != workload.priority:
            self.snapshot.yielded.forget(workload.key)
        self.snapshot.remove(old)
        self.snapshot.add(workload)
        self.runs.exchange(workload)
        self._mind(workload)
        self._doubt = True

    def _mind(self, workload: Workload) -> None:
        """Have one that runs stop where it may not go on, and be placed where it lacks places."""
        reason = self.entrance.stop(workload, self.snapshot.queue_of(workload).spec)
        self.runs.mind(workload, self.snapshot.places)
        if reason is not None:
            self.stop(workload, reason)

    def _repair(self) -> None:
        """Find other starts for those whose promises cannot be kept; who gets none has his turn again by time."""
        self._doubt = False
        self.promised.disturbed()
        for promise in self.promised.repair() if self.promised.made else ():
            line = self.lines[promise.queue]
            if (workload := line.pending.get(promise.workload.key)) is not None:
                line.push(workload)
                self.awake[promise.queue] = None

    def _wake(self) -> None:
        for name in self.lines:
            if name in self._changed:
                self.lines[name].pending.wake()
                self.awake[name] = None
        self._changed.clear()
