"""Pods in flight in every order, against plain permutations."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from support.ledger_kubelets import SINGLE, kind_of, shape_of
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.node import Policies, idle_node
from zonewise_scheduler.nodes.assumed.arrival_orders import extend_orders, initial_orders
from zonewise_scheduler.nodes.assumed.assumed_state import AssumedState
from zonewise_scheduler.nodes.assumed.types import BLOCKED_BY_ASSUMED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape

STATES = [
    idle_node(kind_of(SINGLE)),
    idle_node(kind_of(SINGLE, zones=3, cpus=5, gpus=1)),
    idle_node(kind_of(SINGLE))._replace(free_cpus=0b11111111_00111111, device_free=(2, 0)),
    idle_node(kind_of(SINGLE, gib=5)),
    idle_node(kind_of(Policies(topology="restricted", cpu="static"), zones=3, cpus=4)),
    idle_node(kind_of(Policies(topology="best-effort", cpu="static"), cpus=5)),
]


def shapes() -> st.SearchStrategy[PodShape]:
    counts = st.tuples(st.integers(1, 7), st.integers(0, 2))
    return st.builds(shape_of, counts, gib=st.integers(1, 4)) | st.builds(shape_of, counts, counts)


def outcomes(state: NodeState, pods: Sequence[PodShape]) -> set[NodeState | None]:
    """The states after each order; None where one is refused."""
    found: set[NodeState | None] = set()
    for order in permutations(pods):
        now: NodeState | None = state
        for shape in order:
            now = now and admit(now, shape).after
        found.add(now)
    return found


@given(st.sampled_from(STATES), st.lists(shapes(), min_size=1, max_size=5))
def test_every_order_and_no_other(state: NodeState, wanted: list[PodShape]) -> None:
    """A flight takes a pod exactly if the kubelet admits all, in whatever order, and is as if they came in turn."""
    flight = AssumedState.from_shapes(state, (), admit)
    for shape in wanted:
        verdict, after = flight.assume(shape, admit)
        found = outcomes(state, (*flight.shapes, shape))
        assert flight.state is not None
        direct = admit(flight.state, shape)
        if verdict.admitted:
            assert None not in found
            assert verdict == direct
            assert after.state == verdict.after
            assert after.state in found
        else:
            assert after is flight
            assert verdict.reason == BLOCKED_BY_ASSUMED or verdict == direct
            assert None in found or "too many orders" in verdict.message
        flight = after


@given(st.sampled_from(STATES), st.lists(shapes(), min_size=1, max_size=4))
def test_pods_already_in_flight(state: NodeState, charged: list[PodShape]) -> None:
    """Of pods that others placed the orders are looked at once one more is wanted; the answer is the same."""
    flight = AssumedState.from_shapes(state, charged[:-1], admit)
    verdict, _ = flight.assume(charged[-1], admit)
    assert verdict.admitted == (None not in outcomes(state, charged))
    assert flight.assume(charged[-1], admit)[0] == verdict, "asked again it says the same"


@given(st.sampled_from(STATES), st.lists(shapes(), min_size=1, max_size=4))
def test_the_states_that_all_pods_lead_to(state: NodeState, pods: list[PodShape]) -> None:
    orders = initial_orders(state)
    for shape in pods:
        more = extend_orders(orders, shape, admit)
        if isinstance(more, str):
            return
        orders = more
    assert set(orders.reachable[orders.pods]) == outcomes(state, pods)
