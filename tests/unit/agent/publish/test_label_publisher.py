"""Publishing labels: as an object if a master of NFD reads it, otherwise on the Node, and never twice."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from support.clock import Clock
from support.label_cluster import NAMESPACE, NFD_ANNOTATION, NODE, Cluster
from support.lost_answers import lost_answers
from support.machines import gpu_server
from zonewise.objects.features import Features, node_features
from zonewise.objects.labels import build_labels
from zonewise.objects.node_feature import NODE_NAME, node_feature, object_name
from zonewise.publish.label_publisher import MASTER_TIMEOUT, LabelPublisher, LabelWriteResult
from zonewise.publish.node_feature import LabelTarget, node_feature_patch
from zonewise.publish.node_labels import ANNOTATION
from zonewise_common.kube.errors import Conflict, Forbidden, NotFound
from zonewise_common.kube.resources import NODE_FEATURES, NODES, PODS

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_common.kube.resources import Resource

A, B, CPUID = "zonewise.dev/a", "nvidia.com/b", "feature.node.kubernetes.io/cpu-cpuid.AVX"
LABELS = {A: "1", B: "x", CPUID: "true"}
FEATURES = Features({"cpu.cpuid": ("AVX",)}, {"kernel.version": {"major": "6"}}, {"pci.device": ({"class": "0302"},)})
FOREIGN = {"kubernetes.io/hostname": NODE}
TARGET = LabelTarget(NODE, NAMESPACE, "agent-x")


IN_OBJECT = (("nodefeature", len(LABELS)), ("node", 0))


def with_nfd() -> Cluster:
    """Return a cluster with the agent's pod and the kinds of Node Feature Discovery."""
    cluster = Cluster()
    cluster.add_pod("agent-x", "p-1")
    return cluster


def without_nfd() -> Cluster:
    """Return a cluster without those kinds."""
    return Cluster(kinds=(NODES, PODS))


class Agent:
    """A publisher and its clock."""

    def __init__(
        self, cluster: Cluster, mode: str = "auto", target: LabelTarget = TARGET, *, take_over: bool = False
    ) -> None:
        self.clock = Clock()
        self.publisher = LabelPublisher(cluster, target, mode=mode, take_over=take_over, clock=self.clock)

    def publish(self, labels: dict[str, str] | None = None, features: Features = FEATURES) -> LabelWriteResult:
        return self.publisher.publish(LABELS if labels is None else labels, features)

    def publish_later(self) -> LabelWriteResult:
        self.clock.advance(MASTER_TIMEOUT)
        return self.publish()


# --- on the Node


def test_abandoned_labels_are_taken_over(caplog: pytest.LogCaptureFixture) -> None:
    """They are taken over on request, and their owner is logged. A master that claims them again is a problem."""
    cluster = without_nfd()
    cluster.label(B, "old")
    cluster.annotate(NFD_ANNOTATION, f"cpu-other,{B}")
    agent = Agent(cluster, "node", take_over=True)
    with caplog.at_level("INFO"):
        assert agent.publish().problems == ()
    assert cluster.labels == FOREIGN | LABELS
    assert cluster.node["annotations"] == {ANNOTATION: ",".join(sorted(LABELS)), NFD_ANNOTATION: "cpu-other"}
    assert caplog.messages == [f"took over 1 labels that nfd-master had set: {B}"]
    cluster.label(B, "again")
    cluster.annotate(NFD_ANNOTATION, B)
    problems = agent.publish_later().problems
    assert cluster.labels[B] == "again"
    assert problems[-1].startswith("Node Feature Discovery's master is active")


@pytest.mark.parametrize("mode", ["auto", "node"])
def test_labels_on_the_node(mode: str) -> None:
    """Without NodeFeature, one patch sets all labels and the record of them."""
    cluster = without_nfd()
    done = Agent(cluster, mode).publish()
    assert cluster.labels == FOREIGN | LABELS
    assert cluster.node["annotations"] == {ANNOTATION: ",".join(sorted(LABELS))}
    assert (done.writes, done.problems) == (("node",), ())
    assert done.bytes > 100


