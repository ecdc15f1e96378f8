"""The initial objects of a cluster in one process."""

from __future__ import annotations

from typing import Any

import yaml

from support.snapshots import PROJECT
from zonewise_sandbox.up.node_descriptions import parse_nodes
from zonewise_sandbox.up.shipped_objects import MANIFESTS, definitions, queue_objects, webhook_objects


def test_they_are_the_projects_manifests() -> None:
    """The files are links, so they cannot differ."""
    links = [entry for entry in sorted(MANIFESTS.rglob("*")) if entry.is_symlink() or not entry.is_dir()]
    crds = PROJECT / "manifests/scheduler/components/kueue-crds"
    assert len(links) == 3 + len(list(crds.glob("*s.yaml")))
    for link in links:
        assert link.is_symlink()
        assert link.resolve().is_relative_to(PROJECT / "manifests")
        assert link.exists()


def test_every_kind_is_defined() -> None:
    defined = {yaml.safe_load(file.read_text())["spec"]["names"]["kind"] for file in definitions()}
    assert defined >= {"NodeResourceTopology", "Workload", "ClusterQueue", "LocalQueue", "ResourceFlavor", "Topology"}
    assert {obj["kind"] for obj in queue_objects(parse_nodes("1"))} <= defined


def test_the_quota_is_what_the_nodes_have() -> None:
    objects: dict[str, Any] = {obj["kind"]: obj for obj in queue_objects(parse_nodes("3xhgx-h100,1xxeon-8358"))}
    [group] = objects["ClusterQueue"]["spec"]["resourceGroups"]
    quotas = {entry["name"]: entry["nominalQuota"] for entry in group["flavors"][0]["resources"]}
    assert quotas["cpu"] == str(3 * 223 + 63)
    assert quotas["nvidia.com/gpu"] == "24"
    assert quotas["amd.com/gpu"] == "0"
    assert quotas["memory"] == str((3 * 2048 + 256) << 30)
    levels = [level["nodeLabel"] for level in objects["Topology"]["spec"]["levels"]]
    assert levels == ["zonewise.dev/topology-rack", "kubernetes.io/hostname"]


def test_the_queue_has_devices_that_the_manifest_does_not_list() -> None:
    objects: dict[str, Any] = {obj["kind"]: obj for obj in queue_objects(parse_nodes("2xdgx-h100,1xmi300x"))}
    [group] = objects["ClusterQueue"]["spec"]["resourceGroups"]
    quotas = {entry["name"]: entry["nominalQuota"] for entry in group["flavors"][0]["resources"]}
    assert quotas.keys() == set(group["coveredResources"])
    assert (quotas["rdma/hca"], quotas["nvidia.com/gpu"], quotas["amd.com/gpu"]) == ("16", "16", "8")


def test_webhooks_are_those_of_the_controller() -> None:
    kinds = [obj["kind"] for obj in webhook_objects()]
    assert kinds == ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]
