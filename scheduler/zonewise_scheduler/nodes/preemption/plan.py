"""The node and the victims for one preemptor, over many nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.nodes.preemption.cost import cheapest
from zonewise_scheduler.nodes.preemption.victims import select_victims

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.nodes.preemption.types import Budgets, OccupiedNode, Preemptor, Victims

MAX_CANDIDATES = 100
"""Nodes with victims among which the cheapest are chosen (minCandidateNodesAbsolute of default_preemption.go)."""


class PreemptionPlan(NamedTuple):
    """What is to be done for a preemptor."""

    victims: Victims | None = None
    """None: no preemption helps, or none is needed."""
    waiting_for: str = ""
    """A node that will admit the preemptor once the pods have ended that end already; empty: there is none."""


def plan_preemption(nodes: Iterable[OccupiedNode], preemptor: Preemptor, budgets: Budgets) -> PreemptionPlan:
    """Return the cheapest victims on any node.

    Nodes should come in ascending order of the lowest priority of their pods. Victims of a higher priority than the
    best ones so far are not searched for.
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
