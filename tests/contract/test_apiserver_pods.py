"""Pods, bindings, gates, nodes and jobs: the embedded API server behaves like the real one."""

from __future__ import annotations

from typing import Any

import pytest

from support.api import STRATEGIC, Answer
from support.apiserver import real_server
from support.clusters import Cluster, causes_of, cluster, embedded_server, pod

__all__ = ["cluster", "embedded_server", "real_server"]

GATES = [{"name": "example.com/one"}, {"name": "example.com/two"}]


def bind(cluster: Cluster, name: str, node: str = "node-1", **target: str) -> Answer:
    body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node, **target}}
    return cluster.api.post(f"{cluster.pods}/{name}/binding", body)


def test_a_new_pod_is_pending_and_has_its_defaults(cluster: Cluster) -> None:
    made = cluster.api.post(cluster.pods, pod("one")).ok()
    assert made["status"]["phase"] == "Pending"
    assert made["status"]["qosClass"] == "BestEffort"
    assert made["metadata"]["generation"] == 1
    expected = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    assert made["spec"].items() >= expected.items()
    assert [one["key"] for one in made["spec"]["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    (container,) = made["spec"]["containers"]
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert container["terminationMessagePolicy"] == "File"
    assert container["resources"] == {}


def test_a_new_pod_cannot_set_its_status(cluster: Cluster) -> None:
    made = cluster.api.post(cluster.pods, {**pod("one"), "status": {"phase": "Running"}}).ok()
    assert made["status"]["phase"] == "Pending"


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"example.com/gpu": "1"}}, "BestEffort"),
        ({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}, "Burstable"),
    ],
)
def test_requests_default_to_limits_and_determine_the_qos_class(
    cluster: Cluster, resources: dict[str, Any], quality: str
) -> None:
    body = pod("one")
    body["spec"]["containers"][0]["resources"] = resources
    made = cluster.api.post(cluster.pods, body).ok()
    assert made["status"]["qosClass"] == quality
    found = made["spec"]["containers"][0]["resources"]
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    assert found.get("requests", {}) == {**limits, **requests}


def test_a_pod_needs_a_container(cluster: Cluster) -> None:
    status = cluster.api.post(cluster.pods, {"metadata": {"name": "one"}, "spec": {}}).refused(422, "Invalid")
    assert ("spec.containers", "FieldValueRequired") in causes_of(status)


# --- binding


