"""The extender's cache: objects of the API server, assumed pods, and one row of the arrays for each node.

Reflector threads write events, server threads read. One lock protects everything. A row is updated when a call needs
it, so that a burst of events on one node updates one row once.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.admission.report.interning import KindInterner
from zonewise_scheduler.admission.report.node_report import DEFAULT_RELEASE
from zonewise_scheduler.extender import diagnosis
from zonewise_scheduler.extender.fallback_policy import ALLOW, ALLOW_UNALIGNED, DENY
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
    from zonewise_scheduler.extender.fallback_policy import FallbackPolicy
    from zonewise_scheduler.extender.types import CandidateNodes
    from zonewise_scheduler.nodes.assumed.types import LedgerCounters, LedgerTimeouts, Misprediction, PendingPod
    from zonewise_scheduler.nodes.node.node_info import NodeInfo


_MAX_PENDING_SHAPES = 4
"""The most common shapes of unschedulable pods count for scores: each costs a pass over all nodes."""


class ScheduleResult(NamedTuple):
    """The node on which a pod is assumed, or a reason for every candidate."""

    node: str
    """Empty: no candidate admits the pod."""
    verdict: Verdict | None
    """None: the node has no report, or there is no node."""
    failed_nodes: dict[str, str]
    """Reason by candidate; empty where a node was selected."""


class ExtenderCache:
    """See the module."""

    def __init__(
        self,
        clock: Callable[[], float],
        timeouts: LedgerTimeouts,
        fallback: FallbackPolicy,
        on_misprediction: Callable[[Misprediction], object],
    ) -> None:
        """Take a clock in seconds since the epoch that never goes back, and a callback for mispredictions."""
        self.kinds = KindInterner()
        self._clock = clock
        self._fallback = fallback
        self._on_misprediction = on_misprediction
        self._lock = threading.Lock()
        self._ledger = Ledger(timeouts=timeouts)
        self._table = NodeTable()
        self._nodes: dict[str, NodeInfo] = {}
        self._unschedulable = UnschedulablePods()

    # --- events

    def update_node(self, old: NodeInfo | None, new: NodeInfo | None) -> None:
        """Add, update or remove a node."""
        with self._lock:
            if new is not None:
                self._nodes[new.name] = new
            elif old is not None:
                self._nodes.pop(old.name, None)

    def kubelet_release(self, node: str) -> tuple[int, int]:
        """Return the release of a node's kubelet; the newest known release where the node does not have it."""
        info = self._nodes.get(node)
        return (info.release if info is not None else None) or DEFAULT_RELEASE

    def update_report(self, old: PublishedReport | None, new: PublishedReport | None) -> None:
        """Add, update or remove a node's report."""
        with self._lock:
            if new is not None:
                self._ledger.update_report(new.report, self._clock(), published=new.published)
                self._clear_rejections(new.report.node)
            elif old is not None:
                self._ledger.remove_report(old.report.node, self._clock())

    def update_pod(self, old: ObservedPod | None, new: ObservedPod | None) -> None:
        """Add, update or remove a pod; call back where its kubelet rejected it against the prediction."""
        misprediction: Misprediction | None = None
        with self._lock:
            now = self._clock()
            if new is None:
                self._remove_pod(old, now)
            else:
                misprediction = self._add_pod(new, now)
        if misprediction is not None:  # without the lock: the callback may write to a slow disk
            self._on_misprediction(misprediction)

    def tick(self) -> None:
        """Apply what time alone changes: expired assumed pods, ended backoffs."""
        with self._lock:
            self._ledger.tick(self._clock())
            self._refresh()
            blocked = self._table.nodes_with_assumed_pods()
            settled = [name for name in blocked if not self._ledger.assumed_pods(name)]
            self._clear_rejections(*settled, *self._table.nodes_in_backoff())

    # --- queries

    def select_and_assume(
        self, pod: PendingPod, candidates: CandidateNodes, *, daemon_set: bool = False
    ) -> ScheduleResult:
        """Assume a pod on the best candidate that admits it. An earlier assumption of the same pod is forgotten.

        `daemon_set`: the pod belongs to a DaemonSet.
        """
        with self._lock:
            now = self._clock()
            self._ledger.forget(pod.uid, now)
            self._refresh()
            reasons: dict[str, str] = {}
            for name in self._table.by_score(pod.shape, self._unschedulable.most_common_shapes(_MAX_PENDING_SHAPES)):
                if name not in candidates:
                    continue
                if self._is_stale(name, now):
                    reasons[name] = diagnosis.STALE_REPORT
                    continue
                reason = self._table.rejection(name, pod.shape)
                if reason is None:
                    verdict = self._ledger.assume(pod, name, now)
                    if verdict.admitted:
                        self._unschedulable.remove(pod.uid)
                        return ScheduleResult(name, verdict, {})
                    reason = verdict.reason
                    self._table.reject(name, pod.shape, reason)
                if reason in diagnosis.LEDGER_REASONS:
                    reasons[name] = diagnosis.LEDGER_REASONS[reason]
            selected = self._assume_unreported(pod, candidates, now, daemon_set=daemon_set)
            return selected or self._add_unschedulable(pod, candidates, reasons)

    def pods_to_requeue(self) -> list[PendingPod]:
        """Return unschedulable pods that a changed node may admit; each again after an exponential backoff."""
        with self._lock:
            self._refresh()
            return self._unschedulable.pop_due(self._clock(), self._table.change_revisions)

    def remove_unschedulable(self, uid: str) -> None:
        """Drop an unschedulable pod that no longer exists."""
        with self._lock:
            self._unschedulable.remove(uid)

    def scores(self, shape: PodShape, names: list[str]) -> list[int]:
        """Return 0 to 100 for each node; 0 for a node without a report."""
        with self._lock:
            self._refresh()
            return self._table.scores(shape, self._unschedulable.most_common_shapes(_MAX_PENDING_SHAPES), names)

    @property
    def allows_every_node(self) -> bool:
        """Tell whether a pod that no kubelet aligns may be bound to any node."""
        return DENY not in (self._fallback.unreported, self._fallback.stale)

    def allowed_nodes(self, names: list[str]) -> tuple[list[str], dict[str, str]]:
        """Return the nodes allowed for a pod that no kubelet aligns, and the reason for each of the rest."""
        with self._lock:
            now = self._clock()
            self._refresh()
            failed = {name: reason for name in names if (reason := self._denial(name, now))}
            return [name for name in names if name not in failed], failed

    def predicted_verdict(self, uid: str) -> Verdict | None:
        """Return the verdict predicted for an assumed pod; None where the pod is not assumed."""
        with self._lock:
            return self._ledger.predicted_verdict(uid)

    def counters(self) -> LedgerCounters:
        """Return the ledger's counters."""
        with self._lock:
            return self._ledger.counters()

    def node_counts(self) -> dict[str, int]:
        """Return the number of nodes by the state of their report."""
        with self._lock:
            now = self._clock()
            reported = [name for name in self._table if name in self._nodes]
            stale = sum(self._ledger.is_stale(name, now, self._fallback.stale_after) for name in reported)
            unreported = len(self._nodes) - len(reported)
            return {"reported": len(reported) - stale, "stale": stale, "unreported": unreported}

    def dump(self) -> dict[str, object]:
        """Return the cache's view of each node, as JSON for `/debug/state`."""
        with self._lock:
            names = sorted({*self._nodes, *self._table})
            counters = self._ledger.counters()
        # deprecated in 0.1.0, dropped in the next minor version
        old_names = {
            "promised": counters.assumed_total, "withdrawn": counters.forgotten, "refused": counters.rejected,
            "missed": counters.mispredicted, "in_flight": counters.assumed,
        }  # fmt: skip
        nodes = {name: self._dump_node(name) for name in names}
        return {"counters": counters._asdict() | old_names, "nodes": nodes}

    def _dump_node(self, name: str) -> dict[str, object]:
        with self._lock:  # for each node anew: kube-scheduler's calls must not wait for all of them
            state, pods = self._ledger.state(name), self._ledger.assumed_pods(name)
        assumed = [f"{pod.namespace}/{pod.name}" for pod in pods]
        description = {"report": None} if state is None else describe_state(state)
        # deprecated in 0.1.0, dropped in the next minor version: inFlight
        return {"assumedPods": assumed, "inFlight": assumed, **description}

    # --- with the lock held

    def _remove_pod(self, pod: ObservedPod | None, now: float) -> None:
        if pod is not None:
            self._unschedulable.remove(pod.uid)
            self._ledger.remove_pod(pod.uid, now)

    def _add_pod(self, pod: ObservedPod, now: float) -> Misprediction | None:
        """Apply the present state of a pod; return its misprediction, if any."""
        if pod.node or pod.terminal:
            self._unschedulable.remove(pod.uid)
        if pod.rejected:
            return self._ledger.reject_pod(pod.uid, pod.reason, pod.message, now)
        if pod.terminal:
            self._ledger.remove_pod(pod.uid, now, terminated=True)
        elif pod.node and pod.shape is not None:
            bound = BoundPod(pod.uid, pod.namespace, pod.name, pod.shape, pod.node, pod.started)
            self._ledger.add_pod(bound, now)
        return None

    def _refresh(self) -> None:
        changed = self._ledger.changed_nodes()
        if changed:
            self._table.update((name, self._ledger.state(name)) for name in sorted(changed))
            self._unschedulable.recheck_all()

    def _clear_rejections(self, *names: str) -> None:
        """Forget what some nodes have rejected.

        Once assumed pods have arrived as predicted, a node's state is equal, but their order no longer matters: the
        node may admit what it rejected.
        """
        if self._table.clear_rejections(names):
            self._unschedulable.recheck_all()

    def _is_stale(self, name: str, now: float) -> bool:
        return self._fallback.stale != ALLOW and self._ledger.is_stale(name, now, self._fallback.stale_after)

    def _assume_unreported(
        self, pod: PendingPod, candidates: CandidateNodes, now: float, *, daemon_set: bool
    ) -> ScheduleResult | None:
        """Assume a pod on a node without a report, where the policy allows it.

        Each pod of a DaemonSet has one node. The network and the agent are among them: without these a new node would
        never have a report.
        """
        policy = self._fallback.unreported
        if policy != ALLOW and not (daemon_set and policy == ALLOW_UNALIGNED):
            return None
        for name in candidates.names:
            if name not in self._table and self._ledger.assume(pod, name, now, allow_unreported=True).admitted:
                return ScheduleResult(name, None, {})
        return None

    def _add_unschedulable(
        self, pod: PendingPod, candidates: CandidateNodes, reasons: dict[str, str]
    ) -> ScheduleResult:
        self._unschedulable.add(pod, self._table.revision)
        failed = diagnosis.diagnose(pod.shape, candidates.names, self._table)
        failed.update(reasons)
        return ScheduleResult("", None, failed)

    def _denial(self, name: str, now: float) -> str:
        """Return the reason for which the fallback policy denies a node; empty: it does not."""
        if self._fallback.unreported == DENY and name not in self._table:
            return diagnosis.NO_REPORT
        if self._fallback.stale == DENY and self._ledger.is_stale(name, now, self._fallback.stale_after):
            return diagnosis.STALE_REPORT
        return ""
