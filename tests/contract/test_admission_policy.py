"""On a real API server: an agent may write only what belongs to its own node."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from support.api import JSON_PATCH, STRATEGIC
from support.apiserver import RealServer, real_server
from support.manifests import ACCOUNT, NAMESPACE, any_kind, apply, combined, rendered
from support.waiting import eventually
from zonewise_common.kube.events import Occurrences, event, node_reference, utc_now

if TYPE_CHECKING:
    from collections.abc import Generator

    from support.api import Answer, Api

__all__ = ["real_server"]

OWN, OTHER = "node-of-its-own", "node-of-another"
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
FEATURES = f"/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/{NAMESPACE}/nodefeatures"
NODES = "/api/v1/nodes"
EVENTS = "/api/v1/namespaces/default/events"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
NODE_NAME = "nfd.node.kubernetes.io/node-name"


class Cluster(NamedTuple):
    """A server with the manifests applied, and two nodes."""

    admin: Api
    agent: Api
    """The agent on the node OWN, with the token that the kubelet would mount."""
    server: RealServer

    def annotated(self, node: str) -> dict[str, str]:
        return self.admin.get(f"{NODES}/{node}").ok()["metadata"].get("annotations", {})


@pytest.fixture(scope="module")
def cluster(real_server: RealServer) -> Cluster:
    apply(real_server, rendered(".") + any_kind("nfd.k8s-sigs.io", "v1alpha1", "NodeFeature", "nodefeatures"))
    agent = real_server.as_token(real_server.token_on_node(NAMESPACE, ACCOUNT, OWN))
    real_server.new_node(OTHER)
    eventually(lambda: "only" in message(write_topology(agent, OTHER)))
    eventually(lambda: agent.get(f"{FEATURES}/none").status == 404)
    return Cluster(real_server.admin, agent, real_server)


def message(answer: Answer) -> str:
    return answer.body.get("message", "")


def topology(name: str) -> dict[str, Any]:
    zones = [{"name": "node-0", "type": "Node"}]
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "zones": zones,
    }


def write_topology(who: Api, name: str) -> Answer:
    return who.apply(f"{TOPOLOGIES}/{name}", topology(name), "zonewise-agent", force="true")


def feature(name: str, node: str | None) -> dict[str, Any]:
    labels = {} if node is None else {NODE_NAME: node}
    return {
        "apiVersion": "nfd.k8s-sigs.io/v1alpha1",
        "kind": "NodeFeature",
        "metadata": {"name": name, "labels": labels},
        "spec": {"labels": {"zonewise.dev/zones": "2"}},
    }


def denied(answer: Answer, words: str) -> None:
    """Assert that the policy denied the request with these words."""
    told = answer.refused(403, "Forbidden")["message"]
    assert "ValidatingAdmissionPolicy 'zonewise-agent-own-node'" in told
    assert words in told


# --- NodeResourceTopology


def test_its_own_topology(cluster: Cluster) -> None:
    """An agent applies its object, and patches it with the resource version as a condition."""
    made = write_topology(cluster.agent, OWN).ok()
    patch = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": made["metadata"]["resourceVersion"]},
        {"op": "replace", "path": "/zones/0/type", "value": "Other"},
    ]
    path = f"{TOPOLOGIES}/{OWN}"
    assert cluster.agent.patch(path, patch, JSON_PATCH).ok()["zones"][0]["type"] == "Other"
    assert cluster.agent.get(path).ok()["metadata"]["name"] == OWN


def test_the_topology_of_another_node(cluster: Cluster) -> None:
    """The object can be neither created nor changed; the error names the agent's node and what the agent may write."""
    words = f"the agent of node {OWN} may write the NodeResourceTopology of that node only"
    denied(write_topology(cluster.agent, OTHER), words)
    denied(cluster.agent.post(TOPOLOGIES, topology(OTHER)), words)
    write_topology(cluster.admin, OTHER).ok()
    denied(cluster.agent.patch(f"{TOPOLOGIES}/{OTHER}", {"zones": []}), words)


