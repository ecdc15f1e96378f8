"""place_gang(), compared with the individual verdicts of kubelets on clusters of any kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    from zonewise_scheduler.nodes.gang.types import NodeSnapshot
    from zonewise_scheduler.nodes.node.node_info import NodeInfo

KEYS = ("block", "rack")


@st.composite
def racks(draw: st.DrawFn, count: int) -> list[NodeInfo]:
    """Draw nodes in blocks and racks, some of them without labels, that fit few pods or CPUs."""
    infos: list[NodeInfo] = []
    for row in range(count):
        labels = {key: value for key in KEYS if (value := draw(st.sampled_from(["1", "2", "10", ""])))}
        allocatable = AMPLE._replace(
            pods=draw(st.sampled_from([1, 2, 100])), milli_cpus=draw(st.sampled_from([3000, 1 << 40]))
        )
        infos.append(info(f"n{row}", labels, allocatable))
    return infos


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


def count_admitted(state: NodeState | None, shape: PodShape, limit: int) -> int:
    """Return the number of pods that a node admits one after another."""
    count = 0
    while state is not None and count < limit and (verdict := admit(state, shape)).admitted:
        state, count = verdict.after, count + 1
    return count


def pod_counts(cluster: NodeSnapshot, pod_set: GangPodSet) -> list[int]:
    """Return the number of pods of a set that fit on each node, computed without arrays."""
    counts: list[int] = []
    for row, node in enumerate(cluster.nodes.infos):
        assert node is not None
        cpus = pod_set.constraints.requests.milli_cpus
        limit = min(node.allocatable.pods, node.allocatable.milli_cpus // cpus if cpus else pod_set.size, pod_set.size)
        if pod_set.constraints.ports:
            limit = min(limit, 1)
        counts.append(count_admitted(cluster.table.state(row), pod_set.shape, limit))
    return counts


@settings(max_examples=40)
@given(snapshots(), pods(), constraints(), SIZES)
def test_single_set(cluster: NodeSnapshot, shape: PodShape, constraints: Constraints, size: int) -> None:
    """Placed pods are admitted one by one. A rejected set does not fit on all nodes together."""
    pod_set = GangPodSet("workers", size, shape, constraints)
    result = place_gang(cluster, [pod_set])
    capacity = sum(pod_counts(cluster, pod_set))
    if isinstance(result, GangPlacement):
        check(cluster, [pod_set], result)
        assert capacity >= size
    else:
        assert (result.pod_set, result.size, result.fitting_pods, result.level) == ("workers", size, capacity, "")
        assert capacity < size
        assert str(result)


@settings(max_examples=40)
@given(snapshots(), pods(), constraints(), SIZES, st.sampled_from(KEYS))
def test_required_level(
    cluster: NodeSnapshot, shape: PodShape, constraints: Constraints, size: int, level: str
) -> None:
    """All pods are in one domain of the level. They are rejected only if no domain suffices."""
    pod_set = GangPodSet("workers", size, shape, constraints, required=level)
    result = place_gang(cluster, [pod_set])
    domains: dict[tuple[str | None, ...], int] = {}
    for node, count in zip(cluster.nodes.infos, pod_counts(cluster, pod_set), strict=True):
        assert node is not None
        path = tuple(node.label(key) for key in KEYS[: KEYS.index(level) + 1])
        if path[-1] is not None:
            domains[path] = domains.get(path, 0) + count
    if isinstance(result, GangPlacement):
        check(cluster, [pod_set], result)
        nodes = [cluster.nodes.infos[int(row)] for row in result.sets[0].rows]
        paths = {tuple(node and node.label(key) for key in KEYS[: KEYS.index(level) + 1]) for node in nodes}
        assert len(paths) == 1
        assert domains[paths.pop()] == min(count for count in domains.values() if count >= size)
    else:
        assert max(domains.values(), default=0) < size
        if result.level:
            assert result.domain_pods == max(domains.values(), default=0)


@settings(max_examples=40)
@given(snapshots(), pods(), SIZES, st.sampled_from(KEYS))
def test_preferred_level(cluster: NodeSnapshot, shape: PodShape, size: int, level: str) -> None:
    """A preference is met if possible, and never prevents a placement."""
    plain = GangPodSet("workers", size, shape)
    preferred, required = plain._replace(preferred=level), plain._replace(required=level)
    results = [place_gang(cluster, [pod_set]) for pod_set in (plain, preferred, required)]
    assert isinstance(results[0], GangPlacement) is isinstance(results[1], GangPlacement)
    if isinstance(results[2], GangPlacement):
        assert isinstance(results[1], GangPlacement)
        assert results[1].sets[0].nodes == results[2].sets[0].nodes


@st.composite
def gangs(draw: st.DrawFn) -> list[GangPodSet]:
    levels: dict[str, Any] = {"required": draw(LEVELS)} if draw(st.booleans()) else {"preferred": draw(LEVELS)}
    group = draw(st.sampled_from(["", "all"]))
    return [
        GangPodSet(name, draw(st.integers(1, 4)), draw(pods()), draw(constraints()), group=group, **levels)
        for name in ("leader", "workers", "server")[: draw(st.integers(1, 3))]
    ]


@settings(max_examples=40)
@given(snapshots(), gangs())
def test_several_sets(cluster: NodeSnapshot, gang: list[GangPodSet]) -> None:
    """Filters and kubelets admit every pod of a placement after the earlier ones; a second run gives the same."""
    result = place_gang(cluster, gang)
    repeated = place_gang(cluster, gang)
    if isinstance(result, GangPlacement):
        check(cluster, gang, result)
        assert isinstance(repeated, GangPlacement)
        assert [placement.nodes for placement in repeated.sets] == [placement.nodes for placement in result.sets]
        if gang[0].group and gang[0].required:
            nodes = [cluster.nodes.infos[int(row)] for placement in result.sets for row in placement.rows]
            assert len({node.label(gang[0].required) for node in nodes if node is not None}) == 1
    else:
        assert isinstance(repeated, GangDiagnosis)
        assert repeated == result


@settings(max_examples=40)
@given(snapshots(), gangs(), st.randoms(use_true_random=False))
def test_order_of_rows(cluster: NodeSnapshot, gang: list[GangPodSet], random: object) -> None:
    """If the rows of the nodes are permuted, the same nodes get the same pods."""
    rows = list(range(len(cluster.nodes)))
    random.shuffle(rows)  # type: ignore[attr-defined]
    shuffled = snapshot(
        [cluster.table.state(row) for row in rows], [cluster.nodes.infos[row] for row in rows], cluster.levels.keys
    )
    result, shuffled_result = place_gang(cluster, gang), place_gang(shuffled, gang)
    if isinstance(result, GangPlacement):
        assert isinstance(shuffled_result, GangPlacement)
        assert [placement.nodes for placement in shuffled_result.sets] == [placement.nodes for placement in result.sets]
    else:
        assert isinstance(shuffled_result, GangDiagnosis)
        assert (
            shuffled_result.pod_set,
            shuffled_result.fitting_pods,
            shuffled_result.level,
            shuffled_result.domain_pods,
        ) == (
            result.pod_set,
            result.fitting_pods,
            result.level,
            result.domain_pods,
        )
