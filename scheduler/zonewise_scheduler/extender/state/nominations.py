"""Pods that wait on a node for victims to end, and whose capacity no other pod may take meanwhile.

| event | nomination |
|---|---|
| victims are proposed to kube-scheduler, by node | is proposed for each of these nodes |
| kube-scheduler has not nominated the pod within PROPOSED | is no longer proposed |
| a preemption is decided, here or by kube-scheduler | begins, and is proposed for no other node |
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
PROPOSED = 1.0
"""Seconds within which kube-scheduler chooses a node, and the extender observes the nomination."""


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
        self._victims: dict[str, dict[str, frozenset[str]]] = {}  # proposed ones by node, by UID of the preemptor
        self._proposed: dict[str, dict[str, Nomination]] = {}  # by node, by UID, until PROPOSED

    def get(self, uid: str) -> Nomination | None:
        """Return the nomination of a pod, if any."""
        return self._by_uid.get(uid)

    def begin(self, preemptor: Preemptor, node: str, victims: Iterable[str], at: float) -> list[str]:
        """Nominate a pod for a node; return the nodes for which it was proposed."""
        nodes = self._end_proposals(preemptor.uid)
        self._victims.pop(preemptor.uid, None)
        self._by_uid[preemptor.uid] = Nomination(preemptor, node, frozenset(victims), at + SETTLE)
        return nodes

    def propose(self, preemptor: Preemptor, victims: Mapping[str, Iterable[str]], at: float) -> None:
        """Record the victims by node from which kube-scheduler chooses for a pod."""
        proposed = {node: frozenset(uids) for node, uids in victims.items()}
        self._victims[preemptor.uid] = proposed
        self._proposed[preemptor.uid] = {
            node: Nomination(preemptor, node, uids, at + PROPOSED) for node, uids in proposed.items()
        }

    def proposed(self, uid: str, node: str) -> frozenset[str]:
        """Return the victims of a node that were proposed last."""
        return self._victims.get(uid, {}).get(node, frozenset())

    def end(self, uid: str) -> list[str]:
        """End the nomination and the proposals of a pod that is bound or gone; return their nodes."""
        nodes = self._end_proposals(uid)
        self._victims.pop(uid, None)
        nomination = self._by_uid.pop(uid, None)
        return nodes if nomination is None else [*nodes, nomination.node]

    def expire(self, running: Iterable[str], at: float) -> list[str]:
        """End the expired nominations and proposals; return their nodes.

        `running`: UIDs of pods, including terminating ones.
        """
        present = frozenset(running)
        for uid, nomination in self._by_uid.items():
            if nomination.victims & present:
                self._by_uid[uid] = nomination._replace(active_until=at + SETTLE)
        ended = [uid for uid, each in self._by_uid.items() if each.active_until <= at]
        late = [uid for uid, nodes in self._proposed.items() if all(each.active_until <= at for each in nodes.values())]
        nodes = [node for uid in late for node in self._end_proposals(uid)]
        return nodes + [node for uid in ended for node in self.end(uid)]

    def _end_proposals(self, uid: str) -> list[str]:
        return list(self._proposed.pop(uid, ()))

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

    def proposals(self, node: str, *, besides: str, priority: int) -> list[Nomination]:
        """Return the proposals for a node, without this pod and pods of a lower priority."""
        proposals = [nodes[node] for uid, nodes in self._proposed.items() if node in nodes and uid != besides]
        return [each for each in proposals if each.preemptor.priority >= priority]