def test_a_topology_of_no_node(cluster: Cluster) -> None:
    """The name must be that of the node; a name that the API server generates is denied."""
    made = topology("")
    made["metadata"] = {"generateName": f"{OWN}-"}
    denied(cluster.agent.post(TOPOLOGIES, made), "of that node only")


def test_both_versions_of_the_topology(cluster: Cluster) -> None:
    """The older version of the API does not bypass the policy."""
    path = f"/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies/{OTHER}"
    made: dict[str, Any] = {**topology(OTHER), "apiVersion": "topology.node.k8s.io/v1alpha1", "topologyPolicies": []}
    denied(cluster.agent.apply(path, made, "zonewise-agent", force="true"), "of that node only")


# --- tokens


def test_a_token_of_no_pod(cluster: Cluster) -> None:
    """A token that was created manually names no node, so it may write nothing, and the error states the reason."""
    token = cluster.server.service_account_token(NAMESPACE, ACCOUNT)
    answer = write_topology(cluster.server.as_token(token), OWN)
    denied(answer, f"the token of system:serviceaccount:{NAMESPACE}:{ACCOUNT} names no node")


def test_a_token_of_a_pod_on_no_node(cluster: Cluster) -> None:
    """A pending pod is not on a node yet, so its token may write nothing."""
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    spec = {"serviceAccountName": ACCOUNT, "containers": [{"name": "main", "image": "none"}]}
    name = cluster.admin.post(path, {"metadata": {"generateName": "waits-"}, "spec": spec}).ok()["metadata"]["name"]
    token = cluster.server.service_account_token(NAMESPACE, ACCOUNT, pod=name)
    denied(write_topology(cluster.server.as_token(token), OWN), "names no node")


def test_a_user_of_that_name(cluster: Cluster) -> None:
    """A user who may impersonate the agent, but is not on a node, is denied for the same reason."""
    who = {"Impersonate-User": f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"}
    change = {"metadata": {"labels": {"zonewise.dev/zones": "9"}}}
    denied(cluster.admin.patch(f"{NODES}/{OWN}", change, _headers=who), "names no node")


def test_other_users_are_not_restricted(cluster: Cluster) -> None:
    """The policy restricts only the agent; other users have the rights of their roles."""
    write_topology(cluster.admin, OTHER).ok()
    cluster.admin.patch(f"{NODES}/{OTHER}", {"metadata": {"labels": {"team": "blue"}}}).ok()


# --- Node


@pytest.mark.parametrize("domain", ["feature.node.kubernetes.io", "nvidia.com", "amd.com", "zonewise.dev"])
def test_its_own_labels(cluster: Cluster, domain: str) -> None:
    """On its own Node, the agent may write labels of its domains, and the annotation that lists these labels."""
    path, label = f"{NODES}/{OWN}", f"{domain}/test"
    for value in ("true", "false", None):
        metadata = {"labels": {label: value}, "annotations": {"zonewise.dev/labels": value and label}}
        made = cluster.agent.patch(path, {"metadata": metadata}).ok()["metadata"]
        assert made.get("labels", {}).get(label) == value
        assert cluster.annotated(OWN).get("zonewise.dev/labels") == (value and label)


def test_labels_of_another_node(cluster: Cluster) -> None:
    """The agent may write no label of another Node."""
    answer = cluster.agent.patch(f"{NODES}/{OTHER}", {"metadata": {"labels": {"zonewise.dev/zones": "9"}}})
    denied(answer, f"the agent of node {OWN} may write labels and annotations of that Node only")


@pytest.mark.parametrize(
    "label",
    [
        "team",
        "example.com/team",
        "kubernetes.io/hostname",
        "node-role.kubernetes.io/control-plane",
        "node-restriction.kubernetes.io/secure",
        "topology.kubernetes.io/zone",
        "zonewise.dev.example.com/zones",
        "sub.zonewise.dev/zones",
        "feature-node.kubernetes.io/zones",
        "featureanode.kubernetes.io/zones",
    ],
)
def test_labels_of_others(cluster: Cluster, label: str) -> None:
    """Labels outside the agent's domains can be neither added, changed nor removed."""
    path = f"{NODES}/{OWN}"

    def written(who: Api, value: str | None) -> Answer:
        return who.patch(path, {"metadata": {"labels": {label: value}}})

    words = "an agent may change labels of its Node that begin with"
    denied(written(cluster.agent, "true"), words)
    written(cluster.admin, "true").ok()
    denied(written(cluster.agent, "false"), words)
    denied(written(cluster.agent, None), words)
    cluster.agent.patch(path, {"metadata": {"labels": {"zonewise.dev/zones": "2"}}}).ok()
    written(cluster.admin, None).ok()


@pytest.mark.parametrize("name", ["node.alpha.kubernetes.io/ttl", "zonewise.dev.example.com/labels"])
def test_annotations_of_others(cluster: Cluster, name: str) -> None:
    """The agent may write only its own annotations."""
    path = f"{NODES}/{OWN}"
    words = "annotations of its Node that begin with zonewise.dev/"
    denied(cluster.agent.patch(path, {"metadata": {"annotations": {name: "1"}}}), words)
    cluster.admin.patch(path, {"metadata": {"annotations": {name: "1"}}}).ok()
    denied(cluster.agent.patch(path, {"metadata": {"annotations": {name: None}}}), words)
    cluster.admin.patch(path, {"metadata": {"annotations": {name: None}}}).ok()


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"unschedulable": True}},
        {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}},
        {"spec": {"providerID": "a://b"}},
        {"spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}},
        {"metadata": {"finalizers": ["example.com/a"]}},
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b"}]}},
    ],
    ids=lambda change: ".".join(f"{part}.{name}" for part, inner in change.items() for name in list(inner)[:1]),
)
def test_the_rest_of_its_node(cluster: Cluster, change: dict[str, Any]) -> None:
    """The agent may change neither the spec, the finalizers nor the owners of its own Node."""
    words = "may change labels and annotations of its Node, and nothing else of it"
    denied(cluster.agent.patch(f"{NODES}/{OWN}", change), words)


