"""A node with its assumed pods."""

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
    """Assumed pods on top of a report, in their order.

    `base` is the node before these pods: according to its report, or after ends that the report lacks. `state` is the
    node with all the pods, or None if one of them is rejected.
    """

    __slots__ = ("_bases", "_orders", "base", "shapes", "state")

    def __init__(
        self,
        bases: tuple[NodeState, ...],
        shapes: tuple[PodShape, ...],
        state: NodeState | None,
        orders: ArrivalOrders | str | None,
    ) -> None:
        self._bases = bases
        self.base = bases[0]
        self.shapes = shapes
        self.state = state
        self._orders = orders

    @classmethod
    def from_shapes(cls, base: NodeState, shapes: Sequence[PodShape], admit: Admit) -> AssumedState:
        """Add pods one by one; other orders of arrival are computed on demand."""
        return cls.from_bases((base,), shapes, admit)

    @classmethod
    def from_bases(cls, bases: tuple[NodeState, ...], shapes: Sequence[PodShape], admit: Admit) -> AssumedState:
        """Add pods to a node of several possible states, the likeliest first."""
        state: NodeState | None = bases[0]
        for shape in shapes:
            if state is None:
                break
            state = admit(state, shape).after
        return cls(bases, tuple(shapes), state, None if shapes else initial_orders(bases))

    def assume(self, shape: PodShape, admit: Admit) -> tuple[Verdict, AssumedState]:
        """Return the verdict on one more pod and the state with it; the state is unchanged if the pod is rejected.

        The reason is BLOCKED_BY_ASSUMED if the pod fits, but not in every order of arrival.
        """
        current = self.state
        if current is None:
            return _blocked("an assumed pod no longer fits by the node's last report"), self
        verdict = admit(current, shape)
        if not verdict.admitted:
            return verdict, self

        def admit_cached(state: NodeState, pod: PodShape) -> Verdict:
            return verdict if pod == shape and state == current else admit(state, pod)

        orders_before = self._all_orders(admit)
        orders = orders_before if isinstance(orders_before, str) else extend_orders(orders_before, shape, admit_cached)
        if isinstance(orders, str):
            return _blocked(orders), self
        return verdict, AssumedState(self._bases, (*self.shapes, shape), verdict.after, orders)

    def final_states(self, admit: Admit) -> tuple[NodeState, ...]:
        """Return the states to which the pods lead in all orders of arrival; none if one of them is rejected.

        Without pods, this is the report's state.
        """
        orders = self._all_orders(admit)
        return () if isinstance(orders, str) else orders.reachable[orders.pods]

    def _all_orders(self, admit: Admit) -> ArrivalOrders | str:
        if self._orders is None:
            orders: ArrivalOrders | str = initial_orders(self._bases)
            for shape in self.shapes:
                orders = orders if isinstance(orders, str) else extend_orders(orders, shape, admit)
            self._orders = orders
        return self._orders


def exhausted(state: NodeState) -> NodeState:
    """Return a node with nothing free, which is the state if the assumed pods no longer fit."""
    return state._replace(
        free_cpus=0,
        memory_free=tuple((0,) * len(zone) for zone in state.memory_free),
        device_free=(0,) * len(state.device_free),
    )


def _blocked(message: str) -> Verdict:
    return Verdict(admitted=False, reason=BLOCKED_BY_ASSUMED, message=message)