@pytest.mark.parametrize("mode", ["auto", "node"])
@pytest.mark.parametrize("make", [without_nfd, with_nfd])
def test_nothing_is_written_twice(mode: str, make: Callable[[], Cluster]) -> None:
    """Publishing the same labels again writes nothing, now or within an hour, and rarely reads anything."""
    cluster = make()
    agent = Agent(cluster, mode)
    agent.publish()
    agent.publish_later()  # on the Node as well if there is no master
    writes, reads = len(cluster.writes), cluster.reads
    for _ in range(60):
        agent.clock.advance(60.0)
        assert agent.publish().writes == ()
    assert len(cluster.writes) == writes
    assert cluster.reads - reads <= 2 * 60 * 60 / MASTER_TIMEOUT


def test_labels_are_counted_by_their_path() -> None:
    """Labels in the object and the agent's labels on the Node are counted, even if nothing had to be written."""
    direct = Agent(without_nfd(), "node")
    for _ in range(2):
        assert direct.publish().counts == (("nodefeature", 0), ("node", len(LABELS)))
    by_object = Agent(with_nfd(), "nodefeature")
    for _ in range(2):
        assert by_object.publish().counts == (("nodefeature", len(LABELS)), ("node", 0))


def test_a_restart_writes_nothing() -> None:
    """The annotation on the Node shows a new process which labels belong to the agent."""
    cluster = without_nfd()
    Agent(cluster).publish()
    writes = len(cluster.writes)
    assert Agent(cluster).publish().writes == ()
    assert len(cluster.writes) == writes


def test_a_restart_removes_labels_of_the_previous_process() -> None:
    """A label that a new version no longer sets is removed."""
    cluster = without_nfd()
    Agent(cluster).publish()
    Agent(cluster).publish({A: "1"})
    assert cluster.labels == FOREIGN | {A: "1"}


def test_foreign_changes_are_corrected() -> None:
    """The Node is read again after a while; a change by the agent itself is written at once."""
    cluster = without_nfd()
    agent = Agent(cluster)
    agent.publish()
    cluster.label(A, "9")
    assert agent.publish().writes == ()
    assert agent.publish_later().writes == ("node",)
    assert cluster.labels[A] == "1"
    assert agent.publish(LABELS | {A: "2"}).writes == ("node",)
    assert cluster.labels[A] == "2"


def test_a_concurrent_writer_is_not_overwritten() -> None:
    """If another client sets a label between the read and the patch, the server rejects the patch, which is retried."""
    cluster = without_nfd()
    cluster.before_patch.append(lambda: cluster.label(B, "theirs"))
    done = Agent(cluster).publish()
    assert cluster.labels == FOREIGN | LABELS | {B: "theirs"}
    assert len(done.problems) == 1
    assert done.problems[0].startswith(f"label {B} has the value 'theirs'")


def test_a_node_that_changes_all_the_time() -> None:
    """After several attempts, the caller gets the error and retries later, successfully."""
    cluster = without_nfd()
    agent = Agent(cluster)
    cluster.before_patch += [lambda: cluster.label("other.io/x", "y")] * 4
    with pytest.raises(Conflict):
        agent.publish()
    assert cluster.before_patch == []
    assert agent.publish().writes == ("node",)


def test_an_absent_node() -> None:
    """The caller gets the error."""
    with pytest.raises(NotFound):
        Agent(without_nfd(), target=LabelTarget("node-8")).publish()


# --- as an object


def test_the_object() -> None:
    """The object has the node, its owners, the features, and the desired labels."""
    cluster = with_nfd()
    done = Agent(cluster, "nodefeature").publish()
    assert (done.writes, done.problems) == (("nodefeature",), ())
    assert cluster.labels == FOREIGN
    obj = cluster.feature
    assert obj is not None
    assert obj["metadata"]["labels"] == {NODE_NAME: NODE}
    assert obj["metadata"]["name"] != NODE  # which is the name of nfd-worker's object
    assert [owner["kind"] for owner in obj["metadata"]["ownerReferences"]] == ["Pod", "DaemonSet"]
    assert obj["spec"] == {
        "features": {
            "flags": {"cpu.cpuid": {"elements": {"AVX": {}}}},
            "attributes": {"kernel.version": {"elements": {"major": "6"}}},
            "instances": {"pci.device": {"elements": [{"attributes": {"class": "0302"}}]}},
        },
        "labels": LABELS,
    }


