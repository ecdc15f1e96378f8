"""The score of zonewise: what a pod leaves, how close its parts are, which cores stay whole."""

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

REMAINS, CLOSENESS, GROUPS = ScoreWeights(1, 0, 0), ScoreWeights(0, 1, 0), ScoreWeights(0, 0, 1)
ZONE = 8
"""CPUs of each of two zones: 4 cores of two threads, two L3 groups of two cores."""


def _kind(topology: str = "single-numa-node") -> NodeKind:
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
    """A node with the highest CPUs free of each zone, whole cores first."""
    kind = _kind(topology)
    bits = 0
    for (zone, held), count in zip(kind.cpus.zones, free, strict=True):
        cores = [core for _, core in kind.cpus.cores if core & held]
        each = [1 << cpu for core in reversed(cores) for cpu in range(core.bit_length()) if core >> cpu & 1]
        bits |= sum(each[:count])
        assert zone in (0, 1)
    return NodeState(kind, bits, kind.allocatable, (1, 2), 0, (*gpus, 4, 4))


def _pod(cpus: int, gpus: int = 0) -> PodShape:
    devices = ((GPU, gpus),) if gpus else ()
    return PodShape((Container("a", "app", cpus * 1000, (("memory", UNIT),), devices),), "Guaranteed")


def _scores(
    states: Iterable[NodeState], pod: PodShape, waiting: tuple[PendingShape, ...], weights: ScoreWeights
) -> list[int]:
    table = NodeStateTable()
    table.set_rows(dict(enumerate(states)))
    return score(table, pod, waiting, weights).tolist()


def test_a_pod_goes_where_those_that_wait_lose_no_place() -> None:
    """With pods of 6 CPUs waiting, 2 CPUs are better taken from a zone that has 4 free than from one that has 6."""
    waiting = (PendingShape(_pod(6), 10),)
    assert _scores([_state((4, 8)), _state((6, 8)), _state((8, 8))], _pod(2), waiting, REMAINS) == [100, 0, 100]


def test_shapes_that_wait_weigh_by_their_number() -> None:
    waiting = (PendingShape(_pod(6), 3), PendingShape(_pod(1), 1))
    lost_both, lost_one = _scores([_state((6, 0)), _state((4, 0))], _pod(2), waiting, REMAINS)
    assert (lost_both, lost_one) == (0, 75)


def test_with_none_waiting_a_pod_fills_up_zones_in_use() -> None:
    fuller, emptier = _scores([_state((4, 8)), _state((8, 8))], _pod(2), (), REMAINS)
    assert fuller > emptier


def test_all_from_one_zone_is_best() -> None:
    """Where the kubelet insists on one zone it is one; best-effort takes one where one has all; none is blind."""
    states = [
        _state((8, 8)),
        _state((8, 2), (0, 4), "best-effort"),
        _state((8, 8), (0, 4), "best-effort"),
        _state((8, 8), topology="none"),
    ]
    assert _scores(states, _pod(4, 2), (), CLOSENESS) == [100, 50, 100, 50]


def test_an_l3_group_is_not_broken_up_without_need() -> None:
    """2 CPUs fit beside others in a group of 4 of which 2 are taken; elsewhere they break up a whole one."""
    beside, apart = _scores([_state((2, 0)), _state((4, 0))], _pod(2), (), GROUPS)
    assert beside > apart


def test_refused_is_zero_and_asking_for_nothing_is_best() -> None:
    states = [_state((1, 1)), _state((8, 8))]
    assert _scores(states, _pod(2), (), REMAINS)[0] == 0
    idle = PodShape((Container("a", "app"),), "BestEffort")
    assert _scores(states, idle, (), ScoreWeights()) == [100, 100]


@settings(max_examples=50)
@given(clusters(), pods(), pods(simple=True))
def test_every_score_is_within_bounds(cluster: list[NodeState], pod: PodShape, other: PodShape) -> None:
    """Scores are 0 to 100 for any pod and node, and 0 where it is refused for sure."""
    table = NodeStateTable()
    table.set_rows(dict(enumerate(cluster)))
    for waiting in ((), (PendingShape(other, 3), PendingShape(pod, 1))):
        found = score(table, pod, waiting)
        assert ((found >= 0) & (found <= 100)).all()
        assert not found[table.fits(pod) == 0].any()
