"""`zonewise fabric` on a cluster: labels of nodes, the Topology, and a gang that the queue places by them.

The labels are checked on the embedded API server, and on a real kube-apiserver where one is installed.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import yaml

from support.api import Api
from support.apiserver import real_apiserver
from support.command_cluster import NRT_CRD
from support.fabrics import Cabling, cabling, dump, fat_tree, hca
from support.kubelets import short_directory
from support.live_cluster import JOBS, KUEUE, QUEUE_LABEL, RUN_SECONDS, LiveCluster
from support.live_queue import KUEUE_CRDS
from support.queue_objects import cluster_queue_spec
from support.snapshots import ABSENT, SNAPSHOTS
from support.waiting import eventually
from zonewise.cli import main
from zonewise_common.kube.config import Config
from zonewise_sandbox.apiserver import ApiServer
from zonewise_sandbox.jobcontroller import JobController
from zonewise_sandbox.podrunner import PodRunner, RunnerSettings

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

Json = dict[str, Any]

NODES = "/api/v1/nodes"
TOPOLOGIES = f"{KUEUE}/topologies"
REPORTS = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
LEAF, SPINE = "zonewise.dev/fabric-tier-0", "zonewise.dev/fabric-tier-1"
REAL = SNAPSHOTS / "ibnetdiscover/example.out"
TREE = fat_tree(units=2, hosts=2)
"""The nodes node-0-0-0 and node-0-0-1 at leaf-0-0-0, and two others at leaf-0-1-0; one spine domain."""
NAMES = ("node-0-0-0", "node-0-0-1", "node-0-1-0", "node-0-1-1")


class Site(NamedTuple):
    """An API server, and a file that the command reads."""

    api: Api
    flags: tuple[str, ...]
    file: Path
    capsys: pytest.CaptureFixture[str]

    def run(self, tree: Cabling, *arguments: str) -> tuple[int, str, str]:
        """Run the command with the dump of a fabric; return its exit status, its output and its messages."""
        self.file.write_text(dump(tree))
        status = main(["fabric", str(self.file), *arguments, *self.flags])
        out, err = self.capsys.readouterr()
        return status, out, err

    def add_node(self, name: str) -> None:
        self.api.post(NODES, {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}}).ok()

    def labels(self, *names: str) -> dict[str, list[str | None]]:
        """Return the two labels of each node."""
        nodes = {node["metadata"]["name"]: node["metadata"].get("labels", {}) for node in self.nodes()}
        return {name: [nodes[name].get(LEAF), nodes[name].get(SPINE)] for name in names or nodes}

    def nodes(self) -> list[Json]:
        return self.api.get(NODES).ok()["items"]


@contextlib.contextmanager
def embedded() -> Generator[tuple[Api, tuple[str, ...]]]:
    with ApiServer(crds=[*sorted(KUEUE_CRDS.glob("*s.yaml")), NRT_CRD]) as server:
        yield Api(server.url), ("--api-server", server.url)


@contextlib.contextmanager
def real() -> Generator[tuple[Api, tuple[str, ...]]]:
    """Run a kube-apiserver that serves the kinds."""
    with real_apiserver() as server, short_directory() as directory:
        for file in (*sorted(KUEUE_CRDS.glob("*s.yaml")), NRT_CRD):
            for document in yaml.safe_load_all(file.read_text()):
                server.admin.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", document).ok()
        eventually(lambda: server.admin.get(TOPOLOGIES).status == 200 and server.admin.get(REPORTS).status == 200)
        config = {
            "current-context": "a",
            "clusters": [{"name": "c", "cluster": {"server": server.url, "certificate-authority": server.ca}}],
            "users": [{"name": "u", "user": {"token": server.token}}],
            "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}],
        }
        (directory / "kubeconfig").write_text(yaml.safe_dump(config))
        yield server.admin, ("--kubeconfig", str(directory / "kubeconfig"))


@pytest.fixture(scope="module", params=[embedded, real])
def server(request: pytest.FixtureRequest) -> Iterator[tuple[Api, tuple[str, ...]]]:
    """Return each API server in turn."""
    with request.param() as running:
        yield running


@pytest.fixture
def site(server: tuple[Api, tuple[str, ...]], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Site]:
    """Return a server with four nodes."""
    site = Site(*server, tmp_path / "dump", capsys)
    for name in NAMES:
        site.add_node(name)
    yield site
    for path in (NODES, TOPOLOGIES, REPORTS):
        site.api.delete(path).ok()


def test_nodes_get_labels_and_the_topology_its_levels(site: Site) -> None:
    """A second run changes nothing."""
    status, out, err = site.run(TREE, "--apply")
    assert (status, err) == (0, "")
    assert out.splitlines()[0] == f"node/node-0-0-0 {LEAF}=leaf-0-0-0, {SPINE}=spine-0-0"
    assert out.splitlines()[-1] == "topology/fabric created"
    assert site.labels() == {name: [f"leaf-{name[5:8]}-0", "spine-0-0"] for name in NAMES}
    levels = site.api.get(f"{TOPOLOGIES}/fabric").ok()["spec"]["levels"]
    assert [level["nodeLabel"] for level in levels] == [SPINE, LEAF, "kubernetes.io/hostname"]
    assert site.run(TREE, "--apply") == (0, "There is nothing to change.\n", "")


def test_a_dry_run_changes_nothing(site: Site) -> None:
    """It prints the same lines."""
    status, out, _ = site.run(TREE, "--dry-run")
    assert status == 0
    assert out.count("(dry run)") == 5
    assert site.labels("node-0-0-0") == {"node-0-0-0": [None, None]}
    assert site.api.get(TOPOLOGIES).ok()["items"] == []
    _, applied, _ = site.run(TREE, "--apply")
    assert applied == out.replace(" (dry run)", "")


def test_a_moved_node_and_a_lost_level(site: Site) -> None:
    """Labels follow the fabric, and those that no longer hold are removed."""
    site.run(TREE, "--apply")
    moved = [(hca("node-0-0-0", 0), "Sleaf-0-1-0"), *TREE.cables[1:]]
    assert TREE.cables[0] == (hca("node-0-0-0", 0), "Sleaf-0-0-0")
    _, out, _ = site.run(cabling(moved), "--apply")
    assert out == f"node/node-0-0-0 {LEAF}=leaf-0-1-0 (was leaf-0-0-0)\n"
    _, out, _ = site.run(cabling(cable for cable in moved if "spine" not in cable[1]), "--apply")
    assert f"node/node-0-0-1 {SPINE} removed\n" in out
    assert site.labels("node-0-0-0", "node-0-0-1") == {
        "node-0-0-0": ["leaf-0-1-0", None],
        "node-0-0-1": ["leaf-0-0-0", None],
    }


def test_a_node_that_is_not_in_the_dump_retains_its_labels(site: Site) -> None:
    """It may be switched off. --prune removes them; labels of others remain."""
    site.run(TREE, "--apply")
    site.api.patch(f"{NODES}/node-0-0-0", {"metadata": {"labels": {"pool": "a"}}}).ok()
    rest = cabling(cable for cable in TREE.cables if "node-0-0-0" not in cable[0])
    status, out, err = site.run(rest, "--apply")
    assert (status, out) == (0, "There is nothing to change.\n")
    assert "note: 1 node of the cluster is not in the files: node-0-0-0\n" in err
    assert "--prune removes them" in err
    _, out, _ = site.run(rest, "--apply", "--prune")
    assert out == f"node/node-0-0-0 {LEAF} removed, {SPINE} removed\n"
    node = site.api.get(f"{NODES}/node-0-0-0").ok()["metadata"]["labels"]
    assert (node["pool"], LEAF in node, SPINE in node) == ("a", False, False)


def test_a_label_of_another_manager_is_a_conflict(site: Site) -> None:
    """The other nodes are labelled. --force takes the label over."""
    site.api.patch(f"{NODES}/node-0-0-0", {"metadata": {"labels": {LEAF: "by-hand"}}}, fieldManager="admin").ok()
    status, out, err = site.run(TREE, "--apply")
    assert status == 1
    assert "zonewise: node node-0-0-0: " in err
    assert "--force takes the labels over" in err
    assert "node-0-0-0" not in out
    assert site.labels("node-0-0-0", "node-0-0-1") == {
        "node-0-0-0": ["by-hand", None],
        "node-0-0-1": ["leaf-0-0-0", "spine-0-0"],
    }
    status, out, _ = site.run(TREE, "--apply", "--force")
    assert (status, out) == (0, f"node/node-0-0-0 {LEAF}=leaf-0-0-0 (was by-hand), {SPINE}=spine-0-0\n")


def test_equal_labels_of_another_manager_are_shared(site: Site) -> None:
    """Both managers own them afterwards, and a second run changes nothing."""
    site.api.patch(f"{NODES}/node-0-0-0", {"metadata": {"labels": {LEAF: "leaf-0-0-0"}}}, fieldManager="admin").ok()
    status, out, _ = site.run(TREE, "--apply")
    assert (status, out.splitlines()[0].count("(also set by another manager)")) == (0, 1)
    assert site.run(TREE, "--apply")[1] == "There is nothing to change.\n"


def test_a_deleted_node_is_not_created_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is deleted after the command has read it. The others are labelled."""
    from zonewise_scheduler.client.fabric import fabric_changes

    original = fabric_changes.label_changes

    def changes(*arguments: Any, **options: Any) -> Any:
        site.api.delete(f"{NODES}/node-0-0-0").ok()
        return original(*arguments, **options)

    monkeypatch.setattr(fabric_changes, "label_changes", changes)
    status, _, err = site.run(TREE, "--apply")
    assert status == 1
    assert "zonewise: node node-0-0-0: " in err
    assert site.labels() == {name: [f"leaf-{name[5:8]}-0", "spine-0-0"] for name in NAMES[1:]}


