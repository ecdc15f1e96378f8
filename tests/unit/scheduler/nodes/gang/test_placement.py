"""Examples of the placement of gangs."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from support.any_nodes import cpu_topology
from support.gang_snapshots import AMPLE, check, info, snapshot
from zonewise_common.k8s.labels import Requirement
from zonewise_common.k8s.taints import Taint
from zonewise_scheduler.admission.node import DeviceClass, NodeKind, NodeState, Policies, Resource
from zonewise_scheduler.admission.pod import Container, PodShape
from zonewise_scheduler.nodes.filters.constraints import Constraints
from zonewise_scheduler.nodes.gang.placement import place_gang
from zonewise_scheduler.nodes.gang.types import GangDiagnosis, GangPlacement, GangPodSet
from zonewise_scheduler.nodes.node.host_ports import ALL_ADDRESSES, HostPort

if TYPE_CHECKING:
    from zonewise_scheduler.nodes.node.node_info import NodeInfo

GPU = "example.com/gpu"
BLOCK, RACK = "block", "rack"


@cache
def kind() -> NodeKind:
    """Return a kind with two zones of 8 CPUs and 2 GPUs each, and policy single-numa-node."""
    return NodeKind(
        Policies("single-numa-node", cpu="static"),
        (0, 1),
        ((10, 20), (20, 10)),
        cpu_topology((0, 1), 4, 2, 2, 0),
        devices=tuple(DeviceClass(GPU, 1 << zone, 2, 2) for zone in range(2)),
    )


def node(*gpus: int) -> NodeState:
    """Return a node with these numbers of free GPUs in its zones."""
    return NodeState(kind(), kind().cpus.cpus, device_free=gpus or (2, 2))


def shape(gpus: int = 0, cpus: int = 1) -> PodShape:
    devices = ((GPU, gpus),) if gpus else ()
    return PodShape((Container("c", "app", cpus * 1000, (("memory", 1),), devices),), "Guaranteed")


def workers(size: int, gpus: int = 2, **fields: Any) -> GangPodSet:
    return GangPodSet("workers", size, shape(gpus), **fields)


def tree(*paths: str) -> list[NodeInfo]:
    """Return nodes, given as "block/rack/name"."""
    return [
        info(name, {key: value for key, value in ((BLOCK, block), (RACK, rack)) if value})
        for block, rack, name in (path.split("/") for path in paths)
    ]


def placed_nodes(result: GangPlacement | GangDiagnosis, index: int = 0) -> tuple[str, ...]:
    assert isinstance(result, GangPlacement), str(result)
    return result.sets[index].nodes


def rejected(result: GangPlacement | GangDiagnosis) -> GangDiagnosis:
    assert isinstance(result, GangDiagnosis)
    return result


def test_ranks_follow_the_topology() -> None:
    """Neighbours in rank are neighbours in the tree for any order of rows; rack-9 comes before rack-10."""
    paths = ["b/rack-10/n2", "a/rack-1/n10", "b/rack-9/n1", "a/rack-1/n9", "b/rack-10/n1", "a/rack-2/n1"]
    infos = tree(*paths)
    cluster = snapshot([node()] * 6, infos, (BLOCK, RACK))
    result = place_gang(cluster, [workers(12)])
    expected = ["a/rack-1/n9", "a/rack-1/n10", "a/rack-2/n1", "b/rack-9/n1", "b/rack-10/n1", "b/rack-10/n2"]
    assert placed_nodes(result) == tuple(path.rpartition("/")[2] for path in expected for _ in range(2))
    assert isinstance(result, GangPlacement)
    assert [paths[int(row)] for row in result.sets[0].rows] == [path for path in expected for _ in range(2)]


def test_zones_of_several_pods_on_a_node() -> None:
    result = place_gang(snapshot([node(2, 2)]), [workers(2)])
    assert isinstance(result, GangPlacement)
    zones = [share.zones for verdict in result.sets[0].verdicts for share in verdict.assignments[0].devices]
    assert zones == [1, 2]
    assert result.after[0].device_free == (0, 0)


def test_fewest_nodes_and_best_fit_for_the_rest() -> None:
    """Nodes with the most pods are filled first. The rest goes to the smallest node where it fits."""
    states = [node(1, 0), node(2, 1), node(2, 2), node(2, 2)]
    assert sorted(placed_nodes(place_gang(snapshot(states), [workers(6, gpus=1)]))) == ["n1"] * 2 + ["n2"] * 4
    assert sorted(placed_nodes(place_gang(snapshot(states), [workers(5, gpus=1)]))) == ["n0"] + ["n2"] * 4
    assert sorted(placed_nodes(place_gang(snapshot(states), [workers(7, gpus=1)]))) == ["n1"] * 3 + ["n2"] * 4


def test_exactly_filled_node_is_preferred() -> None:
    """Of nodes with equal pod counts, the one with the least left over is preferred."""
    large, small = Resource(8000, 100, 10, 0), Resource(2000, 100, 10, 0)
    infos = [info("large", allocatable=large), info("small", allocatable=small)]
    pods = workers(1, gpus=0, constraints=Constraints(Resource(2000, 1, 1, 0)))
    assert placed_nodes(place_gang(snapshot([node(), node()], infos), [pods])) == ("small",)


RACKS = tree("a/1/a1", "a/1/a2", "a/2/a3", "b/1/b1", "b/1/b2", "b/1/b3", "//c1", "//c2", "//c3", "//c4")


@pytest.mark.parametrize(
    ("size", "fields", "expected"),
    [
        (2, {"required": RACK}, ["a3"]),
        (4, {"required": RACK}, ["a1", "a2"]),
        (5, {"required": RACK}, ["b1", "b2", "b3"]),
        (5, {"required": BLOCK}, ["a1", "a2", "a3"]),
        (6, {"preferred": RACK}, ["b1", "b2", "b3"]),
        (7, {"preferred": RACK}, ["b1", "b2", "b3", "c1"]),
    ],
)
def test_smallest_sufficient_domain(size: int, fields: dict[str, Any], expected: list[str]) -> None:
    """Racks with the same name in different blocks are different. Nodes without a label are in no rack."""
    cluster = snapshot([node()] * len(RACKS), RACKS, (BLOCK, RACK))
    result = place_gang(cluster, [workers(size, **fields)])
    if size == 7:  # no rack and no block suffices, so the fewest nodes are used
        assert len(set(placed_nodes(result))) == 4
    else:
        assert sorted(set(placed_nodes(result))) == expected


def test_diagnosis_names_the_level() -> None:
    cluster = snapshot([node()] * len(RACKS), RACKS, (BLOCK, RACK))
    diagnosis = rejected(place_gang(cluster, [workers(7, required=RACK)]))
    assert (diagnosis.fitting_pods, diagnosis.level, diagnosis.domain, diagnosis.domain_pods) == (7, RACK, "1", 6)
    assert "all must be in one rack; 1 fits most, 6" in str(diagnosis)


def test_diagnosis_counts_nodes_by_cause() -> None:
    tainted = info("t", taints=(Taint("gpu", "", "NoSchedule"), Taint("other", "x", "PreferNoSchedule")))
    small = info("s", allocatable=AMPLE._replace(milli_cpus=1500))
    selected = {"disk": "ssd"}
    states = [node(1, 1), node(1, 1), node(1, 0), node(), None, node(), node()]
    infos = [info(name, selected) for name in ("a", "b", "c")]
    infos += [tainted._replace(labels=infos[0].labels), info("d", selected), small._replace(labels=infos[0].labels)]
    constraints = Constraints(
        Resource(2000, 0, 1, 0), selector=(Requirement("disk", "In", ("ssd",)),), scheduler_only=("volumes",)
    )
    cluster = snapshot(states, [*infos, info("e")])
    diagnosis = rejected(place_gang(cluster, [workers(3, constraints=constraints)]))
    assert (diagnosis.pod_set, diagnosis.size, diagnosis.fitting_pods, diagnosis.level, diagnosis.scheduler_only) == (
        "workers",
        3,
        0,
        "",
        ("volumes",),
    )
    assert [(cause.nodes, cause.reason) for cause in diagnosis.causes] == [
        (3, "TopologyAffinityError"),
        (1, ""),
        (1, "NodeAffinity"),
        (1, "NodeResourcesFit"),
        (1, "TaintToleration"),
    ]
    text = str(diagnosis)
    assert text.startswith("0 of 3 pods of workers fit at once\n3 nodes: needs 2 example.com/gpu")
    assert "1 node: the taint gpu:NoSchedule is not tolerated" in text
    assert "1 node: needs 2 CPUs of the whole node; no more than 1.5 left" in text
    assert "1 node: node(s) didn't match Pod's node affinity/selector" in text
    assert "1 node: no report of their zones" in text


def test_diagnosis_samples_many_states() -> None:
    """A diagnosis computes a limited number of verdicts, not one per node."""
    bits = kind().cpus.cpus
    states = [node(1, 1)._replace(free_cpus=bits & ~number) for number in range(200)]
    diagnosis = rejected(place_gang(snapshot(states), [workers(1)]))
    assert sum(cause.nodes for cause in diagnosis.causes) == 200
    assert any("too many states" in cause.message for cause in diagnosis.causes)


def test_sets_share_nodes() -> None:
    """A leader is placed with its workers if it fits. The last set uses what is left."""
    leader, gang = GangPodSet("leader", 1, shape(0)), workers(2, gpus=2)
    cluster = snapshot([node(1, 1), node(2, 2), node(1, 1)])
    result = place_gang(cluster, [leader, gang])
    assert isinstance(result, GangPlacement)
    assert placed_nodes(result) == ("n1",)
    assert placed_nodes(result, 1) == ("n1", "n1")
    assert result.order == ("workers", "leader")
    check(cluster, [leader, gang], result)


def test_group_shares_a_domain() -> None:
    """The leader of a group is placed where its workers fit, even if it fits another rack better."""
    infos = tree("a/1/a1", "a/2/a2", "a/2/a3")
    cluster = snapshot([node(0, 0), node(), node()], infos, (BLOCK, RACK))
    leader, gang = (
        GangPodSet("leader", 1, shape(0), required=RACK, group="g"),
        workers(3, gpus=2, required=RACK, group="g"),
    )
    assert set(placed_nodes(place_gang(cluster, [leader, gang]))) <= {"a2", "a3"}
    ungrouped = leader._replace(group="")
    assert set(placed_nodes(place_gang(cluster, [ungrouped, gang._replace(group="")]))) <= {"a1"}


def test_group_without_a_common_domain() -> None:
    """Each set alone fits a rack, but both together do not."""
    cluster = snapshot([node(), node()], tree("a/1/a1", "a/2/a2"), (BLOCK, RACK))
    sets = [GangPodSet(name, 2, shape(2), required=RACK, group="g") for name in ("one", "other")]
    diagnosis = rejected(place_gang(cluster, sets))
    assert (diagnosis.level, diagnosis.domain_pods) == (RACK, 2)
    assert isinstance(place_gang(cluster, [pod_set._replace(group="") for pod_set in sets]), GangPlacement)


def test_sets_share_resources_of_the_whole_node() -> None:
    """Pods, CPUs and host ports of one set are not available to the next."""
    infos = [info("n", allocatable=AMPLE._replace(milli_cpus=3000, pods=3))]
    cpus = Constraints(Resource(1000, 0, 1, 0))
    first, second = (GangPodSet(name, 2, shape(0), cpus) for name in ("one", "other"))
    assert isinstance(place_gang(snapshot([node()], infos), [first]), GangPlacement)
    assert rejected(place_gang(snapshot([node()], infos), [first, second])).fitting_pods == 1
    port = Constraints(ports=(HostPort(ALL_ADDRESSES, "TCP", 80),))
    web = GangPodSet("web", 1, shape(0), port)
    assert isinstance(place_gang(snapshot([node()]), [web]), GangPlacement)
    assert rejected(place_gang(snapshot([node()]), [web._replace(size=2)])).fitting_pods == 1
    assert rejected(place_gang(snapshot([node()]), [web, web._replace(name="proxy")])).fitting_pods == 0
    assert "other pods of the gang use what they have available" in str(
        place_gang(snapshot([node()]), [web, web._replace(name="proxy")])
    )


def test_scarce_set_is_placed_first() -> None:
    """The set that fits fewer nodes is placed first, although it is last in the input."""
    selected = Constraints(selector=(Requirement("disk", "In", ("ssd",)),))
    cluster = snapshot([node(), node()], [info("a", {"disk": "ssd"}), info("b")])
    unconstrained, constrained = workers(2), GangPodSet("bound", 2, shape(2), selected)
    result = place_gang(cluster, [unconstrained, constrained])
    assert placed_nodes(result) == ("b", "b")
    assert placed_nodes(result, 1) == ("a", "a")


def test_snapshot_is_not_changed() -> None:
    cluster = snapshot([node(), node()])
    before = ([cluster.table.state(row) for row in range(2)], list(cluster.nodes.infos))
    first = place_gang(cluster, [workers(4)])
    assert ([cluster.table.state(row) for row in range(2)], list(cluster.nodes.infos)) == before
    assert placed_nodes(place_gang(cluster, [workers(4)])) == placed_nodes(first)


def test_no_nodes_and_no_pods() -> None:
    assert rejected(place_gang(snapshot([]), [workers(1)])).fitting_pods == 0
    assert rejected(place_gang(snapshot([], keys=(RACK,)), [workers(1, required=RACK)])).fitting_pods == 0
    assert place_gang(snapshot([node()]), []) == GangPlacement((), (), {})


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ([workers(0)], "pod set workers: size: not a number of pods: 0"),
        ([workers(1), workers(1)], "pod sets: names are not unique: workers, workers"),
        ([workers(1, required="row")], "pod set workers: no level of the snapshot: row"),
        (
            [workers(1, group="g"), GangPodSet("other", 1, shape(), required=RACK, group="g")],
            "pod set other: another level than others of group g",
        ),
    ],
)
def test_errors(sets: list[GangPodSet], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        place_gang(snapshot([node()], keys=(RACK,)), sets)


def test_snapshot_with_different_numbers_of_rows() -> None:
    small, large = snapshot([node()]), snapshot([node(), node()])
    with pytest.raises(ValueError, match="different numbers of rows: 1, 2, 1"):
        place_gang(small._replace(nodes=large.nodes), [workers(1)])
