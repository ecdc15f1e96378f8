"""The cluster in memory: what the API server shows, what is promised on top, and each node's row in the arrays.

Events come from the reflectors' threads, questions from the server's; one lock is around all of it. Rows are brought up
to date when a question needs them, so that a burst of events on one node costs one row.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.admission.report.interning import KindInterner
from zonewise_scheduler.admission.report.node_report import DEFAULT_RELEASE
from zonewise_scheduler.extender import diagnosis
from zonewise_scheduler.extender.formatting import describe_state
from zonewise_scheduler.extender.node_table import NodeTable
from zonewise_scheduler.extender.unschedulable_pods import UnschedulablePods
from zonewise_scheduler.nodes.assumed.ledger import Ledger
from zonewise_scheduler.nodes.assumed.types import BoundPod

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.admission.verdict import Verdict
    from zonewise_scheduler.extender.api_objects import ObservedPod, PublishedReport
    from zonewise_scheduler.extender.types import CandidateNodes
    from zonewise_scheduler.nodes.assumed.types import LedgerCounters, LedgerTimeouts, Misprediction, PendingPod
    from zonewise_scheduler.nodes.node.node_info import NodeInfo


_MOST_WAITING = 4
"""Shapes of waiting pods, the most frequent ones, for which places are kept: each costs a pass over all nodes."""


class FallbackPolicy(NamedTuple):
    """Which pods may go where nobody knows enough.

    "blind": any; "unaligned": those that ask nothing of a zone, and DaemonSets'; "refuse": none.
    """

    unreported: str = "unaligned"
    stale: str = "unaligned"
    stale_after: float = 60.0
    """Seconds that a pod must have run without being in the report for that to be stale."""


class ScheduleResult(NamedTuple):
    """The node that a pod is promised, or why there is none."""

    node: str
    verdict: Verdict | None
    failed_nodes: dict[str, str]
    """By node asked about, where there is none."""


class ExtenderCache:
    """See the module."""

    def __init__(
        self,
        clock: Callable[[], float],
        timeouts: LedgerTimeouts,
        fallback: FallbackPolicy,
        on_misprediction: Callable[[Misprediction], object],
    ) -> None:
        """Take a clock that tells the seconds since the epoch and never goes back, and whom to tell of misses."""
        self.kinds = KindInterner()
        self._clock = clock
        self._trust = fallback
        self._missed = on_misprediction
        self._lock = threading.Lock()
        self._ledger = Ledger(timeouts=timeouts)
        self._rows = NodeTable()
        self._nodes: dict[str, NodeInfo] = {}
        self._waiting = UnschedulablePods()

    # --- what happens

    def update_node(self, old: NodeInfo | None, new: NodeInfo | None) -> None:
        """Take that a node came, changed, or went."""
        with self._lock:
            if new is not None:
                self._nodes[new.name] = new
            elif old is not None:
                self._nodes.pop(old.name, None)

    def kubelet_release(self, node: str) -> tuple[int, int]:
        """Return the release of a node's kubelet, the newest that is known where the node does not tell."""
        info = self._nodes.get(node)
        return (info.release if info is not None else None) or DEFAULT_RELEASE

    def update_report(self, old: PublishedReport | None, new: PublishedReport | None) -> None:
        """Take a node's report, or that it has none any more."""
        with self._lock:
            if new is not None:
                self._ledger.update_report(new.report, self._clock(), published=new.published)
                self._ease(new.report.node)
            elif old is not None:
                self._ledger.remove_report(old.report.node, self._clock())

    def update_pod(self, old: ObservedPod | None, new: ObservedPod | None) -> None:
        """Take what became of a pod."""
        miss: Misprediction | None = None
        with self._lock:
            at = self._clock()
            if new is None:
                self._pod_gone(old, at)
            else:
                miss = self._pod_seen(new, at)
        if miss is not None:  # without the lock: it may be written to a slow disk
            self._missed(miss)

    def tick(self) -> None:
        """Take that time has passed."""
        with self._lock:
            self._ledger.tick(self._clock())
            self._refresh()
            arrived = [name for name in self._rows.nodes_with_assumed_pods() if not self._ledger.assumed_pods(name)]
            self._ease(*arrived, *self._rows.nodes_in_backoff())

    # --- what is asked

    def select_and_assume(
        self, pod: PendingPod, candidates: CandidateNodes, *, daemon_set: bool = False
    ) -> ScheduleResult:
        """Promise a pod the best of the nodes asked about that will take it; one that it was promised before goes.

        `daemon`: it is a DaemonSet's.
        """
        with self._lock:
            at = self._clock()
            self._ledger.forget(pod.uid, at)
            self._refresh()
            refused: dict[str, str] = {}
            for name in self._rows.by_score(pod.shape, self._waiting.most_common_shapes(_MOST_WAITING)):
                if name not in candidates:
                    continue
                if self._is_stale(name, at):
                    refused[name] = diagnosis.STALE_REPORT
                    continue
                reason = self._rows.rejection(name, pod.shape)
                if reason is None:
                    verdict = self._ledger.assume(pod, name, at)
                    if verdict.admitted:
                        self._waiting.remove(pod.uid)
                        return ScheduleResult(name, verdict, {})
                    reason = verdict.reason
                    self._rows.reject(name, pod.shape, reason)
                if reason in diagnosis.LEDGER_REASONS:
                    refused[name] = diagnosis.LEDGER_REASONS[reason]
            return self._unreported(pod, candidates, at, daemon=daemon_set) or self._none(pod, candidates, refused)

    def pods_to_requeue(self) -> list[PendingPod]:
        """Return waiting pods that a node may take now; each of them again after a longer and longer pause."""
        with self._lock:
            self._refresh()
            return self._waiting.pop_due(self._clock(), self._rows.change_revisions)

    def remove_unschedulable(self, uid: str) -> None:
        """Take that a waiting pod is no more."""
        with self._lock:
            self._waiting.remove(uid)

    def scores(self, shape: PodShape, names: list[str]) -> list[int]:
        """Return 0 to 100 for each node; 0 where nothing is known of it."""
        with self._lock:
            self._refresh()
            return self._rows.scores(shape, self._waiting.most_common_shapes(_MOST_WAITING), names)

    @property
    def allows_every_node(self) -> bool:
        """Tell whether a pod that asks nothing of a zone may have any node."""
        return "refuse" not in (self._trust.unreported, self._trust.stale)

    def allowed_nodes(self, names: list[str]) -> tuple[list[str], dict[str, str]]:
        """Return the nodes that a pod may have that asks nothing of a zone, and why it may not have the others."""
        with self._lock:
            at = self._clock()
            self._refresh()
            failed = {name: why for name in names if (why := self._distrust(name, at))}
            return [name for name in names if name not in failed], failed

    def predicted_verdict(self, uid: str) -> Verdict | None:
        """Return what a pod is foretold to get; None where it has no promise."""
        with self._lock:
            return self._ledger.predicted_verdict(uid)

    def counters(self) -> LedgerCounters:
        """Return the ledger's."""
        with self._lock:
            return self._ledger.counters()

    def node_counts(self) -> dict[str, int]:
        """Return how many nodes there are, by what is known of them."""
        with self._lock:
            at = self._clock()
            reported = [name for name in self._rows if name in self._nodes]
            stale = sum(self._ledger.is_stale(name, at, self._trust.stale_after) for name in reported)
            unreported = len(self._nodes) - len(reported)
            return {"reported": len(reported) - stale, "stale": stale, "unreported": unreported}

    def dump(self) -> dict[str, object]:
        """Return what is known of each node, for people."""
        with self._lock:
            names = sorted({*self._nodes, *self._rows})
            counters = self._ledger.counters()._asdict()
        return {"counters": counters, "nodes": {name: self._node(name) for name in names}}

    def _node(self, name: str) -> dict[str, object]:
        with self._lock:  # for each node anew: kube-scheduler's calls must not wait for all of them
            state, entries = self._ledger.state(name), self._ledger.assumed_pods(name)
        charged = [f"{entry.namespace}/{entry.name}" for entry in entries]
        return {"inFlight": charged, **(describe_state(state) if state is not None else {"report": None})}

    # --- inside, with the lock held

    def _pod_gone(self, pod: ObservedPod | None, at: float) -> None:
        if pod is not None:
            self._waiting.remove(pod.uid)
            self._ledger.remove_pod(pod.uid, at)

    def _pod_seen(self, pod: ObservedPod, at: float) -> Misprediction | None:
        """Take in a pod as it is now; return what was foretold wrongly of it, where something was."""
        if pod.node or pod.terminal:
            self._waiting.remove(pod.uid)
        if pod.rejected:
            return self._ledger.reject_pod(pod.uid, pod.reason, pod.message, at)
        if pod.terminal:
            self._ledger.remove_pod(pod.uid, at, terminated=True)
        elif pod.node and pod.shape is not None:
            bound = BoundPod(pod.uid, pod.namespace, pod.name, pod.shape, pod.node, pod.started)
            self._ledger.add_pod(bound, at)
        return None

    def _refresh(self) -> None:
        changed = self._ledger.changed_nodes()
        if changed:
            self._rows.update((name, self._ledger.state(name)) for name in sorted(changed))
            self._waiting.recheck_all()

    def _ease(self, *names: str) -> None:
        """Take that less may be in the way on some nodes.

        Once pods have arrived as foretold the state is equal, but the orders in which they might matter no more.
        """
        if self._rows.clear_rejections(names):
            self._waiting.recheck_all()

    def _is_stale(self, name: str, at: float) -> bool:
        return self._trust.stale != "blind" and self._ledger.is_stale(name, at, self._trust.stale_after)

    def _unreported(self, pod: PendingPod, asked: CandidateNodes, at: float, *, daemon: bool) -> ScheduleResult | None:
        """Send a pod where nobody knows anything, if that is wished, or if it is a DaemonSet's.

        Those have one node each, and the network and the agent are among them: without them a new node would never
        have a report.
        """
        if self._trust.unreported != "blind" and not (daemon and self._trust.unreported == "unaligned"):
            return None
        for name in asked.names:
            if name not in self._rows and self._ledger.assume(pod, name, at, allow_unreported=True).admitted:
                return ScheduleResult(name, None, {})
        return None

    def _none(self, pod: PendingPod, asked: CandidateNodes, refused: dict[str, str]) -> ScheduleResult:
        self._waiting.add(pod, self._rows.revision)
        told = diagnosis.diagnose(pod.shape, asked.names, self._rows)
        told.update(refused)
        return ScheduleResult("", None, told)

    def _distrust(self, name: str, at: float) -> str:
        if self._trust.unreported == "refuse" and name not in self._rows:
            return diagnosis.NO_REPORT
        if self._trust.stale == "refuse" and self._ledger.is_stale(name, at, self._trust.stale_after):
            return diagnosis.STALE_REPORT
        return ""
