"""The victims on one node, compared with a search over all sets of pods."""

from __future__ import annotations

from itertools import chain, combinations
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from support.any_nodes import UNIT, cpu_topology, pods
from support.occupied_nodes import BUDGETS, occupied_nodes, place
from zonewise_common.nrt.holdings import Holdings
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.node import NodeKind, Policies, Resource
from zonewise_scheduler.admission.pod import Container, PodShape
from zonewise_scheduler.nodes.node.node_info import NodeInfo
from zonewise_scheduler.nodes.preemption.admissions import Admissions
from zonewise_scheduler.nodes.preemption.cost import victims_cost
from zonewise_scheduler.nodes.preemption.types import Preemptor, RunningPod, Victims
from zonewise_scheduler.nodes.preemption.victims import eligible_victims, select_victims

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.nodes.preemption.types import OccupiedNode


def respects_budgets(victims: tuple[RunningPod, ...]) -> bool:
    used = [budget for pod in victims for budget in pod.budgets]
    return all(used.count(budget) <= allowed for budget, allowed in BUDGETS.items())


def sufficient_sets(node: OccupiedNode, preemptor: Preemptor) -> Iterator[tuple[RunningPod, ...]]:
    """Yield every set of victims that respects the budgets and makes the preemptor fit."""
    eligible = eligible_victims(node, preemptor, BUDGETS)
    admissions = Admissions(node, preemptor.shape)
    sets = chain.from_iterable(combinations(eligible, count) for count in range(len(eligible) + 1))
    return (victims for victims in sets if respects_budgets(victims) and admissions.admitted(victims))


def preemptor_of(shape: PodShape, priority: int = 10) -> Preemptor:
    return Preemptor("u", "ns", "preemptor", shape, priority)


@settings(max_examples=100)
@given(occupied_nodes(), pods(), st.sampled_from([0, 5, 10, 2000]))
def test_the_cheapest_set(node: OccupiedNode, shape: PodShape, priority: int) -> None:
    """No sufficient set of pods is cheaper than the victims; without a sufficient set there are none."""
    preemptor = preemptor_of(shape, priority)
    victims = select_victims(node, preemptor, BUDGETS)
    costs = [victims_cost(each) for each in sufficient_sets(node, preemptor)]
    assert (victims is None) == (not costs)
    if victims is not None:
        assert victims.optimal
        assert victims_cost(victims.pods) == min(costs)


@settings(max_examples=60)
@given(occupied_nodes(topologies=("none", "best-effort", "restricted", "single-numa-node"), most=12), pods())
def test_sound_and_minimal(node: OccupiedNode, shape: PodShape) -> None:
    """Under every policy, victims are eligible, within the budgets, sufficient, and all needed."""
    preemptor = preemptor_of(shape)
    victims = select_victims(node, preemptor, BUDGETS)
    if victims is None:
        return
    admissions = Admissions(node, shape)
    assert set(victims.pods) <= set(eligible_victims(node, preemptor, BUDGETS))
    assert respects_budgets(victims.pods)
    assert admissions.admitted(victims.pods)
    for pod in victims.pods:
        assert pod.priority < preemptor.priority
        assert not admissions.admitted([each for each in victims.pods if each is not pod])


# --- examples

TWO_ZONES = NodeKind(
    Policies("single-numa-node", cpu="static"), (0, 1), ((10, 20), (20, 10)), cpu_topology((0, 1), 8, 1, 1, 0)
)


def cpu_pod(cpus: int) -> PodShape:
    return PodShape((Container("c", "app", 1000 * cpus, (("memory", UNIT),)),), "Guaranteed")


def names(victims: Victims | None) -> set[str]:
    assert victims is not None
    return {pod.name for pod in victims.pods}


def test_fragmented_zones() -> None:
    """Six CPUs are free, three in each zone. Of two equal pods, the one that started last is the victim."""
    node = place(TWO_ZONES, [cpu_pod(5), cpu_pod(5)], [0, 0])
    assert admit(node.state, cpu_pod(5)).reason == "TopologyAffinityError"
    assert names(select_victims(node, preemptor_of(cpu_pod(5)), {})) == {"p1"}


def test_low_priorities_matter_more_than_few_victims() -> None:
    """Two pods of priority 0 end rather than one of priority 5. At equal priorities, one ends rather than two."""
    shapes = [cpu_pod(8), cpu_pod(4), cpu_pod(4)]
    assert names(select_victims(place(TWO_ZONES, shapes, [5, 0, 0]), preemptor_of(cpu_pod(8)), {})) == {"p1", "p2"}
    assert names(select_victims(place(TWO_ZONES, shapes, [5, 5, 5]), preemptor_of(cpu_pod(8)), {})) == {"p0"}
    assert names(select_victims(place(TWO_ZONES, shapes, [5, 0, 5]), preemptor_of(cpu_pod(4)), {})) == {"p1"}


