"""Writes of the live queue to held pods: both API servers accept them, even if repeated, but no later pin."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from support.api import Api
from support.apiserver import real_server
from support.clusters import Cluster, embedded_server, pod
from support.held_pods import assigned_workload
from support.waiting import eventually
from zonewise_common.kube.client import Client
from zonewise_common.kube.config import Config
from zonewise_scheduler.controller.jobs.interface import PodSetInfo
from zonewise_scheduler.controller.pods.managed_pod import read_managed_pod
from zonewise_scheduler.controller.pods.node_pin import NodePin
from zonewise_scheduler.controller.pods.pod_binder import bind_write
from zonewise_scheduler.controller.pods.pod_group import read_plain_pods
from zonewise_scheduler.controller.pods.pod_writes import delete_pod, release_pod, start_pod, stop_pod
from zonewise_scheduler.controller.pods.ungate import UngateContext, Ungating, find_ungatings, ungate_write
from zonewise_scheduler.controller.writing.outcome import attempt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.apiserver import RealServer
    from zonewise_scheduler.controller.types import Write
    from zonewise_scheduler.controller.writing.outcome import Outcome

__all__ = ["embedded_server", "real_server"]

Json = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
GATES = [{"name": "example.com/other"}, {"name": "kueue.x-k8s.io/topology"}]
EXPRESSION = {"key": "gpu", "operator": "Exists"}
FIELD = {"key": "metadata.name", "operator": "NotIn", "values": ["node-9"]}
PREFERRED = [{"weight": 1, "preference": {"matchExpressions": [EXPRESSION]}}]
POD_TERM: Json = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
AFFINITIES: dict[str, Json | None] = {
    "none": None,
    "between pods": {"podAntiAffinity": {REQUIRED: [POD_TERM]}},
    "preferred": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": PREFERRED}},
    "labels": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [EXPRESSION]}]}}},
    "alternatives": {
        "nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [EXPRESSION]}, {"matchFields": [FIELD]}, {}]}
        }
    },
}
INFO = PodSetInfo(
    "main",
    1,
    {"kueue.x-k8s.io/podset": "main"},
    {"kueue.x-k8s.io/workload": "w"},
    {"pool": "batch"},
    [{"key": "batch", "operator": "Exists", "effect": "NoSchedule"}],
    ["kueue.x-k8s.io/topology"],
)


class Site:
    """A server with a namespace, and the client of the controller."""

    def __init__(self, cluster: Cluster, client: Client) -> None:
        self.cluster = cluster
        self.client = client

    def create(self, name: str, labels: Json | None = None, **spec: Any) -> Json:
        body = pod(name, **spec)
        annotations = {"kueue.x-k8s.io/workload": "w"}
        body["metadata"] |= {"labels": {"kueue.x-k8s.io/podset": "main", **(labels or {})}, "annotations": annotations}
        return self.cluster.api.post(self.cluster.pods, body).ok()

    def get(self, name: str) -> Json:
        return self.cluster.api.get(f"{self.cluster.pods}/{name}").ok()

    def send(self, write: Write) -> Outcome:
        return attempt(self.client, write)


@pytest.fixture(params=["embedded", "real"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """Yield each of the two servers in turn."""
    if request.param == "real":
        server: RealServer = request.getfixturevalue("real_server")
        config, cluster = Config.from_url(server.url, server.token, ca=server.ca), Cluster(server.admin, real=True)
    else:
        embedded = request.getfixturevalue("embedded_server")
        config, cluster = Config.from_url(embedded.url), Cluster(Api(embedded.url), real=False)
    with contextlib.closing(Client(config)) as client:
        yield Site(cluster, client)


def ungating(obj: Json, *, level: str = "kubernetes.io/hostname") -> Ungating:
    held = read_managed_pod(obj)
    assert held is not None
    workload = assigned_workload({"h1": 1}, level=level, indexed=False)
    [result] = find_ungatings(workload, [held], UngateContext({"h1": "node-1"}))
    return result


@pytest.mark.parametrize("affinity", AFFINITIES.values(), ids=AFFINITIES.keys())
def test_a_held_pod_is_pinned_and_ungated_once(site: Site, affinity: Json | None) -> None:
    spec: Json = {} if affinity is None else {"affinity": affinity}
    obj = site.create("one", schedulingGates=GATES, nodeSelector={"disk": "ssd"}, **spec)
    write = ungate_write(ungating(obj)._replace(predicted_admission="main zones=0"))
    assert site.send(write).result == "done"
    after = site.get("one")
    assert after["spec"]["schedulingGates"] == GATES[:1]
    assert after["spec"]["affinity"] == ungating(obj).pod_after.affinity
    assert after["metadata"]["annotations"]["zonewise.dev/predicted-admission"] == "main zones=0"
    assert site.send(write).result == "done", "a patch whose response is lost is repeated"
    assert site.get("one")["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]


def test_an_ungated_pod_gets_no_other_pin(site: Site) -> None:
    first = ungating(site.create("one", schedulingGates=GATES[1:]))
    assert site.send(ungate_write(first)).result == "done"
    other = first._replace(pin=NodePin("node-2"))
    outcome = site.send(ungate_write(other))
    assert outcome.result == "rejected", outcome
    assert "node-1" in str(site.get("one")["spec"]["affinity"])


def test_an_ungated_pod_is_bound_once(site: Site) -> None:
    """A Binding fails while a gate holds the pod, if its UID is that of another pod, and once the pod is bound."""
    held = read_managed_pod(site.create("one", schedulingGates=GATES[1:]))
    assert held is not None
    write = bind_write(held, "node-1")
    assert site.send(write).result == "stale"
    assert site.send(ungate_write(ungating(site.get("one")))).result == "done"
    assert site.send(bind_write(msgspec.structs.replace(held, uid="another"), "node-1")).result == "stale"
    assert "nodeName" not in site.get("one")["spec"]
    assert site.send(write).result == "done"
    assert site.get("one")["spec"]["nodeName"] == "node-1"
    assert site.send(write).result == "stale", "one whose response is lost is repeated, and changes nothing"
    outcome = site.send(bind_write(msgspec.structs.replace(held, name="gone"), "node-1"))
    assert outcome.result == "stale", outcome


def test_a_domain_above_nodes_is_pinned_by_labels(site: Site) -> None:
    obj = site.create("one", schedulingGates=GATES, nodeSelector={"disk": "ssd"})
    write = ungate_write(ungating(obj, level="example.com/rack"))
    assert [site.send(write).result for _ in range(2)] == ["done", "done"]
    assert site.get("one")["spec"]["nodeSelector"] == {"disk": "ssd", "example.com/rack": "h1"}


def test_another_pod_of_the_same_name_is_not_ungated(site: Site) -> None:
    write = ungate_write(ungating(site.create("one", schedulingGates=GATES)))
    outcome = site.send(write._replace(uid="another"))
    assert outcome.result == "stale", outcome
    assert site.get("one")["spec"]["schedulingGates"] == GATES


def test_a_gate_that_another_controller_has_removed_is_not_restored(site: Site) -> None:
    """The server rejects the outdated patch; the next patch is derived from the current pod."""
    write = ungate_write(ungating(site.create("one", schedulingGates=GATES)))
    site.cluster.api.patch(f"{site.cluster.pods}/one", {"spec": {"schedulingGates": GATES[1:]}}).ok()
    assert site.send(write).result == "rejected"
    assert site.send(ungate_write(ungating(site.get("one")))).result == "done"


def test_a_plain_pod_is_started_stopped_and_released(site: Site) -> None:
    labels = {"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/managed": "true"}
    gates = [{"name": "kueue.x-k8s.io/admission"}, *GATES]
    site.create("one", labels, schedulingGates=gates)
    finalizers = {"metadata": {"finalizers": ["kueue.x-k8s.io/managed", "example.com/other"]}}
    site.cluster.api.patch(f"{site.cluster.pods}/one", finalizers).ok()
    [member] = read_plain_pods([site.get("one")]).pods
    start = start_pod(member, INFO, "ns/w")
    assert [site.send(start).result for _ in range(2)] == ["done", "done"]
    started = site.get("one")
    assert started["spec"]["schedulingGates"] == GATES
    assert started["spec"]["nodeSelector"] == {"pool": "batch"}
    assert {"key": "batch", "operator": "Exists", "effect": "NoSchedule"} in started["spec"]["tolerations"]

    [member] = read_plain_pods([started]).pods
    stop = stop_pod(member, "Preempted", "by another", "ns/w", 1.8e9)
    assert [site.send(stop).result for _ in range(2)] == ["done", "stale"]
    [member] = read_plain_pods([site.get("one")]).pods
    assert member.is_stopped
    assert site.send(stop_pod(member, "Preempted", "by another", "ns/w", 1.8e9)).result == "done"
    assert site.send(release_pod(member, "ns/w")).result == "done"
    assert site.get("one")["metadata"]["finalizers"] == ["example.com/other"]
    assert site.send(delete_pod(member, "again", "ns/w")).result == "done"


def test_the_preemption_policy_of_a_pod_is_fixed_at_its_creation(site: Site) -> None:
    """Its preemptionPolicy is that of its PriorityClass (plugin/pkg/admission/priority/admission.go admitPod)."""
    obj = site.create("one", schedulingGates=GATES)
    assert obj["spec"]["preemptionPolicy"] == "PreemptLowerPriority"
    patch = {"spec": {"preemptionPolicy": "Never"}}
    site.cluster.api.patch(f"{site.cluster.pods}/one", patch).refused(422, "Invalid")


def test_a_pod_preempts_none_only_if_its_class_sets_never(real_server: RealServer) -> None:
    """A webhook cannot set the policy: the plugin runs again after a webhook has changed a pod."""
    cluster = Cluster(real_server.admin, real=True)
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    name = cluster.namespace
    meek = {"metadata": {"name": f"{name}-meek"}, "value": 7, "preemptionPolicy": "Never"}
    cluster.api.post(classes, meek).ok()
    cluster.api.post(classes, {"metadata": {"name": f"{name}-bold"}, "value": 7}).ok()
    eventually(lambda: cluster.api.post(cluster.pods, pod("one", priorityClassName=f"{name}-meek")).status == 201)
    made = cluster.api.get(f"{cluster.pods}/one").ok()
    assert made["spec"]["preemptionPolicy"] == "Never"
    for spec in ({"priorityClassName": f"{name}-bold"}, {}):
        cluster.api.post(cluster.pods, pod("two", preemptionPolicy="Never", **spec)).refused(403, "Forbidden")
