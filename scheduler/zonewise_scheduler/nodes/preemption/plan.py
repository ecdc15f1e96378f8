"""The node and the victims for one preemptor, over many nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.nodes.preemption.cost import cheapest
from zonewise_scheduler.nodes.preemption.victims import select_victims

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.nodes.preemption.types import Budgets, OccupiedNode, Preemptor, Victims

MAX_CANDIDATES = 100
"""Maximum number of nodes with victims from which the cheapest are chosen (minCandidateNodesAbsolute of
default_preemption.go)."""


class PreemptionPlan(NamedTuple):
    """The decision for a preemptor."""

    victims: Victims | None = None
    """The victims; None if no preemption helps, or none is needed."""
    waiting_for: str = ""
    """A node that will admit the preemptor once the node's terminating pods have ended; empty if there is none."""


def plan_preemption(nodes: Iterable[OccupiedNode], preemptor: Preemptor, budgets: Budgets) -> PreemptionPlan:
    """Return the cheapest victims on any node.

    Nodes should be in ascending order of the lowest priority of their pods. Victims of a higher priority than the best
    ones so far are not considered.
    """
    candidates: list[Victims] = []
    highest = float("inf")
    for node in nodes:
        victims = select_victims(node, preemptor, budgets, at_most=highest)
        if victims is None:
            continue
        if not victims.pods:
            return PreemptionPlan(waiting_for=node.name)
        candidates.append(victims)
        highest = min(highest, victims.pods[0].priority)
        if len(candidates) >= MAX_CANDIDATES:
            break
    return PreemptionPlan(cheapest(candidates))