def test_equal_or_higher_priority_is_not_preempted() -> None:
    node = place(TWO_ZONES, [cpu_pod(8), cpu_pod(8)], [10, 11])
    assert select_victims(node, preemptor_of(cpu_pod(4)), {}) is None


def test_terminating_pods_count() -> None:
    """If terminating pods suffice, nothing is preempted; their priority does not matter."""
    node = place(TWO_ZONES, [cpu_pod(8), cpu_pod(8)], [99, 0])
    ending = tuple(pod._replace(terminating=pod.name == "p0") for pod in node.pods)
    assert select_victims(node._replace(pods=ending), preemptor_of(cpu_pod(8)), {}) == Victims("n", ())


def test_budgets() -> None:
    """A pod of an exhausted budget is spared, even if pods of a higher priority must end instead."""
    node = place(TWO_ZONES, [cpu_pod(8), cpu_pod(8)], [0, 5])
    budgeted = tuple(pod._replace(budgets=("ns/b",) if pod.name == "p0" else ()) for pod in node.pods)
    node = node._replace(pods=budgeted)
    assert names(select_victims(node, preemptor_of(cpu_pod(8)), {"ns/b": 0})) == {"p1"}
    assert names(select_victims(node, preemptor_of(cpu_pod(8)), {"ns/b": 1})) == {"p0"}


def test_unknown_holdings() -> None:
    """A pod with unknown holdings is never a victim."""
    node = place(TWO_ZONES, [cpu_pod(8), cpu_pod(8)], [0, 5])
    unknown = tuple(pod._replace(holdings=None if pod.name == "p0" else pod.holdings) for pod in node.pods)
    assert names(select_victims(node._replace(pods=unknown), preemptor_of(cpu_pod(8)), {})) == {"p1"}


def test_a_full_node() -> None:
    """Pods without exclusive resources are victims only if the node as a whole is full."""
    shared = PodShape((Container("c", "app", 2000, (("memory", UNIT),)),), "Burstable")
    node = place(TWO_ZONES, [shared, shared, cpu_pod(4)], [0, 0, 0])
    assert node.pods[0].holdings == Holdings()
    full = node._replace(info=NodeInfo("n", allocatable=Resource(1000, 100 * UNIT, 10, 0)))
    victims = select_victims(full, preemptor_of(cpu_pod(3)), {})
    assert victims is not None
    assert len(victims.pods) == 1
    roomy = node._replace(info=NodeInfo("n", allocatable=Resource(9000, 100 * UNIT, 10, 0)))
    assert select_victims(roomy, preemptor_of(cpu_pod(3)), {}) == Victims("n", ())


def test_many_pods() -> None:
    """With 110 pods the search stops at its limit, but no victim can be spared."""
    wide = NodeKind(TWO_ZONES.policies, (0, 1), TWO_ZONES.distances, cpu_topology((0, 1), 55, 1, 1, 0))
    node = place(wide, [cpu_pod(1)] * 110, [index % 7 for index in range(110)])
    victims = select_victims(node, preemptor_of(cpu_pod(20)), {})
    assert victims is not None
    assert len(victims.pods) == 20
    admissions = Admissions(node, cpu_pod(20))
    assert not any(admissions.admitted([each for each in victims.pods if each is not pod]) for pod in victims.pods)


def test_an_extended_resource_that_the_node_lacks() -> None:
    """The kubelet does not count it, so victims are found as for the pod without it."""
    node = place(TWO_ZONES, [cpu_pod(8), cpu_pod(8)], [0, 5])._replace(
        info=NodeInfo("n", allocatable=Resource(0, 100 * UNIT, 10, 0))
    )
    [container] = cpu_pod(8).containers
    shape = cpu_pod(8)._replace(containers=(container._replace(devices=(("example.com/gpu", 1),)),))
    assert names(select_victims(node, preemptor_of(shape), {})) == {"p0"}
    gpu = (("example.com/gpu", 1),)
    full = Resource(0, 0, 0, 0, gpu)
    offering = node._replace(info=NodeInfo("n", allocatable=Resource(0, 100 * UNIT, 10, 0, gpu), requested=full))
    assert select_victims(offering, preemptor_of(shape), {}) is None


def test_a_victim_that_is_being_resized() -> None:
    """Its end frees what counts as its requests on the node, which may differ from its shape."""
    shared = PodShape((Container("c", "app", 2000, (("memory", UNIT),)),), "Burstable")
    node = place(TWO_ZONES, [shared, shared], [0, 5])._replace(
        info=NodeInfo("n", allocatable=Resource(1000, 100 * UNIT, 10, 0))
    )
    small = node.pods[0].requests._replace(milli_cpus=500)
    resized = node._replace(pods=(node.pods[0]._replace(requests=small), node.pods[1]))
    assert names(select_victims(node, preemptor_of(cpu_pod(3)), {})) == {"p0"}
    assert names(select_victims(resized, preemptor_of(cpu_pod(3)), {})) == {"p1"}
