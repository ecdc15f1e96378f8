"""The ledger: each pod that is placed and not yet reported is charged to the zones that it is foretold to get."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

from zonewise_common.nrt.podfingerprint import pod_hash
from zonewise_scheduler.admission.admit import admit as kubelet_admits
from zonewise_scheduler.admission.verdict import Verdict
from zonewise_scheduler.nodes.assumed.exclusive_resources import holds_resources
from zonewise_scheduler.nodes.assumed.node_backoff import NodeBackoff
from zonewise_scheduler.nodes.assumed.node_ledger import NodeLedger
from zonewise_scheduler.nodes.assumed.pod_state import PodState, Prediction
from zonewise_scheduler.nodes.assumed.types import (
    BOUND,
    NO_REPORT,
    NODE_BACKOFF,
    AssumedPod,
    LedgerCounters,
    LedgerTimeouts,
    Misprediction,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.report.node_report import NodeReport
    from zonewise_scheduler.nodes.assumed.types import Admit, BoundPod, PendingPod

_WAITS = LedgerTimeouts()

_ANSWERS = 1 << 12
"""Answers that are kept, a few megabytes of them: nodes of one kind often are in equal states, and orders meet."""


class Ledger:
    """What is promised, on top of what is reported, for all nodes.

    It replaces the OverReserve cache of scheduler-plugins, which charges a pod to all zones of its node
    (pkg/noderesourcetopology/cache/overreserve.go). By what rules a pod leaves it is told in page.py. All times are
    those of the caller's clock, and must not go back.
    """

    def __init__(self, admit: Admit = kubelet_admits, timeouts: LedgerTimeouts = _WAITS) -> None:
        self._admit: Admit = lru_cache(maxsize=_ANSWERS)(admit)
        self._waits = timeouts
        self._pages: dict[str, NodeLedger] = {}
        self._pods: dict[str, PodState] = {}
        self._waiting: set[str] = set()
        self._touched: set[str] = set()
        self._aside = NodeBackoff(timeouts)
        self._counts = Counter[str]()
        self._refused = Counter[str]()
        self._missed = Counter[str]()

    # --- what the API shows

    def update_report(self, report: NodeReport, at: float, *, published: float | None = None) -> None:
        """Take a node's report; one older than the last, by its version, changes nothing.

        `published`: when it was written, where that is known (the latest time in metadata.managedFields).
        """
        page = self._page(report.node)
        if page.update_report(report, at if published is None else min(at, published)):
            self._touched.add(report.node)
            self._settle(report.node, page, at)

    def remove_report(self, node: str, at: float) -> None:
        """Take note that a node has no report any more; its pods stay known."""
        page = self._pages.get(node)
        if page is not None:
            page.drop_report()
            self._touched.add(node)
            self._settle(node, page, at)

    def add_pod(self, pod: BoundPod, at: float) -> None:  # noqa: ARG002 -- each event has its time
        """Take note of a pod on a node, whoever put it there; to be called for any change of it, too."""
        known = self._pods.get(pod.uid)
        if known is not None and known.node != pod.node and known.removed_at is None:
            self._counts["withdrawn"] += not known.bound
            self._remove(known)
            known = None
        page = self._page(pod.node)
        if known is None:
            known = PodState(*pod[:5], hash=pod_hash(pod.namespace, pod.name))
            self._pods[pod.uid] = known
            page.add(known)
            page.retry_match()
        elif known.shape != pod.shape:
            known.shape = pod.shape
            page.invalidate()
        known.bound, known.started = True, pod.started
        self._waiting.add(pod.node)
        self._touched.add(pod.node)

    def remove_pod(self, uid: str, at: float, *, terminated: bool = False) -> None:
        """Take note that a pod is gone from the API or will never run again.

        `ended`: its kubelet has said so (its last phase was Succeeded or Failed), thus it holds nothing any more.
        """
        known = self._pods.get(uid)
        if known is None or known.removed_at is not None:
            return
        if not known.bound and not known.covered:
            self.forget(uid, at)
            return
        known.removed_at, known.terminated = at, terminated
        page = self._pages[known.node]
        page.invalidate()
        page.retry_match()
        self._touched.add(known.node)
        self._settle(known.node, page, at)

    def reject_pod(self, uid: str, reason: str, message: str, at: float) -> Misprediction | None:
        """Take note that a kubelet refused a pod (phase Failed with a reason of admission); its charge ends.

        Where we had promised it, that is a miss: the pair of its shape and node is set aside for a while, and what the
        promise was made of is returned.
        """
        self._refused[reason] += 1
        known = self._pods.get(uid)
        if known is None:
            return None
        self._remove(known)
        foretold = known.prediction
        if foretold is None or foretold.state is None:
            return None
        self._missed[reason] += 1
        self._aside.record_misprediction(known.node, known.shape, at)
        return Misprediction(
            known.node, uid, known.namespace, known.name, known.shape,
            foretold.state, foretold.assumed, foretold.verdict, reason, message, at,
        )  # fmt: skip

    def tick(self, at: float) -> None:
        """Let time pass; to be called every second or so. It costs nothing for nodes with nothing in flight."""
        for node in tuple(self._waiting):
            self._settle(node, self._pages[node], at)
        self._aside.expire(at)

    # --- what we decide

    def assume(self, pod: PendingPod, node: str, at: float, *, allow_unreported: bool = False) -> Verdict:
        """Foretell what a node's kubelet will answer to a pod, and reserve what it will get if it is admitted.

        A pod has at most one promise. To promise it again to the same node changes nothing and returns the same; to
        promise it to another node moves it there, if that one admits it. Besides a kubelet's reasons a refusal may have
        those of values.py. `blind`: on a node without a report reserve whatever it may be, to be charged once there is
        one; otherwise such a node refuses with the reason NO_REPORT.
        """
        known = self._pods.get(pod.uid)
        if known is not None and (known.bound or known.removed_at is not None or known.node == node):
            if known.node == node and known.prediction is not None and known.removed_at is None:
                return known.prediction.verdict
            return _no(BOUND, f"the pod is bound to {known.node} already")
        page = self._pages.get(node)
        if page is not None:
            self._settle(node, page, at)
        if page is None or page.reported is None:
            if not allow_unreported:
                return _no(NO_REPORT, "the node has no report")
            verdict = Verdict(admitted=True, uncertain=("the node has no report",))
            self._reserve(pod, node, Prediction(at, verdict, None, ()))
            return verdict
        return self._promise(pod, node, page, page.reported, at)

    def _promise(self, pod: PendingPod, node: str, page: NodeLedger, base: NodeState, at: float) -> Verdict:
        left = self._aside.remaining(node, pod.shape, at)
        if left:
            return _no(NODE_BACKOFF, f"the node's kubelet refused such a pod; it is not asked again for {left:.0f} s")
        flight = after = page.assumed_state(base, self._admit)
        if holds_resources(base.kind, pod.shape):
            verdict, after = flight.assume(pod.shape, self._admit)
        else:
            verdict = self._admit(flight.state or base, pod.shape)
        if verdict.admitted:
            self._reserve(pod, node, Prediction(at, verdict, base, flight.shapes))
            page.cache_assumed_state(after)
        return verdict

    def _reserve(self, pod: PendingPod, node: str, foretold: Prediction) -> None:
        self.forget(pod.uid, foretold.at)
        known = PodState(*pod, node=node, hash=pod_hash(pod.namespace, pod.name), prediction=foretold)
        self._pods[pod.uid] = known
        self._page(node).add(known)
        self._waiting.add(node)
        self._touched.add(node)
        self._counts["promised"] += 1

    def forget(self, uid: str, at: float) -> None:  # noqa: ARG002 -- each event has its time
        """Take a promise back; what is bound by now stays charged."""
        known = self._pods.get(uid)
        if known is not None and not known.bound:
            self._counts["withdrawn"] += 1
            self._remove(known)

    # --- what is known

    def state(self, node: str) -> NodeState | None:
        """Return the report with everything in flight charged to the zones that it is foretold to get.

        None without a report. Where what is in flight does not fit, nothing is left.
        """
        page = self._pages.get(node)
        if page is None:
            return None
        self._cover(node, page)
        return page.state(self._admit)

    def changed_nodes(self) -> frozenset[str]:
        """Return the nodes whose state() is another than when this was last called."""
        changed: list[str] = []
        for node in self._touched:
            page = self._pages.get(node)
            if page is None:
                continue
            state = self.state(node)
            if state is not page.shown and state != page.shown:
                changed.append(node)
            page.shown = state
            if state is None and not page.pods:
                del self._pages[node]
                self._waiting.discard(node)
        self._touched.clear()
        return frozenset(changed)

    def assumed_pods(self, node: str) -> tuple[AssumedPod, ...]:
        """Return what is charged on a node, in its order."""
        page = self._pages.get(node)
        if page is None:
            return ()
        self._cover(node, page)
        return tuple(
            AssumedPod(
                pod.uid, pod.namespace, pod.name, pod.shape, pod.bound, pod.prediction and pod.prediction.verdict
            )
            for pod in page.assumed_pods()
        )

    def predicted_verdict(self, uid: str) -> Verdict | None:
        """Return what a pod is foretold to get; None where it was not promised."""
        known = self._pods.get(uid)
        return known.prediction.verdict if known is not None and known.prediction is not None else None

    def is_stale(self, node: str, at: float, limit: float) -> bool:
        """Tell whether a pod has run on a node for longer than a limit, in seconds, without its report having it."""
        page = self._pages.get(node)
        if page is None or node not in self._waiting or page.reported is None:
            return False
        self._cover(node, page)
        return any(pod.started is not None and at - pod.started > limit for pod in page.assumed_pods())

    def counters(self) -> LedgerCounters:
        """Return what has happened and how it stands."""
        waiting = [self._pages[node] for node in self._waiting]
        return LedgerCounters(
            promised=self._counts["promised"],
            covered=self._counts["covered"],
            withdrawn=self._counts["withdrawn"],
            expired=self._counts["expired"],
            refused=tuple(sorted(self._refused.items())),
            missed=tuple(sorted(self._missed.items())),
            in_flight=sum(len(page.assumed_pods()) for page in waiting),
            blocked=sum(page.is_blocked(self._admit) for page in waiting),
        )

    # --- inside

    def _page(self, node: str) -> NodeLedger:
        page = self._pages.get(node)
        if page is None:
            page = self._pages[node] = NodeLedger()
        return page

    def _settle(self, node: str, page: NodeLedger, at: float) -> None:
        """Bring a node's page up to date."""
        self._cover(node, page)
        if page.is_time_dependent():
            self._confirm(node, page.presume_covered(at, self._waits))
            for pod in page.expired_pods(at, self._waits):
                self._counts["expired"] += not pod.bound
                self._remove(pod)
            self._waiting.add(node)
        else:
            self._waiting.discard(node)

    def _cover(self, node: str, page: NodeLedger) -> None:
        self._confirm(node, page.match_report())

    def _confirm(self, node: str, covered: Iterable[PodState]) -> None:
        for pod in covered:
            self._counts["covered"] += pod.prediction is not None
            self._aside.forget(node, pod.shape)
            self._touched.add(node)

    def _remove(self, pod: PodState) -> None:
        del self._pods[pod.uid]
        self._pages[pod.node].remove(pod)
        self._touched.add(pod.node)


def _no(reason: str, sentence: str) -> Verdict:
    return Verdict(admitted=False, reason=reason, message=sentence)