def test_a_change_is_a_small_patch() -> None:
    """Another label is one operation, which applies only to the copy for which it was made."""
    cluster = with_nfd()
    agent = Agent(cluster, "nodefeature")
    agent.publish()
    agent.publish(LABELS | {A: "2"})
    assert [operation["op"] for operation in cluster.writes[-1][2]] == ["test", "replace"]
    assert (cluster.feature or {})["spec"]["labels"] == LABELS | {A: "2"}


def test_an_object_written_by_another_client_meanwhile() -> None:
    """The patch does not apply, and a new one is made."""
    cluster = with_nfd()
    agent = Agent(cluster, "nodefeature")
    agent.publish()

    def meddle() -> None:
        obj = copy.deepcopy(cluster.feature or {})
        obj["metadata"]["annotations"] = {"x": "y"}
        cluster.objects[NODE_FEATURES.kind, object_name(NODE)] = obj
        obj["metadata"]["resourceVersion"] = "999"

    cluster.before_patch.append(meddle)
    assert agent.publish(LABELS | {A: "2"}).writes == ("nodefeature",)
    assert (cluster.feature or {})["metadata"]["annotations"] == {"x": "y"}


def test_a_new_pod_owns_the_object_at_once() -> None:
    """The DaemonSet remains an owner, so the object is not garbage-collected between two pods."""
    cluster = with_nfd()
    Agent(cluster, "nodefeature").publish()
    cluster.add_pod("agent-x", "p-2")
    Agent(cluster, "nodefeature").publish()
    assert [owner["uid"] for owner in (cluster.feature or {})["metadata"]["ownerReferences"]] == ["p-2", "d-1"]
    assert Agent(cluster, "nodefeature").publish().writes == ()


@pytest.mark.parametrize("pod", ["", "gone", "agent-x"])
def test_without_a_pod_the_node_owns_the_object(pod: str) -> None:
    """The agent runs outside the cluster, or may not read pods."""
    cluster = with_nfd()
    if pod == "agent-x":
        cluster.forbidden.add(("get", PODS.kind))
    Agent(cluster, "nodefeature", LabelTarget(NODE, NAMESPACE, pod)).publish()
    assert [owner["uid"] for owner in (cluster.feature or {})["metadata"]["ownerReferences"]] == ["n-1"]


def test_a_new_node_of_the_same_name_owns_the_object() -> None:
    """Otherwise, the garbage collector would remove the object again after each write."""
    cluster = with_nfd()
    agent = Agent(cluster, "nodefeature", LabelTarget(NODE, NAMESPACE))
    agent.publish()
    cluster.objects[NODES.kind, NODE]["metadata"]["uid"] = "n-2"
    agent.publish(LABELS | {A: "2"})
    assert [owner["uid"] for owner in (cluster.feature or {})["metadata"]["ownerReferences"]] == ["n-2"]


@pytest.mark.parametrize("target", [LabelTarget(NODE), LabelTarget("x" * 64, NAMESPACE)])
def test_an_impossible_object(target: LabelTarget) -> None:
    """Without a namespace or a valid node name, a requested object is a problem; otherwise, the Node is labelled."""
    cluster = without_nfd()
    cluster.objects[NODES.kind, target.node] = cluster.objects[NODES.kind, NODE]
    assert len(Agent(cluster, "nodefeature", target).publish().problems) == 1
    assert cluster.writes == []
    assert Agent(cluster, "auto", target).publish().writes == ("node",)


def test_a_kind_that_is_not_served() -> None:
    """It is a problem if the object was requested, and the Node is not labelled instead."""
    cluster = without_nfd()
    done = Agent(cluster, "nodefeature").publish()
    assert done.writes == ()
    assert done.problems[0].startswith("there is no NodeFeature")
    assert cluster.labels == FOREIGN