def test_guids_of_reports_match_an_hca_without_a_name(site: Site) -> None:
    """The agent of node-0-0-0 has published its GUID; the dump has no host for it."""
    tree = TREE._replace(descriptions={**TREE.descriptions, hca("node-0-0-0", 0): "MT4129 ConnectX7   Mellanox"})
    _, out, err = site.run(tree, "-o", "labels", "--match")
    assert "node-0-0-0" not in out
    assert "note: 1 HCA has no host in the node description: leaf-0-0-0 (1)\n" in err
    guid = next(line for line in dump(tree).splitlines() if "MT4129" in line and line.startswith("Ca")).split('"')[1][
        2:
    ]
    report = {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": "node-0-0-0"},
        "attributes": [{"name": "zonewise.dev/node-guids", "value": guid}],
        "zones": [],
    }
    site.api.post(REPORTS, report).ok()
    _, out, err = site.run(tree, "-o", "labels", "--match")
    assert out.splitlines()[0] == f"node-0-0-0 {LEAF}=leaf-0-0-0 {SPINE}=spine-0-0"
    assert err == ""


def test_objects_for_kubectl(site: Site) -> None:
    """They have the UIDs of the nodes, so applying them never creates a node."""
    status, out, err = site.run(TREE, "-o", "yaml", "--name", "racks", "--labels", "example.com/leaf")
    assert (status, err) == (0, "")
    topology, *nodes = yaml.safe_load(out)["items"]
    assert topology["metadata"]["name"] == "racks"
    assert [level["nodeLabel"] for level in topology["spec"]["levels"]] == [
        "example.com/leaf",
        "kubernetes.io/hostname",
    ]
    uids = {node["metadata"]["name"]: node["metadata"]["uid"] for node in site.nodes()}
    assert {node["metadata"]["name"]: node["metadata"]["uid"] for node in nodes} == uids
    for node in nodes:
        site.api.apply(f"{NODES}/{node['metadata']['name']}", node, "by-hand").ok()
    assert all(node["metadata"]["labels"]["example.com/leaf"].startswith("leaf-") for node in site.nodes())


