"""The cluster in memory: what the API server shows, what is promised on top, and each node's row in the arrays.

Events come from the reflectors' threads, questions from the server's; one lock is around all of it. Rows are brought up
to date when a question needs them, so that a burst of events on one node costs one row.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.control import refusals
from zonewise_scheduler.control.foretold import described
from zonewise_scheduler.control.waiting import WaitingPods
from zonewise_scheduler.fit.batch.place import ADMITTED, REFUSED
from zonewise_scheduler.fit.batch.table import Table
from zonewise_scheduler.fit.ledger.ledger import Ledger
from zonewise_scheduler.fit.ledger.values import IN_FLIGHT, SET_ASIDE, BoundPod
from zonewise_scheduler.fit.read.kinds import Kinds
from zonewise_scheduler.fit.read.nrt import RELEASE
from zonewise_scheduler.fit.score.combined import score

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from zonewise_scheduler.control.extender.wire import Asked
    from zonewise_scheduler.control.objects import PodSeen, Report
    from zonewise_scheduler.fit.ledger.values import Counters, Miss, Promise, Waits
    from zonewise_scheduler.fit.model.pod import PodShape
    from zonewise_scheduler.fit.model.verdict import Verdict
    from zonewise_scheduler.fit.nodes.info import NodeInfo


_SURE = 1000
"""Above any score."""
_MOST_WAITING = 4
"""Shapes of waiting pods, the most frequent ones, for which places are kept: each costs a pass over all nodes."""


class Trust(NamedTuple):
    """Which pods may go where nobody knows enough.

    "blind": any; "unaligned": those that ask nothing of a zone; "refuse": none.
    """

    unreported: str = "unaligned"
    stale: str = "unaligned"
    stale_after: float = 60.0
    """Seconds that a pod must have run without being in the report for that to be stale."""


class Choice(NamedTuple):
    """The node that a pod is promised, or why there is none."""

    node: str
    verdict: Verdict | None
    refusals: dict[str, str]
    """By node asked about, where there is none."""


class Cluster:
    """See the module."""

    def __init__(
        self, clock: Callable[[], float], waits: Waits, trust: Trust, missed: Callable[[Miss], object]
    ) -> None:
        """Take a clock that tells the seconds since the epoch and never goes back, and whom to tell of misses."""
        self.kinds = Kinds()
        self._clock = clock
        self._trust = trust
        self._missed = missed
        self._lock = threading.Lock()
        self._ledger = Ledger(waits=waits)
        self._table = Table()
        self._rows: dict[str, int] = {}
        self._names: list[str] = []
        self._changed: dict[int, float] = {}
        self._free: list[int] = []
        self._nodes: dict[str, NodeInfo] = {}
        self._waiting = WaitingPods()
        self._news = False  # a node's state has changed since the waiting were last looked at

    # --- what happens

    def node_changed(self, old: NodeInfo | None, new: NodeInfo | None) -> None:
        """Take that a node came, changed, or went."""
        with self._lock:
            if new is not None:
                self._nodes[new.name] = new
            elif old is not None:
                self._nodes.pop(old.name, None)

    def release(self, node: str) -> tuple[int, int]:
        """Return the release of a node's kubelet, the newest that is known where the node does not tell."""
        info = self._nodes.get(node)
        return (info.release if info is not None else None) or RELEASE

    def report_changed(self, old: Report | None, new: Report | None) -> None:
        """Take a node's report, or that it has none any more."""
        with self._lock:
            if new is not None:
                self._ledger.report(new.report, self._clock(), published=new.published)
            elif old is not None:
                self._ledger.unreport(old.report.node, self._clock())

    def pod_changed(self, old: PodSeen | None, new: PodSeen | None) -> None:
        """Take what became of a pod."""
        pod = new or old
        if pod is None:
            return
        with self._lock:
            at = self._clock()
            if new is None or new.node:
                self._waiting.remove(pod.uid)
            if new is None:
                self._ledger.gone(pod.uid, at)
            elif new.refused:
                miss = self._ledger.refused(new.uid, new.reason, new.message, at)
                if miss is not None:
                    self._missed(miss)
            elif new.finished:
                self._ledger.gone(new.uid, at, ended=True)
            elif new.node and new.shape is not None:
                pod = BoundPod(new.uid, new.namespace, new.name, new.shape, new.node, new.started)
                self._ledger.bound(pod, at)

    def tick(self) -> None:
        """Take that time has passed."""
        with self._lock:
            self._ledger.tick(self._clock())
            self._refresh()

    # --- what is asked

    def choose(self, pod: Promise, asked: Asked) -> Choice:
        """Promise a pod the best of the nodes asked about that will take it; one that it was promised before goes."""
        with self._lock:
            at = self._clock()
            self._ledger.withdraw(pod.uid, at)
            self._refresh()
            refused: dict[str, str] = {}
            for name in self._best_first(pod.shape, asked):
                if self._trust.stale != "blind" and self._ledger.is_stale(name, at, self._trust.stale_after):
                    refused[name] = refusals.STALE
                    continue
                verdict = self._ledger.promise(pod, name, at)
                if verdict.admitted:
                    self._waiting.remove(pod.uid)
                    return Choice(name, verdict, {})
                if verdict.reason in (IN_FLIGHT, SET_ASIDE):
                    refused[name] = refusals.OF_LEDGER[verdict.reason]
            return self._unreported(pod, asked, at) or self._none(pod, asked, refused, at)

    def wakeable(self) -> list[Promise]:
        """Return waiting pods that a node would take now; each of them again after a longer and longer pause."""
        with self._lock:
            self._refresh()
            if not self._news:
                return []
            due, self._news = self._waiting.due(self._clock(), self._changes)
            return due

    def scores(self, shape: PodShape, names: list[str]) -> list[int]:
        """Return 0 to 100 for each node; 0 where nothing is known of it."""
        with self._lock:
            self._refresh()
            found = self._scores(shape)
            rows = [self._rows.get(name, -1) for name in names]
            return [int(found[row]) if 0 <= row < len(found) else 0 for row in rows]

    @property
    def trusts_all(self) -> bool:
        """Tell whether a pod that asks nothing of a zone may have any node."""
        return "refuse" not in (self._trust.unreported, self._trust.stale)

    def trusted(self, names: list[str]) -> tuple[list[str], dict[str, str]]:
        """Return the nodes that a pod may have that asks nothing of a zone, and why it may not have the others."""
        with self._lock:
            at = self._clock()
            failed = {name: why for name in names if (why := self._distrust(name, at))}
            return [name for name in names if name not in failed], failed

    def promised(self, uid: str) -> Verdict | None:
        """Return what a pod is foretold to get; None where it has no promise."""
        with self._lock:
            return self._ledger.promised(uid)

    def counters(self) -> Counters:
        """Return the ledger's."""
        with self._lock:
            return self._ledger.counters()

    def standing(self) -> dict[str, int]:
        """Return how many nodes there are, by what is known of them."""
        with self._lock:
            at = self._clock()
            reported = [name for name in self._rows if name in self._nodes]
            stale = sum(self._ledger.is_stale(name, at, self._trust.stale_after) for name in reported)
            unreported = len(self._nodes) - len(reported)
            return {"reported": len(reported) - stale, "stale": stale, "unreported": unreported}

    def described(self) -> dict[str, object]:
        """Return what is known of each node, for people."""
        with self._lock:
            names = sorted({*self._nodes, *self._rows})
            return {"counters": self._ledger.counters()._asdict(), "nodes": {name: self._node(name) for name in names}}

    # --- inside, with the lock held

    def _node(self, name: str) -> dict[str, object]:
        state = self._ledger.state(name)
        charged = [f"{entry.namespace}/{entry.name}" for entry in self._ledger.entries(name)]
        return {"inFlight": charged, **(described(state) if state is not None else {"report": None})}

    def _refresh(self) -> None:
        changed = self._ledger.changed()
        self._news = self._news or bool(changed)
        at = self._clock()
        for name in changed:
            state = self._ledger.state(name)
            if state is not None:
                row = self._row(name)
                self._table.set(row, state)
                self._changed[row] = at
            elif name in self._rows:  # the row is the next node's
                row = self._rows.pop(name)
                self._table.set(row, None)
                self._free.append(row)

    def _row(self, name: str) -> int:
        row = self._rows.get(name)
        if row is None:
            row = self._free.pop() if self._free else len(self._names)
            self._names[row : row + 1] = [name]
            self._rows[name] = row
        return row

    def _changes(self, shape: PodShape) -> list[float]:
        """Return for each node that would take a pod when it last changed."""
        rows: list[int] = np.flatnonzero(self._table.resolved(shape)).tolist()
        return [self._changed[row] for row in rows]

    def _scores(self, shape: PodShape) -> NDArray[np.int64]:
        return score(self._table, shape, self._waiting.commonest(_MOST_WAITING))

    def _best_first(self, shape: PodShape, asked: Asked) -> Iterator[str]:
        """Yield the nodes asked about that may take a pod, sure ones by score first, then those that need a look."""
        fits = self._table.fits(shape)
        rank = self._scores(shape) + (fits == ADMITTED) * _SURE
        candidates = np.flatnonzero(fits != REFUSED)
        best_first: list[int] = candidates[np.argsort(-rank[candidates], kind="stable")].tolist()
        for row in best_first:
            name = self._names[row]
            if name in asked:
                yield name

    def _unreported(self, pod: Promise, asked: Asked, at: float) -> Choice | None:
        """Send a pod where nobody knows anything, if that is wished."""
        if self._trust.unreported != "blind":
            return None
        for name in asked.names:
            if self._ledger.state(name) is None:
                verdict = self._ledger.promise(pod, name, at, blind=True)
                if verdict.admitted:
                    return Choice(name, None, {})
        return None

    def _none(self, pod: Promise, asked: Asked, refused: dict[str, str], at: float) -> Choice:
        self._waiting.add(pod, at)
        states = {name: state for name in asked.names if (state := self._ledger.state(name)) is not None}
        told = refusals.explained(pod.shape, states)
        found = {name: refused.get(name) or told.get(name) or refusals.NO_REPORT for name in asked.names}
        return Choice("", None, found)

    def _distrust(self, name: str, at: float) -> str:
        if self._trust.unreported == "refuse" and self._ledger.state(name) is None:
            return refusals.NO_REPORT
        if self._trust.stale == "refuse" and self._ledger.is_stale(name, at, self._trust.stale_after):
            return refusals.STALE
        return ""
