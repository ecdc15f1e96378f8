"""Why nodes will not take a pod, in few words: kube-scheduler puts the distinct ones into one event, with counts.

"0/5000 nodes are available: 4980 node(s) would refuse it: needs 9 CPUs in one zone, 20 node(s) without a report ..."
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

from zonewise_scheduler.control.rows import UNKNOWN
from zonewise_scheduler.fit.kubelet.admit import admit
from zonewise_scheduler.fit.kubelet.sentences import sentence
from zonewise_scheduler.fit.ledger.values import IN_FLIGHT, SET_ASIDE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zonewise_scheduler.control.rows import Rows
    from zonewise_scheduler.fit.model.node import NodeState
    from zonewise_scheduler.fit.model.pod import PodShape

OF_LEDGER = {
    IN_FLIGHT: "node(s) whose kubelet has yet to report the pods that were sent there",
    SET_ASIDE: "node(s) that lately refused such a pod, and are not asked again for a while",
}
NO_REPORT = "node(s) without a report of zones (is the zonewise agent running there?)"
STALE = "node(s) whose report of zones is stale"
_UNEXPLAINED = "node(s) would refuse it"

_MOST_LOOKED_AT = 8
"""About as many nodes are looked at in one go: each costs some 0.5 ms, and is kept for the next time."""


def explained(shape: PodShape, names: Sequence[str], rows: Rows) -> dict[str, str]:
    """Return by node why it will not take a pod.

    Of many nodes some are looked at, and what is the commonest reason among them stands for the others.
    """
    places = rows.places(names)
    unknown = places.count(UNKNOWN)
    stride = -(-(len(names) - unknown) // _MOST_LOOKED_AT) or 1
    # by their places, not in the order asked: so they are the same ones the next time
    looked_at = _at_places(names, places, stride) or _at_places(names, places, 1)[:1]
    states = [(name, rows.state(place)) for name, place in looked_at]
    reasons = {name: _reason(state, shape) for name, state in states if state is not None}
    found = dict.fromkeys(names, _commonest(reasons.values()))
    if unknown:
        found.update((name, NO_REPORT) for name, place in zip(names, places, strict=True) if place == UNKNOWN)
    found.update(reasons)
    return found


def _at_places(names: Sequence[str], places: Sequence[int], stride: int) -> list[tuple[str, int]]:
    return [pair for pair in zip(names, places, strict=True) if pair[1] % stride == 0 and pair[1] != UNKNOWN]


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