@pytest.mark.parametrize("length", [1, 244, 245, 253])
def test_names_of_objects(length: int) -> None:
    """Names fit for any node name, and are stable."""
    name = object_name("n" * length)
    assert len(name) <= 253
    assert name == object_name("n" * length)
    assert name != object_name("n" * (length - 1))


def test_nothing_to_change() -> None:
    """An equal object needs no patch, whatever other clients have added to its metadata."""
    obj = node_feature(TARGET.node, LABELS, FEATURES, namespace=TARGET.namespace, owners=[{"kind": "Node"}])
    current = copy.deepcopy(obj)
    current["metadata"] |= {"resourceVersion": "3", "annotations": {"x": "y"}, "generation": 4}
    current["metadata"]["labels"]["x"] = "y"
    assert node_feature_patch(current, obj) == []


# --- object or Node


def test_an_active_master() -> None:
    """The master sets the labels from the agent's object, and the agent never changes the Node."""
    cluster = with_nfd()
    agent = Agent(cluster)
    assert agent.publish().writes == ("nodefeature",)
    cluster.run_master()
    for _ in range(5):
        assert agent.publish_later() == LabelWriteResult(counts=IN_OBJECT)
    assert cluster.labels == FOREIGN | LABELS
    assert {kind for _, kind, _ in cluster.writes} == {NODE_FEATURES.kind}


def test_no_master() -> None:
    """The kind is served, but no master reads it: after a while, the labels are set on the Node."""
    cluster = with_nfd()
    agent = Agent(cluster)
    assert agent.publish().writes == ("nodefeature",)
    agent.clock.advance(MASTER_TIMEOUT - 1)
    assert agent.publish({A: "2"}).writes == ("nodefeature",)
    assert cluster.labels == FOREIGN
    assert agent.publish_later().writes == ("nodefeature", "node")
    assert cluster.labels == FOREIGN | LABELS


def test_an_annotation_left_by_nfd_is_not_a_master() -> None:
    """The annotation names NFD's labels, but none that only the agent's object requests."""
    cluster = with_nfd()
    cluster.label(CPUID, "true")
    cluster.annotate(NFD_ANNOTATION, "cpu-cpuid.AVX")
    agent = Agent(cluster)
    agent.publish()
    agent.publish_later()
    assert cluster.labels == FOREIGN | LABELS
    assert cluster.node["annotations"][ANNOTATION] == f"{B},{A}"


def test_a_master_that_starts_later() -> None:
    """The master claims the labels, which then no longer belong to the agent; no label is ever absent."""
    cluster = without_nfd()
    Agent(cluster).publish()
    cluster.kinds = (NODES, NODE_FEATURES, PODS)
    agent = Agent(cluster)
    assert agent.publish().writes == ("nodefeature",)
    assert cluster.labels == FOREIGN | LABELS
    cluster.run_master()
    assert agent.publish_later().writes == ("node",)
    assert cluster.labels == FOREIGN | LABELS
    assert cluster.node["annotations"] == {NFD_ANNOTATION: "cpu-cpuid.AVX,nvidia.com/b,zonewise.dev/a"}
    agent.publish({A: "1"})
    cluster.run_master()
    assert cluster.labels == FOREIGN | {A: "1"}


def test_own_labels_are_updated_until_a_master_claims_them() -> None:
    """Until then, labels that are no longer desired are removed, and changed labels are updated."""
    cluster = without_nfd()
    Agent(cluster).publish()
    cluster.kinds = (NODES, NODE_FEATURES, PODS)
    Agent(cluster).publish({A: "2", B: "x", "zonewise.dev/new": "1"})
    assert cluster.labels == FOREIGN | {A: "2", B: "x"}


def test_from_the_object_to_the_node() -> None:
    """After the setting has changed, the object is removed once."""
    cluster = with_nfd()
    Agent(cluster, "nodefeature").publish()
    agent = Agent(cluster, "node")
    agent.publish()
    assert cluster.feature is None
    assert cluster.labels == FOREIGN | LABELS
    writes = len(cluster.writes)
    agent.publish_later()
    assert len(cluster.writes) == writes