def test_a_binding_puts_a_pod_on_a_node(cluster: Cluster) -> None:
    cluster.api.post(cluster.pods, pod("one")).ok()
    answer = bind(cluster, "one")
    assert answer.status == 201
    assert answer.ok() == {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    found = cluster.api.get(f"{cluster.pods}/one").ok()
    assert found["spec"]["nodeName"] == "node-1"
    (condition,) = found["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")


def test_a_binding_adds_labels_and_annotations(cluster: Cluster) -> None:
    body = pod("one")
    body["metadata"] |= {"labels": {"a": "1", "b": "2"}, "annotations": {"a": "1", "b": "2"}}
    cluster.api.post(cluster.pods, body).ok()
    more = {"labels": {"b": "3"}, "annotations": {"b": "3", "c": "4"}}
    binding = {"metadata": {"name": "one", **more}, "target": {"kind": "Node", "name": "node-1"}}
    cluster.api.post(f"{cluster.pods}/one/binding", binding).ok()
    found = cluster.api.get(f"{cluster.pods}/one").ok()["metadata"]
    assert found["labels"] == {"a": "1", "b": "3"}
    assert found["annotations"] == {"a": "1", "b": "3", "c": "4"}


def test_a_pod_is_bound_once(cluster: Cluster) -> None:
    cluster.api.post(cluster.pods, pod("one")).ok()
    bind(cluster, "one").ok()
    for node in ("node-1", "node-2"):
        status = bind(cluster, "one", node).refused(409, "Conflict")
        assert status["message"] == (
            'Operation cannot be fulfilled on pods/binding "one": pod one is already assigned to node "node-1"'
        )
        assert status["details"] == {"name": "one", "kind": "pods/binding"}
    assert cluster.api.get(f"{cluster.pods}/one").ok()["spec"]["nodeName"] == "node-1"


def test_an_absent_pod_cannot_be_bound(cluster: Cluster) -> None:
    bind(cluster, "none").refused(404, "NotFound")


def test_a_gated_pod_cannot_be_bound(cluster: Cluster) -> None:
    cluster.api.post(cluster.pods, pod("one", schedulingGates=GATES)).ok()
    status = bind(cluster, "one").refused(409, "Conflict")
    assert "pod one has non-empty .spec.schedulingGates" in status["message"]
    cluster.api.patch(f"{cluster.pods}/one", {"spec": {"schedulingGates": []}}).ok()
    bind(cluster, "one").ok()


def test_a_pod_that_is_being_deleted_cannot_be_bound(cluster: Cluster) -> None:
    body = pod("one")
    body["metadata"]["finalizers"] = ["example.com/a"]
    cluster.api.post(cluster.pods, body).ok()
    cluster.api.delete(f"{cluster.pods}/one").ok()
    status = bind(cluster, "one").refused(409, "Conflict")
    assert "is being deleted" in status["message"]
    cluster.api.patch(f"{cluster.pods}/one", {"metadata": {"finalizers": None}}).ok()


def test_a_binding_may_name_a_uid(cluster: Cluster) -> None:
    uid = cluster.api.post(cluster.pods, pod("one")).ok()["metadata"]["uid"]
    body = {"metadata": {"name": "one", "uid": "other"}, "target": {"kind": "Node", "name": "node-1"}}
    cluster.api.post(f"{cluster.pods}/one/binding", body).refused(409, "Conflict")
    body["metadata"]["uid"] = uid
    cluster.api.post(f"{cluster.pods}/one/binding", body).ok()


@pytest.mark.parametrize(("node", "kind"), [("", "Node"), ("node-1", "Pod")])
def test_a_binding_names_a_node(cluster: Cluster, node: str, kind: str) -> None:
    cluster.api.post(cluster.pods, pod("one")).ok()
    assert bind(cluster, "one", node, kind=kind).status == 500


def test_a_dry_binding_binds_nothing(cluster: Cluster) -> None:
    cluster.api.post(cluster.pods, pod("one")).ok()
    body = {"metadata": {"name": "one"}, "target": {"kind": "Node", "name": "node-1"}}
    cluster.api.post(f"{cluster.pods}/one/binding", body, dryRun="All").ok()
    assert "nodeName" not in cluster.api.get(f"{cluster.pods}/one").ok()["spec"]


# --- permitted updates


def test_a_gated_pod_has_a_condition(cluster: Cluster) -> None:
    made = cluster.api.post(cluster.pods, pod("one", schedulingGates=GATES)).ok()
    (condition,) = made["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "SchedulingGated")


def test_gates_can_only_be_removed(cluster: Cluster) -> None:
    path = f"{cluster.pods}/one"
    cluster.api.post(cluster.pods, pod("one", schedulingGates=GATES)).ok()
    more = [*GATES, {"name": "example.com/three"}]
    status = cluster.api.patch(path, {"spec": {"schedulingGates": more}}).refused(422, "Invalid")
    assert causes_of(status) == {("spec.schedulingGates[2].name", "FieldValueForbidden")}
    for left in (GATES[1:], []):
        made = cluster.api.patch(path, {"spec": {"schedulingGates": left}}).ok()
        assert made["spec"].get("schedulingGates", []) == left
    cluster.api.patch(path, {"spec": {"schedulingGates": GATES}}).refused(422, "Invalid")


def test_a_gate_is_removed_by_name(cluster: Cluster) -> None:
    cluster.api.post(cluster.pods, pod("one", schedulingGates=GATES)).ok()
    patch = {"spec": {"schedulingGates": [{"name": "example.com/one", "$patch": "delete"}]}}
    made = cluster.api.patch(f"{cluster.pods}/one", patch, STRATEGIC).ok()
    assert made["spec"]["schedulingGates"] == GATES[1:]


def test_a_gated_pod_has_no_node(cluster: Cluster) -> None:
    cluster.api.post(cluster.pods, pod("one", schedulingGates=GATES, nodeName="node-1")).refused(422, "Invalid")


def test_the_nodes_of_a_gated_pod_can_be_narrowed(cluster: Cluster) -> None:
    """A scheduler in front of kube-scheduler places the pod in this way. The nodes of an ungated pod cannot change."""
    path = f"{cluster.pods}/one"
    cluster.api.post(cluster.pods, pod("one", schedulingGates=GATES)).ok()
    cluster.api.patch(path, {"spec": {"nodeSelector": {"a": "b"}}}).ok()
    patch: dict[str, Any] = {"spec": {"nodeSelector": {"a": "b", "c": "d"}, "schedulingGates": []}}
    assert cluster.api.patch(path, patch).ok()["spec"]["nodeSelector"] == {"a": "b", "c": "d"}
    status = cluster.api.patch(path, {"spec": {"nodeSelector": {"e": "f"}}}).refused(422, "Invalid")
    assert ("spec", "FieldValueForbidden") in causes_of(status)


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeName": "node-2"},
        {"schedulerName": "other"},
        {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]},
        {"restartPolicy": "Never"},
        {"nodeSelector": {"a": "b"}},
        {"priority": 5},
    ],
)
def test_most_of_a_pod_is_fixed(cluster: Cluster, spec: dict[str, Any]) -> None:
    cluster.api.post(cluster.pods, pod("one")).ok()
    cluster.api.patch(f"{cluster.pods}/one", {"spec": spec}, STRATEGIC).refused(422, "Invalid")


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [{"name": "main", "image": "registry.example.com/main:2"}]},
        {"activeDeadlineSeconds": 60},
    ],
)
def test_some_of_a_pod_can_change(cluster: Cluster, spec: dict[str, Any]) -> None:
    cluster.api.post(cluster.pods, pod("one")).ok()
    made = cluster.api.patch(f"{cluster.pods}/one", {"spec": spec}, STRATEGIC).ok()
    assert made["metadata"]["generation"] == 2


