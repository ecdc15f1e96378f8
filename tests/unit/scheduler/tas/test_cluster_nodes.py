"""Changes of nodes: topologies, usage and reports, in any batches."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from support.fit_nodes import STRICT, node
from support.node_changes import CHANGES, WIDE, node_change
from support.reported_pods import key_of, running_node
from support.tas_clusters import FLAVORS, LEVELS, job, pods_of_shape
from zonewise_scheduler.quota.api.queue_types import ResourceFlavor
from zonewise_scheduler.quota.api.workload_types import Admission, PodSet, PodSetAdmission, TopologyRequest, Workload
from zonewise_scheduler.quota.hierarchy.topology_snapshot import PlacementRequest, TopologyPlacementFailure
from zonewise_scheduler.quota.topology.types import PodSetTopologyRequest
from zonewise_scheduler.tas.cluster_nodes import ClusterNodes
from zonewise_scheduler.tas.zones.zone_level import ZONE_LEVEL

if TYPE_CHECKING:
    from zonewise_scheduler.tas.tas_snapshot import TASSnapshot

Json = dict[str, Any]

TOPOLOGIES = {"racks": LEVELS}


def placements_of(nodes: ClusterNodes) -> TASSnapshot:
    return nodes.placements(FLAVORS[:1], TOPOLOGIES)


def most_pods(snapshot: TASSnapshot, cpus: int = 1000) -> int:
    """Return how many pods with a CPU request fit, up to 64; `cpus` is in milli-CPUs."""
    for count in range(64, 0, -1):
        topology = TopologyRequest(PodSetTopologyRequest(unconstrained=True))
        workload = job("probe", PodSet("main", count, {"cpu": cpus}, topology=topology))
        if hosts(snapshot, workload) is not None:
            return count
    return 0


def hosts(snapshot: TASSnapshot, workload: Workload) -> dict[str, int] | None:
    """Return the number of pods by host for a workload with one pod set; None if it does not fit."""
    requests = [PlacementRequest(pod_set, pod_set.pods, "all") for pod_set in workload.pod_sets]
    result = snapshot.find_topology_assignments(workload, {"all": requests}, empty=False)
    if isinstance(result, TopologyPlacementFailure):
        return None
    return {domain.values[-1]: domain.pods for domain in result["main"].domains}


def fits_without_queue(snapshot: TASSnapshot, pods: int) -> bool:
    """Return whether this many wide pods would fit if no pods of the queue were running."""
    workload = job("probe", pods_of_shape(WIDE, pods))
    requests = {"all": [PlacementRequest(workload.pod_sets[0], pods, "all")]}
    result = snapshot.find_topology_assignments(workload, requests, empty=True)
    return not isinstance(result, TopologyPlacementFailure)


def start(snapshot: TASSnapshot, workload: Workload) -> Workload:
    """Start a workload with one pod set; return it with its admission."""
    requests = [PlacementRequest(workload.pod_sets[0], workload.pod_sets[0].pods, "all")]
    result = snapshot.find_topology_assignments(workload, {"all": requests}, empty=False)
    assert not isinstance(result, TopologyPlacementFailure)
    admission = PodSetAdmission("main", {"pods": "all"}, {}, workload.pod_sets[0].pods, result["main"])
    running = replace(workload, admission=Admission("a", (admission,)))
    snapshot.add(running)
    return running


def test_nodes_join_and_leave() -> None:
    """Nodes that are ready and schedulable form the topologies. Any change of these nodes requires new topologies."""
    nodes = ClusterNodes()
    assert nodes.apply([node_change("a"), node_change("b", ready="Unknown"), node_change("c", unschedulable=True)])
    assert most_pods(placements_of(nodes)) == 16
    assert not nodes.apply([node_change("a")])
    assert nodes.apply([node_change("b")])
    assert most_pods(placements_of(nodes)) == 32
    assert nodes.apply([{"node": "a", "object": None}])
    assert nodes.apply([node_change("b", cpus=10)])
    assert most_pods(placements_of(nodes)) == 10
    taint = {"key": "maintenance", "effect": "NoExecute"}
    assert nodes.apply([node_change("b", cpus=10, taints=[taint])])
    assert most_pods(placements_of(nodes)) == 0


def test_flavors_without_topology_have_quota_only() -> None:
    """Only flavors with a known, valid Topology have placements. An invalid Topology affects only its own flavors."""
    nodes = ClusterNodes()
    nodes.apply([node_change("a")])
    snapshot = nodes.placements((ResourceFlavor("plain"), ResourceFlavor("lost", topology_name="absent")), {})
    assert not any(map(snapshot.has_topology, ("plain", "lost")))
    broken = ResourceFlavor("broken", topology_name="zones-first")
    snapshot = nodes.placements((*FLAVORS, broken), {**TOPOLOGIES, "zones-first": (ZONE_LEVEL, "rack")})
    assert [snapshot.has_topology(name) for name in ("all", "fast", "broken")] == [True, True, False]
    assert ZONE_LEVEL in nodes.problems["ResourceFlavor/broken"][0]


def test_usage_changes_in_place() -> None:
    """Pods outside the queue are counted in the existing topologies."""
    nodes = ClusterNodes()
    nodes.apply([node_change("a")])
    snapshot = placements_of(nodes)
    assert most_pods(snapshot) == 16
    assert not nodes.apply([{"node": "a", "usage": {"cpu": 3500, "example.com/gpu": 1}, "pods": 2}])
    assert most_pods(snapshot) == 12
    assert not nodes.apply([{"node": "a", "usage": {}, "pods": 109}])
    assert most_pods(snapshot) == 1
    assert not nodes.apply([{"node": "a", "usage": {}, "pods": 0}])
    assert most_pods(snapshot) == 16


def test_usage_and_report_may_precede_their_node() -> None:
    """Usage and reports that arrive before their node are applied when the node arrives."""
    nodes = ClusterNodes()
    running = running_node(node(2, 4, **STRICT), [WIDE])
    assert not nodes.apply([{"node": "a", "usage": {"cpu": 1000}, "pods": 1}])
    assert not nodes.apply([{"node": "a", "report": running.report("a")}])
    nodes.apply([node_change("a")])
    snapshot = placements_of(nodes)
    assert most_pods(snapshot) == 15
    assert snapshot.node_state(0) == running.state


def test_reports_change_in_place() -> None:
    """A report limits the pods of the queue to those that its kubelet admits, until the report is deleted."""
    nodes = ClusterNodes()
    nodes.apply([node_change("a")])
    snapshot = placements_of(nodes)
    wide = job("wide", pods_of_shape(WIDE, 2))
    assert not nodes.apply([{"node": "a", "report": running_node(node(2, 4, **STRICT), []).report("a")}])
    assert hosts(snapshot, wide) == {"a": 2}
    assert not nodes.apply([{"node": "a", "report": running_node(node(2, 4, **STRICT), [WIDE]).report("a")}])
    assert hosts(snapshot, wide) is None
    assert not nodes.apply([{"node": "a", "report": None}])
    assert hosts(snapshot, wide) == {"a": 2}


def test_pods_of_the_queue_count_once() -> None:
    """A pod that is admitted, observed and reported counts once, and no longer after its kubelet has ended it."""
    nodes = ClusterNodes()
    idle = running_node(node(2, 4, **STRICT), [])
    nodes.apply([node_change("a"), {"node": "a", "report": idle.report("a")}])
    snapshot = placements_of(nodes)
    first = start(snapshot, job("first", pods_of_shape(WIDE)))
    running = running_node(idle.idle, [WIDE])
    named = {"node": "a", "queuePods": {key_of("p0"): {"workload": "ns/first", "podSet": "main"}}}
    nodes.apply([named])
    assert snapshot.node_state(0) == running.state
    nodes.apply([{"node": "a", "report": running.report("a")}])
    assert snapshot.node_state(0) == running.state
    assert hosts(snapshot, job("next", pods_of_shape(WIDE))) == {"a": 1}
    snapshot.remove(first)
    assert snapshot.node_state(0) == idle.state
    nodes.apply([{"node": "a", "queuePods": {key_of("p0"): {"gone": True, "ended": True}}}])
    assert snapshot.node_state(0) == idle.state
    nodes.apply([{"node": "a", "report": idle.report("a")}])
    assert snapshot.node_state(0) == idle.state


def test_deleted_pod_counts_until_the_report_lacks_it() -> None:
    """If its kubelet has not confirmed the end of a deleted pod, the pod may still be stopping."""
    nodes = ClusterNodes()
    running = running_node(node(2, 4, **STRICT), [WIDE])
    key = key_of("p0")
    nodes.apply([node_change("a"), {"node": "a", "report": running.report("a")}])
    nodes.apply([{"node": "a", "queuePods": {key: {"workload": "ns/first", "podSet": "main"}}}])
    nodes.apply([{"node": "a", "queuePods": {key: {"gone": True}}}])
    snapshot = placements_of(nodes)
    assert snapshot.node_state(0) == running.state
    nodes.apply([{"node": "a", "report": running_node(running.idle, []).report("a")}])
    assert snapshot.node_state(0) == running.idle
    nodes.apply([{"node": "a", "report": running.report("a")}])
    assert not fits_without_queue(snapshot, 2)


def test_unnamed_pods_count_as_others() -> None:
    """If two pods share a key, neither counts as a pod of the queue, nor do their resources."""
    nodes = ClusterNodes()
    running = running_node(node(2, 4, **STRICT), [WIDE])
    nodes.apply([node_change("a"), {"node": "a", "report": running.report("a")}])
    nodes.apply([{"node": "a", "queuePods": {key_of("p0"): {"workload": "ns/first", "podSet": "main"}}}])
    assert fits_without_queue(placements_of(nodes), 2)
    nodes.apply([{"node": "a", "queuePods": {key_of("p0"): None}}])
    assert not fits_without_queue(placements_of(nodes), 2)


def test_release_of_the_kubelet_changes_in_place() -> None:
    """The kubelet's release in the Node affects verdicts; the topologies remain."""
    nodes = ClusterNodes()
    nodes.apply([node_change("a"), {"node": "a", "report": running_node(node(2, 4, **STRICT), []).report("a")}])
    snapshot = placements_of(nodes)
    older = node_change("a")
    assert not nodes.apply([{**older, "object": older["object"].replace("v1.36.2", "v1.31.0")}])
    state = snapshot.node_state(0)
    assert state is not None
    assert state.kind.policies.release == (1, 31)


