"""Why nodes will not take a pod, in few words: kube-scheduler puts the distinct ones into one event, with counts.

"0/5000 nodes are available: 4980 node(s) would refuse it: needs 9 CPUs in one zone, 20 node(s) without a report ..."
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

from zonewise_scheduler.fit.kubelet.admit import admit
from zonewise_scheduler.fit.kubelet.sentences import sentence
from zonewise_scheduler.fit.ledger.values import IN_FLIGHT, SET_ASIDE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_scheduler.fit.model.node import NodeState
    from zonewise_scheduler.fit.model.pod import PodShape

OF_LEDGER = {
    IN_FLIGHT: "node(s) whose kubelet has yet to report the pods that were sent there",
    SET_ASIDE: "node(s) that lately refused such a pod, and are not asked again for a while",
}
NO_REPORT = "node(s) without a report of zones (is the zonewise agent running there?)"
STALE = "node(s) whose report of zones is stale"
_UNEXPLAINED = "node(s) would refuse it"

_MOST_STATES = 64
"""Distinct states of nodes for which the reason is found out in one go, 0.1 ms each; kept for the next time."""


def explained(shape: PodShape, states: Mapping[str, NodeState]) -> dict[str, str]:
    """Return by node why it will not take a pod.

    Where there are very many different states, the commonest reason among those looked at stands for the rest.
    """
    distinct = list(dict.fromkeys(states.values()))[:_MOST_STATES]
    reasons = {state: _reason(state, shape) for state in distinct}
    commonest = _commonest(reasons.values())
    return {node: reasons.get(state, commonest) for node, state in states.items()}


def _commonest(reasons: Iterable[str]) -> str:
    counted = Counter(reasons).most_common(1)
    return counted[0][0] if counted else _UNEXPLAINED


@lru_cache(maxsize=4096)
def _reason(state: NodeState, shape: PodShape) -> str:
    verdict = admit(state, shape)
    if verdict.admitted:
        return OF_LEDGER[IN_FLIGHT]  # it would fit, were it not for pods under way whose order nobody knows
    # the first clause is what the pod asks for, the others are what this very node has
    return f"{_UNEXPLAINED}: {sentence(state, shape, verdict).partition(';')[0]}"