def test_tolerations_can_only_be_added(cluster: Cluster) -> None:
    first = cluster.api.post(cluster.pods, pod("one")).ok()["spec"]["tolerations"]
    more = [*first, {"key": "a", "operator": "Exists", "effect": "NoSchedule"}]
    made = cluster.api.patch(f"{cluster.pods}/one", {"spec": {"tolerations": more}}).ok()
    assert made["spec"]["tolerations"] == more
    cluster.api.patch(f"{cluster.pods}/one", {"spec": {"tolerations": first}}).refused(422, "Invalid")


def test_status_and_labels_of_a_pod_are_written_together(cluster: Cluster) -> None:
    """Unlike for custom resources, the status subresource of built-in kinds also writes metadata."""
    cluster.api.post(cluster.pods, pod("one")).ok()
    patch = {"metadata": {"labels": {"a": "b"}}, "spec": {"nodeName": "x"}, "status": {"phase": "Running"}}
    made = cluster.api.patch(f"{cluster.pods}/one/status", patch, STRATEGIC).ok()
    assert made["status"]["phase"] == "Running"
    assert made["metadata"]["labels"] == {"a": "b"}
    assert "nodeName" not in made["spec"]
    patch = {"status": {"phase": "Failed"}}
    assert cluster.api.patch(f"{cluster.pods}/one", patch).ok()["status"]["phase"] == "Running"


# --- deletion


def test_a_pod_without_a_node_is_deleted_at_once(cluster: Cluster) -> None:
    cluster.api.post(cluster.pods, pod("one")).ok()
    told = cluster.api.delete(f"{cluster.pods}/one").ok()
    assert told["kind"] == "Pod"
    cluster.api.get(f"{cluster.pods}/one").refused(404, "NotFound")


def test_a_pod_on_a_node_waits_for_its_kubelet(cluster: Cluster) -> None:
    cluster.api.post(cluster.pods, pod("one", nodeName="node-1")).ok()
    held = cluster.api.delete(f"{cluster.pods}/one").ok()
    assert held["metadata"]["deletionGracePeriodSeconds"] == 30
    assert "deletionTimestamp" in held["metadata"]
    assert cluster.api.get(f"{cluster.pods}/one").ok() == held
    shorter = cluster.api.delete(f"{cluster.pods}/one", {"gracePeriodSeconds": 5}).ok()
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5
    cluster.api.delete(f"{cluster.pods}/one", {"gracePeriodSeconds": 0}).ok()
    cluster.api.get(f"{cluster.pods}/one").refused(404, "NotFound")


def test_a_finished_pod_is_deleted_at_once(cluster: Cluster) -> None:
    cluster.api.post(cluster.pods, pod("one", nodeName="node-1")).ok()
    cluster.api.patch(f"{cluster.pods}/one/status", {"status": {"phase": "Succeeded"}}).ok()
    cluster.api.delete(f"{cluster.pods}/one").ok()
    cluster.api.get(f"{cluster.pods}/one").refused(404, "NotFound")


