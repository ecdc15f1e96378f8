"""Holds nodes for pods that only kube-scheduler can place, so that a pass does not bind lower-ranked pods there first.

A pass runs milliseconds after a node has changed; kube-scheduler retries a requeued pod tenths of a second later.
Without claims, pods with volume claims or topology spread would wait behind all other pods. A pod claims the nodes that
may admit it and have changed since they rejected it, once its backoff is over. Only kube-scheduler knows whether it
can go there, so a node is held for HOLD at most, until no pod claims it any longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.extender.placing.joint_plan import kind_of
from zonewise_scheduler.extender.state.waiting_pods import PodUnit

if TYPE_CHECKING:
    from zonewise_scheduler.extender.placing.joint_plan import PodKind
    from zonewise_scheduler.extender.placing.placer import Placer
    from zonewise_scheduler.extender.state.cluster_state import ClusterState
    from zonewise_scheduler.extender.state.waiting_pods import WaitingPod

HOLD = 1.0
"""Maximum seconds for which a node is held. The requeuer takes up to 0.25 s, and kube-scheduler retries the pod at once
while no other pod is due."""
MAX_CLAIMANTS = 16
"""Maximum number of pods that claim nodes at a time, the first by rank: each kind of pod is compared with all nodes."""

Rank = tuple[int, float, int]


class NodeClaims:
    """See the module. The caller holds the judging lock."""

    def __init__(self, state: ClusterState, placer: Placer) -> None:
        self._state = state
        self._placer = placer
        self._claims: list[tuple[Rank, frozenset[str]]] = []
        self._since: dict[str, float] = {}

    def update(self, now: float) -> None:
        """Determine the claims for the current state of the nodes."""
        nodes: dict[tuple[PodKind, int], frozenset[str]] = {}  # by kind of pod and revision of its rejection
        claimed: list[tuple[Rank, frozenset[str]]] = []
        for rank, waiting, revision in self._claimants(now):
            key = kind_of(waiting), revision
            if key not in nodes:
                nodes[key] = self._nodes(waiting, revision)
            claimed.append((rank, nodes[key]))
        names = frozenset[str]().union(*nodes.values())
        self._since = {name: self._since.get(name, now) for name in names}
        held = frozenset(name for name, since in self._since.items() if now < since + HOLD)
        self._claims = [(rank, claim & held) for rank, claim in claimed if claim & held]

    def before(self, rank: Rank) -> frozenset[str]:
        """Return the nodes that pods of a better rank claim."""
        return frozenset[str]().union(*(nodes for claimant, nodes in self._claims if claimant < rank))

    def __bool__(self) -> bool:
        return bool(self._claims)

    def _claimants(self, now: float) -> list[tuple[Rank, WaitingPod, int]]:
        """Return the first pods by rank that may claim nodes, with the revision at which they were rejected."""
        state = self._state
        with state.lock:
            claimants = [
                (PodUnit((waiting,)).rank, waiting, revision)
                for waiting in state.waiting.left_to_scheduler()
                if (revision := state.unschedulable.revision_of_due(waiting.pod.uid, now)) is not None
            ]
        return sorted(claimants, key=lambda claimant: claimant[0])[:MAX_CLAIMANTS]

    def _nodes(self, waiting: WaitingPod, revision: int) -> frozenset[str]:
        names = self._placer.table.changed_since(waiting.pod.shape, revision)
        if not names:
            return frozenset()
        passing = self._placer.filters.passing(waiting.spec.constraints)
        return frozenset(name for name in names if name in passing)
