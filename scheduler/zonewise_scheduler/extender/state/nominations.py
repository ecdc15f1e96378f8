"""Pods that wait on a node for victims to end, and whose capacity no other pod may take meanwhile.

| event | nomination |
|---|---|
| a preemption is decided, here or by kube-scheduler | begins |
| the pod is bound, or gone | ends |
| no victim is left on the node, and SETTLE has passed | ends: the pod may preempt again |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_scheduler.nodes.preemption.types import Preemptor

SETTLE = 10.0
"""Seconds after the last victim has gone. By then the report no longer includes it, and the pod is bound or will not
be."""


class Nomination(NamedTuple):
    """A pod that waits for capacity on a node."""

    preemptor: Preemptor
    node: str
    victims: frozenset[str]
    """UIDs of the pods that are evicted for the nominated pod."""
    active_until: float
    """Time until which the nomination remains active at least."""


class Nominations:
    """See the module. Times are seconds of one clock."""

    def __init__(self) -> None:
        self._by_uid: dict[str, Nomination] = {}
        self._proposed: dict[str, dict[str, frozenset[str]]] = {}  # victims by node, by UID of the preemptor

    def get(self, uid: str) -> Nomination | None:
        """Return the nomination of a pod, if any."""
        return self._by_uid.get(uid)

    def begin(self, preemptor: Preemptor, node: str, victims: Iterable[str], at: float) -> None:
        """Nominate a pod for a node."""
        self._proposed.pop(preemptor.uid, None)
        self._by_uid[preemptor.uid] = Nomination(preemptor, node, frozenset(victims), at + SETTLE)

    def propose(self, uid: str, victims: Mapping[str, Iterable[str]]) -> None:
        """Record the victims by node from which kube-scheduler chooses for a pod."""
        self._proposed[uid] = {node: frozenset(uids) for node, uids in victims.items()}

    def proposed(self, uid: str, node: str) -> frozenset[str]:
        """Return the proposed victims of a node."""
        return self._proposed.get(uid, {}).get(node, frozenset())

    def end(self, uid: str) -> str:
        """End the nomination of a pod that is bound or gone; return its node, or "" without a nomination."""
        self._proposed.pop(uid, None)
        nomination = self._by_uid.pop(uid, None)
        return nomination.node if nomination is not None else ""

    def expire(self, running: Iterable[str], at: float) -> list[str]:
        """End the expired nominations; return their nodes. `running`: UIDs of pods, including terminating ones."""
        present = frozenset(running)
        for uid, nomination in self._by_uid.items():
            if nomination.victims & present:
                self._by_uid[uid] = nomination._replace(active_until=at + SETTLE)
        return [self.end(uid) for uid, each in list(self._by_uid.items()) if each.active_until <= at]

    def victims(self) -> frozenset[str]:
        """Return the UIDs of all victims."""
        return frozenset(uid for nomination in self._by_uid.values() for uid in nomination.victims)

    def on_node(self, node: str, *, besides: str = "", priority: int | None = None) -> list[Nomination]:
        """Return the nominations for a node, the most important one first.

        `besides`: leave out this pod; `priority`: leave out pods of a lower priority.
        """
        nominations = [
            each
            for uid, each in self._by_uid.items()
            if each.node == node and uid != besides and (priority is None or each.preemptor.priority >= priority)
        ]
        return sorted(nominations, key=lambda each: (-each.preemptor.priority, each.preemptor.uid))