# --- permissions


def test_without_permission_for_objects() -> None:
    """RBAC rejects requests even for kinds that are not served.

    Depending on the mode, the Node is labelled or it fails.
    """
    cluster = without_nfd()
    cluster.forbidden |= {(verb, NODE_FEATURES.kind) for verb in ("get", "create", "delete")}
    assert Agent(cluster).publish().writes == ("node",)
    assert Agent(cluster, "node").publish().writes == ()
    with pytest.raises(Forbidden):
        Agent(cluster, "nodefeature").publish()


def test_without_permission_for_the_node() -> None:
    """If a master may label the Node, this is not an error; without a master, it is a problem."""
    cluster = with_nfd()
    cluster.forbidden.add(("patch", NODES.kind))
    agent = Agent(cluster)
    published = agent.publish()
    size = len(msgspec.json.encode(cluster.writes[0][2]))
    assert published == LabelWriteResult(("nodefeature",), size, counts=IN_OBJECT)
    assert "no master" in agent.publish_later().problems[0]
    with pytest.raises(Forbidden):
        Agent(cluster, "node").publish()


def test_a_whole_server() -> None:
    """A server with 8 GPUs has valid labels and an object of some KB with every function."""
    machine = gpu_server()
    features = node_features(machine)
    labels = build_labels(machine, features)
    cluster = with_nfd()
    done = Agent(cluster).publish(labels.values, features)
    assert labels.problems == ()
    assert done.bytes < 20_000


class PolicyCluster(Cluster):
    """A cluster with the admission policy for an agent's own Node, which rejects labels with other prefixes."""

    def patch(self, resource: Resource, name: str, patch: Any, **options: Any) -> dict[str, Any]:
        labels = patch["metadata"].get("labels", {})
        if any(not label.startswith(("feature.node", "nvidia.com", "zonewise.dev")) for label in labels):
            raise Forbidden(403, "Forbidden", "an agent may change labels that begin with zonewise.dev/, and no others")
        return super().patch(resource, name, patch, **options)


def test_a_forbidden_label_of_a_file_is_dropped_alone() -> None:
    """The other labels are written, and the rejected labels of files are a problem."""
    cluster = PolicyCluster(kinds=(NODES, PODS))
    agent = Agent(cluster, "node")
    done = agent.publish({**LABELS, "example.com/rack": "r7"})
    assert cluster.labels == FOREIGN | LABELS
    assert done.counts == (("nodefeature", 0), ("node", len(LABELS)))
    [problem] = done.problems
    assert problem.startswith("the Node cannot have the labels example.com/rack of feature files and rules: ")


def test_labels_that_are_forbidden_altogether_are_an_error() -> None:
    cluster = without_nfd()
    cluster.forbidden.add(("patch", NODES.kind))
    for labels in (LABELS, {**LABELS, "example.com/rack": "r7"}):
        with pytest.raises(Forbidden):
            Agent(cluster, "node").publish(labels)


def test_labels_of_files_are_written_if_permitted() -> None:
    cluster = without_nfd()
    assert Agent(cluster, "node").publish({**LABELS, "example.com/rack": "r7"}).problems == ()
    assert cluster.labels["example.com/rack"] == "r7"


def test_a_label_whose_response_was_lost_returns_to_its_old_value() -> None:
    cluster = without_nfd()
    agent = Agent(cluster, "node")
    agent.publish({A: "1"})
    with lost_answers(cluster):
        agent.publish({A: "2"})
    agent.publish({A: "1"})
    assert cluster.labels[A] == "1"


def test_an_object_of_another_setting_is_removed_once() -> None:
    cluster = with_nfd()
    Agent(cluster).publish()
    agent = Agent(cluster, "node")
    agent.publish()
    assert cluster.feature is None
    Agent(cluster).publish()
    agent.publish({A: "2"})
    assert cluster.feature is not None
