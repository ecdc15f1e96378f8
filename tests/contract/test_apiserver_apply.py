"""Server-side apply and managedFields: the embedded API server behaves like the real one."""

from __future__ import annotations

from typing import Any

import pytest

from support.api import APPLY, STRATEGIC
from support.apiserver import real_server
from support.clusters import Cluster, cluster, config_map, embedded_server, owners, pod, version_of, widget

__all__ = ["cluster", "embedded_server", "real_server"]


def test_apply_creates(cluster: Cluster) -> None:
    made = cluster.api.apply(f"{cluster.config_maps}/one", config_map("one", a="1"), "alice")
    assert made.status == 201
    (entry,) = made.ok()["metadata"]["managedFields"]
    del entry["time"]
    assert entry == {
        "manager": "alice",
        "operation": "Apply",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:a": {}}},
    }


def test_apply_is_yaml(cluster: Cluster) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata: {a: '1'}\n"
    made = cluster.api.request("PATCH", f"{cluster.config_maps}/one", body, APPLY, fieldManager="alice")
    assert made.ok()["data"] == {"a": "1"}


def test_a_repeated_apply_changes_nothing(cluster: Cluster) -> None:
    first = cluster.api.apply(f"{cluster.config_maps}/one", config_map("one", a="1"), "alice").ok()
    again = cluster.api.apply(f"{cluster.config_maps}/one", config_map("one", a="1"), "alice")
    assert again.status == 200
    assert again.ok() == first


def test_fields_that_are_no_longer_applied_are_removed(cluster: Cluster) -> None:
    cluster.api.apply(f"{cluster.config_maps}/one", config_map("one", a="1", b="2"), "alice").ok()
    made = cluster.api.apply(f"{cluster.config_maps}/one", config_map("one", b="2"), "alice").ok()
    assert made["data"] == {"b": "2"}


def test_managers_with_equal_values_share_a_field(cluster: Cluster) -> None:
    """The field remains until its last manager no longer applies it."""
    path = f"{cluster.config_maps}/one"
    cluster.api.apply(path, config_map("one", a="1", b="1"), "alice").ok()
    made = cluster.api.apply(path, config_map("one", a="1"), "bob").ok()
    assert owners(made) == {"alice": {"f:data": {"f:a": {}, "f:b": {}}}, "bob": {"f:data": {"f:a": {}}}}
    made = cluster.api.apply(path, config_map("one", b="1"), "alice").ok()
    assert made["data"] == {"a": "1", "b": "1"}
    assert owners(made) == {"alice": {"f:data": {"f:b": {}}}, "bob": {"f:data": {"f:a": {}}}}


def test_managers_with_different_values_conflict(cluster: Cluster) -> None:
    path = f"{cluster.config_maps}/one"
    first = cluster.api.apply(path, config_map("one", a="1"), "alice").ok()
    status = cluster.api.apply(path, config_map("one", a="2"), "bob").refused(409, "Conflict")
    assert status["message"] == 'Apply failed with 1 conflict: conflict with "alice": .data.a'
    assert status["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "alice"', "field": ".data.a"}
    ]
    assert cluster.api.get(path).ok() == first


def test_force_takes_over_fields_of_other_managers(cluster: Cluster) -> None:
    path = f"{cluster.config_maps}/one"
    cluster.api.apply(path, config_map("one", a="1", b="1"), "alice").ok()
    made = cluster.api.apply(path, config_map("one", a="2"), "bob", force="true").ok()
    assert made["data"] == {"a": "2", "b": "1"}
    assert owners(made) == {"alice": {"f:data": {"f:b": {}}}, "bob": {"f:data": {"f:a": {}}}}


def test_every_conflict_is_reported(cluster: Cluster) -> None:
    cluster.define()
    path = f"{cluster.widgets}/one"
    cluster.api.apply(
        path, widget("one", map={"a": "1"}, keyed=[{"k": "x", "v": "1"}], atomic=[{"k": "1"}]), "alice"
    ).ok()
    body = widget("one", size=2, map={"a": "2"}, keyed=[{"k": "x", "v": "2"}], atomic=[{"k": "2"}])
    status = cluster.api.apply(path, body, "bob").refused(409, "Conflict")
    assert {cause["field"] for cause in status["details"]["causes"]} == {
        ".spec.size",
        ".spec.map.a",
        '.spec.keyed[k="x"].v',
        ".spec.atomic",
    }
    assert status["message"].startswith('Apply failed with 4 conflicts: conflicts with "alice":\n- ')


def test_an_apply_conflicts_with_a_plain_write(cluster: Cluster) -> None:
    path = f"{cluster.config_maps}/one"
    cluster.api.post(cluster.config_maps, config_map("one", a="1"), fieldManager="carol").ok()
    status = cluster.api.apply(path, config_map("one", a="2"), "alice").refused(409, "Conflict")
    (cause,) = status["details"]["causes"]
    assert cause["message"].startswith('conflict with "carol" using v1')


