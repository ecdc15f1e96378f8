"""The reasons why nodes reject a pod. kube-scheduler puts the distinct reasons into one event, with counts.

"0/5000 nodes are available: 4980 node(s) would reject it: needs 9 CPUs in one zone, 20 node(s) without a report ..."
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.explain.rejection import explain_rejection
from zonewise_scheduler.extender.failed_nodes import FailedNodes, RejectionCause
from zonewise_scheduler.extender.tables.judging_budget import JudgingBudget
from zonewise_scheduler.extender.tables.kubelet_cause import NO_VERDICT, kubelet_cause
from zonewise_scheduler.extender.tables.node_table import UNKNOWN_ROW
from zonewise_scheduler.nodes.assumed.types import BLOCKED_BY_ASSUMED, NODE_BACKOFF
from zonewise_scheduler.nodes.assumed.types import NO_REPORT as LEDGER_NO_REPORT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.extender.tables.node_table import NodeTable

LEDGER_REASONS = {
    BLOCKED_BY_ASSUMED: "node(s) whose kubelet has yet to report the pods that were sent there",
    NODE_BACKOFF: "node(s) that recently rejected such a pod, and are in backoff",
}
NO_REPORT = "node(s) without a report of zones (is the zonewise agent running there?)"
STALE_REPORT = "node(s) whose report of zones is stale"
NOT_JUDGED = "node(s) that are not evaluated yet: the pod is retried once one of them would admit it"
_UNKNOWN_REASON = "node(s) would reject it", RejectionCause(NO_VERDICT)

_MAX_SAMPLED = 8
"""Approximate number of nodes that one call explains: each costs about 0.5 ms, and is cached."""
_SECONDS = 0.02
"""CPU time for explanations, in seconds: nodes with many zones and pods with many containers cost more."""


def diagnose(shape: PodShape, names: Sequence[str], table: NodeTable) -> FailedNodes:
    """Return by node the reason why it rejects a pod, and the most common cause, if there are nodes.

    If there are many nodes, only a sample is explained. The most common reason of the sample stands for the rest.
    """
    rows = table.lookup(names)
    unknown = rows.count(UNKNOWN_ROW)
    stride = -(-(len(names) - unknown) // _MAX_SAMPLED) or 1
    # by row, not in the order of the names, so that the next call samples the same nodes, which are cached
    sampled = _sampled_rows(names, rows, stride) or _sampled_rows(names, rows, 1)[:1]
    states = [(name, table.state(row)) for name, row in sampled]
    reasons, budget = dict[str, tuple[str, RejectionCause]](), JudgingBudget(_SECONDS)
    for name, state in states:
        if state is not None and not (reasons and budget.is_spent):
            reasons[name] = _reason(state, shape)
    message, cause = _most_common(reasons.values())
    messages = dict.fromkeys(names, message)
    if unknown:
        messages.update((name, NO_REPORT) for name, row in zip(names, rows, strict=True) if row == UNKNOWN_ROW)
    messages.update((name, reason) for name, (reason, _) in reasons.items())
    if 2 * unknown > len(names):
        cause = RejectionCause(LEDGER_NO_REPORT)
    return FailedNodes(messages, cause if names else None)


def _sampled_rows(names: Sequence[str], rows: Sequence[int], stride: int) -> list[tuple[str, int]]:
    return [pair for pair in zip(names, rows, strict=True) if pair[1] % stride == 0 and pair[1] != UNKNOWN_ROW]


def _most_common(reasons: Iterable[tuple[str, RejectionCause]]) -> tuple[str, RejectionCause]:
    counts = Counter(reasons).most_common(1)
    return counts[0][0] if counts else _UNKNOWN_REASON


@lru_cache(maxsize=4096)
def _reason(state: NodeState, shape: PodShape) -> tuple[str, RejectionCause]:
    verdict = admit(state, shape)
    if verdict.admitted:
        # the node's state admits the pod, but not after every arrival order of the assumed pods
        return LEDGER_REASONS[BLOCKED_BY_ASSUMED], RejectionCause(BLOCKED_BY_ASSUMED)
    # the first clause is the pod's request, the rest describes this node
    message = f"{_UNKNOWN_REASON[0]}: {explain_rejection(state, shape, verdict).partition(';')[0]}"
    return message, kubelet_cause(state, shape, verdict)
