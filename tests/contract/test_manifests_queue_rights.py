"""On a real API server: the guide's commands install a queue that runs a Job with the rights of the manifests."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from support.autoscaler import Autoscaler
from support.e2e.cluster import write_kubeconfig
from support.live_cluster import JOBS, PODS, LiveCluster, real_job_servers
from support.manifests import MANIFESTS, NAMESPACE, apply, rendered
from support.rules import GROUP_CRD, GROUPS, group_object
from support.snapshots import PROJECT
from support.waiting import eventually
from zonewise_common.k8s.feature_groups import ANNOTATION_PREFIX
from zonewise_scheduler.controller.pods.pod_names import ADMISSION_GATE, TOPOLOGY_GATE

if TYPE_CHECKING:
    from collections.abc import Generator

ACCOUNT = "zonewise-controller"
GUIDE = (PROJECT / "docs/guides/live-queue.md").read_text()
README = (PROJECT / "README.md").read_text()
COMMANDS = re.findall(r"^\$ kubectl apply -[kf] manifests/(queue\S*)", GUIDE, re.MULTILINE)
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations/zonewise-controller"
SINGLE_POD: dict[str, Any] = {
    "metadata": {
        "name": "single",
        "labels": {"kueue.x-k8s.io/queue-name": "default", "kueue.x-k8s.io/managed": "true"},
        "finalizers": ["kueue.x-k8s.io/managed"],
    },
    "spec": {
        "schedulingGates": [{"name": ADMISSION_GATE}, {"name": TOPOLOGY_GATE}],
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}],
    },
}
"""The Job as the webhook leaves it."""
LEADER = ("--leader-election", "true", "--namespace", NAMESPACE, "--metrics-listen", "127.0.0.1:0")


@pytest.fixture(scope="module")
def cluster() -> Generator[LiveCluster]:
    """Return a server with the manifests. Their Service has no endpoints here, so no webhook is called."""
    with real_job_servers("--enable-admission-plugins=OwnerReferencesPermissionEnforcement") as (server, directory):
        namespace = yaml.safe_dump({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        apply(server, f"{namespace}---\n{rendered('queue')}")
        for kind in ("mutating", "validating"):
            server.admin.delete(WEBHOOKS.format(kind)).ok()
        token = server.service_account_token(NAMESPACE, ACCOUNT)
        flags = ("--kubeconfig", str(write_kubeconfig(server, directory, token)))
        running = LiveCluster(server.admin, directory, flags, real=True)
        running.add_nodes(2)
        apply(server, rendered("queue/examples/default-queue"))
        job = yaml.safe_load((MANIFESTS / "queue/examples/job.yaml").read_text())
        job["spec"]["suspend"] = True  # as the webhook does
        apply(server, yaml.safe_dump(job))
        yield running


def test_the_readme_has_the_commands_of_the_guide() -> None:
    assert COMMANDS == ["queue", "queue/examples/default-queue", "queue/examples/job.yaml"]
    assert [command for command in COMMANDS if f"manifests/{command}\n" not in README] == []


def test_the_rights_suffice(cluster: LiveCluster) -> None:
    """The example Job starts as a whole and is placed on nodes, and so is a plain pod; no request is forbidden."""
    cluster.api.post(PODS, SINGLE_POD).ok()
    with cluster.controller(*LEADER) as process:
        eventually(lambda: len(cluster.running_pods("train")) == 10)
        nodes = {pod["spec"]["nodeName"] for pod in cluster.running_pods("train")}
        assert nodes == {"node-0", "node-1"}
        eventually(lambda: "schedulingGates" not in cluster.api.get(f"{PODS}/single").ok()["spec"])
        process.process.terminate()
        assert process.process.wait(30) == 0
        process.is_killed = True
    assert [line for line in process.said.splitlines() if "forbidden" in line.lower()] == []
    config_map = f"/api/v1/namespaces/{NAMESPACE}/configmaps/zonewise-controller-checkpoint"
    assert cluster.api.get(config_map).status == 200


def test_users_of_a_namespace_see_its_queues(cluster: LiveCluster) -> None:
    """The cluster's own role `view` contains LocalQueues and Workloads, but neither changes nor other namespaces."""
    bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
    view = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    ann = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}
    cluster.api.post(bindings, {"metadata": {"name": "ann"}, "roleRef": view, "subjects": [ann]}).ok()

    def may(verb: str, resource: str, namespace: str = "default") -> bool:
        attributes = {"verb": verb, "group": "kueue.x-k8s.io", "resource": resource, "namespace": namespace}
        review = {"spec": {"user": "ann", "resourceAttributes": attributes}}
        answer = cluster.api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        return bool(answer.ok()["status"]["allowed"])

    eventually(lambda: may("list", "localqueues"))  # a controller adds the rules to the role
    assert may("get", "workloads")
    assert not may("patch", "workloads")
    assert not may("list", "localqueues", NAMESPACE)


def test_the_rights_suffice_for_groups_of_nodes(cluster: LiveCluster) -> None:
    """A group lists exactly the nodes whose agents have recorded it; a deleted Node leaves it."""
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    cluster.api.post(crds, GROUP_CRD).ok()
    eventually(lambda: cluster.api.get(GROUPS).status == 200)
    cluster.api.post(GROUPS, group_object(name="a")).ok()
    cluster.api.patch(f"{GROUPS}/a/status", {"status": {"nodes": [{"name": "stale"}]}}).ok()
    for name, text in (("group-0", "default/a,default/other"), ("group-1", "")):
        annotations = {f"{ANNOTATION_PREFIX}zonewise": text}
        cluster.api.post("/api/v1/nodes", {"metadata": {"name": name, "annotations": annotations}}).ok()

    def members() -> list[str]:
        return [node["name"] for node in cluster.api.get(f"{GROUPS}/a").ok()["status"]["nodes"]]

    with cluster.controller(*LEADER) as process:
        eventually(lambda: members() == ["group-0"])
        cluster.api.patch(
            "/api/v1/nodes/group-1", {"metadata": {"annotations": {f"{ANNOTATION_PREFIX}zonewise": "default/a"}}}
        ).ok()
        eventually(lambda: members() == ["group-0", "group-1"])
        cluster.api.delete("/api/v1/nodes/group-0").ok()
        eventually(lambda: members() == ["group-1"])
        assert "forbidden" not in process.said.lower()


def test_the_rights_suffice_for_nodes_from_the_cluster_autoscaler(cluster: LiveCluster) -> None:
    """A request is created, observed, and removed with the quota; no request to the API server is forbidden."""
    cluster.api.delete(f"{JOBS}/train", propagationPolicy="Background").ok()  # it waits if this test is the only one
    autoscaler = Autoscaler(cluster)
    autoscaler.add_check(queue="default")
    job = yaml.safe_load((MANIFESTS / "queue/examples/job.yaml").read_text())
    job["metadata"]["name"] = "scaled"
    job["spec"] |= {"suspend": True, "parallelism": 1, "completions": 1}
    cluster.api.post(JOBS, job).ok()
    with cluster.controller(*LEADER) as process:
        request = autoscaler.request()
        autoscaler.answer(request, "Provisioned")
        eventually(lambda: not cluster.is_held("scaled"))
        autoscaler.answer(request, "Provisioned", "CapacityRevoked")
        eventually(lambda: cluster.is_held("scaled") and not autoscaler.requests())
    assert [line for line in process.said.splitlines() if "forbidden" in line.lower() or "rejected" in line] == []