def test_a_fabric_without_a_node_of_the_cluster_changes_nothing(site: Site) -> None:
    """Such as the dump of another cluster: even --prune removes no label then."""
    site.run(TREE, "--apply")
    other = cabling([(hca("other", 0), "Sleaf")])
    status, out, err = site.run(other, "--apply", "--prune")
    assert (status, out) == (2, "")
    assert "no node of the cluster has a link to a switch in the files; nothing was changed" in err
    assert site.run(other, "-o", "yaml")[:2] == (2, "")
    assert site.labels("node-0-0-0") == {"node-0-0-0": ["leaf-0-0-0", "spine-0-0"]}


# --- the queue


def rails(node: int, leaf: str) -> list[tuple[str, str]]:
    """Return the cables of a node with two HCAs."""
    return [(hca(f"node-{node}", rail), f"S{leaf}-{rail}") for rail in range(2)]


def gang(name: str, pods: int, cpus: int) -> Json:
    """Return a Job whose pods need one leaf together."""
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": str(cpus)}}}
    annotations = {"kueue.x-k8s.io/podset-required-topology": LEAF, RUN_SECONDS: "3600"}
    template = {"metadata": {"annotations": annotations}, "spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {QUEUE_LABEL: "queue"}, "annotations": {RUN_SECONDS: "3600"}},
        "spec": {"suspend": True, "parallelism": pods, "completions": pods, "template": template},
    }


