"""Victims for gangs: after they have ended, all members are admitted, and no victim could be spared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from support.any_nodes import pods
from support.occupied_nodes import BUDGETS, occupied_nodes
from zonewise_scheduler.nodes.preemption.admissions import Admissions
from zonewise_scheduler.nodes.preemption.gang_victims import select_gang_victims
from zonewise_scheduler.nodes.preemption.types import Preemptor

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.nodes.preemption.types import OccupiedNode


def without(node: OccupiedNode, uids: Collection[str]) -> OccupiedNode:
    return node._replace(pods=tuple(pod._replace(terminating=pod.terminating or pod.uid in uids) for pod in node.pods))


def admitted_one_by_one(nodes: Sequence[OccupiedNode], shape: PodShape, count: int) -> bool:
    """Fill node after node with equal pods; return whether all of them are admitted."""
    for node in nodes:
        come: tuple[PodShape, ...] = ()
        while count and Admissions(node._replace(nominated=come), shape).admitted(()):
            come += (shape,)
            count -= 1
    return not count


@settings(max_examples=60, deadline=None)
@given(st.lists(occupied_nodes(most=5), min_size=1, max_size=3), pods(), st.integers(1, 4), st.sampled_from([0, 5, 10]))
def test_all_are_admitted_and_no_victim_is_spared(
    drawn: list[OccupiedNode], shape: PodShape, count: int, priority: int
) -> None:
    """Victims have lower priorities and respect the budgets; all of them are needed, and together they suffice."""
    nodes = [
        node._replace(name=f"n{row}", pods=tuple(pod._replace(uid=f"{row}/{pod.uid}") for pod in node.pods))
        for row, node in enumerate(drawn)
    ]
    members = [Preemptor(f"m{number}", "ns", f"m{number}", shape, priority) for number in range(count)]
    outcome = select_gang_victims(nodes, members, BUDGETS)
    if outcome is None:
        return
    victims = [pod for each in outcome.victims for pod in each.pods]
    uids = {pod.uid for pod in victims}
    assert len(outcome.nodes) == count
    assert all(pod.priority < priority and not pod.static and not pod.terminating for pod in victims)
    used = [budget for pod in victims for budget in pod.budgets]
    assert all(used.count(budget) <= allowed for budget, allowed in BUDGETS.items())
    for node in nodes:
        here = without(node, uids)
        come = (shape,) * outcome.nodes.count(node.name)
        assert not come or Admissions(here._replace(nominated=come[1:]), shape).admitted(())
    for uid in uids:
        assert not admitted_one_by_one([without(node, uids - {uid}) for node in nodes], shape, count)


@settings(max_examples=40, deadline=None)
@given(occupied_nodes(most=5), pods(), st.integers(1, 3))
def test_no_victims_if_none_are_needed(node: OccupiedNode, shape: PodShape, count: int) -> None:
    """If the node admits all members, now or after pods that are already terminating, no pod is preempted."""
    members = [Preemptor(f"m{number}", "ns", f"m{number}", shape, 10) for number in range(count)]
    outcome = select_gang_victims([node], members, BUDGETS)
    if admitted_one_by_one([node], shape, count):
        assert outcome is not None
        assert outcome.victims == ()
