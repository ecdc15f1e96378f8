"""On a real API server: each overlay gives the agent the rights for everything that it writes there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import yaml

from support.apiserver import RealServer, real_apiserver
from support.machines import gpu_server, small_vm
from support.manifests import ACCOUNT, NAMESPACE, any_kind, apply, combined, objects, prometheus_kinds, rendered, rights
from support.waiting import eventually
from zonewise.daemon.exclusions import Exclusions, PodPattern
from zonewise.daemon.pod_labels import PodLabels, pod_exclusion
from zonewise.kubelet.types import PodResources
from zonewise.objects.features import node_features
from zonewise.objects.labels import machine_to_labels
from zonewise.objects.node_feature import object_name
from zonewise.objects.nrt import machine_to_nrt
from zonewise.publish.label_publisher import LabelPublisher
from zonewise.publish.node_feature import LabelTarget
from zonewise.publish.nrt_publisher import NrtPublisher
from zonewise_common.kube.client import Client
from zonewise_common.kube.config import Config
from zonewise_common.service.authorizer import ALLOWED, Authorizer

if TYPE_CHECKING:
    from collections.abc import Generator

NODE, POD = "node-1", "zonewise-agent-abcde"
FEATURE = f"/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/{NAMESPACE}/nodefeatures/{object_name(NODE)}"
TOPOLOGY = f"/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/{NODE}"
MODES = {"overlays/without-nfd": "node", "overlays/with-nfd": "nodefeature", "overlays/prometheus": "auto"}


class Cluster(NamedTuple):
    """A server with one overlay applied, and the agent's client on one node."""

    overlay: str
    server: RealServer
    client: Client

    @property
    def node(self) -> dict[str, Any]:
        return self.server.admin.get(f"/api/v1/nodes/{NODE}").ok()


NODE_LABELS = ("patch", "/nodes", "*")
NODE_FEATURES = ("patch", "nfd.k8s-sigs.io/nodefeatures", NAMESPACE)


@pytest.fixture(scope="module")
def server() -> Generator[RealServer]:
    """Return one server; the overlays are applied one after another."""
    with real_apiserver() as running:
        yield running


@pytest.fixture(scope="module", params=MODES)
def cluster(request: pytest.FixtureRequest, server: RealServer) -> Generator[Cluster]:
    kinds = prometheus_kinds()
    if request.param != "overlays/without-nfd":
        kinds += any_kind("nfd.k8s-sigs.io", "v1alpha1", "NodeFeature", "nodefeatures")
    apply(server, kinds.removeprefix("---\n"))
    apply(server, rendered(request.param))
    server.new_node(NODE)
    spec = {"nodeName": NODE, "serviceAccountName": ACCOUNT, "containers": [{"name": "main", "image": "none"}]}
    pod = {"metadata": {"name": POD, "labels": {"team": "blue"}}, "spec": spec}
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    server.admin.post(pods, pod).ok()
    token = server.service_account_token(NAMESPACE, ACCOUNT, pod=POD)
    client = Client(Config.from_url(server.url, token, ca=server.ca))
    eventually(lambda: in_force(server, request.param))
    yield Cluster(request.param, server, client)
    client.close()
    for path in (f"{pods}/{POD}", f"/api/v1/nodes/{NODE}", TOPOLOGY, FEATURE):
        server.admin.delete(path, gracePeriodSeconds=0)


@pytest.mark.parametrize(
    ("overlay", "withdrawn", "kept"),
    [("overlays/with-nfd", NODE_LABELS, NODE_FEATURES), ("overlays/without-nfd", NODE_FEATURES, NODE_LABELS)],
)
def test_switching(
    server: RealServer, overlay: str, withdrawn: tuple[str, str, str], kept: tuple[str, str, str]
) -> None:
    """If an overlay with fewer rights is applied after the default, it withdraws the missing rights."""
    apply(server, rendered("."))
    eventually(lambda: may(server, *withdrawn) and may(server, *kept))
    apply(server, rendered(overlay))
    eventually(lambda: not may(server, *withdrawn))
    assert may(server, *kept)


def in_force(server: RealServer, overlay: str) -> bool:
    """Return whether the API server enforces the rights that were just granted and withdrawn."""
    given = rights(objects(overlay))
    withdrawn = {NODE_LABELS, NODE_FEATURES} - given
    return all(may(server, *right) for right in given) and not any(may(server, *right) for right in withdrawn)


