"""Why nodes will not take a pod, in few words: kube-scheduler puts the distinct ones into one event, with counts.

"0/5000 nodes are available: 4980 node(s) would refuse it: needs 9 CPUs in one zone, 20 node(s) without a report ..."
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
    NODE_BACKOFF: "node(s) that lately refused such a pod, and are not asked again for a while",
}
NO_REPORT = "node(s) without a report of zones (is the zonewise agent running there?)"
STALE_REPORT = "node(s) whose report of zones is stale"
_UNKNOWN_REASON = "node(s) would refuse it"

_MAX_SAMPLED = 8
"""About as many nodes are looked at in one go: each costs some 0.5 ms, and is kept for the next time."""


def diagnose(shape: PodShape, names: Sequence[str], table: NodeTable) -> dict[str, str]:
    """Return by node why it will not take a pod.

    Of many nodes some are looked at, and what is the commonest reason among them stands for the others.
    """
    places = table.lookup(names)
    unknown = places.count(UNKNOWN_ROW)
    stride = -(-(len(names) - unknown) // _MAX_SAMPLED) or 1
    # by their places, not in the order asked: so they are the same ones the next time
    looked_at = _at_places(names, places, stride) or _at_places(names, places, 1)[:1]
    states = [(name, table.state(place)) for name, place in looked_at]
    reasons = {name: _reason(state, shape) for name, state in states if state is not None}
    found = dict.fromkeys(names, _commonest(reasons.values()))
    if unknown:
        found.update((name, NO_REPORT) for name, place in zip(names, places, strict=True) if place == UNKNOWN_ROW)
    found.update(reasons)
    return found


def _at_places(names: Sequence[str], places: Sequence[int], stride: int) -> list[tuple[str, int]]:
    return [pair for pair in zip(names, places, strict=True) if pair[1] % stride == 0 and pair[1] != UNKNOWN_ROW]


def _commonest(reasons: Iterable[str]) -> str:
    counted = Counter(reasons).most_common(1)
    return counted[0][0] if counted else _UNKNOWN_REASON


@lru_cache(maxsize=4096)
def _reason(state: NodeState, shape: PodShape) -> str:
    verdict = admit(state, shape)
    if verdict.admitted:
        return LEDGER_REASONS[
            BLOCKED_BY_ASSUMED
        ]  # it would fit, were it not for pods under way whose order nobody knows
    # the first clause is what the pod asks for, the others are what this very node has
    return f"{_UNKNOWN_REASON}: {explain_rejection(state, shape, verdict).partition(';')[0]}"
