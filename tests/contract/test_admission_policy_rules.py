"""On a real API server: what an agent may write to its Node if the components for rules are applied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import yaml

from support.apiserver import real_apiserver
from support.manifests import ACCOUNT, NAMESPACE, apply, combined
from support.rules import CRD, GROUP_CRD, GROUPS, RULES, group_object, rule_object
from support.waiting import eventually
from zonewise.publish.node_outputs import NodeOutputs, groups_name
from zonewise.publish.output_publisher import OutputPublisher
from zonewise.publish.rule_watch import RuleWatch
from zonewise.rules.types import Taint
from zonewise_common.kube.client import Client
from zonewise_common.kube.config import Config
from zonewise_common.kube.resources import NODE_FEATURE_GROUPS, NODE_FEATURE_RULES

if TYPE_CHECKING:
    from collections.abc import Generator

    from support.api import Answer, Api
    from zonewise_common.kube.resources import Resource

OWN, OTHER = "node-with-rules", "node-of-another"
NODES = "/api/v1/nodes"
FEATURE = "feature.node.kubernetes.io"
TAINT = Taint(f"{FEATURE}/special", "x", "PreferNoSchedule")
OUTPUTS = NodeOutputs({f"{FEATURE}/note": "a note"}, {f"{FEATURE}/slots": "2000"}, (TAINT,), ("default/a",))


class Cluster(NamedTuple):
    """A server with the manifests and both components applied."""

    admin: Api
    agent: Api
    client: Client

    def node(self) -> dict[str, Any]:
        return self.admin.get(f"{NODES}/{OWN}").ok()


@pytest.fixture(scope="module")
def cluster() -> Generator[Cluster]:
    """Return a separate server: the policy of other tests lacks the components."""
    parts = ("components/node-feature-rules", "components/node-feature-taints")
    with real_apiserver() as server:
        apply(server, yaml.safe_dump_all([CRD, GROUP_CRD]))
        apply(server, yaml.safe_dump_all(combined(".", *parts)))
        token = server.token_on_node(NAMESPACE, ACCOUNT, OWN)
        agent = server.as_token(token)
        server.new_node(OTHER)
        eventually(lambda: "that Node only" in message(annotate(agent, OTHER)))
        client = Client(Config.from_url(server.url, token, ca=server.ca))
        yield Cluster(server.admin, agent, client)
        client.close()


def message(answer: Answer) -> str:
    return answer.body.get("message", "")


def annotate(who: Api, node: str) -> Answer:
    return who.patch(f"{NODES}/{node}", {"metadata": {"annotations": {f"{FEATURE}/a": "1"}}})


def denied(answer: Answer, words: str) -> None:
    assert words in answer.refused(403, "Forbidden")["message"]


def test_outputs_of_rules_are_set_and_removed(cluster: Cluster) -> None:
    """Every write of the publisher is accepted, and the Node ends as it began."""
    before = cluster.node()
    publisher = OutputPublisher(cluster.client, OWN, "zonewise")
    assert publisher.publish(OUTPUTS).problems == ()
    node = cluster.node()
    assert node["metadata"]["annotations"][f"{FEATURE}/note"] == "a note"
    assert node["status"]["capacity"][f"{FEATURE}/slots"] == node["status"]["allocatable"][f"{FEATURE}/slots"] == "2k"
    assert TAINT._asdict() in node["spec"]["taints"]
    assert OutputPublisher(cluster.client, OWN, "zonewise").publish(OUTPUTS).bytes == 0
    assert node["metadata"]["annotations"][groups_name("zonewise")] == "default/a"
    publisher.withdraw()
    after = cluster.node()
    assert after["spec"] == before["spec"]
    assert after["metadata"].get("annotations") == before["metadata"].get("annotations")
    assert after.get("status", {}).get("capacity", {}) == before.get("status", {}).get("capacity", {})


@pytest.mark.parametrize(
    ("resource", "path", "document", "name"),
    [
        (NODE_FEATURE_RULES, RULES, rule_object({"matchFeatures": []}, name="a"), "a"),
        (NODE_FEATURE_GROUPS, GROUPS, group_object({"matchFeatures": []}, name="a"), "default/a"),
    ],
    ids=["rules", "groups"],
)
def test_rules_are_listed_and_watched(
    cluster: Cluster, resource: Resource, path: str, document: dict[str, Any], name: str
) -> None:
    watch = RuleWatch(cluster.client, resource, lambda: None)
    watch.start()
    try:
        eventually(lambda: watch.rules() == ())
        cluster.admin.post(path, document).ok()
        eventually(lambda: [one.name for one in watch.rules() or ()] == [name])
        cluster.admin.delete(f"{path}/a").ok()
        eventually(lambda: watch.rules() == ())
    finally:
        watch.close()


def test_the_status_of_a_group_is_the_controllers(cluster: Cluster) -> None:
    cluster.admin.post(GROUPS, group_object(name="b")).ok()
    denied(cluster.agent.patch(f"{GROUPS}/b/status", {"status": {"nodes": [{"name": OWN}]}}), "cannot patch")


@pytest.mark.parametrize(
    ("subresource", "change", "words"),
    [
        ("", {"metadata": {"annotations": {"vendor.io/a": "1"}}}, "annotations of its Node that begin with"),
        ("", {"spec": {"taints": [{"key": "vendor.io/a", "effect": "NoExecute"}]}}, "nothing else of it"),
        ("", {"spec": {"unschedulable": True}}, "nothing else of it"),
        ("/status", {"status": {"capacity": {"vendor.io/a": "1"}}}, "and nothing else"),
        ("/status", {"status": {"capacity": {"cpu": "999"}}}, "and nothing else"),
        ("/status", {"status": {"allocatable": {"cpu": "0"}}}, "and nothing else"),
        ("/status", {"status": {"phase": "Terminated"}}, "and nothing else"),
        ("/status", {"metadata": {"labels": {"team": "x"}}}, "and nothing else"),
        ("/status", {"metadata": {"annotations": {f"{FEATURE}/a": "1"}}}, "and nothing else"),
    ],
)
def test_nothing_else_is_accepted(cluster: Cluster, subresource: str, change: dict[str, Any], words: str) -> None:
    denied(cluster.agent.patch(f"{NODES}/{OWN}{subresource}", change), words)


def test_writes_to_another_node_are_denied(cluster: Cluster) -> None:
    resources = {"status": {"capacity": {f"{FEATURE}/slots": "1"}}}
    denied(cluster.agent.patch(f"{NODES}/{OTHER}/status", resources), "of that Node only")
    denied(annotate(cluster.agent, OTHER), "of that Node only")
