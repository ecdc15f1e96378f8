"""The nodes, in the form that the controller needs."""

from __future__ import annotations

import json
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from support.queue_objects import cluster_queue_spec
from zonewise_common.k8s.taints import Toleration
from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.backfill.recording.planner_feed import PlannerFeed
from zonewise_scheduler.controller.nodes.node_view import NodeView
from zonewise_scheduler.controller.nodes.observed_objects import decode_node, decode_pod
from zonewise_scheduler.nodes.devices.provided_devices import DeviceResource
from zonewise_scheduler.nodes.devices.resource_slices import decode_slice
from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS
from zonewise_scheduler.quota.api.workload_types import Admission, PodSet, PodSetAdmission, Workload
from zonewise_scheduler.quota.topology.types import HOSTNAME, TopologyAssignment, TopologyDomainAssignment
from zonewise_scheduler.tas.cluster_nodes import ClusterNodes

if TYPE_CHECKING:
    from zonewise_scheduler.controller.nodes.types import TrackedNode
    from zonewise_scheduler.nodes.devices.resource_slices import ResourceSlice


Json = dict[str, Any]


GPU = {"key": "gpu", "value": "present", "effect": "NoSchedule"}


def node(name: str, hostname: str = "") -> bytes:
    labels = {"kubernetes.io/hostname": hostname} if hostname else {}
    return json.dumps({"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {}}).encode()


def test_nodes_are_known_by_their_hostname_while_they_exist() -> None:
    view = NodeView()
    view.observe_node("node-1", decode_node(node("node-1", "host-1")))
    view.observe_node("node-2", decode_node(node("node-2")))
    assert view.names_by_hostname == {"host-1": "node-1", "node-2": "node-2"}
    view.observe_node("node-1", decode_node(node("node-1", "other")))
    view.observe_node("node-2", None)
    assert view.names_by_hostname == {"other": "node-1"}


def test_a_node_that_replaces_another_with_its_hostname_remains_known() -> None:
    """The watch shows the new Node before it shows the deletion of the old one."""
    view = NodeView()
    view.observe_node("old", decode_node(node("old", "host")))
    view.observe_node("new", decode_node(node("new", "host")))
    view.observe_node("old", None)
    assert view.names_by_hostname == {"host": "new"}
    view.observe_node("old", decode_node(node("old", "host")))
    view.observe_node("old", decode_node(node("old", "other")))
    view.observe_node("new", None)
    assert view.names_by_hostname == {"other": "old"}


def ready_node(name: str, cpus: str, **spec: object) -> bytes:
    status = {"allocatable": {"cpu": cpus, "pods": "9"}, "conditions": [{"type": "Ready", "status": "True"}]}
    return json.dumps({"metadata": {"name": name}, "spec": spec, "status": status}).encode()


def bound_pod(name: str, node: str, cpus: str, phase: str = "Running") -> bytes:
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpus}}}]
    spec = {"nodeName": node, "containers": containers}
    return json.dumps(
        {"metadata": {"namespace": "ns", "name": name}, "spec": spec, "status": {"phase": phase}}
    ).encode()


def device_slice(node: str, devices: int) -> ResourceSlice:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "a.io", "nodeName": node, "pool": pool, "devices": [{"name": f"d{i}"} for i in range(devices)]}
    return decode_slice(json.dumps({"metadata": {"name": node}, "spec": spec}).encode())


def test_the_planner_is_fed_the_devices_that_nodes_provide() -> None:
    """Only kube-scheduler can allocate them, so that a node has none of them for a binding."""
    entries: list[Json] = []
    feed = PlannerFeed(BackfillPolicy(), DEFAULT_SETTINGS, ClusterNodes(), entries.append)
    view = NodeView()

    def fed() -> dict[str, str | None]:
        """Return the devices of the nodes that the planner is fed, by node."""
        entries.clear()
        view.feed(feed)
        objects = {change["node"]: json.loads(change["object"]) for entry in entries for change in entry["changes"]}
        return {name: obj["status"]["allocatable"].get("a.io/gpu") for name, obj in objects.items()}

    for name in ("n", "m"):
        view.observe_node(name, decode_node(ready_node(name, "4")))
    view.observe_slice("n", device_slice("n", 2))
    assert fed() == {"n": None, "m": None}
    view.end_slice_listing()
    assert fed() == {}
    view.set_device_resources((DeviceResource("a.io/gpu", "gpus"),))
    assert fed() == {"n": "2"}
    info = view.node_info("n")
    assert info is not None
    assert info.allocatable.scalar_resources == ()
    view.observe_slice("m", device_slice("m", 3))
    view.observe_node("n", decode_node(ready_node("n", "8")))
    assert fed() == {"n": "2", "m": "3"}
    view.observe_slice("m", None)
    view.observe_node("n", decode_node(ready_node("n", "8")))
    assert fed() == {"m": None}
    view.set_device_resources(())
    assert fed() == {"n": None}


