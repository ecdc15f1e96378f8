"""The nodes of a gang are held until all members are bound, by the extender or by kube-scheduler."""

from __future__ import annotations

import pytest

from support.gang_clusters import GangCluster
from support.ledger_kubelets import SHARED, pod_shape
from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.extender.placing.gang_scheduler import FILTERED_TIMEOUT
from zonewise_scheduler.extender.state.cluster_state import PREBIND_TIMEOUT
from zonewise_scheduler.nodes.assumed.types import LedgerTimeouts
from zonewise_scheduler.nodes.filters.constraints import Constraints

HALF, WHOLE = pod_shape((4, 0)), pod_shape((8, 0))
"""Half and all of a zone's CPUs; a node has two zones."""
VOLUMES, SPREAD = (Constraints(scheduler_only=(name,)) for name in ("volumes", "topology spread"))


def test_kube_scheduler_does_not_bind_the_filtered_pod() -> None:
    """After a while the node of the filtered pod is still held, and the pass binds the pod there."""
    cluster = GangCluster("n")
    names = cluster.create_gang("train", [WHOLE] * 2)
    assert cluster.filter(names[0]).node == "n"
    assert cluster.run_pass() == {names[1]: "n"}
    cluster.cache.tick()
    assert cluster.run_pass() == {}
    cluster.clock.advance(FILTERED_TIMEOUT)
    cluster.cache.tick()
    assert cluster.run_pass() == {names[0]: "n"}


def test_kube_scheduler_offers_other_nodes() -> None:
    """The extender's filters are exact for this pod, so the pass still binds it, whichever nodes are offered now."""
    cluster = GangCluster("n", "m")
    names = cluster.create_gang("train", [WHOLE] * 4)
    assert cluster.filter(names[0], "elsewhere").failed_nodes["elsewhere"].startswith("the pod is being bound to ")
    assert cluster.run_pass().keys() == set(names)


def test_failed_binding() -> None:
    """The node of a member whose binding failed remains held, and kube-scheduler binds the member there."""
    cluster = GangCluster("n", "m")
    names = cluster.create_gang("train", [WHOLE] * 2)
    cluster.filter_and_bind(names[0])
    [placement] = cluster.cache.place_waiting()
    cluster.cache.end_binding(placement, "failed")
    cluster.create("single", WHOLE, priority=9)
    cluster.filter_and_bind("single")
    assert cluster.requeue() == [names[1]]
    assert cluster.filter_and_bind(names[1]) == placement.node
    assert all(cluster.arrive(name) for name in (*names, "single"))


def test_held_nodes_are_forgotten_together() -> None:
    """All nodes of a gang are forgotten together, even if the extender would bind a replacement at that very time."""
    cluster = GangCluster("n", "m")
    cluster.create_group("train", 2, schedule_timeout=2 * FILTERED_TIMEOUT)
    first, second = cluster.create_members("train", [WHOLE] * 2, constraints=SPREAD)
    assert cluster.filter(first).node
    cluster.delete(second)
    cluster.clock.advance(FILTERED_TIMEOUT)
    [replacement] = cluster.create_members("train", [WHOLE], first=2)
    assert cluster.filter(replacement).node
    cluster.clock.advance(FILTERED_TIMEOUT)
    cluster.cache.tick()
    assert cluster.cache.view.counters().assumed == 0
    assert cluster.run_pass() == {}
    assert sorted(cluster.requeue()) == [first, replacement]


def test_a_member_whose_volumes_are_being_provisioned() -> None:
    """Its node is held until kube-scheduler binds it or gives up. The nodes of members that wait are forgotten."""
    cluster = GangCluster("n")
    cluster.create_group("train", 2, schedule_timeout=20.0)
    first, second = cluster.create_members("train", [WHOLE] * 2, constraints=VOLUMES)
    assert cluster.filter(first).node == "n"
    cluster.clock.advance(PREBIND_TIMEOUT - 1)
    cluster.cache.tick()
    assert [cluster.cache.state.node_of(cluster.pods[name].uid) for name in (first, second)] == ["n", ""]
    cluster.clock.advance(1)
    cluster.cache.tick()
    assert cluster.cache.view.counters().assumed == 0


def test_deleted_while_bound() -> None:
    """A member deleted during its binding does not stop the others; the gang then waits only for its replacement."""
    cluster = GangCluster("n", "m")
    names = cluster.create_gang("train", [WHOLE] * 3)
    cluster.filter_and_bind(names[0])
    first, second = cluster.cache.place_waiting()
    cluster.cache.end_binding(first, "gone")
    cluster.delete(first.pod.name)
    cluster.finish(second)
    assert all(cluster.arrive(name) for name in cluster.bound)
    cluster.create_members("train", [WHOLE], first=3)
    assert cluster.run_pass().keys() == {"train-3"}