def test_a_plain_write_takes_over_an_applied_field(cluster: Cluster) -> None:
    """The next apply of the former manager then conflicts."""
    path = f"{cluster.config_maps}/one"
    cluster.api.apply(path, config_map("one", a="1", b="1"), "alice").ok()
    made = cluster.api.patch(path, {"data": {"a": "2"}}, fieldManager="carol").ok()
    assert owners(made) == {"alice": {"f:data": {"f:b": {}}}, "carol": {"f:data": {"f:a": {}}}}
    cluster.api.apply(path, config_map("one", a="1", b="1"), "alice").refused(409, "Conflict")


def test_the_user_agent_is_the_default_manager(cluster: Cluster) -> None:
    made = cluster.api.post(
        cluster.config_maps, config_map("one", a="1"), _headers={"User-Agent": "probe/1.2 (x)"}
    ).ok()
    assert owners(made) == {"probe": {"f:data": {".": {}, "f:a": {}}}}


def test_fields_of_other_writers_remain(cluster: Cluster) -> None:
    path = f"{cluster.config_maps}/one"
    cluster.api.post(cluster.config_maps, config_map("one", a="1"), fieldManager="carol").ok()
    cluster.api.apply(path, config_map("one", a="1", b="1"), "alice").ok()
    made = cluster.api.apply(path, config_map("one", b="1"), "alice").ok()
    assert made["data"] == {"a": "1", "b": "1"}


def test_an_apply_without_fields_removes_all_own_fields(cluster: Cluster) -> None:
    cluster.define()
    path = f"{cluster.widgets}/one"
    cluster.api.apply(path, widget("one"), "alice").ok()
    body = widget("one", map={"a": "1"}, keyed=[{"k": "x"}], set=["a"], atomic=[{"k": "1"}], free={"deep": {"a": 1}})
    cluster.api.apply(path, body, "bob").ok()
    made = cluster.api.apply(path, widget("one"), "bob").ok()
    assert made["spec"] == {"size": 1, "mode": "a"}
    assert owners(made) == {"alice": {"f:spec": {"f:size": {}}}, "bob": {"f:spec": {"f:size": {}}}}


def test_lists_with_keys_merge_by_them(cluster: Cluster) -> None:
    cluster.define()
    path = f"{cluster.widgets}/one"
    cluster.api.apply(path, widget("one", keyed=[{"k": "a", "v": "1"}, {"k": "b", "v": "1"}]), "alice").ok()
    made = cluster.api.apply(path, widget("one", keyed=[{"k": "c", "v": "2"}]), "bob").ok()
    assert {item["k"]: item["v"] for item in made["spec"]["keyed"]} == {"a": "1", "b": "1", "c": "2"}
    assert owners(made)["bob"]["f:spec"]["f:keyed"] == {'k:{"k":"c"}': {".": {}, "f:k": {}, "f:v": {}}}
    made = cluster.api.apply(path, widget("one", keyed=[{"k": "b", "v": "1"}]), "alice").ok()
    assert sorted(item["k"] for item in made["spec"]["keyed"]) == ["b", "c"]


@pytest.mark.parametrize(
    ("before", "applied"),
    [
        ("ab", "c"),
        ("ab", "cb"),
        ("ab", "ca"),
        ("abc", "cxa"),
        ("abc", "xyz"),
        ("abc", "bxc"),
        ("ab", "xayb"),
        ("abcd", "dxb"),
        ("", "ba"),
        ("ab", "ba"),
        ("abc", "cb"),
    ],
)
def test_the_order_of_merged_lists(cluster: Cluster, before: str, applied: str, request: pytest.FixtureRequest) -> None:
    """Applied items are in the order in which they were applied; the positions of the others match the real server."""
    cluster.define()
    expected = {
        ("ab", "c"): "abc",
        ("ab", "cb"): "acb",
        ("ab", "ca"): "cab",
        ("abc", "cxa"): "bcxa",
        ("abc", "xyz"): "abcxyz",
        ("abc", "bxc"): "abxc",
        ("ab", "xayb"): "xayb",
        ("abcd", "dxb"): "acdxb",
        ("", "ba"): "ba",
        ("ab", "ba"): "ba",
        ("abc", "cb"): "acb",
    }
    cluster.api.post(cluster.widgets, widget("one", set=list(before))).ok()
    made = cluster.api.apply(f"{cluster.widgets}/one", widget("one", set=list(applied)), "alice", force="true").ok()
    assert "".join(made["spec"]["set"]) == expected[before, applied]


