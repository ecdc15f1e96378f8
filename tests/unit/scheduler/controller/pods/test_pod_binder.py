"""Which pods the controller binds, when it binds them, and which it leaves to kube-scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.held_pods import assigned_workload, held_pod, managed, pinned
from zonewise_common.kube.resources import CLUSTER_QUEUES
from zonewise_scheduler.controller.pods.bind_rules import BindVerdict, judge_binding
from zonewise_scheduler.controller.pods.pod_binder import PodBinder
from zonewise_scheduler.controller.pods.pod_context import PodContext
from zonewise_scheduler.controller.workloads.queue_annotations import BIND_ANNOTATION
from zonewise_scheduler.nodes.filters.anti_affinity import read_anti_affinity
from zonewise_scheduler.nodes.node.node_info import PodInfo, read_node_info

if TYPE_CHECKING:
    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.controller.pods.managed_pod import ManagedPod
    from zonewise_scheduler.controller.types import Write
    from zonewise_scheduler.nodes.node.node_info import NodeInfo

Json = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TAINT = {"key": "maintenance", "effect": "NoSchedule"}


class Site:
    """A binder with one node, one Workload and its queue."""

    def __init__(self) -> None:
        self.binder = PodBinder()
        self.workload = assigned_workload({"h1": 3})
        self.workload["status"]["admission"]["clusterQueue"] = "q"
        self.queue: Json = {"metadata": {"annotations": {BIND_ANNOTATION: "true"}}}
        self.node: Json | None = {
            "metadata": {"name": "node-1", "labels": {"disk": "ssd"}},
            "spec": {},
            "status": {"allocatable": {"cpu": "4", "pods": "10"}},
        }
        self.on_node: list[PodInfo] = []

    def observe(self, *pods: Json) -> None:
        for pod in pods:
            self.binder.observe(managed(pod))

    def writes(self, *, claims: bool = True) -> list[Write]:
        context = PodContext({"ns/w": self.workload}, {"h1": "node-1"}, find=self._find, node_info=self._node_info)
        return self.binder.writes(context, lambda _write: claims)

    def bound(self) -> list[str]:
        return [write.key.name for write in self.writes()]

    def _find(self, resource: Resource, _namespace: str, name: str) -> Json | None:
        return self.queue if (resource, name) == (CLUSTER_QUEUES, "q") else None

    def _node_info(self, name: str) -> NodeInfo | None:
        return None if self.node is None or name != "node-1" else read_node_info(self.node, self.on_node)


def pod(name: str = "a", node: str = "node-1", cpus: str = "1", **spec: Any) -> Json:
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpus}}}]
    return pinned(held_pod(name, containers=containers, **spec), node)


def test_a_failure_with_one_pod_does_not_prevent_the_binding_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a binding that is claimed but not returned would count as being written forever."""
    site = Site()
    site.observe(pod("a"), pod("b"), pod("c"))

    def judge(each: ManagedPod, node: NodeInfo | None) -> BindVerdict:
        if each.name == "b":
            raise ZeroDivisionError
        return judge_binding(each, node)

    monkeypatch.setattr("zonewise_scheduler.controller.pods.pod_binder.judge_binding", judge)
    assert site.bound() == ["a", "c"]


def test_an_ungated_pod_is_bound_to_its_node_once() -> None:
    site = Site()
    site.observe(pod())
    (write,) = site.writes()
    assert (write.verb.value, write.subresource, write.uid, write.workload) == ("create", "binding", "u-a", "ns/w")
    assert isinstance(write.body, dict)
    assert write.body["metadata"]["uid"] == "u-a"
    assert write.body["target"]["name"] == "node-1"
    site.observe(pod())
    assert site.bound() == []
    site.binder.end_write(write, done=True)
    site.observe(pod())
    assert site.bound() == []


def test_held_bound_deleted_and_ended_pods_are_not_bound() -> None:
    site = Site()
    deleted, ended = pod("d"), pod("e")
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    ended["status"]["phase"] = "Failed"
    other_gate = pod("g", schedulingGates=[{"name": "example.com/other"}])
    site.observe(held_pod("h"), pod("b", nodeName="node-1"), deleted, ended, other_gate)
    assert site.bound() == []


