"""kubectl works on the embedded API server as on the real one."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
import yaml

from support.apiserver import real_server
from support.clusters import GROUP, Cluster, cluster, config_map, embedded_server, pod, widget
from support.programs import find_program, missing_program
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.api import Json

__all__ = ["cluster", "embedded_server", "real_server"]

KUBECTL = find_program("kubectl")

pytestmark = pytest.mark.skipif(KUBECTL is None, reason=missing_program("kubectl"))


@pytest.fixture
def kubectl(cluster: Cluster, tmp_path: Path) -> Callable[..., str]:
    """Return a function that runs kubectl in the test's namespace, with optional YAML documents as its input."""
    config = tmp_path / "kubeconfig"
    server = {"server": cluster.api.url} | ({"certificate-authority": cluster.api.ca} if cluster.api.ca else {})
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "it", "cluster": server}],
        "users": [{"name": "me", "user": {"token": cluster.api.token} if cluster.api.token else {}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "me", "namespace": cluster.namespace}}],
        "current-context": "it",
    }
    config.write_text(yaml.safe_dump(content))

    def run(*arguments: str, documents: list[Json] | None = None) -> str:
        command = [str(KUBECTL), "--kubeconfig", str(config), "--cache-dir", str(tmp_path / "cache"), *arguments]
        given = yaml.safe_dump_all(documents) if documents else None
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_apply_get_describe_and_delete(cluster: Cluster, kubectl: Callable[..., str]) -> None:
    documents = [config_map("one", a="1"), pod("one")]
    assert kubectl("apply", "-f", "-", documents=documents).splitlines() == [
        "configmap/one created",
        "pod/one created",
    ]
    documents[0]["data"] = {"a": "2"}
    told = kubectl("apply", "-f", "-", documents=documents).splitlines()
    assert told == ["configmap/one configured", "pod/one unchanged"]
    assert kubectl("get", "configmap", "one", "-o", "jsonpath={.data.a}") == "2"
    headings, row = kubectl("get", "pods").splitlines()
    assert {"NAME", "STATUS", "AGE"} <= set(headings.split())
    assert row.split()[0] == "one"
    assert "Pending" in row
    assert "registry.example.com/main:1" in kubectl("describe", "pod", "one")
    assert kubectl("label", "configmap", "one", "x=y") == "configmap/one labeled\n"
    assert kubectl("get", "configmap", "-l", "x=y", "-o", "name") == "configmap/one\n"
    assert kubectl("delete", "pod", "one").startswith('pod "one" deleted')


def test_a_list_is_applied_as_its_items(cluster: Cluster, kubectl: Callable[..., str]) -> None:
    """`kubectl get -o yaml` prints such a list. kubectl reads the types of its items from another document."""
    items = {"apiVersion": "v1", "kind": "List", "items": [config_map("one", a="1"), config_map("two", a="2")]}
    told = kubectl("apply", "-f", "-", documents=[items]).splitlines()
    assert told == ["configmap/one created", "configmap/two created"]
    assert kubectl("get", "configmap", "two", "-o", "jsonpath={.data.a}") == "2"


def test_custom_resources_and_server_side_apply(cluster: Cluster, kubectl: Callable[..., str]) -> None:
    cluster.define()
    told = kubectl("apply", "--server-side", "-f", "-", documents=[widget("one", size=7)])
    assert told == "widget.contract.example.com/one serverside-applied\n"
    assert [line.split() for line in kubectl("get", "widgets").splitlines()] == [["NAME", "SIZE"], ["one", "7"]]
    assert "Size:  7" in kubectl("describe", "widget", "one")
    kubectl("patch", "widget", "one", "--type", "merge", "-p", '{"spec":{"size":8}}')
    assert kubectl("get", "widget", "one", "-o", "jsonpath={.spec.size}") == "8"


def test_drain_evicts_the_pods_of_a_node(cluster: Cluster, kubectl: Callable[..., str]) -> None:
    node = f"node-{cluster.namespace}"
    cluster.api.post("/api/v1/nodes", {"metadata": {"name": node}}).ok()
    cluster.api.post(cluster.pods, pod("one", nodeName=node)).ok()
    drained = kubectl("drain", node, "--force", "--grace-period=0")
    assert "evicting pod" in drained
    assert drained.endswith(f"node/{node} drained\n")
    assert cluster.api.get(f"/api/v1/nodes/{node}").ok()["spec"]["unschedulable"]
    cluster.api.get(f"{cluster.pods}/one").refused(404, "NotFound")


def test_explain_describes_a_custom_kind(cluster: Cluster, kubectl: Callable[..., str]) -> None:
    cluster.define()
    eventually(lambda: "'kind': 'Widget'" in str(cluster.api.get(f"/openapi/v3/apis/{GROUP}/v1").body))
    assert "KIND:       Widget" in kubectl("explain", "widgets")
    assert "size" in kubectl("explain", "widgets.spec", "--recursive")