def test_the_queue_places_each_gang_in_one_leaf(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nodes of two leaves alternate. Two gangs of three pods get a leaf each; a gang of four fits in none."""
    cables = [cable for node in range(6) for cable in rails(node, "odd" if node % 2 else "even")]
    uplinks = [(f"S{leaf}-{rail}", "Sspine") for leaf in ("even", "odd") for rail in range(2)]
    with (
        embedded() as (api, flags),
        JobController(Config.from_url(api.url)),
        PodRunner(Config.from_url(api.url), RunnerSettings()),
        short_directory() as directory,
    ):
        live = LiveCluster(api, directory, flags, real=False)
        live.add_nodes(6, cpus=8)
        status, *_ = Site(api, flags, tmp_path / "dump", capsys).run(cabling([*cables, *uplinks]), "--apply")
        assert status == 0
        live.create("resourceflavors", "ResourceFlavor", "all", {"nodeLabels": {}, "topologyName": "fabric"})
        live.create("clusterqueues", "ClusterQueue", "queue", cluster_queue_spec({"cpu": "100"}, "all", preemption={}))
        live.create("namespaces/default/localqueues", "LocalQueue", "queue", {"clusterQueue": "queue"})
        with live.controller():
            for name, pods in (("wide", 4), ("first", 3), ("second", 3)):
                live.api.post(JOBS, gang(name, pods, 8)).ok()
            eventually(lambda: all(len(live.running_pods(name)) == 3 for name in ("first", "second")))
            leaves = [{int(pod["spec"]["nodeName"][5:]) % 2 for pod in live.pods(name)} for name in ("first", "second")]
            assert sorted(leaves, key=min) == [{0}, {1}]
            assert live.is_held("wide")


@pytest.mark.skipif(not REAL.exists(), reason=ABSENT)
def test_the_simulator_reads_the_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A real cluster has racks of at most 18 nodes, so a gang of 18 whole nodes fits in one. A gang of 19 does not."""
    assert main(["fabric", str(REAL), "-o", "labels"]) == 0
    allocatable = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    nodes: list[Json] = []
    for name, *pairs in (line.split() for line in capsys.readouterr().out.splitlines()):
        labels = {"kubernetes.io/hostname": name, **dict(pair.split("=") for pair in pairs)}
        metadata = {"name": name, "labels": labels}
        nodes.append({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": allocatable}})
    (tmp_path / "nodes.yaml").write_text(yaml.safe_dump_all(nodes))
    (tmp_path / "jobs.yaml").write_text(yaml.safe_dump_all([gang("rack", 18, 64), gang("wide", 19, 64)]))
    assert main(["simulate", str(tmp_path / "jobs.yaml"), "--nodes", str(tmp_path / "nodes.yaml")]) == 0
    said = capsys.readouterr()
    assert re.search(r"^jobs done +1$", said.out, re.MULTILINE)
    assert "job wide: " in said.err
    assert "allows to fit only 18 out of 19 pod(s)" in said.err