def test_a_node_with_many_labels_and_taints(cluster: Cluster) -> None:
    """The policy checks every label, annotation, taint and image within the time limit of the API server."""
    node, path = "node-with-much", f"{NODES}/node-with-much"
    agent = cluster.server.as_token(cluster.server.token_on_node(NAMESPACE, ACCOUNT, node))
    metadata = {
        "labels": {f"example.com/{'n' * 50}-{number}": "v" * 60 for number in range(500)},
        "annotations": {f"example.com/{'n' * 50}-{number}": "v" * 1000 for number in range(150)},
    }
    taints = [{"key": f"example.com/{number}", "value": "v" * 60, "effect": "NoSchedule"} for number in range(100)]
    cluster.admin.patch(path, {"metadata": metadata, "spec": {"taints": taints}}).ok()
    labels = {f"feature.node.kubernetes.io/cpu-cpuid.{number}": "true" for number in range(300)}
    agent.patch(path, {"metadata": {"labels": labels, "annotations": {"zonewise.dev/labels": ",".join(labels)}}}).ok()
    denied(agent.patch(path, {"spec": {"taints": taints[1:]}}), "nothing else of it")


# --- NodeFeature


def test_its_own_feature(cluster: Cluster) -> None:
    """The agent creates, changes and removes the NodeFeature of its node."""
    path = f"{FEATURES}/{OWN}"
    cluster.agent.apply(path, feature(OWN, OWN), "zonewise-agent", force="true").ok()
    cluster.agent.patch(path, {"spec": {"labels": {"zonewise.dev/zones": "4"}}}).ok()
    cluster.agent.delete(path).ok()


@pytest.mark.parametrize("node", [OTHER, None])
def test_a_feature_of_another_node(cluster: Cluster, node: str | None) -> None:
    """A label names the node of a NodeFeature. Creation is denied if this label is absent or names another node."""
    words = f"the agent of node {OWN} may write NodeFeatures of that node only"
    denied(cluster.agent.post(FEATURES, feature("claimed", node)), words)


