"""Where gangs go, by hand."""

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
    """Two zones of 8 CPUs and 2 GPUs each, policy single-numa-node."""
    return NodeKind(
        Policies("single-numa-node", cpu="static"),
        (0, 1),
        ((10, 20), (20, 10)),
        cpu_topology((0, 1), 4, 2, 2, 0),
        devices=tuple(DeviceClass(GPU, 1 << zone, 2, 2) for zone in range(2)),
    )


def node(*gpus: int) -> NodeState:
    """With so many GPUs left in its zones."""
    return NodeState(kind(), kind().cpus.cpus, device_free=gpus or (2, 2))


def shape(gpus: int = 0, cpus: int = 1) -> PodShape:
    devices = ((GPU, gpus),) if gpus else ()
    return PodShape((Container("c", "app", cpus * 1000, (("memory", 1),), devices),), "Guaranteed")


def workers(size: int, gpus: int = 2, **fields: Any) -> GangPodSet:
    return GangPodSet("workers", size, shape(gpus), **fields)


def tree(*paths: str) -> list[NodeInfo]:
    """Nodes by "block/rack/name"."""
    return [
        info(name, {key: value for key, value in ((BLOCK, block), (RACK, rack)) if value})
        for block, rack, name in (path.split("/") for path in paths)
    ]


def nodes_of(found: GangPlacement | GangDiagnosis, place: int = 0) -> tuple[str, ...]:
    assert isinstance(found, GangPlacement), str(found)
    return found.sets[place].nodes


def refused(found: GangPlacement | GangDiagnosis) -> GangDiagnosis:
    assert isinstance(found, GangDiagnosis)
    return found


def test_ranks_follow_the_topology() -> None:
    """Neighbours in rank are neighbours in the tree, whatever the rows; rack-9 is before rack-10."""
    paths = ["b/rack-10/n2", "a/rack-1/n10", "b/rack-9/n1", "a/rack-1/n9", "b/rack-10/n1", "a/rack-2/n1"]
    infos = tree(*paths)
    cluster = snapshot([node()] * 6, infos, (BLOCK, RACK))
    found = place_gang(cluster, [workers(12)])
    expected = ["a/rack-1/n9", "a/rack-1/n10", "a/rack-2/n1", "b/rack-9/n1", "b/rack-10/n1", "b/rack-10/n2"]
    assert nodes_of(found) == tuple(path.rpartition("/")[2] for path in expected for _ in range(2))
    assert isinstance(found, GangPlacement)
    assert [paths[int(row)] for row in found.sets[0].rows] == [path for path in expected for _ in range(2)]


def test_several_pods_of_a_node_are_in_the_zones_that_its_kubelet_gives() -> None:
    found = place_gang(snapshot([node(2, 2)]), [workers(2)])
    assert isinstance(found, GangPlacement)
    zones = [share.zones for verdict in found.sets[0].verdicts for share in verdict.assignments[0].devices]
    assert zones == [1, 2]
    assert found.after[0].device_free == (0, 0)


def test_as_few_nodes_as_can_be_and_the_rest_where_it_fits_best() -> None:
    """Full nodes first; what is left goes to the smallest that holds it."""
    states = [node(1, 0), node(2, 1), node(2, 2), node(2, 2)]
    assert sorted(nodes_of(place_gang(snapshot(states), [workers(6, gpus=1)]))) == ["n1"] * 2 + ["n2"] * 4
    assert sorted(nodes_of(place_gang(snapshot(states), [workers(5, gpus=1)]))) == ["n0"] + ["n2"] * 4
    assert sorted(nodes_of(place_gang(snapshot(states), [workers(7, gpus=1)]))) == ["n1"] * 3 + ["n2"] * 4


