"""Reasons for which nodes reject a pod. kube-scheduler puts the distinct ones into one event, with counts.

"0/5000 nodes are available: 4980 node(s) would reject it: needs 9 CPUs in one zone, 20 node(s) without a report ..."
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.explain.rejection import explain_rejection
from zonewise_scheduler.extender.node_table import UNKNOWN_ROW
from zonewise_scheduler.nodes.assumed.types import BLOCKED_BY_ASSUMED, NODE_BACKOFF

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.extender.node_table import NodeTable

LEDGER_REASONS = {
    BLOCKED_BY_ASSUMED: "node(s) whose kubelet has yet to report the pods that were sent there",
    NODE_BACKOFF: "node(s) that lately rejected such a pod, and are in backoff",
}
NO_REPORT = "node(s) without a report of zones (is the zonewise agent running there?)"
STALE_REPORT = "node(s) whose report of zones is stale"
_UNKNOWN_REASON = "node(s) would reject it"

_MAX_SAMPLED = 8
"""About the number of nodes that one call explains: each costs some 0.5 ms, and is cached."""


def diagnose(shape: PodShape, names: Sequence[str], table: NodeTable) -> dict[str, str]:
    """Return by node the reason for which it rejects a pod.

    Of many nodes a sample is explained. The most common reason of the sample stands for the rest.
    """
    rows = table.lookup(names)
    unknown = rows.count(UNKNOWN_ROW)
    stride = -(-(len(names) - unknown) // _MAX_SAMPLED) or 1
    # by row, not by the order of the names: so the next call samples the same nodes, which are cached
    sampled = _sampled_rows(names, rows, stride) or _sampled_rows(names, rows, 1)[:1]
    states = [(name, table.state(row)) for name, row in sampled]
    reasons = {name: _reason(state, shape) for name, state in states if state is not None}
    diagnosis = dict.fromkeys(names, _most_common(reasons.values()))
    if unknown:
        diagnosis.update((name, NO_REPORT) for name, row in zip(names, rows, strict=True) if row == UNKNOWN_ROW)
    diagnosis.update(reasons)
    return diagnosis


def _sampled_rows(names: Sequence[str], rows: Sequence[int], stride: int) -> list[tuple[str, int]]:
    return [pair for pair in zip(names, rows, strict=True) if pair[1] % stride == 0 and pair[1] != UNKNOWN_ROW]


def _most_common(reasons: Iterable[str]) -> str:
    counts = Counter(reasons).most_common(1)
    return counts[0][0] if counts else _UNKNOWN_REASON


@lru_cache(maxsize=4096)
def _reason(state: NodeState, shape: PodShape) -> str:
    verdict = admit(state, shape)
    if verdict.admitted:
        # the node's state admits the pod, but not after every arrival order of the assumed pods
        return LEDGER_REASONS[BLOCKED_BY_ASSUMED]
    # the first clause is the pod's request, the rest describes this node
    return f"{_UNKNOWN_REASON}: {explain_rejection(state, shape, verdict).partition(';')[0]}"