def test_an_eviction_deletes(cluster: Cluster) -> None:
    cluster.api.post(cluster.pods, pod("one")).ok()
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "one", "namespace": cluster.namespace}}
    assert cluster.api.post(f"{cluster.pods}/one/eviction", body).status == 201
    cluster.api.get(f"{cluster.pods}/one").refused(404, "NotFound")


def test_an_evicted_pod_has_the_condition_of_a_disruption(cluster: Cluster) -> None:
    """The pod of a Job is then no failure, if its policy ignores disruptions."""
    cluster.api.post(cluster.pods, pod("one", nodeName="node-1")).ok()
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "one"}}
    other = {**eviction, "deleteOptions": {"preconditions": {"uid": "another"}}}
    assert cluster.api.post(f"{cluster.pods}/one/eviction", other).status == 409
    assert not disruptions(cluster)
    assert cluster.api.post(f"{cluster.pods}/one/eviction", eviction).status == 201
    [found] = disruptions(cluster)
    assert (found["status"], found["reason"]) == ("True", "EvictionByEvictionAPI")


def disruptions(cluster: Cluster) -> list[Any]:
    conditions = cluster.api.get(f"{cluster.pods}/one").ok()["status"].get("conditions", [])
    return [condition for condition in conditions if condition["type"] == "DisruptionTarget"]


# --- nodes and jobs


def test_a_new_node_is_not_ready_and_allocates_its_capacity(cluster: Cluster) -> None:
    name = f"node-{cluster.namespace}"
    body = {"metadata": {"name": name}, "status": {"capacity": {"cpu": "4"}}}
    made = cluster.api.post("/api/v1/nodes", body).ok()
    assert made["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    assert made["status"]["allocatable"] == {"cpu": "4"}
    assert "generation" not in made["metadata"]
    made = cluster.api.patch(f"/api/v1/nodes/{name}", {"status": {"capacity": {"cpu": "8"}}}).ok()
    assert made["status"]["capacity"] == {"cpu": "4"}
    patch = {"metadata": {"labels": {"a": "b"}}, "status": {"capacity": {"cpu": "8"}}}
    made = cluster.api.patch(f"/api/v1/nodes/{name}/status", patch).ok()
    assert made["status"]["capacity"] == {"cpu": "8"}
    assert made["metadata"]["labels"] == {"a": "b"}


def job(name: str, **spec: Any) -> dict[str, Any]:
    template = {"spec": {**pod("x")["spec"], "restartPolicy": "Never"}}
    return {"metadata": {"name": name}, "spec": {"template": template, **spec}}


def test_a_job_selects_its_pods_by_its_uid(cluster: Cluster) -> None:
    made = cluster.api.post(cluster.jobs, job("one")).ok()
    uid = made["metadata"]["uid"]
    assert made["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    labels = made["spec"]["template"]["metadata"]["labels"]
    assert labels["batch.kubernetes.io/job-name"] == "one"
    assert labels["batch.kubernetes.io/controller-uid"] == uid
    expected = {"parallelism": 1, "completions": 1, "backoffLimit": 6, "suspend": False, "completionMode": "NonIndexed"}
    assert made["spec"].items() >= expected.items()
    assert made["metadata"]["generation"] == 1


def test_a_work_queue_has_no_completions(cluster: Cluster) -> None:
    made = cluster.api.post(cluster.jobs, job("one", parallelism=3)).ok()
    assert "completions" not in made["spec"]


def test_a_suspended_job_can_be_placed(cluster: Cluster) -> None:
    """KEP-2926: the node selection of its pods can change, but only while the job is suspended."""
    path = f"{cluster.jobs}/one"
    cluster.api.post(cluster.jobs, job("one", suspend=True)).ok()
    patch = {"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}}
    made = cluster.api.patch(path, patch).ok()
    assert made["spec"]["template"]["spec"]["nodeSelector"] == {"a": "b"}
    cluster.api.patch(path, {"spec": {"suspend": False}}).ok()
    patch = {"spec": {"template": {"spec": {"nodeSelector": {"c": "d"}}}}}
    status = cluster.api.patch(path, patch).refused(422, "Invalid")
    assert ("spec.template", "FieldValueInvalid") in causes_of(status)


def test_the_work_of_a_job_is_fixed(cluster: Cluster) -> None:
    cluster.api.post(cluster.jobs, job("one", suspend=True)).ok()
    patch = {"spec": {"template": {"spec": {"schedulerName": "other"}}}}
    cluster.api.patch(f"{cluster.jobs}/one", patch).refused(422, "Invalid")
