"""Nodes with pods whose holdings are known: the kubelet's rules have placed each pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from support.any_nodes import kinds, pods
from zonewise_common.nrt.holdings import Holdings
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.node import idle_node
from zonewise_scheduler.admission.predicate import compute_pod_resource_request
from zonewise_scheduler.nodes.preemption.types import OccupiedNode, RunningPod

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zonewise_scheduler.admission.node import NodeKind, NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.admission.verdict import ContainerAssignment

PRIORITIES = (-10, 0, 0, 0, 5, 5, 1000)
BUDGETS = {"ns/none": 0, "ns/one": 1, "ns/many": 9}


def holdings_of(assignments: Iterable[ContainerAssignment]) -> Holdings:
    """Return the holdings of a pod's containers."""
    cpus = 0
    amounts: dict[tuple[str, int], int] = {}
    for assignment in assignments:
        cpus |= assignment.cpus
        for block in assignment.memory:
            amounts[block.type, block.zones] = amounts.get((block.type, block.zones), 0) + block.size
        for device in assignment.devices:
            amounts[device.resource, device.zones] = amounts.get((device.resource, device.zones), 0) + device.number
    return Holdings(cpus, tuple(sorted((*key, amount) for key, amount in amounts.items())))


def place(
    kind: NodeKind, shapes: Sequence[PodShape], priorities: Sequence[int], base: NodeState | None = None
) -> OccupiedNode:
    """Return a node after these pods arrived one after another, without those that it rejected."""
    state = idle_node(kind) if base is None else base
    running: list[RunningPod] = []
    for index, (shape, priority) in enumerate(zip(shapes, priorities, strict=True)):
        verdict = admit(state, shape)
        if verdict.after is not None:
            state = verdict.after
            holdings = holdings_of(verdict.assignments)
            running.append(
                RunningPod(
                    f"u{index}", "ns", f"p{index}", shape, compute_pod_resource_request(shape), priority,
                    100.0 + index % 3, holdings,
                )
            )  # fmt: skip
    return OccupiedNode("n", state, state, (), tuple(running))


@st.composite
def occupied_nodes(draw: st.DrawFn, most: int = 7, topologies: Sequence[str] = ("single-numa-node",)) -> OccupiedNode:
    """Draw a node with up to `most` pods; some are terminating, static, or covered by a PodDisruptionBudget."""
    kind = draw(kinds(topologies))
    shapes = draw(st.lists(pods(simple=True), min_size=1, max_size=most))
    priorities = [draw(st.sampled_from(PRIORITIES)) for _ in shapes]
    node = place(kind, shapes, priorities)
    seldom = st.sampled_from([False] * 9 + [True])
    running = tuple(
        pod._replace(
            terminating=draw(seldom),
            static=draw(seldom),
            holdings=None if draw(seldom) else pod.holdings,
            budgets=tuple(draw(st.sets(st.sampled_from(sorted(BUDGETS)), max_size=1))) if draw(seldom) else (),
        )
        for pod in node.pods
    )
    assumed = draw(st.lists(pods(simple=True), max_size=1)) if draw(seldom) else []
    state = node.state
    for shape in assumed:
        state = admit(state, shape).after or state
    return node._replace(pods=running, assumed=tuple(assumed) if state != node.state else (), state=state)
