"""Pods that a kubelet may reject because other pods end before they arrive."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.ledger_kubelets import SINGLE, container, node_kind, pod_shape
from support.occupied_nodes import occupied_nodes, place
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.node import Policies
from zonewise_scheduler.admission.pod import PodShape
from zonewise_scheduler.nodes.preemption.pending_ends import is_admitted_throughout
from zonewise_scheduler.nodes.preemption.release import memory_zones, release

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.nodes.preemption.types import OccupiedNode, RunningPod

STAGED = PodShape((container("stage", 2)._replace(role="init"), container("main", 6)), "Guaranteed")
"""An init container of two CPUs, whose zone the main container of six CPUs must get."""
SHAPES = [STAGED, pod_shape((2, 0), (6, 0)), pod_shape((3, 1), (4, 0)), pod_shape((6, 0))]


def with_terminating(node: OccupiedNode, *uids: str) -> OccupiedNode:
    return node._replace(pods=tuple(pod._replace(terminating=pod.uid in uids) for pod in node.pods))


@pytest.mark.parametrize(
    ("policies", "uids", "expected"),
    [
        (SINGLE, (), True),
        (SINGLE, ("u0",), False),
        (SINGLE, ("u0", "u1"), False),
        (SINGLE._replace(scope="pod"), ("u0",), True),
        (Policies(topology="best-effort", cpu="static"), ("u0",), True),
    ],
)
def test_an_init_container_gets_a_zone_that_becomes_free(
    policies: Policies, uids: tuple[str, ...], expected: bool
) -> None:
    """Zone 0 is full. Once one of its two pods has ended, it has room for the init container only."""
    node = place(node_kind(policies, gpus=0), [pod_shape((4, 0)), pod_shape((4, 0))], [0, 0])
    assert is_admitted_throughout(with_terminating(node, *uids), STAGED) == expected


@given(occupied_nodes(most=4), st.sampled_from(SHAPES))
def test_each_moment_of_the_ends(node: OccupiedNode, shape: PodShape) -> None:
    """If the kubelet admits the pod now and the result is positive, it admits the pod after any ends."""
    if node.assumed or not admit(node.state, shape).admitted or not is_admitted_throughout(node, shape):
        return
    ending = [pod for pod in node.pods if pod.terminating and pod.holdings is not None]
    for size in range(len(ending) + 1) if len(ending) < 4 else ():
        for ended in combinations(ending, size):
            assert admit(_after(node, ended), shape).admitted


def _after(node: OccupiedNode, ended: tuple[RunningPod, ...]) -> NodeState:
    """Return the state after some pods have ended."""
    held = node.unattributed
    for pod in node.pods:
        held |= 0 if pod in ended else memory_zones(pod.holdings)
    return release(node.state, [pod.holdings for pod in ended if pod.holdings is not None], held)