@pytest.mark.parametrize("direct", [True, False])
def test_kube_scheduler_binds(*, direct: bool) -> None:
    """Without direct binding, or with a constraint that only kube-scheduler checks, each pod is requeued."""
    cluster = GangCluster("n", "m", direct_binding=direct)
    names = cluster.create_gang("train", [WHOLE] * 4, constraints=VOLUMES if direct else Constraints())
    assert cluster.filter_and_bind(names[0])
    assert cluster.run_pass() == {}
    assert sorted(cluster.requeue()) == names[1:]
    assert cluster.requeue() == []
    cluster.create("single", WHOLE)
    assert not cluster.filter("single").node, "all zones are held"
    for name in names[1:]:
        assert cluster.filter_and_bind(name)
    assert all(cluster.arrive(name) for name in names)


def test_kube_scheduler_excludes_a_node() -> None:
    """If kube-scheduler excludes the node of a member, the gang is placed again, with another node for that member."""
    cluster = GangCluster("n", "m", "o", direct_binding=False)
    names = cluster.create_gang("train", [WHOLE] * 2)
    selected = cluster.filter(names[0]).node
    others = set(cluster.kubelets) - {selected}
    assert cluster.filter(names[0], *others).node in others
    assert cluster.cache.view.counters().assumed == 2


def test_kube_scheduler_excludes_a_node_of_a_gang_that_fills_the_cluster() -> None:
    """The gang is placed again on the nodes that were held for it."""
    cluster = GangCluster("n", "m", direct_binding=False)
    names = cluster.create_gang("train", [WHOLE] * 4)
    selected = cluster.filter(names[0]).node
    [other] = set(cluster.kubelets) - {selected}
    assert cluster.filter(names[0], other).node == other


def test_kube_scheduler_excludes_a_node_while_it_binds_another_member() -> None:
    """The member that it binds keeps its node. Only the rest of the gang is placed again."""
    cluster = GangCluster("n", "m", "o", direct_binding=False)
    names = cluster.create_gang("train", [WHOLE] * 3, constraints=VOLUMES)
    selected = {name: cluster.filter(name).node for name in names[:2]}
    others = set(cluster.kubelets) - {selected[names[1]]}
    assert cluster.filter(names[1], *others).node in others
    for number in range(4):
        cluster.create(f"single-{number}", WHOLE)
        cluster.filter_and_bind(f"single-{number}")
    cluster.bound[names[0]] = selected[names[0]]
    assert all(cluster.arrive(name) for name in reversed(cluster.bound))


def test_held_nodes_are_forgotten() -> None:
    """If kube-scheduler binds nothing for scheduleTimeoutSeconds, the nodes are forgotten, and the pods requeued."""
    cluster = GangCluster("n", direct_binding=False)
    cluster.create_group("train", 2, schedule_timeout=20.0)
    names = cluster.create_members("train", [WHOLE] * 2)
    assert cluster.filter(names[0]).node == "n"
    cluster.clock.advance(20)
    cluster.cache.tick()
    assert cluster.cache.view.counters().assumed == 0
    assert sorted(cluster.requeue()) == names


def test_held_nodes_outlast_the_assume_timeout() -> None:
    """Held nodes and their reserved requests last for scheduleTimeoutSeconds, although assumed pods expire earlier."""
    timeout = 5 * LedgerTimeouts().assume_timeout
    cluster = GangCluster("n", allocatable=Resource(20_000, 0, 110, 0), direct_binding=False)
    cluster.create_group("train", 2, schedule_timeout=timeout)
    names = cluster.create_members("train", [WHOLE] * 2)
    assert cluster.filter(names[0]).node == "n"
    cluster.clock.advance(timeout - 1)
    cluster.cache.tick()
    assert cluster.cache.view.counters().assumed == 2
    unaligned = cluster.create("unaligned", SHARED, constraints=Constraints(Resource(8_000, 0, 1, 0)))
    assert cluster.cache.reserve(unaligned.uid, "n") is not None
    cluster.clock.advance(1)
    cluster.cache.tick()
    assert cluster.cache.view.counters().assumed == 0
    assert cluster.cache.reserve(unaligned.uid, "n") is None


def test_waiting_gang_without_direct_binding() -> None:
    """The gang is placed as soon as it fits, and its pods are requeued."""
    cluster = GangCluster("n", direct_binding=False)
    cluster.create("blocker", WHOLE)
    cluster.filter_and_bind("blocker")
    assert cluster.arrive("blocker")
    names = cluster.create_gang("train", [WHOLE] * 2)
    assert cluster.reason(names[0]).startswith("PodGroup lab/train does not fit")
    cluster.end("blocker")
    cluster.report("n")
    assert sorted(cluster.requeue()) == names
    assert all(cluster.filter_and_bind(name) for name in names)
