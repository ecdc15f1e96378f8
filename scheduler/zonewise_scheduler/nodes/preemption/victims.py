"""The victims on one node: the fewest pods of the lowest priority whose end lets the kubelet admit the preemptor.

Sets of victims are ordered as in cost.py, and PodDisruptionBudgets are respected: a set that would violate one is no
candidate. Neither are pods of the preemptor's priority or above (isPreemptionAllowed of default_preemption.go).

The search takes priorities from the lowest up. If ending all pods up to a priority suffices, it has two steps.

1. Pods are spared one by one, the most important one first, as long as the kubelet still admits the preemptor
   (SelectVictimsOnNode of default_preemption.go). This gives some victims.
2. All sets that would cost less are tried. If there are too many of them, the search stops at a limit.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING

from zonewise_scheduler.admission.cpumanager import guaranteed_cpus
from zonewise_scheduler.admission.predicate import insufficient_resources
from zonewise_scheduler.nodes.preemption.admissions import Admissions, available_to
from zonewise_scheduler.nodes.preemption.cost import by_importance, priority_cost, victims_cost
from zonewise_scheduler.nodes.preemption.types import Victims

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.nodes.preemption.types import Budgets, OccupiedNode, Preemptor, RunningPod

MAX_ADMISSIONS = 600
"""Maximum number of admissions computed for one node, each 30 to 300 microseconds; at the limit, the best victims so
far count."""
MAX_SETS = 20_000
"""Maximum number of sets of victims considered for one node, each a few microseconds."""


def select_victims(
    node: OccupiedNode, preemptor: Preemptor, budgets: Budgets, *, at_most: float = float("inf")
) -> Victims | None:
    """Return the victims, or None if no set of victims of the priority `at_most` or below is known to suffice.

    The result has no victims if terminating pods suffice, or if the node admits the pod as it is.
    """
    return _Search(node, preemptor, budgets).run(at_most)


def eligible_victims(node: OccupiedNode, preemptor: Preemptor, budgets: Budgets) -> list[RunningPod]:
    """Return the pods that may be preempted, the cheapest first."""
    available = available_to(node, preemptor.shape)
    short = available is not None and insufficient_resources(preemptor.shape, available)
    pods = (
        pod
        for pod in node.pods
        if pod.priority < preemptor.priority
        and not pod.terminating
        and not pod.static
        and pod.holdings is not None
        and (short or pod.holdings.cpus or pod.holdings.amounts)
        and all(budgets.get(budget, 0) > 0 for budget in pod.budgets)
    )
    return sorted(pods, key=lambda pod: (pod.priority, -pod.started, pod.uid))


class _Search:
    """One search for victims."""

    def __init__(self, node: OccupiedNode, preemptor: Preemptor, budgets: Budgets) -> None:
        self._node = node
        self._budgets = budgets
        self._pods = eligible_victims(node, preemptor, budgets)
        self._admissions = Admissions(node, preemptor.shape)
        self._bound = _CpuBound(node, preemptor)
        self._sets = 0

    def run(self, at_most: float) -> Victims | None:
        if self._admissions.admitted(()):
            return Victims(self._node.name, ())
        for level in sorted({pod.priority for pod in self._pods if pod.priority <= at_most}):
            pods = [pod for pod in self._pods if pod.priority <= level]
            if not self._admissions.admitted(pods):
                continue
            first = self._spare(self._within_budgets(pods))
            victims, complete = self._cheaper(pods, level, first)
            if victims:
                return Victims(self._node.name, by_importance(self._spare(victims)), complete)
        return None

    def _within_budgets(self, pods: Sequence[RunningPod]) -> tuple[RunningPod, ...]:
        """Return the pods without the most important ones of each exhausted budget."""
        used = Counter[str]()
        chosen: list[RunningPod] = []
        for pod in reversed(by_importance(pods)):
            if all(used[budget] < self._budgets[budget] for budget in pod.budgets):
                used.update(pod.budgets)
                chosen.append(pod)
        return tuple(chosen)

    def _keeps_budgets(self, victims: Sequence[RunningPod]) -> bool:
        used = Counter(budget for pod in victims for budget in pod.budgets)
        return all(count <= self._budgets[budget] for budget, count in used.items())

    def _spare(self, pods: Sequence[RunningPod]) -> tuple[RunningPod, ...]:
        """Return victims none of which can be spared; the result is empty if not even all of them suffice."""
        victims = list(pods)
        if not self._admissions.admitted(victims):
            return ()
        for pod in by_importance(pods):
            fewer = [victim for victim in victims if victim is not pod]
            if self._admissions.admitted(fewer):
                victims = fewer
        return tuple(victims)

    def _cheaper(
        self, pods: Sequence[RunningPod], level: int, victims: tuple[RunningPod, ...]
    ) -> tuple[tuple[RunningPod, ...], bool]:
        """Return the cheapest victims, one of them of the priority `level`, and whether all cheaper sets were tried."""
        best = victims
        costs = [priority_cost(pod) for pod in pods]
        for count in range(1, len(pods) + 1):
            least = costs[-1] + sum(costs[: count - 1])
            if best and (level, least, count) > victims_cost(best)[:3]:
                break
            for chosen in combinations(pods, count):
                self._sets += 1
                if self._sets > MAX_SETS or self._admissions.computed > MAX_ADMISSIONS:
                    return best, False
                if chosen[-1].priority == level and self._is_better(chosen, best):
                    best = chosen
        return best, True

    def _is_better(self, chosen: tuple[RunningPod, ...], best: tuple[RunningPod, ...]) -> bool:
        return (
            (not best or victims_cost(chosen) < victims_cost(best))
            and self._keeps_budgets(chosen)
            and self._bound.may_suffice(chosen)
            and self._admissions.admitted(chosen)
        )


class _CpuBound:
    """A quick test that rules out victims that free too few CPUs.

    Enough CPUs must be free on the node and, under single-numa-node, in one zone for the largest container.
    """

    def __init__(self, node: OccupiedNode, preemptor: Preemptor) -> None:
        kind, shape = node.state.kind, preemptor.shape
        counts = [guaranteed_cpus(shape, container, kind.policies) for container in shape.containers]
        self._largest = max(counts, default=0)
        self._free = node.state.free_cpus
        for holdings in node.leaving:
            self._free |= holdings.cpus
        for pod in node.pods:
            if pod.terminating and pod.holdings is not None:
                self._free |= pod.holdings.cpus
        single = kind.policies.topology == "single-numa-node"
        self._domains = [bits for _, bits in kind.cpus.zones] if single else [kind.cpus.cpus]

    def may_suffice(self, victims: Sequence[RunningPod]) -> bool:
        """Return whether the victims may suffice."""
        free = self._free
        for pod in victims:
            free |= pod.holdings.cpus if pod.holdings is not None else 0
        return not self._largest or any((free & domain).bit_count() >= self._largest for domain in self._domains)