def test_sets_merge_by_value(cluster: Cluster) -> None:
    cluster.define()
    path = f"{cluster.widgets}/one"
    cluster.api.apply(path, widget("one", set=["a", "b"]), "alice").ok()
    made = cluster.api.apply(path, widget("one", set=["b", "c"]), "bob").ok()
    assert sorted(made["spec"]["set"]) == ["a", "b", "c"]
    made = cluster.api.apply(path, widget("one", set=["a"]), "alice").ok()
    assert sorted(made["spec"]["set"]) == ["a", "b", "c"]
    made = cluster.api.apply(path, widget("one", set=["b"]), "bob").ok()
    assert sorted(made["spec"]["set"]) == ["a", "b"]


def test_atomic_lists_are_replaced(cluster: Cluster) -> None:
    """The resource lists of a NodeResourceTopology are atomic."""
    cluster.define()
    path = f"{cluster.widgets}/one"
    cluster.api.apply(path, widget("one", atomic=[{"k": "a"}, {"k": "b"}]), "alice").ok()
    made = cluster.api.apply(path, widget("one", atomic=[{"k": "c"}]), "alice").ok()
    assert made["spec"]["atomic"] == [{"k": "c"}]
    assert owners(made)["alice"]["f:spec"]["f:atomic"] == {}
    cluster.api.apply(path, widget("one", atomic=[{"k": "d"}]), "bob").refused(409, "Conflict")


def test_a_duplicate_item_is_rejected(cluster: Cluster) -> None:
    cluster.define()
    answer = cluster.api.apply(f"{cluster.widgets}/one", widget("one", keyed=[{"k": "a"}, {"k": "a"}]), "alice")
    assert answer.status == 500
    assert 'duplicate entries for key [k="a"]' in answer.body["message"]


def test_an_unknown_field_is_rejected(cluster: Cluster) -> None:
    """Other kinds of writes drop unknown fields instead."""
    cluster.define()
    answer = cluster.api.apply(f"{cluster.widgets}/one", widget("one", unheard=1), "alice")
    assert answer.status == 500
    assert ".spec.unheard: field not declared in schema" in answer.body["message"]


def test_an_applied_object_must_be_valid(cluster: Cluster) -> None:
    cluster.define()
    cluster.api.apply(f"{cluster.widgets}/one", widget("one", size=10), "alice").refused(422, "Invalid")
    cluster.api.get(f"{cluster.widgets}/one").refused(404, "NotFound")


def test_apply_needs_a_manager(cluster: Cluster) -> None:
    status = cluster.api.patch(f"{cluster.config_maps}/one", config_map("one"), APPLY).refused(422, "Invalid")
    assert status["details"]["causes"][0]["field"] == "fieldManager"


BAD_METADATA: list[tuple[dict[str, Any], int, str]] = [
    ({"name": "other"}, 400, "BadRequest"),
    ({"name": "one", "managedFields": [{}]}, 400, "BadRequest"),
    ({"name": "one", "uid": "unheard"}, 409, "Conflict"),
    ({"name": "one", "namespace": "other"}, 400, "BadRequest"),
]


@pytest.mark.parametrize(("metadata", "code", "reason"), BAD_METADATA)
def test_metadata_that_cannot_be_applied(cluster: Cluster, metadata: dict[str, Any], code: int, reason: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    cluster.api.apply(f"{cluster.config_maps}/one", body, "alice").refused(code, reason)


def test_apply_with_a_stale_version_conflicts(cluster: Cluster) -> None:
    first = cluster.api.apply(f"{cluster.config_maps}/one", config_map("one", a="1"), "alice").ok()
    cluster.api.apply(f"{cluster.config_maps}/one", config_map("one", a="2"), "alice").ok()
    body = config_map("one", a="3")
    body["metadata"]["resourceVersion"] = first["metadata"]["resourceVersion"]
    cluster.api.apply(f"{cluster.config_maps}/one", body, "alice").refused(409, "Conflict")


def test_a_dry_apply_changes_nothing(cluster: Cluster) -> None:
    path = f"{cluster.config_maps}/one"
    told = cluster.api.apply(path, config_map("one", a="1"), "alice", dryRun="All")
    assert told.status == 201
    cluster.api.get(path).refused(404, "NotFound")


def test_labels_are_owned_one_by_one(cluster: Cluster) -> None:
    """The agent labels a node in this way, beside all other clients."""
    name = f"node-{cluster.namespace}"
    path = f"/api/v1/nodes/{name}"
    cluster.api.post("/api/v1/nodes", {"metadata": {"name": name, "labels": {"theirs": "1"}}}, fieldManager="them").ok()
    node: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"ours": "1", "more": "1"}},
    }
    made = cluster.api.apply(path, node, "us").ok()
    assert made["metadata"]["labels"] == {"theirs": "1", "ours": "1", "more": "1"}
    assert owners(made)["us"] == {"f:metadata": {"f:labels": {"f:more": {}, "f:ours": {}}}}
    node["metadata"]["labels"] = {"ours": "2"}
    made = cluster.api.apply(path, node, "us").ok()
    assert made["metadata"]["labels"] == {"theirs": "1", "ours": "2"}
    node["metadata"]["labels"] = {"theirs": "2"}
    cluster.api.apply(path, node, "us").refused(409, "Conflict")


