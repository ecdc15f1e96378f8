"""The changes of nodes that follow from observed pods, nodes and reports, in any order."""

from __future__ import annotations

from itertools import count
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from zonewise_common.nrt.holdings import holdings_key
from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.controller.nodes.node_tracker import NodeTracker
from zonewise_scheduler.controller.nodes.placements import PlacedPodSets
from zonewise_scheduler.controller.nodes.types import NodeHealth, TrackedNode, TrackedPod, TrackedReport

Json = dict[str, Any]

READY = NodeHealth(ready=True, ready_since=100.0)
ONE_CPU = Resource(1000, 1 << 30, 1, 0, (("example.com/gpu", 1),))
USAGE_OF_ONE = {"cpu": 1000, "memory": 1 << 30, "example.com/gpu": 1}


def pod(
    name: str = "p0", node: str = "a", workload: str = "", *, active: bool = True, pod_set: str = "main"
) -> TrackedPod:
    requests = ONE_CPU if node and active else None
    return TrackedPod("ns", name, node, active, requests, workload, pod_set if workload else "")


def key_of(name: str) -> str:
    return holdings_key("ns", name)


def observe(tracker: NodeTracker, *pods: TrackedPod) -> None:
    for each in pods:
        tracker.observe_pod(each.namespace, each.name, each)


def only_change(tracker: NodeTracker) -> Json:
    (change,) = tracker.take_changes()
    return change


def test_pods_outside_the_queue_are_usage() -> None:
    """A bound pod counts until it has finished or is deleted; unbound pods do not count."""
    tracker = NodeTracker()
    observe(tracker, pod(), pod("p1"), pod("p2", node=""))
    assert only_change(tracker) == {
        "node": "a", "usage": {name: 2 * size for name, size in USAGE_OF_ONE.items()}, "pods": 2,
    }  # fmt: skip
    observe(tracker, pod(), pod("p1", active=False))
    assert only_change(tracker) == {"node": "a", "usage": USAGE_OF_ONE, "pods": 1}
    tracker.observe_pod("ns", "p0", None)
    assert only_change(tracker) == {"node": "a", "usage": {}, "pods": 0}
    tracker.observe_pod("ns", "p1", None)
    assert not tracker.take_changes()


def test_placed_pods_are_named_instead() -> None:
    """The planner accounts for a pod of a placement, so the pod has a name and is not usage."""
    tracker = NodeTracker()
    tracker.set_placement("ns/w", PlacedPodSets({"main": frozenset("ab")}))
    observe(tracker, pod(workload="ns/w"))
    assert only_change(tracker) == {
        "node": "a", "queuePods": {key_of("p0"): {"workload": "ns/w", "podSet": "main"}},
    }  # fmt: skip
    observe(tracker, pod(workload="ns/w", active=False))
    assert only_change(tracker) == {"node": "a", "queuePods": {key_of("p0"): {"gone": True, "ended": True}}}
    observe(tracker, pod("p1", workload="ns/w"))
    tracker.take_changes()
    tracker.observe_pod("ns", "p1", None)
    assert only_change(tracker) == {"node": "a", "queuePods": {key_of("p1"): {"gone": True}}}


def test_requests_of_a_placed_pod_beyond_its_pod_set_are_usage() -> None:
    """A resize in place, for example, raises the request; the excess is usage while the placement counts less."""
    tracker = NodeTracker()
    counted = {"cpu": 400, "memory": 1 << 30, "example.com/gpu": 8}
    tracker.set_placement("ns/w", PlacedPodSets({"main": frozenset("a")}, {"main": counted}))
    observe(tracker, pod(workload="ns/w"))
    change = only_change(tracker)
    assert (change["usage"], change["pods"]) == ({"cpu": 600}, 0)
    assert change["queuePods"] == {key_of("p0"): {"workload": "ns/w", "podSet": "main"}}
    tracker.set_placement("ns/w", PlacedPodSets({"main": frozenset("a")}, {"main": {**counted, "cpu": 1000}}))
    assert only_change(tracker)["usage"] == {}
    tracker.set_placement("ns/w", PlacedPodSets({"main": frozenset("a")}, {"main": counted}))
    tracker.take_changes()
    tracker.observe_pod("ns", "p0", None)
    assert only_change(tracker)["usage"] == {}


def test_pod_outside_its_placement_is_usage() -> None:
    """A pod counts as usage if its node or its pod set is not in the placement of its workload."""
    tracker = NodeTracker()
    tracker.set_placement("ns/w", PlacedPodSets({"main": frozenset("b"), "other": None}))
    observe(tracker, pod(workload="ns/w"), pod("p1", workload="ns/w", pod_set="absent"))
    assert only_change(tracker)["pods"] == 2
    observe(tracker, pod("p2", workload="ns/w", pod_set="other"))
    assert "usage" not in only_change(tracker)


def test_pod_without_the_label_belongs_to_the_only_pod_set() -> None:
    """A pod of a workload with a single placed pod set needs no pod set label."""
    tracker = NodeTracker()
    tracker.set_placement("ns/w", PlacedPodSets({"main": frozenset("a")}))
    observe(tracker, pod(workload="ns/w", pod_set=""))
    assert "usage" not in only_change(tracker)


def test_placement_may_begin_and_end_after_the_pods() -> None:
    """Pods become usage when their placement ends, and they are named when it begins."""
    tracker = NodeTracker()
    observe(tracker, pod(workload="ns/w"))
    assert only_change(tracker)["pods"] == 1
    tracker.set_placement("ns/w", PlacedPodSets({"main": frozenset("a")}))
    change = only_change(tracker)
    assert change["pods"] == 0
    assert change["queuePods"] == {key_of("p0"): {"workload": "ns/w", "podSet": "main"}}
    tracker.set_placement("ns/w", None)
    change = only_change(tracker)
    assert change["pods"] == 1
    assert change["queuePods"] == {key_of("p0"): None}


