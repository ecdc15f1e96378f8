"""Assumes pods with regard to the pods that end: victims of nominated pods, and other terminating pods.

No pod takes the resources that victims free for a nominated pod. No pod goes to a node whose kubelet may reject it
because another pod ends before it arrives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.admission.verdict import Verdict
from zonewise_scheduler.extender.state.nominations import Nominations
from zonewise_scheduler.extender.state.occupied_nodes import OccupiedNodes
from zonewise_scheduler.nodes.preemption.admissions import Admissions
from zonewise_scheduler.nodes.preemption.pending_ends import is_admitted_throughout

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.extender.objects.running_pods import RunningPods
    from zonewise_scheduler.extender.state.node_infos import NodeInfos
    from zonewise_scheduler.extender.state.nominations import Nomination
    from zonewise_scheduler.extender.state.waiting_pods import WaitingPod, WaitingPods
    from zonewise_scheduler.nodes.assumed.ledger import Ledger
    from zonewise_scheduler.nodes.assumed.types import PendingPod
    from zonewise_scheduler.nodes.preemption.types import OccupiedNode, Preemptor

NOMINATED = "Nominated"
"""A reason in addition to those of the ledger: free resources belong to a pod that waits for its victims to end."""

ENDING = "Ending"
"""Another reason: the kubelet may reject the pod if terminating pods of the node end before it arrives."""


class NominatedPods:
    """See the module. The caller holds the lock of the parts."""

    def __init__(self, ledger: Ledger, infos: NodeInfos, running: RunningPods, waiting: WaitingPods) -> None:
        self.nominations = Nominations()
        self.occupied = OccupiedNodes(ledger, infos, running, self.nominations)
        self._ledger = ledger
        self._running = running
        self._waiting = waiting

    def observe(self, preemptor: Preemptor, node: str, at: float) -> None:
        """Begin the nomination of a pod for which kube-scheduler preempts others, unless it has begun."""
        if self.nominations.get(preemptor.uid) is not None:
            return
        ending = {each.pod.uid for each in self._running.on_node(node) if each.fields.terminating}
        victims = ending | self.nominations.proposed(preemptor.uid, node)
        if victims:
            self.begin(preemptor, node, victims, at)

    def begin(self, preemptor: Preemptor, node: str, victims: Iterable[str], at: float) -> None:
        """Begin the nomination of a pod; other pods may use the other nodes for which it was proposed."""
        for each in self.nominations.begin(preemptor, node, victims, at):
            self._ledger.mark_changed(each)

    def expire(self, at: float) -> list[str]:
        """End the nominations that have expired; return their nodes."""
        return self.nominations.expire([uid for uid in self.nominations.victims() if uid in self._running], at)

    def assume(self, pod: PendingPod, node: str, at: float, *, allow_unreported: bool) -> Verdict:
        """Assume a pod on a node, unless a nominated pod of at least its priority would then be rejected.

        kube-scheduler does the same with its own filters (RunFilterPluginsWithNominatedPods). The node is also rejected
        if the end of a terminating pod may let its kubelet reject the pod. A pod counts as nominated once victims are
        proposed for it, since kube-scheduler evicts them at once.
        """
        waiting = self._waiting.get(pod.uid)
        priority = waiting.spec.priority if waiting is not None else 0
        claims = (
            *self.nominations.on_node(node, besides=pod.uid, priority=priority),
            *self.nominations.proposals(node, besides=pod.uid, priority=priority),
        )
        nominations = [each for each in claims if not self._is_sibling(waiting, each)]
        if self._ledger.node_of(pod.uid) == node:
            nominations = []  # its resources count already
        admitted = [each for each in nominations if self.is_admitted(each)]
        before = self._before_ends(pod, node, priority)
        verdict = self._ledger.assume(pod, node, at, allow_unreported=allow_unreported)
        if not verdict.admitted:
            return verdict
        if not all(map(self.is_admitted, admitted)):
            reason = NOMINATED
        elif before is not None and not is_admitted_throughout(before, pod.shape):
            reason = ENDING
        else:
            return verdict
        self._ledger.forget(pod.uid, at)
        return Verdict(admitted=False, reason=reason)

    def _before_ends(self, pod: PendingPod, node: str, priority: int) -> OccupiedNode | None:
        """Return a node on which the end of another pod may let the kubelet reject a pod that is not assumed yet.

        None if no end matters, or if holdings are unknown.
        """
        if len(pod.shape.containers) == 1 or not any(each.fields.terminating for each in self._running.on_node(node)):
            return None
        return self.occupied.get(node, pod.uid, priority)

    def _is_sibling(self, waiting: WaitingPod | None, nomination: Nomination) -> bool:
        """Return whether a nominated pod is in the same gang: its members are placed together on any of their nodes."""
        sibling = self._waiting.get(nomination.preemptor.uid)
        if waiting is None or sibling is None or waiting.spec.group is None:
            return False
        return waiting.spec.group == sibling.spec.group

    def is_admitted(self, nomination: Nomination) -> bool:
        """Return whether a nominated pod is admitted once its victims have ended."""
        preemptor, node, victims, _ = nomination
        occupied = self.occupied.get(node, preemptor.uid, preemptor.priority)
        if occupied is None:
            return False
        ending = [pod for pod in occupied.pods if pod.uid in victims and not pod.terminating]
        return Admissions(occupied, preemptor.shape).admitted(ending)