def test_owner_references_merge_by_uid(cluster: Cluster) -> None:
    path = f"{cluster.config_maps}/one"
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x"}
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}
    body["metadata"]["ownerReferences"] = [{**owner, "uid": "u1"}]
    cluster.api.apply(path, body, "alice").ok()
    body["metadata"]["ownerReferences"] = [{**owner, "uid": "u2"}]
    made = cluster.api.apply(path, body, "bob").ok()
    assert [one["uid"] for one in made["metadata"]["ownerReferences"]] == ["u1", "u2"]


def test_containers_merge_by_name(cluster: Cluster) -> None:
    cluster.api.post(cluster.pods, pod("one"), fieldManager="them").ok()
    container = {"name": "main", "image": "registry.example.com/main:2"}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": {"containers": [container]}}
    cluster.api.apply(f"{cluster.pods}/one", body, "us").refused(409, "Conflict")
    made = cluster.api.apply(f"{cluster.pods}/one", body, "us", force="true").ok()
    assert made["spec"]["containers"][0]["image"] == "registry.example.com/main:2"
    item = owners(made)["us"]["f:spec"]["f:containers"]['k:{"name":"main"}']
    assert item == {".": {}, "f:image": {}, "f:name": {}}


def test_conditions_of_a_status_merge_by_type(cluster: Cluster) -> None:
    cluster.api.post(cluster.pods, pod("one")).ok()
    path = f"{cluster.pods}/one/status"
    for manager, kind in (("alice", "A"), ("bob", "B")):
        conditions = [{"type": kind, "status": "True"}]
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "status": {"conditions": conditions}}
        made = cluster.api.apply(path, body, manager).ok()
    assert [condition["type"] for condition in made["status"]["conditions"]] == ["A", "B"]
    assert set(owners(made)) >= {"alice/status", "bob/status"}


def test_the_status_has_owners_of_its_own(cluster: Cluster) -> None:
    cluster.define()
    path = f"{cluster.widgets}/one"
    cluster.api.apply(path, widget("one"), "alice").ok()
    body = {**widget("one", size=5), "status": {"count": 1}}
    made = cluster.api.apply(f"{path}/status", body, "alice").ok()
    assert made["spec"]["size"] == 1
    assert made["status"] == {"count": 1}
    assert owners(made) == {"alice": {"f:spec": {"f:size": {}}}, "alice/status": {"f:status": {"f:count": {}}}}
    again = cluster.api.apply(path, widget("one"), "alice").ok()
    assert again["status"] == {"count": 1}


def test_a_status_cannot_be_applied_to_nothing(cluster: Cluster) -> None:
    cluster.define()
    body = {**widget("one"), "status": {"count": 1}}
    cluster.api.apply(f"{cluster.widgets}/one/status", body, "alice").refused(404, "NotFound")


def test_generation_counts_applies_that_change(cluster: Cluster) -> None:
    cluster.define()
    path = f"{cluster.widgets}/one"
    generations = [
        cluster.api.apply(path, widget("one", size=size), "alice").ok()["metadata"]["generation"] for size in (1, 1, 2)
    ]
    assert generations == [1, 1, 2]


def test_a_new_owner_is_recorded_without_a_change(cluster: Cluster) -> None:
    """If a second manager applies the same values, only the owners and the version change, and generation does not."""
    cluster.define()
    path = f"{cluster.widgets}/one"
    first = cluster.api.apply(path, widget("one"), "alice").ok()
    second = cluster.api.apply(path, widget("one"), "bob").ok()
    assert version_of(second) > version_of(first)
    assert second["metadata"]["generation"] == first["metadata"]["generation"]


def test_managed_fields_can_be_cleared(cluster: Cluster) -> None:
    cluster.api.apply(f"{cluster.config_maps}/one", config_map("one", a="1"), "alice").ok()
    made = cluster.api.patch(f"{cluster.config_maps}/one", {"metadata": {"managedFields": [{}]}}).ok()
    assert owners(made) == {}


def test_a_strategic_patch_owns_what_it_changes(cluster: Cluster) -> None:
    cluster.api.post(cluster.config_maps, config_map("one", a="1"), fieldManager="them").ok()
    patch = {"data": {"a": "1", "b": "2"}}
    made = cluster.api.patch(f"{cluster.config_maps}/one", patch, STRATEGIC, fieldManager="us").ok()
    assert owners(made)["us"] == {"f:data": {"f:b": {}}}