def names_with_one_key() -> tuple[str, str]:
    names: dict[str, str] = {}
    for number in count():
        name = f"p{number}"
        if key_of(name) in names:
            return names[key_of(name)], name
        names[key_of(name)] = name
    raise AssertionError


def test_shared_keys_name_no_pod() -> None:
    """While two pods of a node share a key, the holdings of both are unknown."""
    first, second = names_with_one_key()
    tracker = NodeTracker()
    tracker.set_placement("ns/w", PlacedPodSets({"main": frozenset("a")}))
    observe(tracker, pod(first, workload="ns/w"))
    name = {"workload": "ns/w", "podSet": "main"}
    assert only_change(tracker)["queuePods"] == {key_of(first): name}
    observe(tracker, pod(second))
    assert only_change(tracker)["queuePods"] == {key_of(first): None}
    tracker.observe_pod("ns", second, None)
    assert only_change(tracker)["queuePods"] == {key_of(first): name}


def test_active_pods_of_a_workload() -> None:
    """Pods count from creation to their end, whether bound or not."""
    tracker = NodeTracker()
    observe(tracker, pod(node="", workload="ns/w"), pod("p1", workload="ns/w"), pod("p2"))
    assert tracker.active_pods("ns/w") == 2
    observe(tracker, pod(workload="ns/w"), pod("p1", workload="ns/w", active=False))
    assert tracker.active_pods("ns/w") == 1
    tracker.observe_pod("ns", "p0", None)
    assert tracker.active_pods("ns/w") == 0


def test_unchanged_objects_cause_no_changes() -> None:
    """A heartbeat causes no change; health and content change separately."""
    tracker = NodeTracker()
    tracker.observe_node("a", TrackedNode("a", "{}", READY, "a"))
    tracker.observe_report("a", TrackedReport("a", "{}"))
    assert only_change(tracker) == {"node": "a", "object": "{}", "report": "{}"}
    revision = tracker.health_revision
    tracker.observe_node("a", TrackedNode("a", "{}", READY, "a"))
    tracker.observe_report("a", TrackedReport("a", "{}"))
    assert (tracker.take_changes(), tracker.health_revision) == ([], revision)
    tracker.observe_node("a", TrackedNode("a", "{}", READY._replace(ready=False), "a"))
    assert tracker.health_revision == revision + 1
    tracker.observe_node("a", None)
    tracker.observe_report("a", None)
    assert only_change(tracker) == {"node": "a", "object": None, "report": None}
    assert tracker.health == {}


PODS = st.builds(
    pod,
    st.sampled_from(["p0", "p1", "p2", "p3"]),
    st.sampled_from(["", "a", "b"]),
    st.sampled_from(["", "ns/v", "ns/w"]),
    active=st.sampled_from([True, True, False]),
    pod_set=st.sampled_from(["main", "other"]),
)
PLACEMENTS = st.one_of(
    st.none(),
    st.builds(
        PlacedPodSets,
        st.dictionaries(
            st.sampled_from(["main", "other"]),
            st.sampled_from([None, frozenset("a"), frozenset("b"), frozenset("ab")]),
            min_size=1,
        ),
        st.sampled_from([{}, {"main": {"cpu": 400}}, {"main": {"cpu": 700}, "other": {}}]),
    ),
)


@settings(max_examples=200)
@given(
    st.lists(
        st.one_of(PODS, st.sampled_from(["p0", "p1", "p2", "p3"]), st.tuples(st.sampled_from("vw"), PLACEMENTS)),
        max_size=30,
    ),
    st.data(),
)
def test_only_the_last_observations_count(events: list[Any], data: st.DataObject) -> None:
    """After any history, usage and names equal those of a tracker that observes only the final state."""
    tracker, fresh = NodeTracker(), NodeTracker()
    pods: dict[str, TrackedPod] = {}
    placements: dict[str, Any] = {}
    result: dict[str, Json] = {}
    for event in events:
        if isinstance(event, TrackedPod):
            observe(tracker, event)
            pods[event.name] = event
        elif isinstance(event, str):
            tracker.observe_pod("ns", event, None)
            pods.pop(event, None)
        else:
            tracker.set_placement(f"ns/{event[0]}", event[1])
            placements[f"ns/{event[0]}"] = event[1]
        if data.draw(st.booleans()):
            fold(result, tracker.take_changes())
    fold(result, tracker.take_changes())
    observe(fresh, *data.draw(st.permutations(list(pods.values()))))
    for workload, nodes in placements.items():
        fresh.set_placement(workload, nodes)
    expected: dict[str, Json] = {}
    fold(expected, fresh.take_changes())
    assert without_idle(result) == without_idle(expected)
    assert [tracker.active_pods(workload) for workload in ("ns/v", "ns/w")] == [
        sum(each.active and each.workload == workload for each in pods.values()) for workload in ("ns/v", "ns/w")
    ]


def fold(nodes: dict[str, Json], changes: list[Json]) -> None:
    """Apply changes like the reader of the changes."""
    for change in changes:
        node = nodes.setdefault(change["node"], {"usage": {}, "pods": 0, "named": {}})
        node["usage"], node["pods"] = change.get("usage", node["usage"]), change.get("pods", node["pods"])
        for key, name in change.get("queuePods", {}).items():
            if name is not None and "workload" in name:
                node["named"][key] = name
            else:
                node["named"].pop(key, None)


def without_idle(nodes: dict[str, Json]) -> dict[str, Json]:
    return {name: node for name, node in nodes.items() if node["usage"] or cast("int", node["pods"]) or node["named"]}
