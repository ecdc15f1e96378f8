"""Merge patch, JSON patch and strategic merge patch: the embedded API server behaves like the real one."""

from __future__ import annotations

from typing import Any

import pytest

from support.api import JSON_PATCH, STRATEGIC
from support.apiserver import real_server
from support.clusters import Cluster, cluster, config_map, embedded_server, pod, widget

__all__ = ["cluster", "embedded_server", "real_server"]


def test_null_deletes_in_a_merge_patch(cluster: Cluster) -> None:
    cluster.api.post(cluster.config_maps, config_map("one", a="1", b="2")).ok()
    made = cluster.api.patch(f"{cluster.config_maps}/one", {"data": {"a": None, "c": "3"}}).ok()
    assert made["data"] == {"b": "2", "c": "3"}


def test_a_merge_patch_replaces_lists(cluster: Cluster) -> None:
    cluster.define()
    cluster.api.post(cluster.widgets, widget("one", set=["a", "b"])).ok()
    assert cluster.api.patch(f"{cluster.widgets}/one", {"spec": {"set": ["c"]}}).ok()["spec"]["set"] == ["c"]


def test_a_patch_with_a_stale_version_conflicts(cluster: Cluster) -> None:
    first = cluster.api.post(cluster.config_maps, config_map("one", a="1")).ok()
    version = {"resourceVersion": first["metadata"]["resourceVersion"]}
    cluster.api.patch(f"{cluster.config_maps}/one", {"metadata": version, "data": {"a": "2"}}).ok()
    patch = {"metadata": version, "data": {"a": "3"}}
    cluster.api.patch(f"{cluster.config_maps}/one", patch).refused(409, "Conflict")


def test_an_absent_object_cannot_be_patched(cluster: Cluster) -> None:
    cluster.api.patch(f"{cluster.config_maps}/none", {"data": {}}).refused(404, "NotFound")


@pytest.mark.parametrize(
    ("operations", "data"),
    [
        ([{"op": "add", "path": "/data/c", "value": "3"}], {"a": "1", "b": "2", "c": "3"}),
        ([{"op": "replace", "path": "/data/a", "value": "3"}], {"a": "3", "b": "2"}),
        ([{"op": "remove", "path": "/data/a"}], {"b": "2"}),
        ([{"op": "move", "from": "/data/a", "path": "/data/c"}], {"b": "2", "c": "1"}),
        ([{"op": "copy", "from": "/data/a", "path": "/data/b"}], {"a": "1", "b": "1"}),
        ([{"op": "test", "path": "/data/a", "value": "1"}, {"op": "remove", "path": "/data/b"}], {"a": "1"}),
    ],
)
def test_every_operation_of_json_patch(cluster: Cluster, operations: list[Any], data: dict[str, str]) -> None:
    cluster.api.post(cluster.config_maps, config_map("one", a="1", b="2")).ok()
    assert cluster.api.patch(f"{cluster.config_maps}/one", operations, JSON_PATCH).ok()["data"] == data


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "remove", "path": "/data/b"}, {"op": "test", "path": "/data/a", "value": "9"}],
        [{"op": "remove", "path": "/data/none"}],
        [{"op": "add", "path": "/none/deep", "value": "1"}],
        [{"op": "move", "from": "/data/none", "path": "/data/c"}],
        [{"op": "copy", "from": "/none/deep", "path": "/data/c"}],
        [{"op": "invent", "path": "/data/a"}],
    ],
)
def test_a_json_patch_applies_wholly_or_not_at_all(cluster: Cluster, operations: list[Any]) -> None:
    first = cluster.api.post(cluster.config_maps, config_map("one", a="1", b="2")).ok()
    cluster.api.patch(f"{cluster.config_maps}/one", operations, JSON_PATCH).refused(422, "Invalid")
    assert cluster.api.get(f"{cluster.config_maps}/one").ok() == first


def test_an_absent_field_can_be_replaced(cluster: Cluster) -> None:
    """RFC 6902 forbids this, but the server's library accepts it."""
    cluster.api.post(cluster.config_maps, config_map("one", a="1")).ok()
    operations = [{"op": "replace", "path": "/data/b", "value": "2"}, {"op": "test", "path": "/data/c", "value": None}]
    made = cluster.api.patch(f"{cluster.config_maps}/one", operations, JSON_PATCH).ok()
    assert made["data"] == {"a": "1", "b": "2"}


def test_a_json_patch_is_a_list(cluster: Cluster) -> None:
    cluster.api.post(cluster.config_maps, config_map("one")).ok()
    cluster.api.patch(f"{cluster.config_maps}/one", {"op": "test"}, JSON_PATCH).refused(400, "BadRequest")


def test_slashes_in_a_pointer_are_escaped(cluster: Cluster) -> None:
    """Clients usually set a single annotation in this way."""
    cluster.api.post(cluster.config_maps, config_map("one")).ok()
    operations = [{"op": "add", "path": "/metadata/annotations", "value": {"example.com/a": "2"}}]
    cluster.api.patch(f"{cluster.config_maps}/one", operations, JSON_PATCH).ok()
    operations = [{"op": "add", "path": "/metadata/annotations/example.com~1b", "value": "3"}]
    made = cluster.api.patch(f"{cluster.config_maps}/one", operations, JSON_PATCH).ok()
    assert made["metadata"]["annotations"] == {"example.com/a": "2", "example.com/b": "3"}


