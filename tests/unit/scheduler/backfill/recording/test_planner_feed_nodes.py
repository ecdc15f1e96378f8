"""A planner that is fed with nodes, which limit the starts; replaying a recording gives the same decisions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from support.fit_nodes import STRICT, node
from support.node_changes import CHANGES, node_change, report_change
from support.queue_objects import planner_objects
from support.reported_pods import key_of, running_node
from support.tas_clusters import hosts_of
from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.backfill.recording.planner_feed import PlannerFeed
from zonewise_scheduler.backfill.scheduling.scheduling_pass import RETRY_INTERVAL
from zonewise_scheduler.controller.nodes.placements import nodes_by_pod_set
from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS
from zonewise_scheduler.quota.topology.types import HOSTNAME
from zonewise_scheduler.tas.cluster_nodes import ClusterNodes

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.types import Plan

Json = dict[str, Any]

OBJECTS = planner_objects(
    {"cpu": 1000, "memory": "1Ti"}, {"nodeLabels": {"fast": "yes"}, "topologyName": "t"}, levels=("rack", HOSTNAME)
)


CREATED = 1767225600.0
"""The time of each Workload's creation, in seconds."""


def workload(name: str, pods: int, cpus: int = 6, **spec: Any) -> Json:
    """Return a Workload whose pods are aligned to a single zone; `spec` adds further fields."""
    resources = {"cpu": str(cpus), "memory": "4Gi"}
    pod_spec = {"containers": [{"name": "c", "resources": {"requests": resources, "limits": resources}}]}
    pod_set = {"name": "main", "count": pods, "template": {"spec": pod_spec}, "topologyRequest": {"required": HOSTNAME}}
    return {
        "metadata": {"namespace": "ns", "name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"queueName": "l", "podSets": [pod_set], **spec},
    }


def feed(record: Any = None) -> PlannerFeed:
    fed = PlannerFeed(BackfillPolicy(), DEFAULT_SETTINGS, ClusterNodes(), record=record)
    fed.configure(OBJECTS, {"ns": {}})
    return fed


def decisions(plan: Plan) -> list[tuple[str, Any]]:
    """Return the admitted workloads with their nodes."""
    return [(each.key, nodes_by_pod_set(each)) for each in plan.admitted]


def test_nodes_limit_which_workloads_start() -> None:
    """A workload waits for a node and for a report whose zones have enough capacity."""
    fed = feed()
    fed.submit(workload("a", 2))
    assert decisions(fed.run_pass(1.0)) == []
    fed.change_nodes([node_change("n"), report_change("n", 1)])
    assert decisions(fed.run_pass(2.0)) == []
    fed.change_nodes([report_change("n", 0)])
    assert decisions(fed.run_pass(3.0)) == [("ns/a", {"main": frozenset("n")})]
    fed.submit(workload("b", 1, cpus=1))
    assert decisions(fed.run_pass(4.0)) == [("ns/b", {"main": frozenset("n")})]


def test_running_workloads_count_once_with_their_report() -> None:
    """Running pods that the report includes count once, also after the nodes have changed."""
    fed = feed()
    fed.change_nodes([node_change("n"), report_change("n", 0)])
    fed.submit(workload("a", 1))
    assert decisions(fed.run_pass(1.0))
    (run,) = fed.state.running.values()
    shape = run.workload.pod_sets[0].shape
    assert shape is not None
    running = running_node(node(2, 4, **STRICT), [shape])
    name = {"workload": "ns/a", "podSet": "main"}
    fed.change_nodes([{"node": "n", "report": running.report("n"), "queuePods": {key_of("p0"): name}}])
    fed.change_nodes([node_change("other", ready="False")])
    fed.submit(workload("b", 2))
    assert decisions(fed.run_pass(2.0)) == []
    fed.submit(workload("c", 1))
    assert decisions(fed.run_pass(3.0)) == [("ns/c", {"main": frozenset("n")})]
    fed.finish("ns/a")
    fed.finish("ns/c")
    assert [key for key, _ in decisions(fed.run_pass(4.0))] == ["ns/b"]


@settings(max_examples=40)
@given(st.lists(st.one_of(CHANGES, st.integers(1, 3), st.just("end")), max_size=25))
def test_recording_with_nodes_gives_the_same_decisions(steps: list[Any]) -> None:
    """The decisions depend only on the entries, which are serialized as JSON."""
    entries: list[str] = []

    def record(entry: Json) -> None:
        entries.append(json.dumps(entry))

    fed = feed(record)
    decided: list[Any] = []
    for i, step in enumerate(steps):
        if isinstance(step, int):
            fed.submit(workload(f"w{i}", step, cpus=2 * step))
            decided.append(decisions(fed.run_pass(float(i))))
        elif step == "end":
            for key in list(fed.state.running)[:1]:
                fed.finish(key)
        else:
            fed.change_nodes([step])
    other = PlannerFeed(BackfillPolicy(), DEFAULT_SETTINGS, ClusterNodes())
    replayed: list[Any] = []
    for entry in map(json.loads, entries):
        if "plan" in entry:
            continue
        if entry["entry"] == "pass":
            replayed.append(decisions(other.run_pass(entry["at"], entry["maxAdmissions"])))
        else:
            other.apply(entry)
    assert replayed == decided


def test_no_workload_starts_on_a_node_that_has_been_tainted_since_its_reservation() -> None:
    """Its reservation moves to the other node."""
    fed = feed()
    fed.change_nodes([change for name in "mn" for change in (node_change(name), report_change(name, 0))])
    for name, seconds in (("short", 100), ("long", 1000), ("waits", 100)):
        fed.submit(workload(name, 2, maximumExecutionTimeSeconds=seconds))
        fed.run_pass(CREATED)
    [tainted], [other] = (hosts_of(run.workload)["main"] for run in fed.state.running.values())
    assert [hosts_of(one.workload) for one in fed.state.reservations_by_start] == [{"main": {tainted: 2}}]
    fed.change_nodes([node_change(tainted, taints=[{"key": "maintenance", "effect": "NoSchedule"}])])
    fed.finish("ns/short")
    assert decisions(fed.run_pass(CREATED + 100)) == []
    fed.finish("ns/long")
    assert decisions(fed.run_pass(CREATED + 101)) == [("ns/waits", {"main": frozenset([other])})]


def test_a_workload_without_a_possible_start_is_reserved_once_a_node_has_capacity() -> None:
    """At first, pods outside the queue leave too little for both pods, even once all workloads have ended."""
    fed = feed()
    fed.change_nodes([node_change("n"), report_change("n", 1)])
    fed.submit(workload("runs", 1, maximumExecutionTimeSeconds=100))
    assert decisions(fed.run_pass(CREATED))
    fed.submit(workload("waits", 2))
    fed.run_pass(CREATED + 1)
    assert not fed.state.reservations.by_key
    fed.change_nodes([report_change("n", 0)])
    fed.run_pass(CREATED + 2)
    assert [(key, one.start) for key, one in fed.state.reservations.by_key.items()] == [("ns/waits", CREATED + 100)]


def test_a_retry_waits_for_its_interval() -> None:
    """Node changes are frequent, and each search for a start takes time."""
    fed = feed()
    fed.change_nodes([node_change("n"), report_change("n", 1)])
    fed.submit(workload("runs", 1, maximumExecutionTimeSeconds=100))
    fed.run_pass(CREATED)
    fed.submit(workload("waits", 2))
    fed.run_pass(CREATED + 1)
    fed.change_nodes([report_change("n", 1)])
    fed.run_pass(CREATED + 2)
    fed.change_nodes([report_change("n", 0)])
    plan = fed.run_pass(CREATED + 1 + RETRY_INTERVAL)
    assert not fed.state.reservations.by_key
    assert plan.wake_at == CREATED + 2 + RETRY_INTERVAL
    fed.run_pass(CREATED + 2 + RETRY_INTERVAL)
    assert list(fed.state.reservations.by_key) == ["ns/waits"]