def test_a_feature_cannot_be_moved_between_nodes(cluster: Cluster) -> None:
    """The agent can neither take over another node's NodeFeature, reassign its own, nor delete another node's."""
    cluster.admin.post(FEATURES, feature("others", OTHER)).ok()
    cluster.agent.post(FEATURES, feature("mine", OWN)).ok()
    take = {"metadata": {"labels": {NODE_NAME: OWN}}}
    give = {"metadata": {"labels": {NODE_NAME: OTHER}}}
    words = "may write NodeFeatures of that node only"
    denied(cluster.agent.patch(f"{FEATURES}/others", take), words)
    denied(cluster.agent.patch(f"{FEATURES}/mine", give), words)
    denied(cluster.agent.delete(f"{FEATURES}/others"), words)
    for name in ("others", "mine"):
        cluster.admin.delete(f"{FEATURES}/{name}").ok()


# --- Event


def test_events_on_its_own_node(cluster: Cluster) -> None:
    """The agent creates an Event on its Node, and increments its count."""
    for count in (1, 2):
        made = node_event(OWN, "own", count)
        assert cluster.agent.apply(f"{EVENTS}/{OWN}.own", made, "zonewise-agent", force="true").ok()["count"] == count


def test_events_of_others(cluster: Cluster) -> None:
    """Events on other Nodes and on pods can be neither created nor taken over."""
    words = f"the agent of node {OWN} may write events on that Node only"
    denied(cluster.agent.post(EVENTS, node_event(OTHER, "new")), words)
    on_pod = {**node_event(OWN, "pod"), "involvedObject": {"kind": "Pod", "name": OWN, "namespace": "default"}}
    denied(cluster.agent.post(EVENTS, on_pod), words)
    cluster.admin.post(EVENTS, node_event(OTHER, "others")).ok()
    take = {"involvedObject": node_reference(OWN)}
    denied(cluster.agent.patch(f"{EVENTS}/{OTHER}.others", take), words)


def node_event(node: str, suffix: str, count: int = 1) -> dict[str, Any]:
    now = utc_now()
    seen = Occurrences(now, now, count)
    return event(node_reference(node), suffix, "zonewise-agent", "Test", "m", event_type="Warning", seen=seen)


# --- what RBAC denies before the policy is evaluated


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/pods"),
        ("GET", f"/api/v1/namespaces/{NAMESPACE}/pods"),
        ("GET", "/api/v1/secrets"),
        ("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps"),
        ("GET", NODES),
        ("GET", f"{NODES}/{OWN}/proxy/configz"),
        ("DELETE", f"{NODES}/{OWN}"),
        ("PUT", f"{NODES}/{OWN}"),
        ("PATCH", f"{NODES}/{OWN}/status"),
        ("DELETE", f"{TOPOLOGIES}/{OWN}"),
        ("DELETE", TOPOLOGIES),
        ("GET", FEATURES),
        ("POST", FEATURES.replace(NAMESPACE, "default")),
        ("POST", f"/api/v1/namespaces/{NAMESPACE}/events"),
        ("GET", EVENTS),
        ("DELETE", f"{EVENTS}/any"),
        ("POST", "/apis/authentication.k8s.io/v1/tokenreviews"),
        ("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token"),
    ],
)
def test_everything_else_is_denied(cluster: Cluster, method: str, path: str) -> None:
    """Least privilege: no list, no access to pods and Secrets, no status, no deletion."""
    answer = cluster.agent.request(method, path, None if method in ("GET", "DELETE") else {})
    assert f'User "system:serviceaccount:{NAMESPACE}:{ACCOUNT}" cannot' in answer.refused(403, "Forbidden")["message"]