def test_a_node_that_is_filled_exactly_is_preferred() -> None:
    """Of nodes that take as many, the one that has least left afterwards."""
    whole, cut = Resource(8000, 100, 10, 0), Resource(2000, 100, 10, 0)
    infos = [info("large", room=whole), info("small", room=cut)]
    pods = workers(1, gpus=0, constraints=Constraints(Resource(2000, 1, 1, 0)))
    assert nodes_of(place_gang(snapshot([node(), node()], infos), [pods])) == ("small",)


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
def test_the_smallest_domain_that_holds_all(size: int, fields: dict[str, Any], expected: list[str]) -> None:
    """Racks of one name in different blocks are different, and nodes without a label are in none."""
    cluster = snapshot([node()] * len(RACKS), RACKS, (BLOCK, RACK))
    found = place_gang(cluster, [workers(size, **fields)])
    if size == 7:  # no rack and no block holds them: the fewest blocks do
        assert len(set(nodes_of(found))) == 4
    else:
        assert sorted(set(nodes_of(found))) == expected


def test_the_level_in_the_way_is_told() -> None:
    cluster = snapshot([node()] * len(RACKS), RACKS, (BLOCK, RACK))
    found = refused(place_gang(cluster, [workers(7, required=RACK)]))
    assert (found.fitting_pods, found.level, found.domain, found.domain_pods) == (7, RACK, "1", 6)
    assert "all must be in one rack; 1 has most room, for 6" in str(found)


def test_reasons_count_nodes_by_cause() -> None:
    tainted = info("t", taints=(Taint("gpu", "", "NoSchedule"), Taint("other", "x", "PreferNoSchedule")))
    small = info("s", room=AMPLE._replace(milli_cpus=1500))
    selected = {"disk": "ssd"}
    states = [node(1, 1), node(1, 1), node(1, 0), node(), None, node(), node()]
    infos = [info(name, selected) for name in ("a", "b", "c")]
    infos += [tainted._replace(labels=infos[0].labels), info("d", selected), small._replace(labels=infos[0].labels)]
    asked = Constraints(
        Resource(2000, 0, 1, 0), selector=(Requirement("disk", "In", ("ssd",)),), scheduler_only=("volumes",)
    )
    cluster = snapshot(states, [*infos, info("e")])
    found = refused(place_gang(cluster, [workers(3, constraints=asked)]))
    assert (found.pod_set, found.size, found.fitting_pods, found.level, found.scheduler_only) == (
        "workers",
        3,
        0,
        "",
        ("volumes",),
    )
    assert [(cause.nodes, cause.reason) for cause in found.causes] == [
        (3, "TopologyAffinityError"),
        (1, ""),
        (1, "NodeAffinity"),
        (1, "NodeResourcesFit"),
        (1, "TaintToleration"),
    ]
    text = str(found)
    assert text.startswith("0 of 3 pods of workers fit at once\n3 nodes: needs 2 example.com/gpu")
    assert "1 node: the taint gpu:NoSchedule is not tolerated" in text
    assert "1 node: needs 2 CPUs of the whole node; no more than 1.5 left" in text
    assert "1 node: node(s) didn't match Pod's node affinity/selector" in text
    assert "1 node: there is no report of their zones" in text


def test_many_states_are_not_all_asked() -> None:
    """Telling why costs some verdicts, not one of each node."""
    bits = kind().cpus.cpus
    states = [node(1, 1)._replace(free_cpus=bits & ~number) for number in range(200)]
    found = refused(place_gang(snapshot(states), [workers(1)]))
    assert sum(cause.nodes for cause in found.causes) == 200
    assert any("too many states" in cause.message for cause in found.causes)


def test_sets_share_nodes() -> None:
    """A leader goes beside its workers where there is room, and the last worker takes what others leave."""
    leader, gang = GangPodSet("leader", 1, shape(0)), workers(2, gpus=2)
    cluster = snapshot([node(1, 1), node(2, 2), node(1, 1)])
    found = place_gang(cluster, [leader, gang])
    assert isinstance(found, GangPlacement)
    assert nodes_of(found) == ("n1",)
    assert nodes_of(found, 1) == ("n1", "n1")
    assert found.order == ("workers", "leader")
    check(cluster, [leader, gang], found)