@pytest.mark.parametrize("conditions", [("QuotaReserved",), ("Admitted", "Evicted"), ("Admitted", "Finished")])
def test_pods_of_a_workload_that_may_not_run_are_not_bound(conditions: tuple[str, ...]) -> None:
    site = Site()
    allowed = site.workload["status"]["conditions"]
    site.workload["status"]["conditions"] = [{**allowed[0], "type": name} for name in conditions]
    site.observe(pod())
    assert site.bound() == []
    site.workload["status"]["conditions"] = allowed
    assert site.bound() == []
    site.binder.mark_workload("ns/w")
    assert site.bound() == ["a"]


def test_pods_of_a_queue_without_the_annotation_are_not_bound() -> None:
    site = Site()
    annotations, site.queue["metadata"]["annotations"] = site.queue["metadata"]["annotations"], {}
    site.observe(pod())
    assert site.bound() == []
    assert not site.binder.left
    site.queue["metadata"]["annotations"] = annotations
    site.binder.mark_all()
    assert site.bound() == ["a"]


@pytest.mark.parametrize("node", ["", "node-2"])
def test_a_pod_that_is_not_pinned_to_a_node_of_its_assignment_is_not_bound(node: str) -> None:
    site = Site()
    site.observe(pod(node=node))
    assert site.bound() == []
    assert site.binder.left == {"no assigned node": 1}


def test_a_pod_on_an_unhealthy_node_is_not_bound() -> None:
    site = Site()
    site.workload["status"]["unhealthyNodes"] = [{"name": "h1"}]
    site.observe(pod())
    assert site.bound() == []


def test_a_pod_with_an_unevaluated_field_is_left_to_kube_scheduler() -> None:
    site = Site()
    site.observe(pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]))
    assert site.bound() == []
    site.binder.mark_all()
    assert site.bound() == []
    assert site.binder.left == {"volumes": 1}, "a pod counts once for a reason"


HINDERING_NODES: list[tuple[Json | None, str]] = [
    (None, "node not ready"),
    ({"spec": {"unschedulable": True}}, "NodeUnschedulable"),
    ({"spec": {"taints": [TAINT]}}, "TaintToleration"),
    ({"metadata": {"name": "node-1"}}, "NodeAffinity"),
    ({"status": {"allocatable": {"cpu": "1", "pods": "9"}}}, "NodeResourcesFit"),
    ({"status": {"allocatable": {"cpu": "9", "pods": "0"}}}, "NodeResourcesFit"),
]


@pytest.mark.parametrize(("change", "reason"), HINDERING_NODES)
def test_a_pod_waits_for_its_node(change: Json | None, reason: str) -> None:
    site = Site()
    good, site.node = site.node, None if change is None else {**(site.node or {}), **change}
    site.observe(pod(cpus="2", nodeSelector={"disk": "ssd"}))
    assert site.bound() == []
    assert site.binder.left == {reason: 1}
    site.node = good
    assert site.bound() == []
    site.binder.mark_nodes(["node-1"])
    assert site.bound() == ["a"]


def test_pods_are_not_bound_beyond_the_capacity_of_their_node() -> None:
    """A binding counts at once, until it fails or until its pod is observed on the node."""
    site = Site()
    site.on_node = [PodInfo(read_node_info(site.node or {}).allocatable._replace(milli_cpus=1000, pods=1))]
    site.observe(pod("a"), pod("b", cpus="2"), pod("c"))
    a, b = site.writes()
    assert (a.key.name, b.key.name) == ("a", "b")
    site.binder.end_write(a, done=True)
    site.binder.mark_nodes(["node-1"])
    assert site.bound() == []
    site.binder.end_write(b, done=False)
    assert site.bound() == ["c"], "the room of a binding that has failed is free at once"


