"""The orders in which pods may arrive at a kubelet, and the node states that result.

A kubelet may see pods in a different order than they were assumed in, and may never see some of them. It gives each pod
the best zones at that moment. So a prediction holds only if every order admits every pod.

1. An order in which some pods never arrive is a prefix of an order in which all arrive.
2. Pods of equal shape are interchangeable.
3. Orders that lead to equal states have equal continuations.

So it is enough to store, for each set of pods, the states to which it may lead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.nodes.assumed.types import Admit

ShapeIndices = tuple[int, ...]
"""Pods that have arrived, as ascending indices of their shapes in ArrivalOrders.shapes."""

MAX_STATES = 65
"""The number of prefixes of the 24 orders of four different pods. One more state per pod is allowed."""


class ArrivalOrders(NamedTuple):
    """The states to which the assumed pods may lead."""

    shapes: tuple[PodShape, ...]
    """Distinct shapes of the pods."""
    pods: ShapeIndices
    """All assumed pods."""
    reachable: Mapping[ShapeIndices, tuple[NodeState, ...]]
    """States after each set of pods has arrived; sets with fewer pods come first."""


def initial_orders(states: tuple[NodeState, ...]) -> ArrivalOrders:
    """Return the orders without any pods, from the possible states of the node."""
    return ArrivalOrders((), (), {(): states})


def extend_orders(orders: ArrivalOrders, shape: PodShape, admit: Admit) -> ArrivalOrders | str:
    """Return the orders with one more pod, at any position among the others.

    Return a message instead if one of the orders rejects a pod, or if there are too many orders.
    """
    shapes = orders.shapes if shape in orders.shapes else (*orders.shapes, shape)
    index = shapes.index(shape)
    pods = tuple(sorted((*orders.pods, index)))
    reachable = dict(orders.reachable)
    states_left = MAX_STATES + len(pods) - sum(map(len, reachable.values()))
    equal = orders.pods.count(index)
    for subset in orders.reachable:
        if subset.count(index) < equal:
            continue
        subset_with_pod = tuple(sorted((*subset, index)))
        states = _states_after(subset_with_pod, shapes, reachable, admit)
        if states is None:
            return "one of the node's assumed pods would be rejected in another order of arrival"
        states_left -= len(states)
        if states_left < 0:
            return f"the node's {len(pods)} assumed pods may arrive in too many orders"
        reachable[subset_with_pod] = states
    return ArrivalOrders(shapes, pods, reachable)


def _states_after(
    pods: ShapeIndices,
    shapes: tuple[PodShape, ...],
    reachable: Mapping[ShapeIndices, tuple[NodeState, ...]],
    admit: Admit,
) -> tuple[NodeState, ...] | None:
    """Return the states after all the pods, for each choice of the last pod, or None if a pod may be rejected."""
    states: dict[NodeState, None] = {}
    for last in dict.fromkeys(pods):
        position = pods.index(last)
        for state in reachable[pods[:position] + pods[position + 1 :]]:
            after = admit(state, shapes[last]).after
            if after is None:
                return None
            states[after] = None
    return tuple(states)
