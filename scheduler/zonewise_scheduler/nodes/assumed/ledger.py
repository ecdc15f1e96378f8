"""The ledger predicts the zones of each pod sent to a node, and subtracts them until a report covers the pod."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

from zonewise_common.nrt.podfingerprint import pod_hash
from zonewise_scheduler.admission.admit import admit as kubelet_admits
from zonewise_scheduler.admission.verdict import Verdict
from zonewise_scheduler.nodes.assumed.api_clock import ApiClock
from zonewise_scheduler.nodes.assumed.exclusive_resources import holds_resources
from zonewise_scheduler.nodes.assumed.node_backoff import NodeBackoff
from zonewise_scheduler.nodes.assumed.node_ledger import NodeLedger
from zonewise_scheduler.nodes.assumed.pod_state import PodState, Prediction
from zonewise_scheduler.nodes.assumed.types import (
    BOUND,
    NO_REPORT,
    NODE_BACKOFF,
    AssumedPod,
    BoundPod,
    LedgerCounters,
    LedgerTimeouts,
    Misprediction,
    NodeOccupancy,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.report.node_report import NodeReport
    from zonewise_scheduler.nodes.assumed.assumed_state import AssumedState
    from zonewise_scheduler.nodes.assumed.types import Admit, PendingPod

_DEFAULT_TIMEOUTS = LedgerTimeouts()

_CACHED_VERDICTS = 1 << 12
"""Maximum number of cached verdicts (a few megabytes): nodes of one kind often have equal states, and orders of arrival
converge."""


class Ledger:
    """The reports of all nodes with their assumed pods.

    The ledger replaces the OverReserve cache of scheduler-plugins, which subtracts a pod from every zone of its node
    (pkg/noderesourcetopology/cache/overreserve.go). The rules for removing an assumed pod are in node_ledger.py. All
    times except stamps (types.py) come from the caller's clock, which must not go back.
    """

    def __init__(self, timeouts: LedgerTimeouts = _DEFAULT_TIMEOUTS) -> None:
        self._admit: Admit = lru_cache(maxsize=_CACHED_VERDICTS)(kubelet_admits)
        self._timeouts = timeouts
        self._node_ledgers: dict[str, NodeLedger] = {}
        self._pods: dict[str, PodState] = {}
        self._unsettled: set[str] = set()
        self._touched: set[str] = set()
        self.backoff = NodeBackoff(timeouts)
        self._counts = Counter[str]()
        self._rejected = Counter[str]()
        self._mispredicted = Counter[str]()
        self._api_clock = ApiClock()
        self._is_outdated = False

    # --- events of the API

    def update_report(
        self, report: NodeReport, at: float, *, published: float | None = None, replaces: str = ""
    ) -> None:
        """Store a node's report; a report whose version is not newer than the current one changes nothing.

        `published`: the stamp of the report, if known (the latest time in metadata.managedFields). `replaces`: the
        version of the report that this one replaces in the order of the source. The report is then stored whatever its
        own version.
        """
        if published is not None:
            self._api_clock.observe(published, at)
        node_ledger = self._get_or_create(report.node)
        if node_ledger.update_report(report, self._api_clock.stamp(at) if published is None else published, replaces):
            self._touched.add(report.node)
            self._settle(report.node, node_ledger, at)

    def replace_state(self, node: str, state: NodeState, at: float) -> None:
        """Replace the state of a node's report because facts of the node have changed."""
        node_ledger = self._node_ledgers.get(node)
        if node_ledger is not None and node_ledger.reported is not None:
            node_ledger.replace_state(state)
            self._touched.add(node)
            self._settle(node, node_ledger, at)

    def remove_report(self, node: str, at: float) -> None:
        """Remove a node's report, but not the node's pods."""
        node_ledger = self._node_ledgers.get(node)
        if node_ledger is not None:
            node_ledger.drop_report()
            self._touched.add(node)
            self._settle(node, node_ledger, at)

    def add_pod(self, pod: BoundPod, at: float) -> None:
        """Add a pod that is bound to a node, or update it; must be called for every change of the pod."""
        tracked, node_ledger = self._track_bound(pod)
        if not tracked.arrival:
            tracked.arrival = node_ledger.next_event()
        was_confirmed = tracked.confirmed
        tracked.note_start(pod, at)
        if tracked.confirmed != was_confirmed:
            node_ledger.confirm_start(tracked)

    def confirm_binding(self, pod: PendingPod, node: str) -> None:
        """Record that the API server has bound a pod. Only the event that follows shows its position in the order."""
        self._track_bound(BoundPod(*pod, node))

    def remove_pod(self, uid: str, at: float) -> None:
        """Mark a pod that the API deleted, or whose end its kubelet has reported (phase Succeeded or Failed)."""
        tracked = self._pods.get(uid)
        if tracked is None or tracked.removed_at is not None:
            return
        if not tracked.bound and not tracked.covered:
            self.forget(uid, at)
            return
        node_ledger = self._node_ledgers[tracked.node]
        node_ledger.end_pod(tracked, at)
        self._touched.add(tracked.node)
        self._settle(tracked.node, node_ledger, at)

    def reject_pod(self, uid: str, reason: str, message: str, at: float) -> Misprediction | None:
        """Remove a pod that a kubelet rejected (phase Failed with an admission reason).

        If the ledger had assumed the pod, this is a misprediction: it is returned, and the node backs off for pods of
        this shape.
        """
        self._rejected[reason] += 1
        tracked = self._pods.get(uid)
        if tracked is None:
            return None
        self._remove(tracked)
        prediction = tracked.prediction
        if prediction is None or prediction.state is None:
            return None
        self._mispredicted[reason] += 1
        self.backoff.record_misprediction(tracked.node, tracked.shape, at)
        return Misprediction(
            tracked.node, uid, tracked.namespace, tracked.name, tracked.shape,
            prediction.state, prediction.assumed, prediction.verdict, reason, message, at,
        )  # fmt: skip

    def set_outdated(self, *, outdated: bool) -> None:
        """Record that events no longer arrive, so that every report counts as stale, or that they arrive again."""
        if self._is_outdated and not outdated:
            for node in self._node_ledgers:
                self.mark_changed(node)
        self._is_outdated = outdated

    def mark_changed(self, node: str) -> None:
        """Mark a node as changed even if its state is equal, so that pods that it rejected are checked again."""
        node_ledger = self._node_ledgers.get(node)
        if node_ledger is not None:
            node_ledger.last_state = None
            self._touched.add(node)

    def tick(self, at: float) -> None:
        """Apply the timeouts; must be called about once a second. Nodes without assumed pods cost nothing."""
        for node in tuple(self._unsettled):
            self._settle(node, self._node_ledgers[node], at)
        self.backoff.expire(at)

    # --- decisions

    def assume(self, pod: PendingPod, node: str, at: float, *, allow_unreported: bool = False) -> Verdict:
        """Predict a kubelet's verdict on a pod, and assume the pod on the node if it is admitted.

        A pod is assumed on at most one node. Assuming it again on the same node changes nothing and returns the same
        verdict. Assuming it on another node moves it, if that node admits it. A rejection has a reason of the kubelet
        or of types.py. `allow_unreported`: also assume the pod on a node without a report; its zones are predicted once
        there is a report. Otherwise such a node rejects the pod with the reason NO_REPORT.
        """
        tracked = self._pods.get(pod.uid)
        if tracked is not None and (tracked.bound or tracked.removed_at is not None or tracked.node == node):
            if tracked.node == node and tracked.prediction is not None and tracked.removed_at is None:
                return tracked.prediction.verdict
            return _rejection(BOUND, f"the pod is bound to {tracked.node} already")
        node_ledger = self._node_ledgers.get(node)
        if node_ledger is not None:
            self._settle(node, node_ledger, at)
        if node_ledger is None or node_ledger.reported is None:
            if not allow_unreported:
                return _rejection(NO_REPORT, "the node has no report")
            verdict = Verdict(admitted=True, uncertain=("the node has no report",))
            self._add_assumed(pod, node, Prediction(at, verdict, None, ()))
            return verdict
        return self._predict(pod, node, node_ledger, node_ledger.reported, at)

    def _predict(self, pod: PendingPod, node: str, node_ledger: NodeLedger, base: NodeState, at: float) -> Verdict:
        backoff = self.backoff.remaining(node, pod.shape, at)
        if backoff:
            return _rejection(
                NODE_BACKOFF, f"the node's kubelet rejected such a pod; its backoff lasts {backoff:.0f} s"
            )
        assumed_state = next_state = node_ledger.assumed_state(base, self._admit)
        if holds_resources(base.kind, pod.shape):
            verdict, next_state = assumed_state.assume(pod.shape, self._admit)
        else:
            verdict = self._admit(assumed_state.state or base, pod.shape)
        if verdict.admitted:
            self._add_assumed(pod, node, Prediction(at, verdict, assumed_state.base, assumed_state.shapes))
            node_ledger.cache_assumed_state(next_state)
        return verdict

    def _add_assumed(self, pod: PendingPod, node: str, prediction: Prediction) -> None:
        self.forget(pod.uid, prediction.at)
        tracked = PodState(*pod, node=node, hash=pod_hash(pod.namespace, pod.name), prediction=prediction)
        self._pods[pod.uid] = tracked
        self._get_or_create(node).add(tracked)
        self._unsettled.add(node)
        self._touched.add(node)
        self._counts["assumed_total"] += 1

    def hold(self, uid: str, until: float) -> None:
        """Let an assumed pod expire no earlier than this."""
        tracked = self._pods.get(uid)
        if tracked is not None:
            tracked.held_until = until

    def forget(self, uid: str, at: float) -> None:  # noqa: ARG002 -- every event has a time
        """Remove an assumed pod, unless it has been bound meanwhile."""
        tracked = self._pods.get(uid)
        if tracked is not None and not tracked.bound:
            self._counts["forgotten"] += 1
            self._remove(tracked)

    # --- queries

    @property
    def admit(self) -> Admit:
        """Return the function that predicts verdicts, with its cache; any thread may call it."""
        return self._admit

    def assumed_state(self, node: str) -> AssumedState | None:
        """Return a node's report with its assumed pods, or None without a report.

        AssumedState.assume() with the ledger's admit fills the cache of verdicts that assume() uses. So a caller may
        predict a verdict without holding the lock that protects the ledger.
        """
        node_ledger = self._node_ledgers.get(node)
        if node_ledger is None or node_ledger.reported is None:
            return None
        self._match_report(node, node_ledger)
        return node_ledger.assumed_state(node_ledger.reported, self._admit)

    def node_of(self, uid: str) -> str | None:
        """Return the node on which a pod is assumed or bound, or None for other pods."""
        tracked = self._pods.get(uid)
        return tracked.node if tracked is not None and tracked.removed_at is None else None

    def bound_node(self, uid: str) -> str | None:
        """Return the node to which a pod is bound, or None for other pods."""
        tracked = self._pods.get(uid)
        return tracked.node if tracked is not None and tracked.bound and tracked.removed_at is None else None

    def is_released(self, uid: str) -> bool:
        """Return whether a report included a pod, and its last one lacks it."""
        tracked = self._pods.get(uid)
        return tracked is not None and tracked.was_covered and not tracked.covered

    def state(self, node: str) -> NodeState | None:
        """Return a node's report with its assumed pods in their predicted zones.

        Return None without a report. If the assumed pods do not fit, nothing is free.
        """
        node_ledger = self._node_ledgers.get(node)
        if node_ledger is None:
            return None
        self._match_report(node, node_ledger)
        return node_ledger.state(self._admit)

    def changed_nodes(self) -> frozenset[str]:
        """Return the nodes whose state() has changed since the last call."""
        changed: list[str] = []
        for node in self._touched:
            node_ledger = self._node_ledgers.get(node)
            if node_ledger is None:
                continue
            state = self.state(node)
            if state is not node_ledger.last_state and state != node_ledger.last_state:
                changed.append(node)
            node_ledger.last_state = state
            if state is None and not node_ledger.pods:
                del self._node_ledgers[node]
                self._unsettled.discard(node)
        self._touched.clear()
        return frozenset(changed)

    def assumed_pods(self, node: str) -> tuple[AssumedPod, ...]:
        """Return a node's assumed pods in their order."""
        node_ledger = self._node_ledgers.get(node)
        if node_ledger is None:
            return ()
        self._match_report(node, node_ledger)
        return tuple(
            AssumedPod(
                pod.uid, pod.namespace, pod.name, pod.shape, pod.bound, pod.prediction and pod.prediction.verdict
            )
            for pod in node_ledger.assumed_pods()
        )

    def predicted_verdict(self, uid: str) -> Verdict | None:
        """Return the verdict on a pod that is or was assumed, or None for other pods."""
        tracked = self._pods.get(uid)
        return tracked.prediction.verdict if tracked is not None and tracked.prediction is not None else None

    def occupancy(self, node: str) -> NodeOccupancy | None:
        """Return a node with its last report's holdings of its pods, or None if these are unknown."""
        node_ledger = self._node_ledgers.get(node)
        if node_ledger is None:
            return None
        self._match_report(node, node_ledger)
        reported, holdings = node_ledger.reported, node_ledger.remaining_holdings()
        state = node_ledger.state(self._admit)
        if reported is None or holdings is None or state is None or node_ledger.is_blocked(self._admit):
            return None
        bases, later = node_ledger.split_assumed(reported, self._admit)
        unlisted = frozenset(pod.uid for pod in later if pod.was_covered)
        return NodeOccupancy(bases[0], state, holdings, tuple((pod.uid, pod.shape) for pod in later), unlisted)

    def is_stale(self, node: str, at: float, limit: float) -> bool:
        """Return whether a pod has run on a node for more than `limit` seconds without being in the node's report.

        For a report that may be late, LedgerTimeouts.report_lag is added: an agent may poll once a minute. If events no
        longer arrive, every report is stale.
        """
        node_ledger = self._node_ledgers.get(node)
        if node_ledger is None or node_ledger.reported is None:
            return False
        if self._is_outdated:
            return True
        if node not in self._unsettled:
            return False
        self._match_report(node, node_ledger)
        return any(
            pod.observed_start is not None
            and at - pod.observed_start > limit + self._timeouts.report_lag * node_ledger.may_lag(pod)
            for pod in node_ledger.assumed_pods()
        )

    def counters(self) -> LedgerCounters:
        """Return counts of events and of the current state."""
        unsettled = [self._node_ledgers[node] for node in self._unsettled]
        return LedgerCounters(
            assumed_total=self._counts["assumed_total"],
            covered=self._counts["covered"],
            forgotten=self._counts["forgotten"],
            expired=self._counts["expired"],
            rejected=tuple(sorted(self._rejected.items())),
            mispredicted=tuple(sorted(self._mispredicted.items())),
            assumed=sum(len(node_ledger.assumed_pods()) for node_ledger in unsettled),
            blocked=sum(node_ledger.is_blocked(self._admit) for node_ledger in unsettled),
        )

    # --- private

    def _track_bound(self, pod: BoundPod) -> tuple[PodState, NodeLedger]:
        """Return the state of a bound pod, which is added or updated, and its node's ledger."""
        tracked = self._pods.get(pod.uid)
        if tracked is not None and tracked.node != pod.node:
            self._counts["forgotten"] += not tracked.bound
            self._remove(tracked)
            tracked = None
        node_ledger = self._get_or_create(pod.node)
        if tracked is None:
            tracked = PodState(*pod[:5], hash=pod_hash(pod.namespace, pod.name))
            self._pods[pod.uid] = tracked
            node_ledger.add(tracked)
            node_ledger.retry_match()
        elif tracked.shape != pod.shape or tracked.removed_at is not None:
            tracked.shape = pod.shape
            tracked.removed_at, tracked.end = None, 0  # etcd was restored from a backup, so a deleted pod is back
            node_ledger.invalidate()
        tracked.bound = True
        self._unsettled.add(pod.node)
        self._touched.add(pod.node)
        return tracked, node_ledger

    def _get_or_create(self, node: str) -> NodeLedger:
        node_ledger = self._node_ledgers.get(node)
        if node_ledger is None:
            node_ledger = self._node_ledgers[node] = NodeLedger()
        return node_ledger

    def _settle(self, node: str, node_ledger: NodeLedger, at: float) -> None:
        """Apply the report and the timeouts to a node's pods."""
        self._match_report(node, node_ledger)
        if node_ledger.is_time_dependent():
            stamp = self._api_clock.stamp(at)
            self._confirm(node, node_ledger.end_admissions(at, stamp))
            self._confirm(node, node_ledger.presume_covered(at, stamp, self._timeouts))
            for pod in node_ledger.expired_pods(at, self._timeouts):
                self._counts["expired"] += not pod.bound
                self._remove(pod)
            self._unsettled.add(node)
        else:
            self._unsettled.discard(node)

    def _match_report(self, node: str, node_ledger: NodeLedger) -> None:
        self._confirm(node, node_ledger.match_report())

    def _confirm(self, node: str, covered: Iterable[PodState]) -> None:
        for pod in covered:
            self._counts["covered"] += pod.prediction is not None
            self.backoff.forget(node, pod.shape)
            self._touched.add(node)

    def _remove(self, pod: PodState) -> None:
        del self._pods[pod.uid]
        self._node_ledgers[pod.node].remove(pod)
        self._touched.add(pod.node)


def _rejection(reason: str, message: str) -> Verdict:
    return Verdict(admitted=False, reason=reason, message=message)
