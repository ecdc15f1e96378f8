"""Preemption for zones with real kube-scheduler, API server and kubelets: exact victims, and the preemptor runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from support.e2e.cluster import Cluster, Extender, extending, running_cluster, scheduling, skip_reason
from support.e2e.pods import container, pod
from support.e2e.settings import Settings
from support.pod_groups import POD_GROUP_CRD, pod_group

if TYPE_CHECKING:
    from collections.abc import Generator

pytestmark = [pytest.mark.skipif(skip_reason() is not None, reason=str(skip_reason())), pytest.mark.timeout(300)]

Object = dict[str, Any]

KUBELETS = {
    "n1": Settings(topology="single-numa-node", memory="None", reconcile="1s"),
    "n2": Settings(topology="single-numa-node", memory="None", reconcile="1s"),
}
PRIORITIES = {"lowest": 1, "low": 10, "high": 1000}
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/lab/podgroups"
BUDGETS = "/apis/policy/v1/namespaces/lab/poddisruptionbudgets"


@pytest.fixture(scope="module")
def cluster() -> Generator[Cluster]:
    with running_cluster(KUBELETS) as made:
        for name, value in PRIORITIES.items():
            body = {"metadata": {"name": name}, "value": value}
            made.server.admin.post("/apis/scheduling.k8s.io/v1/priorityclasses", body).ok()
        made.server.admin.post(CRDS, yaml.safe_load(POD_GROUP_CRD.read_text())).ok()
        made.until(lambda: made.server.admin.get(GROUPS).status == 200, lambda: "PodGroups are not served")
        never = {"metadata": {"name": "never"}, "value": 1000, "preemptionPolicy": "Never"}
        made.server.admin.post("/apis/scheduling.k8s.io/v1/priorityclasses", never).ok()
        yield made


@pytest.fixture
def extender(cluster: Cluster) -> Generator[Extender]:
    """Yield the extender, which kube-scheduler calls; delete all pods of a test at its end."""
    with extending(cluster) as made, scheduling(cluster, extender=made):
        yield made
        cluster.clear()


# A node has 14 CPUs for pods in one zone, and 16 in the other.


def pod_of(name: str, cpus: int, priority: str, node: str = "") -> Object:
    obj = pod(name, container(cpu=str(cpus), memory="64Mi"))
    obj["spec"]["priorityClassName"] = priority
    obj["metadata"]["labels"] = {"app": name}
    if node:
        obj["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    return obj


def runs(obj: Object) -> bool:
    assert obj["status"]["phase"] != "Failed", obj["status"]
    return obj["status"]["phase"] == "Running"


def fill(cluster: Cluster, *pods: Object) -> None:
    """Create running pods one after another: the node's report contains each of them before the next is created."""
    for each in pods:
        cluster.create([each])
        cluster.settled([each["metadata"]["name"]], runs)


def left(cluster: Cluster) -> set[str]:
    """Return the pods that exist and are not being deleted."""
    return {name for name, obj in cluster.pods().items() if "deletionTimestamp" not in obj["metadata"]}


def events(cluster: Cluster, reason: str) -> set[str]:
    items = cluster.server.admin.get("/api/v1/namespaces/lab/events").ok()["items"]
    return {item["involvedObject"]["name"] for item in items if item["reason"] == reason}


def test_a_zone_on_fragmented_nodes(cluster: Cluster, extender: Extender) -> None:
    """Every node has enough CPUs, but no zone has: exactly the lowest-priority pods of one zone are evicted.

    Without the extender's preemption, kube-scheduler finds no victim there. No other test uses the names of these pods,
    since their Events remain.
    """
    small = [
        pod_of("x0", 8, "low", "n1"), pod_of("x1", 8, "lowest", "n1"),
        pod_of("y0", 8, "low", "n2"), pod_of("y1", 8, "low", "n2"),
    ]  # fmt: skip
    fill(cluster, *small)
    cluster.create([pod_of("high", 10, "high")])
    cluster.settled(["high"], runs)
    assert left(cluster) == {"x0", "y0", "y1", "high"}, extender.said
    assert cluster.pods()["high"]["spec"]["nodeName"] == "n1"
    assert events(cluster, "Preempted") & {"x0", "x1", "y0", "y1"} == {"x1"}


def test_no_preemption_of_equal_priority_or_by_policy(cluster: Cluster, extender: Extender) -> None:
    """A pod of equal priority waits, and so does a pod whose policy is Never."""
    fill(cluster, *(pod_of(f"a{number}", 9, "low", f"n{number % 2 + 1}") for number in range(4)))
    cluster.create([pod_of("equal", 9, "low"), pod_of("never", 9, "never")])
    cluster.create([pod_of("high", 9, "high")])
    cluster.settled(["high"], runs)
    statuses = {name: obj["status"] for name, obj in cluster.pods().items()}
    assert len(left(cluster) & {"a0", "a1", "a2", "a3"}) == 3, f"{extender.said} {statuses}"
    phases = {name: obj["status"]["phase"] for name, obj in cluster.pods().items()}
    assert phases["equal"] == phases["never"] == "Pending"


def test_disruption_budgets_are_respected(cluster: Cluster, extender: Extender) -> None:
    """The cheapest victim belongs to an exhausted budget, so a costlier pod is evicted instead."""
    fill(
        cluster, pod_of("kept", 8, "lowest", "n1"), pod_of("a1", 8, "low", "n1"),
        pod_of("b0", 8, "high", "n2"), pod_of("b1", 8, "high", "n2"),
    )  # fmt: skip
    budget = {
        "metadata": {"name": "kept"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}},
    }
    cluster.server.admin.post(BUDGETS, budget).ok()
    try:
        cluster.create([pod_of("high", 10, "high")])
        cluster.settled(["high"], runs)
        assert left(cluster) == {"kept", "b0", "b1", "high"}, extender.said
    finally:
        cluster.server.admin.delete(f"{BUDGETS}/kept").ok()


def test_full_nodes(cluster: Cluster, extender: Extender) -> None:
    """If the node as a whole is full, kube-scheduler preempts, with the victims of the verb `preempt`.

    The victims that kube-scheduler itself would choose are in two zones, so their end would not help.
    """
    fill(cluster, *(pod_of(f"{node}-{number}", 4, "low", node) for node in ("n1", "n2") for number in range(7)))
    cluster.create([pod_of("high", 8, "high")])
    cluster.settled(["high"], runs)
    node = cluster.pods()["high"]["spec"]["nodeName"]
    assert len([name for name in left(cluster) if name.startswith(node)]) == 5, extender.said
    assert len(left(cluster)) == 13


def test_a_gang_on_full_nodes(cluster: Cluster, extender: Extender) -> None:
    """If all nodes are full as a whole, kube-scheduler filters no member, but the gang preempts on proposed nodes."""
    fill(cluster, *(pod_of(f"{node}-{cpus}", cpus, "low", node) for node in ("n1", "n2") for cpus in (16, 14)))
    cluster.server.admin.post(GROUPS, pod_group("gang", 2)).ok()
    members = [pod_of(f"gang-{number}", 14, "high") for number in range(2)]
    for member in members:
        member["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = "gang"
    cluster.create(members)
    cluster.settled(["gang-0", "gang-1"], runs)
    assert len(left(cluster)) == 4, extender.said
