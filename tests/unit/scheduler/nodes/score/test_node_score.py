"""zonewise's score: fragmentation, closeness and whole core groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings

from support.any_nodes import GPU, NIC, TYPES, UNIT, clusters, cpu_topology, pods
from zonewise_scheduler.admission.node import DeviceClass, NodeKind, NodeState, Policies
from zonewise_scheduler.admission.pod import Container, PodShape
from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable
from zonewise_scheduler.nodes.score.fragmentation import PendingShape
from zonewise_scheduler.nodes.score.node_score import ScoreWeights, score

if TYPE_CHECKING:
    from collections.abc import Iterable

FRAGMENTATION, CLOSENESS, GROUPS = ScoreWeights(1, 0, 0), ScoreWeights(0, 1, 0), ScoreWeights(0, 0, 1)


def _kind(topology: str = "single-numa-node") -> NodeKind:
    """Return a kind with two zones of 8 CPUs, each with 4 cores of two threads in two L3 groups of two cores."""
    return NodeKind(
        Policies(topology=topology, cpu="static"),
        (0, 1),
        ((10, 21), (21, 10)),
        cpu_topology((0, 1), 4, 2, 1, 0),
        TYPES,
        ((0, 9 * UNIT),) * 2,
        tuple(sorted(DeviceClass(name, 1 << zone, 4, 4) for name in (GPU, NIC) for zone in (0, 1))),
    )


def _state(free: tuple[int, int], gpus: tuple[int, int] = (4, 4), topology: str = "single-numa-node") -> NodeState:
    """Return a node on which the highest CPUs of each zone are free, in whole cores first."""
    kind = _kind(topology)
    bits = 0
    for (zone, zone_cpus), count in zip(kind.cpus.zones, free, strict=True):
        cores = [core for _, core in kind.cpus.cores if core & zone_cpus]
        cpu_bits = [1 << cpu for core in reversed(cores) for cpu in range(core.bit_length()) if core >> cpu & 1]
        bits |= sum(cpu_bits[:count])
        assert zone in (0, 1)
    return NodeState(kind, bits, kind.allocatable, (1, 2), 0, (*gpus, 4, 4))


def _pod(cpus: int, gpus: int = 0) -> PodShape:
    devices = ((GPU, gpus),) if gpus else ()
    return PodShape((Container("a", "app", cpus * 1000, (("memory", UNIT),), devices),), "Guaranteed")


def _scores(
    states: Iterable[NodeState], pod: PodShape, pending: tuple[PendingShape, ...], weights: ScoreWeights
) -> list[int]:
    table = NodeStateTable()
    table.set_rows(dict(enumerate(states)))
    return score(table, pod, pending, weights).tolist()


def test_pending_pods_keep_their_placements() -> None:
    """With pending pods of 6 CPUs, a pod of 2 CPUs should use a zone with 4 free CPUs rather than one with 6."""
    pending = (PendingShape(_pod(6), 10),)
    assert _scores([_state((4, 8)), _state((6, 8)), _state((8, 8))], _pod(2), pending, FRAGMENTATION) == [97, 5, 92]


def test_the_fuller_zone_decides_if_pending_pods_lose_nothing() -> None:
    """The containers of the pending pods may be in different zones, so no zone by itself shows a loss."""
    halves = Container("a", "app", 6_000, (("memory", UNIT),))
    pending = (PendingShape(PodShape((halves, halves._replace(name="b")), "Guaranteed"), 10),)
    fuller, emptier = _scores([_state((4, 8)), _state((6, 8))], _pod(2), pending, FRAGMENTATION)
    assert fuller > emptier


def test_pending_shapes_are_weighted_by_pod_count() -> None:
    pending = (PendingShape(_pod(6), 3), PendingShape(_pod(1), 1))
    lost_both, lost_large = _scores([_state((6, 0)), _state((4, 0))], _pod(2), pending, FRAGMENTATION)
    assert (lost_both, lost_large) == (5, 75)


def test_pending_requests_that_exceed_64_bits() -> None:
    """Such pods have no placement to lose, so they do not change scores."""
    huge = Container("a", "app", 1000 << 62, (("memory", 6 << 60),))
    pending = PendingShape(PodShape((huge, huge._replace(name="b")), "Guaranteed"), 1)
    states = [_state((4, 8), topology="none"), _state((8, 8), topology="none")]
    assert _scores(states, _pod(2), (pending,), FRAGMENTATION) == [90, 90]


def test_without_pending_pods_zones_in_use_are_filled() -> None:
    fuller, emptier = _scores([_state((4, 8)), _state((8, 8))], _pod(2), (), FRAGMENTATION)
    assert fuller > emptier


def test_one_zone_is_best() -> None:
    """Policies that require one zone score 100, as does best-effort if one zone suffices; policy none uses no zone."""
    states = [
        _state((8, 8)),
        _state((8, 2), (0, 4), "best-effort"),
        _state((8, 8), (0, 4), "best-effort"),
        _state((8, 8), topology="none"),
    ]
    assert _scores(states, _pod(4, 2), (), CLOSENESS) == [100, 50, 100, 50]


def test_l3_groups_remain_whole() -> None:
    """On one node 2 CPUs fit into a half-allocated group of 4; on the other they would break a whole group."""
    beside, apart = _scores([_state((2, 0)), _state((4, 0))], _pod(2), (), GROUPS)
    assert beside > apart


def test_rejected_pod_and_pod_without_requests() -> None:
    states = [_state((1, 1)), _state((8, 8))]
    assert _scores(states, _pod(2), (), FRAGMENTATION)[0] == 0
    idle = PodShape((Container("a", "app"),), "BestEffort")
    assert _scores(states, idle, (), ScoreWeights()) == [100, 100]


@settings(max_examples=50)
@given(clusters(), pods(), pods(simple=True))
def test_bounds(cluster: list[NodeState], pod: PodShape, other_pod: PodShape) -> None:
    """Scores are between 0 and 100 for any pod and node, and 0 if the pod is surely rejected."""
    table = NodeStateTable()
    table.set_rows(dict(enumerate(cluster)))
    for pending in ((), (PendingShape(other_pod, 3), PendingShape(pod, 1))):
        scores = score(table, pod, pending)
        assert ((scores >= 0) & (scores <= 100)).all()
        assert not scores[table.fits(pod) == 0].any()
