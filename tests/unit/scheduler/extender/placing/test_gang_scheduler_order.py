"""Older gangs come first, and the zones of members follow the order of their arrival."""

from __future__ import annotations

import pytest

from support.gang_clusters import GangCluster, group_key
from support.ledger_kubelets import pod_shape
from zonewise_common.k8s.labels import Requirement
from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.extender.objects.pod_group import PodGroup
from zonewise_scheduler.nodes.filters.constraints import Constraints

HALF, WHOLE = pod_shape((4, 0)), pod_shape((8, 0))
"""Half and all of a zone's CPUs; a node has two zones."""


def test_order_of_gangs() -> None:
    """Gangs are ordered by priority, then by the age of the PodGroup."""
    cluster = GangCluster("n", "m")
    blocker = cluster.create_gang("blocker", [WHOLE] * 4)
    cluster.filter_and_bind(blocker[0])
    cluster.run_pass()
    assert all(cluster.arrive(name) for name in blocker)
    for group, priority in (("old", 0), ("young", 0), ("high", 5)):
        names = cluster.create_gang(group, [WHOLE] * 2, priority=priority)
        cluster.filter(names[0])
        cluster.clock.advance(1)
    for expected in ("high", "old", "young"):
        node = cluster.bound[blocker[0]]
        for name in [name for name in blocker if cluster.bound[name] == node]:
            cluster.end(name)
            blocker.remove(name)
        cluster.report(node)
        assert cluster.run_pass().keys() == {f"{expected}-0", f"{expected}-1"}
        blocker = blocker or [f"{expected}-0", f"{expected}-1"]
        for index in range(2):
            assert cluster.arrive(f"{expected}-{index}")


@pytest.mark.parametrize("created", [1, 3])
def test_an_older_pod_does_not_put_younger_ones_before_a_gang(created: int) -> None:
    """The oldest pod fits on no node. The gang comes before a younger pod, and after an older one."""
    cluster = GangCluster("n")
    for name in "ab":
        cluster.create(name, WHOLE)
        assert cluster.filter_and_bind(name)
        assert cluster.arrive(name)
    constraints = Constraints(Resource(8000, 0, 1, 0), selector=(Requirement("label", "Exists", ()),))
    cluster.create("oldest", WHOLE, constraints=constraints, created=0)
    cluster.create_group("train", 2)
    names = cluster.create_members("train", [WHOLE] * 2)
    cluster.cache.update_pod_group(None, PodGroup(group_key("train"), 2, 2))
    cluster.create("single", WHOLE, created=created)
    for name in ("oldest", "single", names[0]):
        assert not cluster.filter(name).node
    for name in "ab":
        cluster.end(name)
    cluster.report("n")
    assert cluster.run_pass().keys() == ({"single"} if created == 1 else set(names))


def test_filter_places_older_gangs_first() -> None:
    """A call for a younger gang does not take nodes that an older waiting gang needs."""
    cluster = GangCluster("n", "m")
    blocker = cluster.create("blocker", WHOLE)
    cluster.filter_and_bind(blocker.name)
    old = cluster.create_gang("old", [WHOLE] * 4)
    cluster.clock.advance(1)
    young = cluster.create_gang("young", [WHOLE] * 4)
    assert cluster.reason(old[0])
    assert cluster.arrive("blocker")
    cluster.end("blocker")
    cluster.report(cluster.bound["blocker"])
    assert cluster.reason(young[0]).startswith("PodGroup lab/young does not fit")
    assert cluster.run_pass().keys() == set(old)


def test_order_of_arrival() -> None:
    """5, 5, 3 and 3 CPUs fit on one node only in this order of arrival, so the ledger makes the last pod move."""
    cluster = GangCluster("n", "m")
    names = cluster.create_gang("train", [pod_shape((cpus, 0)) for cpus in (5, 5, 3, 3)])
    assert cluster.filter_and_bind(names[0])
    assert cluster.run_pass().keys() == set(names[1:])
    assert set(cluster.bound.values()) == {"n", "m"}
    assert all(cluster.arrive(name) for name in reversed(names))


def test_order_of_arrival_on_a_single_node() -> None:
    """There is no second node, so the gang waits, and nothing is assumed."""
    cluster = GangCluster("n")
    names = cluster.create_gang("train", [pod_shape((cpus, 0)) for cpus in (5, 5, 3, 3)])
    assert cluster.reason(names[0]).endswith("node(s) whose kubelet has yet to report the pods that were sent there")
    assert cluster.cache.view.counters().assumed == 0