def test_the_info_of_a_node_has_the_requests_of_all_its_pods() -> None:
    view = NodeView()
    assert view.node_info("node-1") is None
    view.observe_node("node-1", decode_node(ready_node("node-1", "4")))
    for name, cpus in (("a", "1"), ("b", "2")):
        view.tracker.observe_pod("ns", name, decode_pod(bound_pod(name, "node-1", cpus)))
    info = view.node_info("node-1")
    assert info is not None
    assert (info.allocatable.milli_cpus, info.requested.milli_cpus, info.requested.pods) == (4000, 3000, 2)
    view.observe_node("node-1", decode_node(ready_node("node-1", "8", unschedulable=True)))
    view.tracker.observe_pod("ns", "a", decode_pod(bound_pod("a", "node-1", "1", "Succeeded")))
    info = view.node_info("node-1")
    assert info is not None
    assert (info.allocatable.milli_cpus, info.requested.milli_cpus, info.unschedulable) == (8000, 2000, True)


def test_a_node_that_is_not_ready_or_invalid_has_no_info() -> None:
    view = NodeView()
    view.observe_node("node-1", decode_node(node("node-1")))
    view.observe_node("node-2", decode_node(ready_node("node-2", "damaged")))
    assert view.node_info("node-1") is view.node_info("node-2") is None
    view.observe_node("node-2", None)
    assert view.node_info("node-2") is None


def test_a_node_is_relieved_when_a_pod_leaves_or_the_node_changes() -> None:
    tracker = NodeView().tracker
    tracker.observe_node("node-1", decode_node(ready_node("node-1", "4")))
    assert tracker.take_relieved() == {"node-1"}
    tracker.observe_pod("ns", "a", decode_pod(bound_pod("a", "node-1", "1")))
    assert tracker.take_relieved() == set()
    tracker.observe_pod("ns", "a", decode_pod(bound_pod("a", "node-1", "1", "Failed")))
    assert tracker.take_relieved() == {"node-1"}
    tracker.observe_pod("ns", "a", decode_pod(bound_pod("a", "node-1", "1")))
    tracker.observe_pod("ns", "a", None)
    assert tracker.take_relieved() == {"node-1"}


def test_a_change_is_fed_once() -> None:
    view, feed = NodeView(), PlannerFeed(BackfillPolicy(), DEFAULT_SETTINGS, ClusterNodes())
    assert not view.feed(feed)
    view.observe_node("node-1", decode_node(node("node-1")))
    assert view.feed(feed)
    assert not view.feed(feed)


def test_a_condition_that_gangs_avoid_does_not_affect_placed_pods() -> None:
    """The planner treats the condition as a taint; the binder of placed pods ignores it."""
    view = NodeView()
    node = json.loads(bytes(ready_node("node-1", "4")))
    node["status"]["conditions"].append({"type": "GPUHardwareFault", "status": "True", "reason": "XID79"})
    tracked = decode_node(json.dumps(node).encode(), ("GPUHardwareFault",))
    assert "GPUHardwareFault XID79" in tracked.content
    view.observe_node("node-1", tracked)
    info = view.node_info("node-1")
    assert info is not None
    assert info.taints == ()


def placed_gang() -> Workload:
    """Return a workload of flavor `all` with a pod on each of two nodes."""
    domains = tuple(TopologyDomainAssignment((name,), 1) for name in "ab")
    admission = PodSetAdmission("main", {"cpu": "all"}, {}, 2, TopologyAssignment((HOSTNAME,), domains))
    return Workload("ns", "w", (PodSet("main", 2),), admission=Admission("queue", (admission,)))


def suspect(name: str, status: str = "True") -> TrackedNode:
    node = json.loads(ready_node(name, "4"))
    node["status"]["conditions"].append({"type": "GPUHardwareFault", "status": status, "reason": "XID79"})
    return decode_node(json.dumps(node).encode(), ("GPUHardwareFault",))


