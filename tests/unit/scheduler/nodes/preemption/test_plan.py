"""The cheapest victims over several nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from support.any_nodes import UNIT, cpu_topology, pods
from support.occupied_nodes import BUDGETS, occupied_nodes, place
from zonewise_scheduler.admission.node import NodeKind, Policies
from zonewise_scheduler.admission.pod import Container, PodShape
from zonewise_scheduler.nodes.preemption.cost import by_importance, victims_cost
from zonewise_scheduler.nodes.preemption.plan import PreemptionPlan, plan_preemption
from zonewise_scheduler.nodes.preemption.types import Preemptor
from zonewise_scheduler.nodes.preemption.victims import select_victims

if TYPE_CHECKING:
    from zonewise_scheduler.nodes.preemption.types import OccupiedNode

KIND = NodeKind(
    Policies("single-numa-node", cpu="static"), (0, 1), ((10, 20), (20, 10)), cpu_topology((0, 1), 8, 1, 1, 0)
)


def cpu_pod(cpus: int) -> PodShape:
    return PodShape((Container("c", "app", 1000 * cpus, (("memory", UNIT),)),), "Guaranteed")


def node_of(name: str, cpus: tuple[int, ...], priorities: tuple[int, ...]) -> OccupiedNode:
    return place(KIND, [cpu_pod(count) for count in cpus], priorities)._replace(name=name)


def preemptor_of(shape: PodShape) -> Preemptor:
    return Preemptor("u", "ns", "preemptor", shape, 10)


def chosen(*nodes: OccupiedNode, shape: PodShape | None = None) -> PreemptionPlan:
    return plan_preemption(nodes, preemptor_of(shape or cpu_pod(8)), {})


def test_the_criteria_in_their_order() -> None:
    """The order is: the lowest highest priority, then the smallest sum, then the fewest, then the latest start."""
    high = node_of("high", (8, 8), (5, 6))
    low = node_of("low", (4, 4, 8), (1, 2, 9))
    assert chosen(high, low).victims is not None
    assert chosen(high, low).victims == select_victims(low, preemptor_of(cpu_pod(8)), {})
    one, two = node_of("one", (8, 8), (2, 9)), node_of("two", (4, 4, 8), (2, 2, 9))
    assert chosen(two, one).victims == select_victims(one, preemptor_of(cpu_pod(8)), {})
    late = one._replace(name="late", pods=tuple(pod._replace(started=pod.started + 50) for pod in one.pods))
    assert chosen(one, late).victims == select_victims(late, preemptor_of(cpu_pod(8)), {})


def test_capacity_that_terminating_pods_free() -> None:
    """If a node admits the pod after pods that are already terminating, nothing is preempted."""
    node = node_of("n", (8, 8), (0, 0))
    ending = node._replace(name="e", pods=tuple(pod._replace(terminating=pod.name == "p0") for pod in node.pods))
    assert chosen(node, ending) == PreemptionPlan(waiting_for="e")


def test_capacity_of_nominated_pods() -> None:
    """A nominated pod uses the capacity of the pods that end for it, so the preemptor needs further victims."""
    node = node_of("n", (8, 8), (0, 0))
    ending = node._replace(pods=tuple(pod._replace(terminating=pod.name == "p0") for pod in node.pods))
    victims = chosen(ending._replace(nominated=(cpu_pod(8),))).victims
    assert victims is not None
    assert [pod.name for pod in victims.pods] == ["p1"]
    assert chosen(ending._replace(nominated=(cpu_pod(8), cpu_pod(1)))) == PreemptionPlan()


def test_no_victims() -> None:
    assert chosen() == PreemptionPlan()
    assert chosen(node_of("n", (8, 8), (10, 10))) == PreemptionPlan()


@settings(max_examples=50)
@given(st.lists(occupied_nodes(most=4), max_size=3), pods())
def test_no_node_is_cheaper(nodes: list[OccupiedNode], shape: PodShape) -> None:
    """No node has cheaper victims, regardless of the order of the nodes."""
    preemptor = preemptor_of(shape)
    each = [victims for node in nodes if (victims := select_victims(node, preemptor, BUDGETS)) is not None]
    for ordered in (nodes, nodes[::-1]):
        plan = plan_preemption(ordered, preemptor, BUDGETS)
        if any(not victims.pods for victims in each):
            assert plan.waiting_for
            assert plan.victims is None
        elif each:
            assert plan.victims is not None
            assert victims_cost(plan.victims.pods) == min(victims_cost(victims.pods) for victims in each)
            assert plan.victims.pods == by_importance(plan.victims.pods)
        else:
            assert plan == PreemptionPlan()