def test_arrays_grow_with_the_cluster() -> None:
    """Many new nodes require larger arrays and new topologies; the state of other nodes remains."""
    nodes = ClusterNodes()
    running = running_node(node(2, 4, **STRICT), [WIDE])
    nodes.apply([node_change("a"), {"node": "a", "report": running.report("a")}])
    assert nodes.apply([{**node_change(f"n{number}"), "object": '{"spec": 7}'} for number in range(200)])
    assert placements_of(nodes).node_state(0) == running.state
    assert most_pods(placements_of(nodes)) == 16


def test_damage_affects_only_its_node() -> None:
    """An invalid Node or report causes a problem that names it; the other nodes still count."""
    nodes = ClusterNodes()
    damaged = json.dumps({"metadata": {"name": "b"}, "status": {"allocatable": {"cpu": "much"}}})
    nodes.apply([node_change("a"), {"node": "b", "object": damaged}, {"node": "a", "report": '{"zones": 7}'}])
    assert most_pods(placements_of(nodes)) == 16
    assert "cpu" in nodes.problems["b"][0]
    assert nodes.problems["report/a"]
    nodes.apply([node_change("b"), {"node": "a", "report": None}])
    assert most_pods(placements_of(nodes)) == 32
    assert not nodes.problems


@settings(max_examples=60)
@given(st.lists(CHANGES, max_size=25), st.data())
def test_batches_do_not_matter(changes: list[Json], data: st.DataObject) -> None:
    """The same changes in other batches, with topologies used in between, lead to the same placements."""
    at_once, stepwise = ClusterNodes(), ClusterNodes()
    at_once.apply(changes)
    snapshot = stepwise.placements(FLAVORS[:1], TOPOLOGIES)
    remaining = changes
    while remaining:
        size = data.draw(st.integers(1, len(remaining)))
        restructured = stepwise.apply(remaining[:size])
        remaining = remaining[size:]
        if restructured:
            snapshot = placements_of(stepwise)
        most_pods(snapshot, 3000)
    for workload in (job("wide", pods_of_shape(WIDE)), job("two", pods_of_shape(WIDE, 2))):
        assert hosts(snapshot, workload) == hosts(placements_of(at_once), workload)
    assert most_pods(snapshot) == most_pods(placements_of(at_once))