def test_a_gang_avoids_a_suspect_node_until_the_condition_ends() -> None:
    """The node is checked at once; it counts as failed while the workload is placed there and the condition holds."""
    view, feed = NodeView(), PlannerFeed(BackfillPolicy(), DEFAULT_SETTINGS, ClusterNodes())
    gang = placed_gang()
    feed.state.running_workloads.add(gang)
    view.set_placement(gang.key, gang)
    view.observe_node("a", suspect("a"))
    view.observe_node("b", suspect("b", "False"))
    assert (view.avoids(feed, gang.key, "main", "a"), view.avoids(feed, gang.key, "main", "b")) == (True, False)
    assert not view.avoids(feed, "ns/unknown", "main", "a")
    assert view.unhealthy_nodes(feed, 1.0) == {}
    view.avoid(gang.key, "a")
    assert view.check_at <= 1.0
    assert view.unhealthy_nodes(feed, 1.0) == {gang.key: ("a",)}
    assert view.check_at > 1e9
    view.avoid(gang.key, "a")
    assert view.check_at > 1e9
    feed.state.running_workloads.remove(gang.key)
    feed.state.running_workloads.add(replace(gang, unhealthy_nodes=("a",)))
    view.observe_node("a", suspect("a", "False"))
    assert view.unhealthy_nodes(feed, 2.0) == {gang.key: ()}


def test_a_cordoned_node_fails_for_a_workload_without_pods_there_until_it_is_open_again() -> None:
    view, feed = NodeView(), PlannerFeed(BackfillPolicy(), DEFAULT_SETTINGS, ClusterNodes())
    gang = placed_gang()
    feed.state.running_workloads.add(gang)
    view.set_placement(gang.key, gang)
    view.observe_node("a", decode_node(ready_node("a", "4", unschedulable=True)))
    view.observe_node("b", decode_node(ready_node("b", "4")))
    closed = [view.is_closed(feed, 1.0, gang.key, "main", name) for name in ("a", "b", "unknown")]
    assert closed == [True, False, False]
    assert not view.is_closed(feed, 1.0, "ns/unknown", "main", "a")
    assert view.unhealthy_nodes(feed, 1.0) == {}
    view.avoid(gang.key, "a")
    assert view.unhealthy_nodes(feed, 1.0) == {gang.key: ("a",)}
    feed.state.running_workloads.remove(gang.key)
    feed.state.running_workloads.add(replace(gang, unhealthy_nodes=("a",)))
    view.observe_node("a", decode_node(ready_node("a", "4")))
    assert view.unhealthy_nodes(feed, 2.0) == {gang.key: ()}


def unready_node(name: str, since: str) -> TrackedNode:
    node = json.loads(ready_node(name, "4"))
    node["status"]["conditions"] = [{"type": "Ready", "status": "Unknown", "lastTransitionTime": since}]
    return decode_node(json.dumps(node).encode())


def test_a_node_that_is_not_ready_closes_once() -> None:
    """Pods that wait for it are checked then. It counts as failed for a workload that avoids it until it is Ready."""
    view, feed = NodeView(), PlannerFeed(BackfillPolicy(), DEFAULT_SETTINGS, ClusterNodes())
    gang = placed_gang()
    feed.state.running_workloads.add(gang)
    view.set_placement(gang.key, gang)
    view.observe_node("a", unready_node("a", "1970-01-01T00:01:40Z"))
    view.observe_node("b", decode_node(ready_node("b", "4")))
    assert view.take_changed(101.0) == {"a", "b"}
    assert (view.check_at, view.take_changed(129.0)) == (130.0, set())
    assert not view.is_closed(feed, 129.0, gang.key, "main", "a")
    assert view.take_changed(130.0) == {"a"}
    assert view.take_changed(131.0) == set()
    assert view.check_at > 1e9
    assert view.is_closed(feed, 130.0, gang.key, "main", "a")
    assert view.unhealthy_nodes(feed, 130.0) == {}
    view.avoid(gang.key, "a")
    assert view.unhealthy_nodes(feed, 130.0) == {gang.key: ("a",)}
    feed.state.running_workloads.remove(gang.key)
    feed.state.running_workloads.add(replace(gang, unhealthy_nodes=("a",)))
    view.observe_node("a", decode_node(ready_node("a", "4")))
    assert view.unhealthy_nodes(feed, 140.0) == {gang.key: ()}


def test_a_node_outside_the_placement_needs_no_further_check() -> None:
    """A pod may still wait for a node that the planner has replaced, or its workload may be invalid."""
    view = NodeView()
    gang = placed_gang()
    view.avoid(gang.key, "a")
    view.set_placement(gang.key, gang)
    view.avoid(gang.key, "c")
    assert view.check_at == inf
    view.avoid(gang.key, "a")
    assert view.check_at == 0.0


