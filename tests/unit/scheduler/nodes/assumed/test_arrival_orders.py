"""Orders of arrival, compared with all permutations."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from support.ledger_kubelets import SINGLE, node_kind, pod_shape
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
    idle_node(node_kind(SINGLE)),
    idle_node(node_kind(SINGLE, zones=3, cpus=5, gpus=1)),
    idle_node(node_kind(SINGLE))._replace(free_cpus=0b11111111_00111111, device_free=(2, 0)),
    idle_node(node_kind(SINGLE, gib=5)),
    idle_node(node_kind(Policies(topology="restricted", cpu="static"), zones=3, cpus=4)),
    idle_node(node_kind(Policies(topology="best-effort", cpu="static"), cpus=5)),
]


def shapes() -> st.SearchStrategy[PodShape]:
    counts = st.tuples(st.integers(1, 7), st.integers(0, 2))
    return st.builds(pod_shape, counts, gib=st.integers(1, 4)) | st.builds(pod_shape, counts, counts)


def outcomes(state: NodeState, pods: Sequence[PodShape]) -> set[NodeState | None]:
    """Return the state after each order; None if a pod is rejected in it."""
    states: set[NodeState | None] = set()
    for order in permutations(pods):
        current: NodeState | None = state
        for shape in order:
            current = current and admit(current, shape).after
        states.add(current)
    return states


@given(st.sampled_from(STATES), st.lists(shapes(), min_size=1, max_size=5))
def test_all_orders_and_no_others(state: NodeState, pods: list[PodShape]) -> None:
    """A pod is assumed if and only if every order admits all pods. The state is that of the order of assumption."""
    assumed_state = AssumedState.from_shapes(state, (), admit)
    for shape in pods:
        verdict, after = assumed_state.assume(shape, admit)
        states = outcomes(state, (*assumed_state.shapes, shape))
        assert assumed_state.state is not None
        direct = admit(assumed_state.state, shape)
        if verdict.admitted:
            assert None not in states
            assert verdict == direct
            assert after.state == verdict.after
            assert after.state in states
        else:
            assert after is assumed_state
            assert verdict.reason == BLOCKED_BY_ASSUMED or verdict == direct
            assert None in states or "too many orders" in verdict.message
        assumed_state = after


@given(st.sampled_from(STATES), st.lists(shapes(), min_size=1, max_size=4))
def test_pods_assumed_before(state: NodeState, pods: list[PodShape]) -> None:
    """If the orders of earlier pods are computed only on demand, the verdict is the same."""
    assumed_state = AssumedState.from_shapes(state, pods[:-1], admit)
    verdict, _ = assumed_state.assume(pods[-1], admit)
    assert verdict.admitted == (None not in outcomes(state, pods))
    assert assumed_state.assume(pods[-1], admit)[0] == verdict, "a repeated call returns the same"


@given(st.sampled_from(STATES), st.lists(shapes(), min_size=1, max_size=4))
def test_states_after_all_pods(state: NodeState, pods: list[PodShape]) -> None:
    orders = initial_orders((state,))
    for shape in pods:
        extended = extend_orders(orders, shape, admit)
        if isinstance(extended, str):
            return
        orders = extended
    assert set(orders.reachable[orders.pods]) == outcomes(state, pods)
