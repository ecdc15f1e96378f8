"""place() against kubelets asked one by one, on clusters of any kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from support.any_nodes import clusters, pods
from support.gang_snapshots import AMPLE, check, info, snapshot
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.nodes.filters.constraints import Constraints
from zonewise_scheduler.nodes.gang.placement import place_gang
from zonewise_scheduler.nodes.gang.types import GangDiagnosis, GangPlacement, GangPodSet
from zonewise_scheduler.nodes.node.host_ports import ALL_ADDRESSES, HostPort

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.nodes.gang.snapshot import NodeSnapshot
    from zonewise_scheduler.nodes.node.node_info import NodeInfo

KEYS = ("block", "rack")


@st.composite
def racks(draw: st.DrawFn, count: int) -> list[NodeInfo]:
    """Nodes in blocks and racks, some without labels, with room for few pods or CPUs."""
    found: list[NodeInfo] = []
    for row in range(count):
        labels = {key: value for key in KEYS if (value := draw(st.sampled_from(["1", "2", "10", ""])))}
        room = AMPLE._replace(
            pods=draw(st.sampled_from([1, 2, 100])), milli_cpus=draw(st.sampled_from([3000, 1 << 40]))
        )
        found.append(info(f"n{row}", labels, room))
    return found


@st.composite
def constraints(draw: st.DrawFn) -> Constraints:
    ports = draw(st.sampled_from([(), (), (), (HostPort(ALL_ADDRESSES, "TCP", 80),)]))
    return Constraints(Resource(draw(st.sampled_from([0, 1000, 2000])), 0, 1, 0), ports=ports)


@st.composite
def snapshots(draw: st.DrawFn) -> NodeSnapshot:
    states: list[NodeState | None] = list(draw(clusters()))
    states += [None] * draw(st.integers(0, 1))
    return snapshot(states, draw(racks(len(states))), KEYS)


LEVELS = st.sampled_from(["", "", *KEYS])
SIZES = st.integers(1, 12)


def fold(state: NodeState | None, shape: PodShape, most: int) -> int:
    """How many pods a node takes, one after the other."""
    count = 0
    while state is not None and count < most and (verdict := admit(state, shape)).admitted:
        state, count = verdict.after, count + 1
    return count


def room_of(cluster: NodeSnapshot, pod_set: GangPodSet) -> list[int]:
    """How many pods of a set each node takes, worked out without arrays."""
    found: list[int] = []
    for row, node in enumerate(cluster.nodes.infos):
        assert node is not None
        cpus = pod_set.constraints.requests.milli_cpus
        most = min(node.allocatable.pods, node.allocatable.milli_cpus // cpus if cpus else pod_set.size, pod_set.size)
        if pod_set.constraints.ports:
            most = min(most, 1)
        found.append(fold(cluster.table.state(row), pod_set.shape, most))
    return found


@settings(max_examples=40)
@given(snapshots(), pods(), constraints(), SIZES)
def test_one_set_is_placed_exactly_if_it_fits(
    cluster: NodeSnapshot, shape: PodShape, asked: Constraints, size: int
) -> None:
    """What is placed is admitted pod by pod; what is refused has not enough room in all nodes together."""
    pod_set = GangPodSet("workers", size, shape, asked)
    found = place_gang(cluster, [pod_set])
    room = sum(room_of(cluster, pod_set))
    if isinstance(found, GangPlacement):
        check(cluster, [pod_set], found)
        assert room >= size
    else:
        assert (found.pod_set, found.size, found.fitting_pods, found.level) == ("workers", size, room, "")
        assert room < size
        assert str(found)


@settings(max_examples=40)
@given(snapshots(), pods(), constraints(), SIZES, st.sampled_from(KEYS))
def test_a_required_level_holds_all_pods_exactly_if_one_domain_can(
    cluster: NodeSnapshot, shape: PodShape, asked: Constraints, size: int, level: str
) -> None:
    """All pods are in one domain of the level, and are refused only if none has room for all."""
    pod_set = GangPodSet("workers", size, shape, asked, required=level)
    found = place_gang(cluster, [pod_set])
    domains: dict[tuple[str | None, ...], int] = {}
    for node, room in zip(cluster.nodes.infos, room_of(cluster, pod_set), strict=True):
        assert node is not None
        path = tuple(node.label(key) for key in KEYS[: KEYS.index(level) + 1])
        if path[-1] is not None:
            domains[path] = domains.get(path, 0) + room
    if isinstance(found, GangPlacement):
        check(cluster, [pod_set], found)
        nodes = [cluster.nodes.infos[int(row)] for row in found.sets[0].rows]
        paths = {tuple(node and node.label(key) for key in KEYS[: KEYS.index(level) + 1]) for node in nodes}
        assert len(paths) == 1
        assert domains[paths.pop()] == min(room for room in domains.values() if room >= size)
    else:
        assert max(domains.values(), default=0) < size
        if found.level:
            assert found.domain_pods == max(domains.values(), default=0)


@settings(max_examples=40)
@given(snapshots(), pods(), SIZES, st.sampled_from(KEYS))
def test_a_preferred_level_refuses_nothing(cluster: NodeSnapshot, shape: PodShape, size: int, level: str) -> None:
    """A wish is met where it can be, and keeps no pod from its place."""
    plain = GangPodSet("workers", size, shape)
    wished, required = plain._replace(preferred=level), plain._replace(required=level)
    found = [place_gang(cluster, [one]) for one in (plain, wished, required)]
    assert isinstance(found[0], GangPlacement) is isinstance(found[1], GangPlacement)
    if isinstance(found[2], GangPlacement):
        assert isinstance(found[1], GangPlacement)
        assert found[1].sets[0].nodes == found[2].sets[0].nodes


@st.composite
def gangs(draw: st.DrawFn) -> list[GangPodSet]:
    levels = {"required": draw(LEVELS)} if draw(st.booleans()) else {"preferred": draw(LEVELS)}
    group = draw(st.sampled_from(["", "all"]))
    return [
        GangPodSet(name, draw(st.integers(1, 4)), draw(pods()), draw(constraints()), group=group, **levels)
        for name in ("leader", "workers", "server")[: draw(st.integers(1, 3))]
    ]


@settings(max_examples=40)
@given(snapshots(), gangs())
def test_several_sets_all_or_nothing(cluster: NodeSnapshot, gang: list[GangPodSet]) -> None:
    """Every pod of a placement is admitted by filters and kubelets after those before it; and twice gives the same."""
    found = place_gang(cluster, gang)
    again = place_gang(cluster, gang)
    if isinstance(found, GangPlacement):
        check(cluster, gang, found)
        assert isinstance(again, GangPlacement)
        assert [one.nodes for one in again.sets] == [one.nodes for one in found.sets]
        if gang[0].group and gang[0].required:
            nodes = [cluster.nodes.infos[int(row)] for placed in found.sets for row in placed.rows]
            assert len({node.label(gang[0].required) for node in nodes if node is not None}) == 1
    else:
        assert isinstance(again, GangDiagnosis)
        assert again == found


@settings(max_examples=40)
@given(snapshots(), gangs(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(cluster: NodeSnapshot, gang: list[GangPodSet], random: object) -> None:
    """The same nodes in other rows get the same pods."""
    rows = list(range(len(cluster.nodes)))
    random.shuffle(rows)  # type: ignore[attr-defined]
    other = snapshot(
        [cluster.table.state(row) for row in rows], [cluster.nodes.infos[row] for row in rows], cluster.levels.keys
    )
    found, moved = place_gang(cluster, gang), place_gang(other, gang)
    if isinstance(found, GangPlacement):
        assert isinstance(moved, GangPlacement)
        assert [one.nodes for one in moved.sets] == [one.nodes for one in found.sets]
    else:
        assert isinstance(moved, GangDiagnosis)
        assert (moved.pod_set, moved.fitting_pods, moved.level, moved.domain_pods) == (
            found.pod_set,
            found.fitting_pods,
            found.level,
            found.domain_pods,
        )