def test_a_node_that_is_open_again_is_used_although_it_has_a_tolerated_taint() -> None:
    """Nodes with GPUs often have a taint that all pods with GPUs tolerate."""
    view, feed = NodeView(), PlannerFeed(BackfillPolicy(), DEFAULT_SETTINGS, ClusterNodes())
    pod_set = PodSet("main", 2, tolerations=(Toleration("gpu", "Exists"),))
    gang = replace(placed_gang(), pod_sets=(pod_set,))
    feed.state.running_workloads.add(gang)
    view.set_placement(gang.key, gang)
    for name in "ab":
        view.observe_node(name, decode_node(ready_node(name, "4", taints=[GPU], unschedulable=name == "a")))
    view.avoid(gang.key, "a")
    assert view.unhealthy_nodes(feed, 1.0) == {gang.key: ("a",)}
    view.observe_node("a", decode_node(ready_node("a", "4", taints=[GPU])))
    assert view.unhealthy_nodes(feed, 2.0) == {}


TOLERATE_ALL = {"tolerations": [{"operator": "Exists"}]}


def set_flavor(feed: PlannerFeed, spec: Json) -> None:
    """Configure the flavor `all` of the only queue."""
    flavor = {"metadata": {"name": "all"}, "spec": spec}
    queue = {"metadata": {"name": "queue"}, "spec": cluster_queue_spec({"cpu": "9"}, "all")}
    lists: dict[str, list[Json]] = {"cohorts": [], "localQueues": [], "topologies": []}
    feed.configure({**lists, "clusterQueues": [queue], "resourceFlavors": [flavor]}, {})


def test_the_tolerations_of_a_flavor_count_for_taints_of_nodes() -> None:
    """The pods get them at the start, so a taint that they tolerate ends no pod. A changed flavor counts at once."""
    view, feed = NodeView(), PlannerFeed(BackfillPolicy(), DEFAULT_SETTINGS, ClusterNodes())
    set_flavor(feed, TOLERATE_ALL)
    taint = {"key": "dedicated", "value": "training", "effect": "NoExecute"}
    gang = placed_gang()
    feed.state.running_workloads.add(gang)
    view.set_placement(gang.key, gang)
    for name in "ab":
        view.observe_node(name, decode_node(ready_node(name, "4", taints=[taint])))
    assert view.unhealthy_nodes(feed, 1.0) == {}
    set_flavor(feed, {})
    assert view.unhealthy_nodes(feed, 2.0) == {gang.key: ("a", "b")}


def test_the_tolerations_of_a_flavor_count_for_avoided_conditions() -> None:
    """The planner places the gang on the node, so its pods start there."""
    view, feed = NodeView(), PlannerFeed(BackfillPolicy(), DEFAULT_SETTINGS, ClusterNodes())
    set_flavor(feed, {})
    gang = placed_gang()
    feed.state.running_workloads.add(gang)
    view.set_placement(gang.key, gang)
    view.observe_node("a", suspect("a"))
    assert view.avoids(feed, gang.key, "main", "a")
    set_flavor(feed, TOLERATE_ALL)
    assert not view.avoids(feed, gang.key, "main", "a")


@pytest.mark.parametrize("node_first", [False, True])
def test_a_placement_names_a_node_by_its_hostname(*, node_first: bool) -> None:
    """The label kubernetes.io/hostname may differ from the name; the node is healthy, its pods are in the placement."""
    view, feed = NodeView(), PlannerFeed(BackfillPolicy(), DEFAULT_SETTINGS, ClusterNodes())
    domains = (TopologyDomainAssignment(("host-1",), 1),)
    admission = PodSetAdmission("main", {"cpu": "all"}, {}, 1, TopologyAssignment((HOSTNAME,), domains))
    gang = Workload("ns", "w", (PodSet("main", 1, {"cpu": 1000}),), admission=Admission("queue", (admission,)))
    feed.state.running_workloads.add(gang)
    obj = json.loads(ready_node("node-1.example", "4"))
    obj["metadata"]["labels"] = {"kubernetes.io/hostname": "host-1"}
    observed = json.loads(bound_pod("a", "node-1.example", "1"))
    observed["metadata"]["annotations"] = {"kueue.x-k8s.io/workload": "w"}
    steps = [
        lambda: view.observe_node("node-1.example", decode_node(json.dumps(obj).encode())),
        lambda: view.set_placement(gang.key, gang),
        lambda: view.tracker.observe_pod("ns", "a", decode_pod(json.dumps(observed).encode())),
    ]
    for step in steps if node_first else reversed(steps):
        step()
    [change] = view.tracker.take_changes()
    assert not change.get("usage"), "the planner accounts for the pod by the placement"
    assert view.unhealthy_nodes(feed, 1.0) == {}
    view.observe_node("node-1.example", None)
    assert view.unhealthy_nodes(feed, 2.0) == {gang.key: ("host-1",)}
