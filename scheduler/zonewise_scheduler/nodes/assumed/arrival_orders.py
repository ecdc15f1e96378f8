"""The orders in which pods may arrive at a kubelet, and every state that they may bring its node to.

A kubelet may see pods in another order than that in which they were promised, may never see some of them, and gives
each the zones that are best at that moment. So a promise holds only if in every order every pod is admitted; those in
which some never come are the beginnings of the others. Pods of equal shape are interchangeable, and orders that lead to
one state are followed on once: what is kept is the states that each set of the pods leads to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.nodes.assumed.types import Admit

ShapeIndices = tuple[int, ...]
"""Pods that have arrived: the places of their shapes in Orders.shapes, ascending."""

MAX_STATES = 65
"""The 24 orders of four different pods have so many beginnings. More than these and one for each pod are too many."""


class ArrivalOrders(NamedTuple):
    """What the pods in flight may lead to."""

    shapes: tuple[PodShape, ...]
    """Different ones."""
    pods: ShapeIndices
    """All of them."""
    reachable: Mapping[ShapeIndices, tuple[NodeState, ...]]
    """The states with some of the pods; these come after those with fewer of them."""


def initial_orders(state: NodeState) -> ArrivalOrders:
    """Return what nothing leads to."""
    return ArrivalOrders((), (), {(): (state,)})


def extend_orders(orders: ArrivalOrders, shape: PodShape, admit: Admit) -> ArrivalOrders | str:
    """Return the orders with one more pod, which may come before, between and after the others.

    Where a pod is refused in one of them, or they are too many to tell, return a sentence that says so.
    """
    shapes = orders.shapes if shape in orders.shapes else (*orders.shapes, shape)
    place = shapes.index(shape)
    pods = tuple(sorted((*orders.pods, place)))
    reached = dict(orders.reachable)
    room = MAX_STATES + len(pods) - sum(map(len, reached.values()))
    equal = orders.pods.count(place)
    for before in orders.reachable:
        if before.count(place) < equal:
            continue
        load = tuple(sorted((*before, place)))
        states = _arrivals(load, shapes, reached, admit)
        if states is None:
            return (
                f"of the {len(pods)} pods on their way to the node one would be refused if they came in another order"
            )
        room -= len(states)
        if room < 0:
            return f"the {len(pods)} pods on their way to the node may come in too many orders"
        reached[load] = states
    return ArrivalOrders(shapes, pods, reached)


def _arrivals(
    load: ShapeIndices,
    shapes: tuple[PodShape, ...],
    reached: Mapping[ShapeIndices, tuple[NodeState, ...]],
    admit: Admit,
) -> tuple[NodeState, ...] | None:
    """Return the states that pods lead to, whichever comes last; None if one may be refused."""
    found: dict[NodeState, None] = {}
    for last in dict.fromkeys(load):
        at = load.index(last)
        for state in reached[load[:at] + load[at + 1 :]]:
            after = admit(state, shapes[last]).after
            if after is None:
                return None
            found[after] = None
    return tuple(found)
