"""Starts that are promised, and the gate that keeps them.

The invariant: where declared run times are upper bounds, no workload that starts ever delays a start that was promised
to another. It may start if at the start of every promise that comes before its own latest end, there is still room for
what was promised: with all that will run then, as it is foretold by Ahead, and with it. One that declares no run time
is there at every such time. Between two such times what is used only becomes less, so there is nothing to ask.

A promise is made for the earliest start at which it is in the way of no other promise, and is only ever moved to an
earlier one. Unless something was not to be expected: a workload outlives its declared run time, or nodes or quotas go.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple, Protocol

from zonewise_scheduler.queue.plan.ahead import keeps, runs_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zonewise_scheduler.queue.plan.ahead import Ahead
    from zonewise_scheduler.queue.plan.values import Promise
    from zonewise_scheduler.queue.quota.cycle.values import Head
    from zonewise_scheduler.queue.quota.model.workload import Settings, Workload
    from zonewise_scheduler.queue.quota.tree.snapshot import Snapshot


class _Future(NamedTuple):
    """What will be when a promise is to be kept, right before."""

    promise: Promise
    snapshot: Snapshot

    def takes(self, workload: Workload, victims: Sequence[Workload]) -> bool:
        """Tell whether the promise can be kept if a workload runs on until then."""
        snapshot = self.snapshot
        if runs_in(snapshot, workload):
            return True
        with snapshot.without(victims):
            snapshot.add(workload)
            kept = keeps(snapshot, self.promise)
            snapshot.remove(workload)
        return kept

    def add(self, workload: Workload, victims: Sequence[Workload]) -> None:
        """Take note that it does."""
        for one in victims:
            if runs_in(self.snapshot, one):
                self.snapshot.remove(one)
        if not runs_in(self.snapshot, workload):
            self.snapshot.add(workload)


class Present(Protocol):
    """What is now."""

    def ahead(self, promises: Iterable[Promise]) -> Ahead:
        """Return what will be, where these are promised."""
        ...


class Promises:
    """All that is promised; a Gate of cycles."""

    def __init__(self, present: Present, settings: Settings) -> None:
        self._present = present
        self._settings = settings
        self._made: dict[str, Promise] = {}
        self._now = 0.0
        self._futures: list[_Future] | None = None

    @property
    def made(self) -> Mapping[str, Promise]:
        """What is promised, by key of the workload."""
        return self._made

    def restore(self, promises: Iterable[Promise]) -> None:
        """Take in what was promised before."""
        self._made.update((one.workload.key, one) for one in promises)
        self._futures = None

    # --- the gate

    def open(self, now: float) -> None:
        """Be ready for a cycle."""
        if self._futures is None or self._now != now:
            self._futures = self._all_but("")
        self._now = now

    def delays(self, workload: Workload, victims: Sequence[Workload]) -> str:
        """Return the key of one whose promised start would be delayed; "": nobody's."""
        futures = self._all_but(workload.key) if workload.key in self._made else self._futures or []
        late = (one for one in self._asked(workload, futures) if not one.takes(workload, victims))
        return next((one.promise.workload.key for one in late), "")

    def take(self, workload: Workload, victims: Sequence[Workload]) -> None:
        """Take note that a workload starts, or makes others give way and then starts."""
        if workload.key in self._made:
            self._futures = self._all_but(workload.key)
        for one in self._asked(workload, self._futures or []):
            one.add(workload, victims)

    def _asked(self, workload: Workload, futures: Iterable[_Future]) -> list[_Future]:
        """Return those that a workload reaches."""
        end = self._now + workload.limit
        return [one for one in futures if one.promise.start < end or one.promise.start == inf]

    def _all_but(self, key: str) -> list[_Future]:
        others = [one for name, one in self._made.items() if name != key]
        return [_Future(*one) for one in self._present.ahead(others).futures()] if others else []

    # --- promises

    def make(self, head: Head) -> bool:
        """Promise a start to a head that cannot start now; tell whether there is one."""
        others = [one for key, one in self._made.items() if key != head.workload.key]
        found = self._present.ahead(others).earliest(head, self._settings)
        self._futures = None
        if found is None:
            self._made.pop(head.workload.key, None)
            return False
        self._made[head.workload.key] = found
        return True

    def drop(self, key: str) -> None:
        """Take note that a workload has started, or waits no more."""
        if self._made.pop(key, None) is not None:
            self._futures = None

    def renew(self) -> None:
        """Bring promises forward, those first that were made first; with what is free now."""
        for promise in list(self._made.values()):
            self.make(promise.head)
