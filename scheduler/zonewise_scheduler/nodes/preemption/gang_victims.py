"""The victims for a gang: pods of lower priority whose end lets kubelets admit all its members.

1. The members are placed one by one, each on the node whose victims cost least. Victims already chosen count as ended,
   and members already placed count as present.
2. Victims are spared one by one, the most important one first, as long as all members still fit. The members keep their
   nodes, or are placed again on the nodes in use. This is repeated until no victim can be spared.

The first step is greedy, so another set may cost less. All victims together respect the PodDisruptionBudgets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.nodes.preemption.admissions import Admissions
from zonewise_scheduler.nodes.preemption.cost import by_importance, victims_cost
from zonewise_scheduler.nodes.preemption.plan import MAX_CANDIDATES
from zonewise_scheduler.nodes.preemption.types import Victims
from zonewise_scheduler.nodes.preemption.victims import select_victims

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.nodes.preemption.types import Budgets, OccupiedNode, Preemptor, RunningPod

Placed = dict[str, list["PodShape"]]
"""The shapes of the members on each node, in their order."""


class GangVictims(NamedTuple):
    """The pods that must end for a gang."""

    nodes: tuple[str, ...]
    """The node of each member."""
    victims: tuple[Victims, ...]
    """Victims by node; empty if terminating pods suffice, or if the nodes admit all members as they are."""


def select_gang_victims(
    nodes: Sequence[OccupiedNode], members: Sequence[Preemptor], budgets: Budgets
) -> GangVictims | None:
    """Return the victims for all members together, or None if no set of victims is known to suffice."""
    search = _GangSearch(nodes, members, budgets)
    return search.result() if search.place() else None


class _GangSearch:
    """One search for victims."""

    def __init__(self, nodes: Sequence[OccupiedNode], members: Sequence[Preemptor], budgets: Budgets) -> None:
        self._nodes = {node.name: node for node in nodes}
        self._members = members
        self._budgets = dict(budgets)
        self._ended: dict[str, tuple[RunningPod, ...]] = {}
        self._where: list[str] = []  # the node of each member
        self._found: dict[tuple[str, PodShape, int], Victims | None] = {}

    def place(self) -> bool:
        """Choose a node and its victims for each member; return False if a member has none."""
        for member in self._members:
            victims = self._cheapest(member)
            if victims is None:
                return False
            self._ended[victims.node] = (*self._ended.get(victims.node, ()), *victims.pods)
            self._where.append(victims.node)
            budgets = [budget for pod in victims.pods for budget in pod.budgets]
            for budget in budgets:
                self._budgets[budget] -= 1
            self._found = {} if budgets else {key: each for key, each in self._found.items() if key[0] != victims.node}
        return True

    def result(self) -> GangVictims:
        """Return victims none of which can be spared."""
        while self._spare_once():
            pass
        victims = (Victims(name, by_importance(pods), optimal=False) for name, pods in self._ended.items() if pods)
        return GangVictims(tuple(self._where), tuple(victims))

    def _cheapest(self, member: Preemptor) -> Victims | None:
        placed = self._placed()
        best: Victims | None = None
        candidates = 0
        for name in self._nodes:
            key = name, member.shape, member.priority
            if key not in self._found:
                node = self._node(name, self._ended.get(name, ()), placed.get(name, []))
                self._found[key] = select_victims(node, member, self._budgets)
            victims = self._found[key]
            if victims is None:
                continue
            if not victims.pods:
                return victims
            if best is None or victims_cost(victims.pods) < victims_cost(best.pods):
                best = victims
            candidates += 1
            if candidates >= MAX_CANDIDATES:
                break
        return best

    def _spare_once(self) -> bool:
        """Spare the victims that need not end; return whether there was one."""
        ended = {pod.uid: (name, pod) for name, pods in self._ended.items() for pod in pods}
        spared = False
        for pod in by_importance(pod for _, pod in ended.values()):
            name = ended[pod.uid][0]
            fewer = {**self._ended, name: tuple(each for each in self._ended[name] if each is not pod)}
            shapes = self._placed().get(name, [])
            where = self._where if self._fits(name, fewer[name], shapes) else self._place_anew(fewer)
            if where is not None:
                self._ended, self._where, spared = fewer, where, True
        return spared

    def _place_anew(self, ended: dict[str, tuple[RunningPod, ...]]) -> list[str] | None:
        """Return for each member the first node in use that admits it, or None if a member has no such node."""
        names = [name for name in self._nodes if name in ended or name in self._where]
        placed: Placed = {name: [] for name in names}
        full: set[tuple[str, PodShape]] = set()
        where: list[str] = []
        for member in self._members:
            for name in names:
                if (name, member.shape) in full:
                    continue
                if self._fits(name, ended.get(name, ()), [*placed[name], member.shape]):
                    placed[name].append(member.shape)
                    where.append(name)
                    break
                full.add((name, member.shape))
            else:
                return None
        return where

    def _fits(self, name: str, ended: Sequence[RunningPod], shapes: Sequence[PodShape]) -> bool:
        """Return whether a node admits pods, one after another, once its victims have ended."""
        if not shapes:
            return True
        return Admissions(self._node(name, ended, shapes[:-1]), shapes[-1]).admitted(())

    def _node(self, name: str, ended: Sequence[RunningPod], shapes: Sequence[PodShape]) -> OccupiedNode:
        """Return a node on which the given pods are terminating, and for which other pods are nominated first."""
        node = self._nodes[name]
        uids = {pod.uid for pod in ended}
        pods = tuple(pod._replace(terminating=True) if pod.uid in uids else pod for pod in node.pods)
        return node._replace(pods=pods, nominated=(*node.nominated, *shapes))

    def _placed(self) -> Placed:
        placed: Placed = {}
        for name, member in zip(self._where, self._members, strict=False):  # the other members have no node yet
            placed.setdefault(name, []).append(member.shape)
        return placed