def test_an_observed_pod_counts_once() -> None:
    site = Site()
    site.observe(pod("a", cpus="2"))
    (write,) = site.writes()
    site.observe(pod("a", cpus="2", nodeName="node-1"))
    site.on_node = [PodInfo(read_node_info(site.node or {}).allocatable._replace(milli_cpus=2000, pods=1))]
    site.observe(pod("b", cpus="2"))
    assert site.bound() == ["b"]
    site.binder.end_write(write, done=True)
    site.observe(pod("c", cpus="1"))
    assert site.bound() == []


def test_a_failed_binding_is_repeated_once_the_pod_changes() -> None:
    site = Site()
    site.observe(pod())
    (write,) = site.writes()
    site.binder.end_write(write, done=False)
    assert site.bound() == []
    site.observe(pod())
    assert site.bound() == ["a"]


def test_a_binding_waits_for_another_write_of_the_pod() -> None:
    site = Site()
    site.observe(pod())
    assert site.writes(claims=False) == []
    assert site.bound() == ["a"]


def test_other_pods_may_exclude_a_pod() -> None:
    site = Site()
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
    other: Json = {
        "metadata": {"namespace": "ns"},
        "spec": {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}},
    }
    web = pod("web")
    web["metadata"]["labels"]["app"] = "web"
    site.binder.set_terms("ns/other", read_anti_affinity(other))
    site.observe(web, pod("a"))
    assert site.bound() == ["a"]
    assert site.binder.left == {"anti-affinity of other pods": 1}
    site.binder.set_terms("ns/other", ())
    assert site.bound() == ["web"]


@pytest.mark.parametrize("reason", ["anti-affinity of other pods", "node not ready"])
def test_no_state_remains_of_deleted_pods_that_were_not_bound(reason: str) -> None:
    site = Site()
    if reason == "node not ready":
        site.node = None
    else:
        term: Json = {"labelSelector": {}, "topologyKey": "zone"}
        other: Json = {"metadata": {"namespace": "ns"}, "spec": {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}}
        site.binder.set_terms("ns/other", read_anti_affinity(other))
    for number in range(3):
        site.observe(pod(f"p{number}"))
        assert site.bound() == []
        assert site.binder.waiting == 1
        site.binder.remove(f"u-p{number}")
    assert site.binder.left == {reason: 3}
    assert site.binder.waiting == 0


def test_a_pod_that_is_created_again_is_a_new_pod() -> None:
    site = Site()
    site.observe(pod())
    (write,) = site.writes()
    site.binder.remove("u-a")
    again = pod()
    again["metadata"]["uid"] = "u-b"
    site.observe(again)
    (second,) = site.writes()
    assert (write.uid, second.uid) == ("u-a", "u-b")


FIELDS: dict[str, tuple[list[Any], list[Any]]] = {
    "volumes": ([[], [{"name": "v", "emptyDir": {}}]], [[{"name": "v", "csi": {}}]]),
    "resourceClaims": ([[]], [[{"name": "r"}]]),
    "schedulerName": (["default-scheduler"], ["other"]),
    "hostNetwork": ([True, False], []),
    "topologySpreadConstraints": ([[]], [[{"whenUnsatisfiable": "DoNotSchedule"}]]),
    "schedulingGroup": ([None], [{"podGroupName": "g"}]),
    "newField": ([None], [1]),
    "nodeSelector": ([{}, {"disk": "ssd"}], [{"disk": "hdd"}]),
    "schedulingGates": ([[]], [[{"name": "g"}]]),
}
"""Values that prevent no binding, and values that do."""
SPECS: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {}, optional={name: st.sampled_from([*harmless, *hindering]) for name, (harmless, hindering) in FIELDS.items()}
)


@given(SPECS)
def test_a_pod_is_bound_if_nothing_prevents_it(spec: Json) -> None:
    """A single value that prevents the binding suffices, whatever else the pod has."""
    site = Site()
    site.observe(pod(**spec))
    is_hindered = any(value in FIELDS[name][1] for name, value in spec.items())
    assert site.bound() == ([] if is_hindered else ["a"])