def test_the_policy_applies_to_an_agent_with_all_rights(cluster: Cluster) -> None:
    """Even with all rights, the policy denies the agent access to the objects of other nodes."""
    write_topology(cluster.admin, OTHER).ok()
    with everything_allowed(cluster):
        condition = write_conditions(cluster.agent, f"{NODES}/{OWN}", "GPUHardwareFault")
        denied(condition, "conditions in its status need components/health")
        for path in (f"{NODES}/{OWN}", f"{NODES}/{OTHER}"):
            denied(cluster.agent.delete(path), "labels and annotations of that Node only")
        status = {"status": {"capacity": {"cpu": "0"}}}
        denied(cluster.agent.patch(f"{NODES}/{OWN}/status", status), "labels and annotations of that Node only")
        made = {"metadata": {"name": "node-without-agent"}}
        denied(cluster.agent.post(NODES, made), "labels and annotations of that Node only")
        denied(cluster.agent.delete(f"{TOPOLOGIES}/{OTHER}"), "NodeResourceTopology of that node only")
        denied(cluster.agent.post(FEATURES.replace(NAMESPACE, "default"), feature("a", OWN)), "in the namespace")


@contextlib.contextmanager
def everything_allowed(cluster: Cluster) -> Generator[None]:
    binding = {
        "metadata": {"name": "too-much"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
    }
    cluster.admin.post(BINDINGS, binding).ok()
    try:
        eventually(lambda: cluster.agent.get("/api/v1/secrets").status == 200)
        yield
    finally:
        cluster.admin.delete(f"{BINDINGS}/too-much").ok()
        eventually(lambda: cluster.agent.get("/api/v1/secrets").status == 403)


def test_the_record_of_node_feature_discovery_may_only_shrink(cluster: Cluster) -> None:
    """To take over labels that NFD left, the agent may remove names from NFD's annotation, but not add any."""
    record = "nfd.node.kubernetes.io/feature-labels"
    named = f"second.{record}"

    def annotate(who: Api, name: str, text: str | None, node: str = OWN) -> Answer:
        return who.patch(f"{NODES}/{node}", {"metadata": {"annotations": {name: text}}})

    for name in (record, named):
        annotate(cluster.admin, name, "cpu-a,cpu-b,nvidia.com/c").ok()
    annotate(cluster.admin, record, "cpu-a", OTHER).ok()
    words = "remove labels from the record of Node Feature Discovery, and nothing else"
    annotate(cluster.agent, record, "cpu-a,nvidia.com/c").ok()
    denied(annotate(cluster.agent, record, "cpu-a,cpu-d"), words)
    annotate(cluster.agent, record, None).ok()
    annotate(cluster.agent, named, "cpu-b").ok()
    denied(annotate(cluster.agent, record, "cpu-a"), words)
    denied(annotate(cluster.agent, record, None, OTHER), "of that Node only")


# --- conditions


@pytest.fixture(scope="module")
def health(cluster: Cluster) -> Cluster:
    """Return the cluster with the rights of the health and rules components, which do not restrict each other."""
    names = ("health", "health-taint", "node-feature-rules", "node-feature-taints")
    manifests = combined("overlays/default", *(f"components/{name}" for name in names))
    chosen = [one for one in manifests if "Role" in one["kind"] or one["kind"] == "ValidatingAdmissionPolicy"]
    apply(cluster.server, "".join(f"---\n{json.dumps(one)}\n" for one in chosen))
    eventually(lambda: cluster.agent.get("/api/v1/namespaces/default/pods/none").status == 404)
    eventually(lambda: write_conditions(cluster.agent, f"{NODES}/{OWN}", "GPUHardwareFault").status == 200)
    return cluster


def write_conditions(who: Api, path: str, *types: str, **status: Any) -> Answer:
    conditions = [{"type": name, "status": "True", "reason": "XID79", "message": "m"} for name in types]
    return who.patch(f"{path}/status", {"status": {"conditions": conditions, **status}}, STRATEGIC)


def test_conditions_of_its_node(health: Cluster) -> None:
    """The agent may write its own conditions on its own Node, and nothing else in the status."""
    write_conditions(health.admin, f"{NODES}/{OWN}", "Ready").ok()
    written = write_conditions(health.agent, f"{NODES}/{OWN}", "GPUHardwareFault").ok()
    assert {one["type"] for one in written["status"]["conditions"]} == {"Ready", "GPUHardwareFault"}
    denied(write_conditions(health.agent, f"{NODES}/{OTHER}", "GPUHardwareFault"), "of that Node only")
    denied(write_conditions(health.agent, f"{NODES}/{OWN}", "MemoryPressure"), "conditions of its own")
    ready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    denied(health.agent.patch(f"{NODES}/{OWN}/status", ready, STRATEGIC), "conditions of its own")
    denied(write_conditions(health.agent, f"{NODES}/{OWN}", capacity={"cpu": "1"}), "and nothing else")
    labels = {"metadata": {"labels": {"a": "b"}}}
    denied(health.agent.patch(f"{NODES}/{OWN}/status", labels, STRATEGIC), "and nothing else")


def test_conditions_of_pods_on_its_node(health: Cluster) -> None:
    """The agent may write one condition of pods on its node, and Events on pods that name the node as their source."""
    pods = "/api/v1/namespaces/default/pods"
    for name, node in (("own", OWN), ("other", OTHER)):
        spec = {"nodeName": node, "containers": [{"name": "main", "image": "none"}]}
        health.admin.post(pods, {"metadata": {"name": name}, "spec": spec}).ok()
    fault = "zonewise.dev/HardwareFault"
    write_conditions(health.agent, f"{pods}/own", fault).ok()
    denied(write_conditions(health.agent, f"{pods}/other", fault), "of pods on that node only")
    denied(write_conditions(health.agent, f"{pods}/own", "Ready"), "hardware faults need components/health")
    denied(write_conditions(health.agent, f"{pods}/own", phase="Failed"), "and nothing else")
    for host, is_own in ((OWN, True), (OTHER, False)):
        reference = {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "own"}
        seen = Occurrences(utc_now(), utc_now())
        body = event(reference, f"on-{host}", "zonewise-agent", "XID79", "m", event_type="Warning", seen=seen)
        body["source"]["host"] = host
        answer = health.agent.post(EVENTS, body)
        assert answer.ok() if is_own else denied(answer, "name it as") is None


def test_the_taint_of_its_node(health: Cluster) -> None:
    """The agent may add and remove its own taint, but not change others or the spec; a patch replaces the list."""
    path = f"{NODES}/{OWN}"
    health.admin.patch(path, {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}).ok()
    present = health.admin.get(path).ok()["spec"]["taints"]
    own: dict[str, Any] = {"key": "zonewise.dev/hardware-fault", "effect": "NoSchedule"}
    for taints in ([*present, own], present):
        assert health.agent.patch(path, {"spec": {"taints": taints}}).ok()["spec"]["taints"] == taints
    for spec in ({"taints": [{"key": "b", "effect": "NoSchedule"}]}, {"taints": None}, {"unschedulable": True}):
        denied(health.agent.patch(path, {"spec": spec}), "nothing else of it; the taint of hardware faults needs")


def test_extended_resources_of_rules(health: Cluster) -> None:
    """Of extended resources, the agent may change only those of rules; it may also change the taints of rules."""
    path = f"{NODES}/{OWN}"
    own, other = "feature.node.kubernetes.io/slots", "example.com/slots"
    for value in ("4", None):
        status = {"capacity": {own: value}, "allocatable": {own: value}}
        written = health.agent.patch(f"{path}/status", {"status": status}).ok()["status"]
        assert written.get("capacity", {}).get(own) == value
    for field in ("capacity", "allocatable"):
        denied(health.agent.patch(f"{path}/status", {"status": {field: {other: "4"}}}), "and nothing else")
    denied(health.agent.patch(f"{NODES}/{OTHER}/status", {"status": {"capacity": {own: "4"}}}), "of that Node only")
    present = health.admin.get(path).ok()["spec"].get("taints", [])
    own_taint = {"key": "feature.node.kubernetes.io/slow", "effect": "NoSchedule"}
    for taints in ([*present, own_taint], present):
        health.agent.patch(path, {"spec": {"taints": taints}}).ok()
