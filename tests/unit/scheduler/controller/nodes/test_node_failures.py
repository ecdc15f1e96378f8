"""When a node counts as failed for a workload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from zonewise_common.k8s.taints import Taint, Toleration
from zonewise_scheduler.controller.nodes.idle_nodes import IdleNodes
from zonewise_scheduler.controller.nodes.node_failures import (
    CLOSING_DELAY,
    MAX_UNHEALTHY_NODES,
    closes_at,
    find_node_failures,
    tolerates_taints,
)
from zonewise_scheduler.controller.nodes.types import NodeHealth
from zonewise_scheduler.nodes.node.avoided_conditions import KEY, SINGLE_POD
from zonewise_scheduler.quota.api.workload_types import Admission, PodSet, PodSetAdmission, Workload
from zonewise_scheduler.quota.topology.types import HOSTNAME, TopologyAssignment, TopologyDomainAssignment

if TYPE_CHECKING:
    from collections.abc import Sequence

READY = NodeHealth(ready=True, ready_since=0.0)
GONE = NodeHealth(ready=False, ready_since=None)
"""A node without the condition Ready."""
MAINTENANCE = Taint("maintenance", "", "NoExecute")


def failures(
    nodes: dict[str, NodeHealth], workloads: list[Workload], pods: Sequence[tuple[str, str]] = (), **fields: Any
) -> dict[str, tuple[str, ...]]:
    """Return the changed lists of unhealthy nodes; `pods`: the pod set and the node of each bound pod."""
    return find_node_failures(nodes, workloads, IdleNodes(lambda _workload: pods), **fields)


def workload(nodes: str, *, level: str = HOSTNAME, tolerations: tuple[Toleration, ...] = (), **fields: Any) -> Workload:
    """Return a running workload with a pod on each node."""
    domains = tuple(TopologyDomainAssignment((name,), 1) for name in nodes)
    admission = PodSetAdmission("main", {"cpu": "all"}, {}, len(nodes), TopologyAssignment((level,), domains))
    pod_set = PodSet("main", len(nodes), tolerations=tolerations)
    return Workload("ns", "w", (pod_set,), admission=Admission("queue", (admission,)), **fields)


def not_ready(since: float) -> NodeHealth:
    return NodeHealth(ready=False, ready_since=since)


def test_a_node_that_is_not_ready_closes_after_the_delay() -> None:
    """It does not fail, since its pods may still run."""
    nodes = {"a": READY, "b": not_ready(100.0)}
    assert failures(nodes, [workload("ab")]) == {}
    assert [closes_at(nodes[name]) for name in "ab"] == [None, 100.0 + CLOSING_DELAY]
    assert closes_at(GONE) is None, "it fails at once"


@pytest.mark.parametrize("nodes", [{}, {"a": GONE}])
def test_deleted_node_fails_at_once(nodes: dict[str, NodeHealth]) -> None:
    """A node without the Ready condition also fails at once."""
    assert failures(nodes, [workload("a")]) == {"ns/w": ("a",)}


def test_the_list_follows_the_nodes() -> None:
    """A node that recovered, or that the placement lacks, leaves the list; an unchanged list is not written again."""
    failed = {"a": READY, "b": GONE, "c": GONE}
    assert failures(failed, [workload("abc", unhealthy_nodes=("c", "b"))]) == {}
    assert failures(failed, [workload("abc", unhealthy_nodes=("b",))]) == {"ns/w": ("b", "c")}
    assert failures({"a": READY}, [workload("a", unhealthy_nodes=("a",))]) == {"ns/w": ()}
    many = "abcdefghijkl"
    listed = failures({}, [workload(many)])["ns/w"]
    assert listed == tuple(many[:MAX_UNHEALTHY_NODES])


def test_untolerated_taint_fails_a_node() -> None:
    """A NoExecute taint fails the node for pod sets that do not tolerate it, themselves or through their flavor."""
    nodes = {"a": READY._replace(no_execute=(MAINTENANCE,))}
    tolerations = (Toleration("maintenance", "Exists"),)
    assert failures(nodes, [workload("a")]) == {"ns/w": ("a",)}
    assert failures(nodes, [workload("a", tolerations=tolerations)]) == {}
    by_flavor = {"all": tolerations}
    assert failures(nodes, [workload("a")], flavor_tolerations=by_flavor) == {}
    gone = {"a": GONE._replace(no_execute=(MAINTENANCE,))}
    assert failures(gone, [workload("a", tolerations=tolerations)]) == {"ns/w": ("a",)}


@pytest.mark.parametrize("pod_set", ["main", ""])
@pytest.mark.parametrize("health", [None, GONE, READY._replace(no_execute=(MAINTENANCE,))])
def test_a_node_whose_pods_have_all_succeeded_does_not_fail(pod_set: str, health: NodeHealth | None) -> None:
    nodes = {"a": READY, **({} if health is None else {"b": health})}
    running = workload("ab", reclaimable_pods={"main": 1})
    assert failures(nodes, [running], [(pod_set, "a")]) == {}
    assert failures(nodes, [running], [(pod_set, "b")]) == {"ns/w": ("b",)}
    assert failures(nodes, [running], [("other", "a")]) == {"ns/w": ("b",)}
    assert failures(nodes, [workload("ab")], [(pod_set, "a")]) == {"ns/w": ("b",)}, "a pod is missing"


def test_taints_for_unready_nodes_do_not_count() -> None:
    """The node controller taints a node as soon as it is not Ready."""
    taint = Taint("node.kubernetes.io/unreachable", "", "NoExecute")
    nodes = {"a": not_ready(100.0)._replace(no_execute=(taint,))}
    assert failures(nodes, [workload("a")]) == {}


def test_placements_above_the_node_name_no_nodes() -> None:
    """A workload that is placed on racks has no unhealthy nodes."""
    assert failures({}, [workload("a", level="rack"), Workload("ns", "idle", ())]) == {}


def test_an_avoided_node_fails_only_for_the_workload_that_avoids_it() -> None:
    """The list is empty again once the workload no longer avoids the node."""
    nodes = {"a": READY, "b": READY}
    placed, avoided = [workload("ab")], {"ns/w": {"b", "c"}}
    assert failures(nodes, placed, avoided=avoided) == {"ns/w": ("b",)}
    assert failures(nodes, placed, avoided={"ns/other": {"a"}}) == {}
    listed = [workload("ab", unhealthy_nodes=("b",))]
    assert failures(nodes, listed, avoided=avoided) == {}
    assert failures(nodes, listed) == {"ns/w": ()}


def test_gangs_avoid_a_condition_but_single_pods_do_not() -> None:
    suspect = (Taint(KEY, "GPUHardwareFault XID79", "NoSchedule"),)
    assert not tolerates_taints(workload("ab"), "main", suspect)
    assert tolerates_taints(workload("ab"), "main", ())
    assert tolerates_taints(workload("ab"), "absent", suspect)
    assert tolerates_taints(workload("a", tolerations=(SINGLE_POD,)), "main", suspect)
    assert tolerates_taints(Workload("ns", "w", ()), "main", suspect)


def test_pods_or_their_flavors_tolerate_a_taint() -> None:
    taints, tolerations = (Taint("maintenance", "", "NoSchedule"),), (Toleration("maintenance", "Exists"),)
    assert not tolerates_taints(workload("a"), "main", taints)
    assert tolerates_taints(workload("a", tolerations=tolerations), "main", taints)
    assert tolerates_taints(workload("a"), "main", taints, {"all": tolerations})


def test_a_node_whose_taint_is_tolerated_for_a_time_closes_but_does_not_fail() -> None:
    """Its pods run until they are evicted. Others would be evicted too."""
    placed = workload("a", tolerations=(Toleration("maintenance", "Exists", is_temporary=True),))
    assert failures({"a": READY._replace(no_execute=(MAINTENANCE,))}, [placed]) == {}
    assert not tolerates_taints(placed, "main", (MAINTENANCE,))
    assert tolerates_taints(placed, "main", (MAINTENANCE,), {"all": (Toleration("maintenance", "Exists"),)})


def test_running_pods_keep_a_node_that_is_closed_to_further_ones() -> None:
    tainted = READY._replace(closing=(Taint("maintenance", "", "NoSchedule"),))
    assert failures({"a": tainted}, [workload("a")]) == {}, "its pods continue to run"
