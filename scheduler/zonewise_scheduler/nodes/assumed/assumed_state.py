"""The pods in flight to one node, charged on top of its report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.admission.verdict import Verdict
from zonewise_scheduler.nodes.assumed.arrival_orders import ArrivalOrders, extend_orders, initial_orders
from zonewise_scheduler.nodes.assumed.types import BLOCKED_BY_ASSUMED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.nodes.assumed.types import Admit


class AssumedState:
    """Pods in flight, in the order in which they are charged.

    `base` is the node by its report, `state` the node with all of them; None where one of them is refused.
    """

    __slots__ = ("_orders", "base", "shapes", "state")

    def __init__(
        self, base: NodeState, shapes: tuple[PodShape, ...], state: NodeState | None, orders: ArrivalOrders | str | None
    ) -> None:
        self.base = base
        self.shapes = shapes
        self.state = state
        self._orders = orders

    @classmethod
    def from_shapes(cls, base: NodeState, shapes: Sequence[PodShape], admit: Admit) -> AssumedState:
        """Charge pods one by one; what other orders lead to is found once it is needed."""
        state: NodeState | None = base
        for shape in shapes:
            if state is None:
                break
            state = admit(state, shape).after
        return cls(base, tuple(shapes), state, None if shapes else initial_orders(base))

    def assume(self, shape: PodShape, admit: Admit) -> tuple[Verdict, AssumedState]:
        """Return what the kubelet will answer to one more pod, and the flight with it; as it is if it is refused.

        The reason is IN_FLIGHT where the pods in flight stand in the way: the pod fits, but not in every order.
        """
        now = self.state
        if now is None:
            return _in_the_way("a pod on its way to the node no longer fits by the node's last report"), self
        verdict = admit(now, shape)
        if not verdict.admitted:
            return verdict, self

        def answer(state: NodeState, pod: PodShape) -> Verdict:
            return verdict if pod == shape and state == now else admit(state, pod)

        before = self._every_order(admit)
        orders = before if isinstance(before, str) else extend_orders(before, shape, answer)
        if isinstance(orders, str):
            return _in_the_way(orders), self
        return verdict, AssumedState(self.base, (*self.shapes, shape), verdict.after, orders)

    def _every_order(self, admit: Admit) -> ArrivalOrders | str:
        if self._orders is None:
            orders: ArrivalOrders | str = initial_orders(self.base)
            for shape in self.shapes:
                orders = orders if isinstance(orders, str) else extend_orders(orders, shape, admit)
            self._orders = orders
        return self._orders


def exhausted(state: NodeState) -> NodeState:
    """Return a node as if nothing were left of it: what is told where the pods in flight no longer fit."""
    return state._replace(
        free_cpus=0,
        memory_free=tuple((0,) * len(zone) for zone in state.memory_free),
        device_free=(0,) * len(state.device_free),
    )


def _in_the_way(sentence: str) -> Verdict:
    return Verdict(admitted=False, reason=BLOCKED_BY_ASSUMED, message=sentence)
