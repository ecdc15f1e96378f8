"""Selects nodes for pods with the arrays of all nodes and the ledger, which the short lock protects.

Only one thread at a time may use a placer: the cache has a lock for it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.extender.failed_nodes import FailedNodes, RejectionCause
from zonewise_scheduler.extender.fallback_policy import ALLOW, ALLOW_UNALIGNED
from zonewise_scheduler.extender.state.cluster_state import NODE_FILTER
from zonewise_scheduler.extender.state.nominated_pods import ENDING, NOMINATED
from zonewise_scheduler.extender.tables import diagnosis
from zonewise_scheduler.extender.tables.filter_table import FilterTable
from zonewise_scheduler.extender.tables.gang_table import GangTable
from zonewise_scheduler.extender.tables.judging_budget import JudgingBudget
from zonewise_scheduler.extender.tables.node_table import NodeTable
from zonewise_scheduler.nodes.assumed.types import BOUND, NO_REPORT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.admission.verdict import Verdict
    from zonewise_scheduler.extender.fallback_policy import FallbackPolicy
    from zonewise_scheduler.extender.state.cluster_state import ClusterState
    from zonewise_scheduler.extender.state.waiting_pods import WaitingPod
    from zonewise_scheduler.extender.tables.node_table import NodeSet
    from zonewise_scheduler.extender.types import CandidateNodes
    from zonewise_scheduler.nodes.assumed.types import PendingPod
    from zonewise_scheduler.nodes.filters.constraints import Constraints
    from zonewise_scheduler.nodes.score.fragmentation import PendingShape

_MAX_PENDING_SHAPES = 4
"""Number of the most common shapes of unschedulable pods that count for scores: each costs a pass over all nodes."""

_REASONS_OF_PODS = frozenset({NODE_FILTER, NOMINATED, BOUND})
"""Reasons that depend on more than a pod's shape, so they do not apply to other pods."""
HELD = "node(s) held for waiting pods that together use more of them"
REASONS = {
    **diagnosis.LEDGER_REASONS,
    NODE_FILTER: "node(s) where assumed pods leave too little",
    NOMINATED: "node(s) that a pod waits for while preempted pods end",
    ENDING: "node(s) whose kubelet may reject the pod while other pods end there",
}
"""Messages for the reasons why a node may reject a pod that the arrays admit."""
_CAUSES = {words: RejectionCause(reason) for reason, words in REASONS.items()} | {
    HELD: RejectionCause("Held"),
    diagnosis.STALE_REPORT: RejectionCause("StaleReport"),
    diagnosis.NOT_JUDGED: RejectionCause("NotJudged"),
}
"""Rejection causes by message."""


def with_reasons(diagnosed: FailedNodes, reasons: Mapping[str, str]) -> FailedNodes:
    """Return a diagnosis with further reasons from REASONS; the cause is that of the majority."""
    cause = diagnosed.cause
    if 2 * len(reasons) > len(reasons.keys() | diagnosed.keys()):
        [(words, _)] = Counter(reasons.values()).most_common(1)
        cause = _CAUSES[words]
    return FailedNodes({**diagnosed, **reasons}, cause)


class ScheduleResult(NamedTuple):
    """The node on which a pod is assumed, or a reason for every candidate."""

    node: str
    """Name of the node; empty if no candidate admits the pod."""
    verdict: Verdict | None
    """None if the node has no report, or there is no node."""
    failed_nodes: FailedNodes = FailedNodes()
    """Empty if a node was selected."""


class PodPlacement(NamedTuple):
    """A pod that is assumed on a node and must be bound there."""

    pod: PendingPod
    node: str
    verdict: Verdict


class NodesWithout:
    """A set of nodes, except some of them."""

    def __init__(self, nodes: NodeSet, excluded: frozenset[str]) -> None:
        self._nodes = nodes
        self._excluded = excluded

    def __contains__(self, name: str, /) -> bool:
        return name not in self._excluded and name in self._nodes


class NodeSelection(NamedTuple):
    """The first node that admits a pod, or the ledger's reasons for nodes that reject it."""

    node: str
    verdict: Verdict | None
    reasons: dict[str, str]
    is_nominated: bool = False
    """Whether a node is left to a nominated pod, so that a pod of a higher priority may get it."""