def test_a_group_is_in_one_domain() -> None:
    """A leader of a group goes where its workers can go too, even if another rack fits it better."""
    infos = tree("a/1/a1", "a/2/a2", "a/2/a3")
    cluster = snapshot([node(0, 0), node(), node()], infos, (BLOCK, RACK))
    leader, gang = (
        GangPodSet("leader", 1, shape(0), required=RACK, group="g"),
        workers(3, gpus=2, required=RACK, group="g"),
    )
    assert set(nodes_of(place_gang(cluster, [leader, gang]))) <= {"a2", "a3"}
    alone = leader._replace(group_name="")
    assert set(nodes_of(place_gang(cluster, [alone, gang._replace(group_name="")]))) <= {"a1"}


def test_a_group_that_no_domain_holds_together_is_refused() -> None:
    """Each set alone would find a rack, both together do not."""
    cluster = snapshot([node(), node()], tree("a/1/a1", "a/2/a2"), (BLOCK, RACK))
    sets = [GangPodSet(name, 2, shape(2), required=RACK, group="g") for name in ("one", "other")]
    found = refused(place_gang(cluster, sets))
    assert (found.level, found.domain_pods) == (RACK, 2)
    assert isinstance(place_gang(cluster, [one._replace(group_name="") for one in sets]), GangPlacement)


def test_room_of_the_whole_node_is_shared_by_sets() -> None:
    """Pods, CPUs and host ports that one set takes are not there for the next."""
    infos = [info("n", room=AMPLE._replace(milli_cpus=3000, pods=3))]
    cpus = Constraints(Resource(1000, 0, 1, 0))
    one, other = (GangPodSet(name, 2, shape(0), cpus) for name in ("one", "other"))
    assert isinstance(place_gang(snapshot([node()], infos), [one]), GangPlacement)
    assert refused(place_gang(snapshot([node()], infos), [one, other])).fitting_pods == 1
    port = Constraints(ports=(HostPort(ALL_ADDRESSES, "TCP", 80),))
    web = GangPodSet("web", 1, shape(0), port)
    assert isinstance(place_gang(snapshot([node()]), [web]), GangPlacement)
    assert refused(place_gang(snapshot([node()]), [web._replace(pod_count=2)])).fitting_pods == 1
    assert refused(place_gang(snapshot([node()]), [web, web._replace(name="proxy")])).fitting_pods == 0
    assert "given to other pods of the gang" in str(place_gang(snapshot([node()]), [web, web._replace(name="proxy")]))


def test_the_order_of_sets_is_tried_another_way() -> None:
    """The set with less choice is placed first, though it is given last."""
    selected = Constraints(selector=(Requirement("disk", "In", ("ssd",)),))
    cluster = snapshot([node(), node()], [info("a", {"disk": "ssd"}), info("b")])
    free, bound = workers(2), GangPodSet("bound", 2, shape(2), selected)
    found = place_gang(cluster, [free, bound])
    assert nodes_of(found) == ("b", "b")
    assert nodes_of(found, 1) == ("a", "a")


def test_nothing_is_changed() -> None:
    cluster = snapshot([node(), node()])
    before = ([cluster.table.state(row) for row in range(2)], list(cluster.nodes.infos))
    first = place_gang(cluster, [workers(4)])
    assert ([cluster.table.state(row) for row in range(2)], list(cluster.nodes.infos)) == before
    assert nodes_of(place_gang(cluster, [workers(4)])) == nodes_of(first)


def test_no_nodes_and_no_pods() -> None:
    assert refused(place_gang(snapshot([]), [workers(1)])).fitting_pods == 0
    assert refused(place_gang(snapshot([], keys=(RACK,)), [workers(1, required=RACK)])).fitting_pods == 0
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


def test_parts_of_a_snapshot_have_the_same_rows() -> None:
    one, other = snapshot([node()]), snapshot([node(), node()])
    with pytest.raises(ValueError, match="different numbers of rows: 1, 2, 1"):
        place_gang(one._replace(nodes=other.nodes), [workers(1)])