def test_a_json_patch_reaches_into_lists(cluster: Cluster) -> None:
    cluster.define()
    cluster.api.post(cluster.widgets, widget("one", set=["a", "c"])).ok()
    operations = [
        {"op": "add", "path": "/spec/set/1", "value": "b"},
        {"op": "add", "path": "/spec/set/-", "value": "d"},
        {"op": "remove", "path": "/spec/set/0"},
    ]
    made = cluster.api.patch(f"{cluster.widgets}/one", operations, JSON_PATCH).ok()
    assert made["spec"]["set"] == ["b", "c", "d"]


def test_an_unknown_patch_type_is_rejected(cluster: Cluster) -> None:
    cluster.api.post(cluster.config_maps, config_map("one")).ok()
    answer = cluster.api.patch(f"{cluster.config_maps}/one", {}, "application/json")
    answer.refused(415, "UnsupportedMediaType")


def test_a_strategic_patch_merges_containers_by_name(cluster: Cluster) -> None:
    body = pod("one")
    body["spec"]["containers"].append({"name": "other", "image": "registry.example.com/other:1"})
    cluster.api.post(cluster.pods, body).ok()
    patch = {"spec": {"containers": [{"name": "other", "image": "registry.example.com/other:2"}]}}
    made = cluster.api.patch(f"{cluster.pods}/one", patch, STRATEGIC).ok()
    images = {container["name"]: container["image"] for container in made["spec"]["containers"]}
    assert images == {"main": "registry.example.com/main:1", "other": "registry.example.com/other:2"}


def test_a_strategic_patch_merges_conditions_by_type(cluster: Cluster) -> None:
    cluster.api.post(cluster.pods, pod("one")).ok()
    path = f"{cluster.pods}/one/status"
    for kind, status in (("Ready", "False"), ("Other", "True"), ("Ready", "True")):
        patch = {"status": {"conditions": [{"type": kind, "status": status}]}}
        made = cluster.api.patch(path, patch, STRATEGIC).ok()
    found = {condition["type"]: condition["status"] for condition in made["status"]["conditions"]}
    assert found == {"Ready": "True", "Other": "True"}


def test_a_strategic_patch_deletes_an_item(cluster: Cluster) -> None:
    cluster.api.post(cluster.pods, pod("one")).ok()
    conditions = [{"type": "A", "status": "True"}, {"type": "B", "status": "True"}]
    cluster.api.patch(f"{cluster.pods}/one/status", {"status": {"conditions": conditions}}, STRATEGIC).ok()
    patch = {"status": {"conditions": [{"type": "A", "$patch": "delete"}]}}
    made = cluster.api.patch(f"{cluster.pods}/one/status", patch, STRATEGIC).ok()
    assert [condition["type"] for condition in made["status"]["conditions"]] == ["B"]


def test_a_strategic_patch_replaces_on_request(cluster: Cluster) -> None:
    cluster.api.post(cluster.config_maps, config_map("one", a="1", b="2")).ok()
    patch = {"data": {"$patch": "replace", "c": "3"}}
    assert cluster.api.patch(f"{cluster.config_maps}/one", patch, STRATEGIC).ok()["data"] == {"c": "3"}


def test_finalizers_are_a_set(cluster: Cluster) -> None:
    body = {"metadata": {"name": "one", "finalizers": ["example.com/a", "example.com/b"]}}
    cluster.api.post(cluster.config_maps, body).ok()
    path = f"{cluster.config_maps}/one"
    patch: dict[str, Any] = {"metadata": {"finalizers": ["example.com/c"]}}
    made = cluster.api.patch(path, patch, STRATEGIC).ok()
    assert sorted(made["metadata"]["finalizers"]) == ["example.com/a", "example.com/b", "example.com/c"]
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}}
    made = cluster.api.patch(path, patch, STRATEGIC).ok()
    assert sorted(made["metadata"]["finalizers"]) == ["example.com/b", "example.com/c"]
    cluster.api.patch(path, {"metadata": {"finalizers": None}}).ok()


def test_taints_are_replaced(cluster: Cluster) -> None:
    """Taints have no merge key in the API, so even a strategic patch replaces the whole list."""
    name = f"node-{cluster.namespace}"
    spec = {"taints": [{"key": "a", "effect": "NoSchedule"}]}
    cluster.api.post("/api/v1/nodes", {"metadata": {"name": name}, "spec": spec}).ok()
    patch = {"spec": {"taints": [{"key": "b", "effect": "NoSchedule"}]}}
    made = cluster.api.patch(f"/api/v1/nodes/{name}", patch, STRATEGIC).ok()
    assert [taint["key"] for taint in made["spec"]["taints"]] == ["b"]


def test_custom_resources_do_not_support_strategic_patches(cluster: Cluster) -> None:
    cluster.define()
    cluster.api.post(cluster.widgets, widget("one")).ok()
    cluster.api.patch(f"{cluster.widgets}/one", {}, STRATEGIC).refused(415, "UnsupportedMediaType")


def test_a_dry_patch_changes_nothing(cluster: Cluster) -> None:
    first = cluster.api.post(cluster.config_maps, config_map("one", a="1")).ok()
    told = cluster.api.patch(f"{cluster.config_maps}/one", {"data": {"a": "2"}}, dryRun="All").ok()
    assert told["data"] == {"a": "2"}
    assert cluster.api.get(f"{cluster.config_maps}/one").ok() == first