def may(server: RealServer, verb: str, thing: str, namespace: str) -> bool:
    """Return whether the agent's account may do something with a group/resource, in a namespace or in all ("*")."""
    group, resource, subresource = (*thing.split("/", 2), "")[:3]
    attributes = {
        "verb": verb, "group": group, "resource": resource, "subresource": subresource,
        "namespace": namespace.replace("*", ""),
    }  # fmt: skip
    spec = {"user": f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}", "resourceAttributes": attributes}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    return server.admin.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review).ok()["status"]["allowed"]


def test_the_topology(cluster: Cluster) -> None:
    """The publisher creates the object, patches it, and creates it again after a deletion."""
    publisher = NrtPublisher(cluster.client)
    for machine in (small_vm(), gpu_server()):
        wanted = machine_to_nrt(machine, NODE)
        publisher.publish(wanted)
        there = cluster.server.admin.get(TOPOLOGY).ok()
        assert there["zones"] == wanted["zones"]
        assert [owner["kind"] for owner in there["metadata"]["ownerReferences"]] == ["Node"]
    cluster.server.admin.delete(TOPOLOGY).ok()
    publisher.publish(machine_to_nrt(small_vm(), NODE))
    assert cluster.server.admin.get(TOPOLOGY).ok()["zones"] == machine_to_nrt(small_vm(), NODE)["zones"]


def test_the_labels(cluster: Cluster) -> None:
    """Labels are written to the overlay's target, changed, and removed, and the publisher reports no problem."""
    publisher = LabelPublisher(cluster.client, LabelTarget(NODE, NAMESPACE, POD), mode=MODES[cluster.overlay])
    on_node = cluster.overlay == "overlays/without-nfd"
    for machine in (gpu_server(), small_vm()):
        wanted = machine_to_labels(machine)
        done = publisher.publish(wanted, node_features(machine))
        assert done.problems == ()
        assert done.writes == (("node",) if on_node else ("nodefeature",))
        if on_node:
            assert cluster.node["metadata"]["labels"] == wanted
        else:
            there = cluster.server.admin.get(FEATURE).ok()
            assert there["spec"]["labels"] == wanted
            assert [owner["kind"] for owner in there["metadata"]["ownerReferences"]] == ["Pod"]
            assert "labels" not in cluster.node["metadata"]


@pytest.mark.parametrize("cluster", ["overlays/prometheus"], indirect=True)
def test_who_may_read_metrics(cluster: Cluster) -> None:
    """With the overlay for Prometheus, the agent can check tokens; the reader may get only the metrics."""
    token = cluster.server.service_account_token(NAMESPACE, "zonewise-metrics-reader")
    other = cluster.server.service_account_token(NAMESPACE, ACCOUNT)
    eventually(lambda: Authorizer(cluster.client).authorize(f"Bearer {token}", "/metrics", "::1") == ALLOWED)
    access = Authorizer(cluster.client)
    assert access.authorize(f"Bearer {token}", "/metrics", "::1") == ALLOWED
    assert access.authorize(f"Bearer {token}", "/debug/state", "::1").status == 403
    assert access.authorize(f"Bearer {other}", "/metrics", "::1").status == 403
    assert access.authorize("Bearer guessed", "/metrics", "::1").status == 401


@pytest.mark.parametrize("cluster", ["overlays/without-nfd"], indirect=True)
def test_excluding_pods_by_label(cluster: Cluster) -> None:
    """The component grants the right to read the labels of pods in every namespace."""
    made = combined(cluster.overlay, "components/pod-labels")
    apply(cluster.server, yaml.safe_dump_all(made))
    other = cluster.server.new_namespace()
    spec = {"containers": [{"name": "main", "image": "none"}]}
    pod = {"metadata": {"name": "job", "labels": {"team": "red"}}, "spec": spec}
    cluster.server.admin.post(f"/api/v1/namespaces/{other}/pods", pod).ok()
    pattern = PodPattern(labels=(("team", "r*"),))

    def excluded() -> bool:
        return pod_exclusion(Exclusions(pods=(pattern,)), PodLabels(cluster.client))(PodResources(other, "job"))

    eventually(excluded)