class Placer:
    """See the module."""

    def __init__(self, state: ClusterState, fallback: FallbackPolicy) -> None:
        self._state = state
        self._fallback = fallback
        self._gang_table: GangTable | None = None
        self._stale_nodes: set[str] = set()  # that rejected a pod for a stale report
        self._placements: list[PodPlacement] = []
        self.table = NodeTable()
        self.filters = FilterTable()

    def refresh(self) -> None:
        """Bring the arrays up to date."""
        changes = self._state.take_changes()
        if changes.states:
            self.table.update(changes.states)
        if changes.infos:
            self.filters.update(changes.infos)
        if self._gang_table is not None:
            self._gang_table.note(changes.states, changes.infos)
        cleared = self.table.clear_rejections(changes.reported)
        if changes.states or cleared:
            self.recheck_all()

    def learn_delegated(self, waiting: WaitingPod | None, candidates: CandidateNodes, now: float) -> bool:
        """Record the candidates of kube-scheduler that lack a resource of a pod; return whether any is new."""
        learned = False
        for resource, _ in waiting.spec.constraints.requests.scalar_resources if waiting is not None else ():
            if nodes := self.filters.lacking(resource, candidates.names):
                with self._state.lock:
                    learned |= self._state.waiting.delegate(resource, nodes, now)
        return learned

    @property
    def gang_table(self) -> GangTable:
        """Return the table on which gangs are placed; it is not created, and costs nothing, until there are gangs.

        Only the thread that holds the lock for gangs applies changes to the table and reads its nodes.
        """
        if self._gang_table is None:
            self._gang_table = GangTable()
            names = list(self.table)
            states = [(name, self.table.state(row)) for name, row in zip(names, self.table.lookup(names), strict=True)]
            with self._state.lock:
                infos = [(name, self._state.infos.get(name)) for name in self._state.infos]
            self._gang_table.note(states, infos)
        return self._gang_table

    def judge_more(self) -> bool:
        """Judge nodes for which earlier calls had no time; return whether one of them admits its pod."""
        found = self.table.judge_more(JudgingBudget())
        if found:
            self.recheck_all()
        return found

    def clear_settled_rejections(self, now: float) -> None:
        """Forget rejections that may have ended merely because time has passed.

        Once assumed pods have arrived as predicted, a node's state is equal, but their order no longer matters. The
        node may then admit pods that it rejected. So may a node whose report is no longer stale.
        """
        state = self._state
        with state.lock:
            blocked = self.table.nodes_with_assumed_pods()
            settled = [name for name in blocked if not state.ledger.assumed_pods(name)]
            limit = self._fallback.stale_after
            current = {name for name in self._stale_nodes if not state.ledger.is_stale(name, now, limit)}
            for name in current:
                state.ledger.mark_changed(name)
        self._stale_nodes -= current
        if self.table.clear_rejections([*settled, *self.table.nodes_in_backoff()]):
            self.recheck_all()

    def recheck_all(self) -> None:
        """Let the requeuer check all unschedulable pods again."""
        with self._state.lock:
            self._state.unschedulable.recheck_all()

    def pending_shapes(self) -> tuple[PendingShape, ...]:
        """Return the most common shapes of unschedulable pods."""
        with self._state.lock:
            return self._state.unschedulable.most_common_shapes(_MAX_PENDING_SHAPES)

    def select(
        self, pod: PendingPod, constraints: Constraints | None, nodes: NodeSet, now: float, budget: JudgingBudget
    ) -> NodeSelection:
        """Assume a pod on the best node that admits it; nodes beyond the budget are judged later."""
        reasons: dict[str, str] = {}
        is_nominated = False
        for name in self.table.by_score(pod.shape, self.pending_shapes(), nodes, budget):
            if self.is_stale(name, now):
                self._stale_nodes.add(name)
                reasons[name] = diagnosis.STALE_REPORT
                continue
            verdict = self.assume(pod, constraints, name)
            if isinstance(verdict, str):
                is_nominated = is_nominated or verdict == NOMINATED
                if verdict in REASONS:
                    reasons[name] = REASONS[verdict]
            else:
                return NodeSelection(name, verdict, {})
        reasons.update(dict.fromkeys(self.table.unjudged(pod.shape, nodes), diagnosis.NOT_JUDGED))
        return NodeSelection("", None, reasons, is_nominated)

    def assume(self, pod: PendingPod, constraints: Constraints | None, name: str) -> Verdict | str:
        """Assume a pod on a node; return a reason if the node rejects it or no longer has a report."""
        if name not in self.table:
            return NO_REPORT
        reason = self.table.rejection(name, pod.shape)
        if reason is not None:
            return reason
        verdict = self._state.assume(pod, name, constraints)
        if verdict.admitted:
            return verdict
        if verdict.reason not in _REASONS_OF_PODS:
            self.table.reject(name, pod.shape, verdict.reason)
        return verdict.reason

    def request_binding(self, placement: PodPlacement) -> None:
        """Request that the extender bind an assumed pod; no call of kube-scheduler moves it from now on."""
        self._placements.append(placement)
        with self._state.lock:
            self._state.bindings.requested[placement.pod.uid] = placement.node

    def take_placements(self) -> list[PodPlacement]:
        """Return the assumed pods that the extender must bind."""
        placements, self._placements = self._placements, []
        with self._state.lock:  # without those that kube-scheduler has bound meanwhile
            requested = self._state.bindings.requested
            return [placement for placement in placements if placement.pod.uid in requested]

    def rejecting_nodes(self, shape: PodShape) -> list[str]:
        """Return the nodes that are known to reject a shape, although the arrays may admit it."""
        closed = self._state.closed_nodes((shape,), self._fallback)
        return [*self.table.rejecting(shape), *(name for name in closed if self.table.may_admit(name, shape))]

    def is_stale(self, name: str, now: float) -> bool:
        """Return whether the fallback policy excludes a node for its stale report."""
        if self._fallback.stale == ALLOW:
            return False
        with self._state.lock:
            return self._state.ledger.is_stale(name, now, self._fallback.stale_after)

    def assume_unreported(self, pod: PendingPod, candidates: CandidateNodes, *, daemon_set: bool) -> str:
        """Assume a pod on a node without a report, if the policy allows it; return the node, or "".

        Each pod of a DaemonSet has exactly one candidate. The network plugin and the agent run as such pods: without
        them a new node would never have a report.
        """
        policy = self._fallback.unreported
        if policy != ALLOW and not (daemon_set and policy == ALLOW_UNALIGNED):
            return ""
        for name in candidates.names:
            if name not in self.table and self._state.assume(pod, name, allow_unreported=True).admitted:
                return name
        return ""
